"""What a site has answered for its peers and waits to be taught, by caller and request and by id."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import repeat
from typing import Final

NOTHING: Final[Mapping[int, int]] = {}
NOBODY: Final = ("", 0)


class ServedRequests:
    """Both ways between (caller, request) and the id under which the label is awaited."""

    def __init__(self) -> None:
        self._tickets: dict[str, dict[int, int]] = {}  # by caller and request
        self._askers: dict[int, tuple[str, int]] = {}

    def draft(self) -> ServedRequests:
        """Return a copy that can be changed while this one stays as it is."""
        other = ServedRequests()
        other._tickets = {caller: known.copy() for caller, known in self._tickets.items()}
        other._askers = self._askers.copy()
        return other

    def is_empty(self) -> bool:
        """Tell whether nothing waits to be taught."""
        return not self._askers

    def add(self, caller: str, requests: Sequence[int], tickets: Sequence[int]) -> None:
        """Remember who asked for what waits under ids; nothing waits where the id is 0."""
        if not all(tickets):
            both = [(request, ticket) for request, ticket in zip(requests, tickets, strict=True) if ticket]
            requests, tickets = [request for request, _ in both], [ticket for _, ticket in both]
        self._tickets.setdefault(caller, {}).update(zip(requests, tickets, strict=True))
        self._askers.update(zip(tickets, zip(repeat(caller), requests, strict=False), strict=True))

    def of(self, caller: str) -> Mapping[int, int]:
        """Return the ids under which labels of a caller's requests are awaited, by request."""
        return self._tickets.get(caller, NOTHING)

    def ticket(self, caller: str, request: int) -> int | None:
        """Return the id under which the label of a request is awaited, if it is."""
        return self.of(caller).get(request)

    def tickets(self, caller: str, requests: Sequence[int]) -> list[int]:
        """Return the ids under which labels of requests are awaited; other requests are passed over."""
        known = self.of(caller)
        return [known[request] for request in requests if request in known] if known else []

    def asker(self, ticket: int) -> tuple[str, int] | None:
        """Return who asked for what waits under an id, and its request; None for an own decision."""
        return self._askers.get(ticket)

    def of_caller(self, caller: str) -> list[int]:
        """Return the ids of all that a caller may still teach."""
        return [ticket for ticket, (asker, _) in self._askers.items() if asker == caller]

    def forget(self, tickets: Iterable[int]) -> None:
        """Forget ids that wait no longer; others are passed over."""
        for ticket in tickets:
            caller, request = self._askers.pop(ticket, NOBODY)
            known = self._tickets.get(caller)
            if known is not None and known.get(request) == ticket:
                del known[request]
        for caller in [caller for caller, known in self._tickets.items() if not known]:
            del self._tickets[caller]

    def rows(self) -> list[list[object]]:
        """Return [id, caller, request] of all, the oldest first."""
        return [[ticket, *self._askers[ticket]] for ticket in sorted(self._askers)]
