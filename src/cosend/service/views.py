"""What the routes say that only look, and what an operator may say: the schemas of the cold routes."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictBool

from cosend.config.parts import Unit


class Labels(BaseModel):
    """How many labels have come since the process started."""

    learnt: int
    duplicate: int
    unknown: int
    expired: int
    missing: int = Field(description="labels that were null: these decisions go on waiting")


class Summary(BaseModel):
    """How the site is doing."""

    site: str
    version: str
    ready: bool
    mode: Literal["apply", "observe"]
    answered_by: str | None = Field(description="the classifier that answers while decisions are only observed")
    policy: dict[str, Any]
    context: list[str]
    trusted: dict[str, float] = Field(description="the parts of the context that carry weight, where they are mixed")
    took_over: list[str] = Field(description="at the start: what is not as it was, or not as the file says")
    up_s: float
    items: int = Field(description="that have come since the site was made")
    in_flight: int = Field(description="items that are being decided")
    waiting: int = Field(description="decisions whose label has not come")
    decisions: int = Field(description="since the process started")
    labels: Labels
    unanswered: int = Field(description="items that no arm could label")
    answered_for_peers: int = Field(description="items of peers that were labelled, since the process started")
    outbox: int = Field(description="labels for peers that have not been delivered yet")
    recent_error: float | None = Field(description="of the last thousand labels or so")
    recent_reward: float | None = Field(description="the same, net of costs")
    cells: int
    events: int = Field(description="in the log, including those that were removed")
    oldest_event: int


class Arm(BaseModel):
    """An arm of the site."""

    name: str
    kind: Literal["local", "peer"]
    cost: float
    paused: bool
    present: bool = Field(description="a peer that is not there is left out until it comes back")
    refused: str | None = Field(description="why a peer that is there is not asked")
    breaker: Literal["closed", "open", "half open"]
    failures: int
    last_failure: str | None
    decisions: dict[str, int] = Field(description="by phase, since the process started")
    labels: int = Field(description="rewards that are known of it, over all cells")
    mean_gain: float | None = Field(description="the mean of these, before costs")
    seconds_per_item: float | None


class Arms(BaseModel):
    """The arms, a page of them."""

    arms: list[Arm]
    next: int | None = Field(description="where the next page starts")


class Estimate(BaseModel):
    """What is known of an arm in a cell."""

    mean_reward: float
    reward_count: int
    waiting_count: int
    training_count: int


class Cell(BaseModel):
    """A cell of the context."""

    key: int
    axes: list[int] = Field(description="the place on every axis: from index / slices to (index + 1) / slices")
    slices: int
    view: int
    arrivals: int
    taught: int
    arms: dict[str, Estimate]


class Cells(BaseModel):
    """The cells, a page of them."""

    cells: list[Cell]
    next: int | None = Field(description="where the next page starts")


class Decision(BaseModel):
    """A decision, and what its cell knows now."""

    id: str
    label: Any = Field(description="that was answered")
    arm: str
    phase: Literal["train", "explore", "exploit"]
    cell: int
    cost: float
    propensity: float | None
    answered_by: str | None
    number: int = Field(description="the site's own")
    at: float = Field(description="when it was answered, in seconds since 1970")
    context: list[Any]
    label_of_arm: Any = Field(description="that the arm gave; another one if decisions were only observed")
    labelled: bool
    truth: Any
    waiting: bool = Field(description="for its label")
    cell_now: Cell | None


class ArmChange(BaseModel):
    """A change of an arm: what it costs, or whether it is paused; what is not named stays as it is."""

    model_config = ConfigDict(extra="forbid")

    cost: Unit | None = None
    paused: StrictBool | None = None


class ModeChange(BaseModel):
    """Apply decisions, or only observe them while a classifier answers."""

    model_config = ConfigDict(extra="forbid")

    mode: Literal["apply", "observe"]
    classifier: str = Field("", description="that answers in mode observe", max_length=200)


class Health(BaseModel):
    """Whether the service lives, or is ready."""

    status: str
