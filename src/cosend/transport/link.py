"""A link: how one site reaches the others and is reached by them, whatever lies between.

    call     have a peer label items; reports of its labelled data ride along with the replies
    report   ask how much labelled data a peer has around contexts
    post     tell a peer labels, or that none will come; it returns when the peer has taken them for good
    serve    announce this site, and answer the same three
    tell     let all others know what people may want to see; nobody decides by it

What fails is a `LinkError`. A post that failed may have arrived all the same: whoever posts repeats it, and whoever is
posted to takes a (caller, request) once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple, Protocol

from cosend.algorithm.values import LabelledData
from cosend.engine.needs import Call, Forward, Reply
from cosend.version import VERSION

What = Literal["call", "report", "post"]
KINDS: Final[tuple[What, ...]] = ("call", "report", "post")
LONGEST_NEWS: Final = 4_000  # letters; what is longer is not passed on
Context = tuple[Any, ...]


class Answered(NamedTuple):
    """What comes back of a call: a reply for each question, and as many reports of the peer's labelled data, or none.

    A report tells of the context of the question in its place.
    """

    replies: Sequence[Reply]
    reports: Sequence[LabelledData] = ()


class Announcement(NamedTuple):
    """What a site tells of itself."""

    site: str
    context: tuple[str, ...]  # its axes in words
    functions: int  # its local classifiers
    cost: float = 0.0  # of a call, in [0, 1]
    version: str = VERSION


class Change(NamedTuple):
    """What has changed: a peer (`announcement` is the last that it told), or the connection to all of them."""

    kind: Literal["appeared", "changed", "gone", "connected", "disconnected"]
    announcement: Announcement | None = None


Listener = Callable[[Change], None]


@dataclass(slots=True)
class Counts:
    """What went over a link so far."""

    sent: int = 0
    failed: int = 0  # of those sent, whatever the reason
    served: int = 0
    refused: int = 0  # messages of peers that were refused, with a reason
    broken: int = 0  # messages and announcements that could not be read
    foreign: int = 0  # of these, those of another version


class Handler(Protocol):
    """What a site does for its peers. Any error is a refusal, and its sentence the reason that the peer is told."""

    async def call(self, call: Call) -> Answered:
        """Label items; those that will be taught are committed before this returns."""
        ...

    async def report(self, caller: str, contexts: Sequence[Context]) -> Sequence[LabelledData]:
        """Tell how much labelled data there is around each of the contexts."""
        ...

    async def post(self, caller: str, forwards: Sequence[Forward]) -> None:
        """Take labels for good, each (caller, request) once however often it comes."""
        ...


class Link(Protocol):
    """The way from one site to all others."""

    @property
    def site(self) -> str:
        """The site whose link it is."""
        ...

    @property
    def counts(self) -> Counts:
        """What went over it so far."""
        ...

    @property
    def connected(self) -> bool:
        """Whether anybody can be reached. While it is not so, every message fails at once."""
        ...

    async def start(self) -> None:
        """Begin to connect, in the background."""
        ...

    def peers(self) -> Mapping[str, Announcement]:
        """Return what is announced by the sites that are there now, this one left out."""
        ...

    def listen(self, listener: Listener) -> None:
        """Tell a listener whatever changes from now on."""
        ...

    def tell(self, news: str) -> None:
        """Let all sites know some news, in the place of what they were told before; they hear of it within seconds."""
        ...

    def news(self) -> Mapping[str, str]:
        """Return what was told last by the sites that are there now, this one left out; a few thousand letters each."""
        ...

    async def serve(self, announcement: Announcement, handler: Handler) -> None:
        """Announce this site and answer its peers from now on."""
        ...

    async def call(self, peer: str, call: Call, deadline_s: float) -> Answered:
        """Have a peer label items."""
        ...

    async def report(self, peer: str, contexts: Sequence[Context], deadline_s: float) -> Sequence[LabelledData]:
        """Ask a peer how much labelled data it has around contexts."""
        ...

    async def post(self, peer: str, forwards: Sequence[Forward], deadline_s: float) -> None:
        """Tell a peer labels; when it returns, the peer has taken all of them for good."""
        ...

    async def close(self) -> None:
        """Finish what is being answered, say goodbye, and leave."""
        ...
