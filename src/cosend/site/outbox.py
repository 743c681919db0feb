"""What peers are to be told and may not have heard yet: labels, and that no label will come."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

from cosend.errors import CosendError, NetworkError
from cosend.site.messages import Forward, Peer


class Outbox:
    """A queue for each peer. A message leaves it when the peer has taken it, so nothing is lost on Ctrl-C either."""

    def __init__(self, forwards: Iterable[Forward] = ()) -> None:
        self._queues: dict[str, deque[Forward]] = {}
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
        self, peers: Mapping[str, Peer], silent: Collection[str], failed: Callable[[str], None]
    ) -> list[CosendError]:
        """Tell peers what waits for them, but for those that are silent; one that cannot be reached keeps its queue.

        Returns what went wrong at peers that were told.
        """
        errors: list[CosendError] = []
        for name in [name for name in self._queues if name not in silent]:
            if name not in peers or self._deliver(name, peers[name], errors):
                self.forget(name)
            else:
                failed(name)
        return errors

    def _deliver(self, name: str, peer: Peer, errors: list[CosendError]) -> bool:
        """Tell a peer all that waits for it; false if it cannot be reached."""
        queue = self._queues[name]
        while queue:
            try:
                peer.teach(queue[0])
            except NetworkError:
                return False
            except CosendError as error:  # it was told, and could not learn from it
                errors.append(error)
            except Exception:  # whatever lies between here and there
                return False
            queue.popleft()
        return True
