"""Messages between a site and its clients: requests, replies and routes, for the server and the client alike.

Everything here is msgspec's: bodies are decoded into these structs, the OpenAPI description is made from them, and the
client returns them. Additions of a newer service to a reply are ignored.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Generic, Literal, NamedTuple, TypeVar, get_args

import msgspec
from msgspec import Meta

from cosend.text import SmallTable, counted, plain_number

MAX_ITEMS: Final = 10_000  # items or labels in a request
MAX_BODY_BYTES: Final = 8 * 2**20
MAX_FEATURES: Final = 2_000
MAX_TEXT: Final = 100_000  # characters of a feature or a label
MAX_ID: Final = 200
T = TypeVar("T")
NO_ANSWER: Final = "urn:cosend:problem:no-answer"  # the type of a problem: no arm could label any of the items
PROBLEM_TYPE: Final = "application/problem+json"

Text = Annotated[str, Meta(max_length=MAX_TEXT)]
Whole = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]  # others cannot be written down exactly
Scalar = Text | Whole | float | bool | None
# Lists in lists, or objects, but no deeper: features are passed to models, and may be written to the log.
Feature = Text | Whole | float | bool | list[Scalar | list[Scalar]] | dict[Text, Scalar] | None
Features = Annotated[dict[Annotated[str, Meta(max_length=1_000)], Feature], Meta(max_length=MAX_FEATURES)]
Id = Annotated[str, Meta(min_length=1, max_length=MAX_ID)]
Name = Annotated[str, Meta(max_length=200)]
Share = Annotated[float, Meta(ge=0, le=1)]
Amount = Annotated[float, Meta(ge=0)]
Above0 = Annotated[float, Meta(gt=0)]
Phase = Literal["train", "explore", "exploit"]
Mode = Literal["apply", "observe"]
Scope = Literal["classify", "label", "read", "admin"]
LabelOutcome = Literal["learnt", "duplicate", "unknown", "expired", "missing"]
Next = Annotated[int | None, Meta(description="where the next page starts")]


# Requests


class Item(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """An item to classify."""

    features: Features
    id: Annotated[Id | None, Meta(description="the client's own; without one, the site gives the item an id")] = None


class Items(msgspec.Struct, forbid_unknown_fields=True):
    """Items to classify."""

    items: Annotated[list[Item], Meta(min_length=1, max_length=MAX_ITEMS)]


class Truth(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """The feedback on a decision: its true label, or the value of its answer."""

    id: Id
    label: Scalar | msgspec.UnsetType = msgspec.UNSET
    cost: Annotated[Share | None, Meta(description="the real cost of the decision, if it was not known before")] = None
    score: Annotated[
        float | msgspec.UnsetType | None,
        Meta(description="instead of a label: what the answer was worth, in [0, 1] or in the units of the site"),
    ] = msgspec.UNSET
    scores: Annotated[
        dict[Name, float | None] | msgspec.UnsetType | None,
        Meta(description="the same by arm: for the arm that was used, and for free local models"),
    ] = msgspec.UNSET
    price: Annotated[
        Amount | None,
        Meta(description="the cost in money, where the file of the site says what a correct answer is worth"),
    ] = None

    def __post_init__(self) -> None:
        unset = (self.label, self.score, self.scores).count(msgspec.UNSET)
        if unset != 2:
            raise ValueError("a decision gets one of `label`, `score` and `scores`")

    @property
    def known(self) -> tuple[Any, float | None, Any, float | None]:
        """The label, the cost, the score and the price, None for what was not given."""
        if self.label is not msgspec.UNSET:
            return self.label, self.cost, None, self.price
        return None, self.cost, self.scores if self.score is msgspec.UNSET else self.score, self.price


ONE_OF: Final = {"oneOf": [{"required": [name]} for name in ("label", "score", "scores")]}


class Labels(msgspec.Struct, forbid_unknown_fields=True):
    """True labels, or scores."""

    labels: Annotated[list[Annotated[Truth, Meta(extra_json_schema=ONE_OF)]], Meta(min_length=1, max_length=MAX_ITEMS)]
    wait_for_peers: Annotated[bool, Meta(description="reply only once peers have learnt them too")] = False


class ArmChange(msgspec.Struct, forbid_unknown_fields=True):
    """A new cost or price of an arm, or whether it is paused; a missing or null field stays as it is."""

    cost: Share | None = None
    price: Annotated[
        Amount | None,
        Meta(description="the cost in money, if the site knows what a correct prediction is worth"),
    ] = None
    paused: bool | None = None


class Amounts(msgspec.Struct, forbid_unknown_fields=True):
    """The amounts that may be spent: for each item, hour or day, and in total."""

    per_item: Above0 | None = None
    per_hour: Above0 | None = None
    per_day: Above0 | None = None
    total: Above0 | None = None

    @property
    def given(self) -> dict[str, float]:
        amounts = {key: getattr(self, key) for key in Amounts.__struct_fields__}
        return {key: amount for key, amount in amounts.items() if amount is not None}


class BudgetChange(Amounts, forbid_unknown_fields=True):
    """The whole budget from now on: what is missing or null is not limited."""

    calls: Annotated[dict[Name, Amounts], Meta(description="by arm: the same in calls of it")] = {}
    at_most_per_second: Annotated[
        dict[Name, Above0], Meta(description="by arm: how often it may be used in a second")
    ] = {}


class ModeChange(msgspec.Struct, forbid_unknown_fields=True):
    """Apply decisions, or only observe them while one model answers all items (shadow mode)."""

    mode: Mode
    classifier: Annotated[str, Meta(max_length=200, description="the model that answers in mode observe")] = ""


class Page(msgspec.Struct):
    """Where a page starts, and its length."""

    start: Annotated[int, Meta(ge=0, le=2**53)] = 0
    count: Annotated[int, Meta(ge=1, le=1000)] = 100


class NewestPage(msgspec.Struct):
    """The number of the newest decision to return, and how many to return."""

    start: Annotated[
        Annotated[int, Meta(ge=0, le=2**53)] | None, Meta(description="without it, the newest there is")
    ] = None
    count: Annotated[int, Meta(ge=1, le=100)] = 20


class EventsPage(Page):
    """The number of the first event, and the largest number of events to return."""

    count: Annotated[int, Meta(ge=1, le=10_000)] = 1000


# Replies


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """The prediction for an item, and how it was chosen; send its true label under `id`."""

    id: str
    label: Annotated[Any, Meta(description="the prediction")]
    arm: str
    phase: Phase
    cell: int
    cost: Annotated[Share, Meta(description="the expected cost, when its arm was chosen")]
    propensity: Annotated[float | None, Meta(description="null if it is not known")]
    answered_by: Annotated[str | None, Meta(description="the model whose prediction this is, in mode observe")] = None


class Unanswered(msgspec.Struct, frozen=True):
    """An item that no arm could answer."""

    id: str | None
    error: str


class Decisions(msgspec.Struct):
    """One answer for each item, in their order."""

    decisions: Annotated[list[dict[str, Any]], Meta(description="each a `Decision`, or an `Unanswered`")]


class LabelReceipt(msgspec.Struct, kw_only=True):
    """The outcome of each label, by the id of its decision."""

    learnt: list[str] = []
    duplicate: Annotated[list[str], Meta(description="these decisions already have a label or score")] = []
    unknown: Annotated[list[str], Meta(description="no such decision")] = []
    expired: Annotated[list[str], Meta(description="these decisions are no longer pending")] = []
    missing: Annotated[list[str], Meta(description="the label or score was null: these decisions stay pending")] = []

    def add(self, other: LabelReceipt) -> None:
        for name in self.__struct_fields__:
            getattr(self, name).extend(getattr(other, name))

    def outcome(self) -> LabelOutcome:
        """Return the result of the only label."""
        outcomes: tuple[LabelOutcome, ...] = get_args(LabelOutcome)
        return next((outcome for outcome in outcomes if getattr(self, outcome)), "unknown")


class Estimate(msgspec.Struct, frozen=True, kw_only=True):
    """The knowledge about an arm in a cell."""

    mean_reward: float
    reward_count: int
    pending_count: int
    training_count: int


class Cell(msgspec.Struct, frozen=True, kw_only=True):
    """A cell of the context."""

    key: int
    axes: Annotated[list[int], Meta(description="the index on each axis: from index / slices to (index + 1) / slices")]
    slices: int
    view: int
    arrivals: int
    taught: int
    arms: dict[str, Estimate]


class Cells(msgspec.Struct):
    """A page of cells."""

    cells: list[Cell]
    next: Next


class PastDecision(Decision, frozen=True, kw_only=True):
    """A decision, what it cost, and its true label or score if there is one."""

    number: Annotated[int, Meta(description="the site's own id")]
    at: Annotated[float, Meta(description="when it was answered, in seconds since 1970")]
    context: list[Any]
    label_of_arm: Annotated[Any, Meta(description="the arm's prediction; in mode observe it may differ from `label`")]
    labelled: bool
    truth: Any
    score: Annotated[
        float | None, Meta(description="what the answer was worth, in the units of the site, if no label arrived")
    ] = None
    price: Annotated[float | None, Meta(description="`cost` in the currency of the site; null without one")] = None
    cost_paid: Annotated[
        float | None,
        Meta(description="the real cost, as its answer or its label says; null if neither does"),
    ] = None
    price_paid: Annotated[float | None, Meta(description="`cost_paid` in the currency of the site")] = None
    pending: Annotated[bool, Meta(description="whether the true label may still arrive")]


class DecisionRecord(PastDecision, frozen=True, kw_only=True):
    """The same, and what its cell knows now."""

    cell_now: Cell | None


class PastDecisions(msgspec.Struct):
    """A page of decisions, newest first."""

    decisions: list[PastDecision]
    next: Next


class Arm(msgspec.Struct, frozen=True, kw_only=True):
    """An arm of the site: one of its models, or a peer."""

    name: str
    kind: Literal["local", "peer"]
    cost: Annotated[float, Meta(description="the expected cost of a decision")]
    price: Annotated[float | None, Meta(description="the cost in the currency of the site; null without one")] = None
    spent: Annotated[
        float,
        Meta(
            description="what its decisions for this site have cost since the site was created, in the currency of the "
            "site, or else in costs: the real cost where it is known, or else the expected one"
        ),
    ] = 0.0
    paused: bool
    present: Annotated[bool, Meta(description="false while a peer is offline")]
    refused: Annotated[str | None, Meta(description="why a peer that is online is not asked")]
    breaker: Literal["closed", "open", "half open"]
    failures: int
    last_failure: str | None
    decisions: Annotated[dict[str, int], Meta(description="by phase, since the process started")]
    labels: Annotated[
        int, Meta(description="the labels and scores that scored it; for a learnt arm, the labels that it learns from")
    ]
    mean_gain: Annotated[
        float | None,
        Meta(description="its mean gain, in [0, 1], before costs; what answers cost above `cost` is taken off"),
    ]
    mean_over: Annotated[int, Meta(description="over how many labels and scores; for a learnt arm, old ones fade")]
    seconds_per_item: float | None


class ArmList(list[Arm]):
    """All arms of a site: a list that prints as a table."""

    def __str__(self) -> str:
        return self.table().text()

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return self.table().html()

    def table(self) -> SmallTable:
        """Return it as a table."""
        has_prices, has_spent = any(arm.price is not None for arm in self), any(arm.spent for arm in self)
        money = [*(["price"] if has_prices else []), *(["spent"] if has_spent else [])]
        heading = ["arm", "kind", "cost", *money, "decisions", "labels", "mean gain", "state"]
        return SmallTable(counted(len(self), "arm"), heading, [_arm_row(arm, money) for arm in self])


def _arm_row(arm: Arm, money: list[str]) -> list[str]:
    amounts = ["" if (amount := getattr(arm, name)) is None else plain_number(amount) for name in money]
    gain = "" if arm.mean_gain is None else f"{arm.mean_gain:.3f}"
    out = [("paused", arm.paused), ("offline", not arm.present), ("refused", arm.refused is not None)]
    state = [word for word, holds in (*out, ("backing off", arm.breaker == "open")) if holds]
    numbers = f"{sum(arm.decisions.values()):,}", f"{arm.labels:,}", gain
    return [arm.name, arm.kind, plain_number(arm.cost), *amounts, *numbers, ", ".join(state)]


class Arms(msgspec.Struct):
    """A page of arms."""

    arms: list[Arm]
    next: Next


class LabelCounts(msgspec.Struct, frozen=True, kw_only=True):
    """The labels and scores that have arrived since the process started, by outcome."""

    learnt: int
    duplicate: int
    unknown: int
    expired: int
    missing: Annotated[int, Meta(description="labels that were null: their decisions stay pending")]


class Spending(msgspec.Struct, frozen=True, kw_only=True):
    """A limit of the budget, and what was spent of it."""

    limit: Literal["per_item", "per_hour", "per_day", "total"]
    arm: Annotated[str, Meta(description="the arm whose calls it counts; empty if it counts the costs of all arms")]
    unit: Annotated[str, Meta(description="the currency, or costs or calls")]
    amount: Annotated[float, Meta(description="for each item, hour or day, or in total")]
    allowed: Annotated[float, Meta(description="what it has allowed so far")]
    spent: Annotated[
        float, Meta(description="what was spent so far; an estimate where an answer has not named its cost yet")
    ]
    factor: Annotated[
        float, Meta(description="factor on costs that keeps the limit; for calls, the cost added to a call")
    ]

    def __str__(self) -> str:
        what = f"calls of {self.arm}" if self.arm else self.unit
        so_far = "" if self.limit == "total" else " allowed so far"
        return f"spent {plain_number(self.spent)} of the {plain_number(self.allowed)} {what}{so_far}"


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """How the site is doing."""

    site: str
    version: str
    ready: bool
    mode: Mode
    answered_by: Annotated[str | None, Meta(description="the model that answers in mode observe")]
    policy: dict[str, Any]
    context: list[str]
    weights: Annotated[dict[str, float], Meta(description="the views with the largest weights, where views are mixed")]
    took_over: Annotated[list[str], Meta(description="what has changed since the last run, or differs from the file")]
    up_s: float
    items: Annotated[int, Meta(description="items since the site was created")]
    in_flight: Annotated[int, Meta(description="items that wait for a model or a peer")]
    pending: Annotated[int, Meta(description="decisions that wait for their true label")]
    decisions: Annotated[int, Meta(description="decisions since the process started")]
    labels: LabelCounts
    unanswered: Annotated[int, Meta(description="items that no arm could answer")]
    answered_for_peers: Annotated[int, Meta(description="items answered for peers since the process started")]
    outbox: Annotated[int, Meta(description="labels for peers that are not delivered yet")]
    recent_error: Annotated[float | None, Meta(description="error rate of about the last thousand labels")]
    unit: Annotated[float | None, Meta(description="the money that a correct prediction is worth; null if not set")] = (
        None
    )
    currency: str | None = None
    recent_score: Annotated[
        float | None, Meta(description="mean of about the last thousand scores, in their units")
    ] = None
    recent_gain: Annotated[
        float | None, Meta(description="mean gain, in [0, 1], of about the last thousand of both")
    ] = None
    recent_reward: Annotated[float | None, Meta(description="mean reward of the same, net of costs")]
    scores: Annotated[int, Meta(description="how many of the learnt ones are scores")] = 0
    spent: Annotated[
        float, Meta(description="what all arms have spent, as `spent` of an arm, with those that have left")
    ] = 0.0
    budget: Annotated[list[Spending], Meta(description="each limit of the budget")] = []
    cells: int
    events: Annotated[int, Meta(description="events in the log, including those that were removed")]
    oldest_event: int

    def __str__(self) -> str:
        return self.table().text()

    def _repr_html_(self) -> str:
        return self.table().html()

    def table(self) -> SmallTable:
        """Return what people want to know as a table."""
        mode = self.mode if self.answered_by is None else f"{self.mode}: {self.answered_by} answers"
        labels = f"{self.labels.learnt:,} learnt, {self.labels.expired:,} expired, {self.labels.unknown:,} unknown"
        recent = {"error": self.recent_error, "score": self.recent_score, "reward": self.recent_reward}
        rows = [
            ("mode", mode if self.ready else f"{mode}, not ready"),
            ("items", f"{self.items:,}"),
            ("pending", f"{self.pending:,}"),
            ("labels", labels),
            *((f"recent {name}", f"{value:.3f}") for name, value in recent.items() if value is not None),
            *([("spent", f"{plain_number(self.spent)} {self.currency or ''}".strip())] if self.spent else []),
            *((f"budget {each.limit.replace('_', ' ')}", str(each)) for each in self.budget),
            *(("took over", each) for each in self.took_over),
        ]
        return SmallTable(f"site {self.site}, cosend {self.version}", ["", ""], rows)


class Health(msgspec.Struct):
    """Whether the service is alive, or ready."""

    status: str


class Problem(msgspec.Struct):
    """An error, as RFC 9457 describes it."""

    type: str = "about:blank"
    title: str = ""
    status: int = 0
    detail: str = ""


# Routes


class Route(NamedTuple, Generic[T]):
    """A route: who may use it, and what it takes and replies."""

    name: str
    method: Literal["GET", "POST"]
    path: str
    scope: Scope | None
    about: str
    reply: type[T]
    body: Any = None
    query: Any = None
    media_type: str = "application/json"


CLASSIFY: Final = Route("classify", "POST", "/v1/classify", "classify", "Classify items", Decisions, Items)
LABELS: Final = Route("labels", "POST", "/v1/labels", "label", "Send true labels or scores", LabelReceipt, Labels)
SUMMARY: Final = Route("summary", "GET", "/v1/summary", "read", "Show how the site is doing", Summary)
ARMS: Final = Route("arms", "GET", "/v1/arms", "read", "List the arms", Arms, query=Page)
CHANGE_ARM: Final = Route(
    "change_arm", "POST", "/v1/arms/{name}", "admin", "Change the cost of an arm, or pause it", Arm, ArmChange
)
CELLS: Final = Route("cells", "GET", "/v1/cells", "read", "List the cells, oldest first", Cells, query=Page)
DECISIONS: Final = Route(
    "decisions", "GET", "/v1/decisions", "read", "List the decisions, newest first", PastDecisions, query=NewestPage
)
DECISION: Final = Route("decision", "GET", "/v1/decisions/{id}", "read", "Explain a decision", DecisionRecord)
EVENTS: Final = Route(
    "events",
    "GET",
    "/v1/events",
    "read",
    "Read the event log, as lines of JSON",
    str,
    None,
    EventsPage,
    "application/x-ndjson",
)
BUDGET: Final = Route("budget", "POST", "/v1/budget", "admin", "Set the budget", Summary, BudgetChange)
MODE: Final = Route("mode", "POST", "/v1/mode", "admin", "Turn shadow mode on or off", Summary, ModeChange)
LIVE: Final = Route("live", "GET", "/health/live", None, "Tell whether the process is alive", Health)
READY: Final = Route("ready", "GET", "/health/ready", None, "Tell whether the site can decide and learn", Health)
METRICS: Final = Route(
    "metrics", "GET", "/metrics", "read", "Read the metrics for Prometheus", str, None, None, "text/plain"
)
ROUTES: Final[tuple[Route[Any], ...]] = (
    *(CLASSIFY, LABELS, SUMMARY, ARMS, CHANGE_ARM, BUDGET, CELLS, DECISIONS, DECISION, EVENTS, MODE),
    *(LIVE, READY, METRICS),
)
