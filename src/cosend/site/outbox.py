"""What peers are to be told and may not have heard yet: labels, and that no label will come."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

from cosend.errors import CosendError, NetworkError, StateError, in_one_line
from cosend.site.messages import Forward, Peer


class Outbox:
    """A queue for each peer. A message leaves it when the peer has taken it, so nothing is lost on Ctrl-C either."""

    def __init__(self, forwards: Iterable[Forward] = ()) -> None:
        self._queues: dict[str, deque[Forward]] = {}
        self._delivers = False
        self.add(forwards)

    def __iter__(self) -> Iterator[Forward]:
        return (forward for queue in self._queues.values() for forward in queue)

    def __len__(self) -> int:
        return sum(map(len, self._queues.values()))

    def __bool__(self) -> bool:
        return bool(self._queues)

    def add(self, forwards: Iterable[Forward]) -> None:
        """Put messages behind those that wait."""
        for forward in forwards:
            self._queues.setdefault(forward.peer, deque()).append(forward)

    def forget(self, peer: str) -> None:
        """Forget what a peer was to be told: it has left."""
        self._queues.pop(peer, None)

    def deliver(
        self, peers: Mapping[str, Peer], silent: Collection[str], failed: Callable[[str, str], None]
    ) -> list[CosendError]:
        """Tell peers what waits for them, but for those that are silent; one that cannot be reached keeps its queue.

        Returns what went wrong at peers that were told.
        """
        errors: list[CosendError] = []
        if self._delivers:  # whoever was told something tells us something: it is delivered when we are done
            return errors
        self._delivers = True
        try:
            for name in [name for name in self._queues if name not in silent]:
                reason = self._deliver(name, peers[name], errors) if name in peers else None
                if reason is None:
                    self.forget(name)
                else:
                    failed(name, reason)
        finally:
            self._delivers = False
        return errors

    def _deliver(self, name: str, peer: Peer, errors: list[CosendError]) -> str | None:
        """Tell a peer all that waits for it; returns why it cannot be reached, None if it can."""
        queue = self._queues[name]
        while queue:
            try:
                peer.teach(queue[0])
            except (NetworkError, StateError) as error:  # it cannot be reached, or cannot take anything now
                return in_one_line(error)
            except CosendError as error:  # it was told, and could not learn from it
                errors.append(error)
            except Exception as error:  # whatever lies between here and there
                return in_one_line(error)
            queue.popleft()
        return None
