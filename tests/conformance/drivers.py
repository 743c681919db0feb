"""Two ways to drive a site with the same models and options: in the library, and as a service through its client."""

from __future__ import annotations

import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import cosend
from cosend import Budget, Learnt, Site
from cosend.axes import Feature
from cosend.client import Client
from cosend.errors import (
    ClassifierError,
    LabelError,
    NoAnswer,
    ScoreError,
    ServiceError,
    SettledDecision,
    SomeUnanswered,
    UnknownDecision,
)
from tests.conformance import behaviours
from tests.conformance.behaviours import CALLS, DOWN
from tests.tools.processes import Service, Services

Item = dict[str, Any]
LIMIT_S = 30.0  # of a model, on a busy machine


@dataclass(frozen=True)
class Spec:
    """A site: its models as expressions in the words of `behaviours`, and the names of stacks that it learns itself."""

    models: Mapping[str, str]
    costs: Mapping[str, float] = field(default_factory=dict)
    stacks: Sequence[str] = ()
    learnt: bool | None = False  # None: as it is unless somebody says it
    policy: str | None = None  # by name
    retries: int = 3
    strict_labels: bool = False
    learns_from: str = "all"
    score_local: str | None = None
    peers: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # their models by their names
    deadline_s: float = 30.0
    discover: bool = False  # answer everybody
    confusions: Mapping[tuple[str, str], float] | None = None  # (truth, said): what that mistake costs
    score_range: tuple[float, float] | None = None
    prices: Mapping[str, float] = field(default_factory=dict)
    unit: float | None = None  # what a right label is worth in money
    limits_s: Mapping[str, float] = field(default_factory=dict)


class Made(NamedTuple):
    """What became of an item; without an arm it was not answered."""

    arm: str | None
    label: Any
    decision: Any = None  # for `learn`


NOTHING = Made(None, None)


class Driver(ABC):
    """What a scenario needs of a site; models note in some folders what they see."""

    def __init__(self, *folders: Path) -> None:
        self.folders = folders
        self._folders = [(folder, len(lines_of(folder))) for folder in folders]

    def _lines(self) -> list[list[str]]:
        return [line for folder, before in self._folders for line in lines_of(folder)[before:]]

    def calls_of(self, *models: str) -> int:
        """Return how many items these models have seen."""
        return sum(name in models and what == "called" for name, what, *_ in self._lines())

    def taught(self, model: str, count: int) -> list[str]:
        """Return what a model has learnt from, once it has learnt from `count` labels."""
        return [words[0] for name, what, *words in self._lines() if name == model and what == "taught"]

    @abstractmethod
    def classify(self, *items: Item) -> list[Made]:
        """Have items labelled together."""

    @abstractmethod
    def learn(self, made: Made | Any, truth: Any, cost: float | None = None) -> str:
        """Send a true label, and perhaps the real cost: "learnt", "missing", "not pending", "unknown" or "refused"."""

    @abstractmethod
    def score(self, made: Made | Any, score: Any) -> str:
        """Send a score, a number or one by arm; what becomes of it as `learn` has it."""

    @abstractmethod
    def gains(self) -> dict[str, float]:
        """Return the mean gain by arm of those that have been scored by a label or score of their own decisions."""

    @abstractmethod
    def costs(self) -> dict[str, tuple[float, float | None]]:
        """Return by arm the cost, and the price if there is one."""

    @abstractmethod
    def spent(self) -> dict[str, float]:
        """Return what each arm has cost."""

    @abstractmethod
    def set_price(self, arm: str, price: float) -> None: ...

    @abstractmethod
    def set_budget(self, budget: Budget | None) -> None: ...

    @abstractmethod
    def spent_of_limits(self) -> dict[tuple[str, str], float]:
        """Return what is spent of every limit of the budget, by its arm and key."""

    @abstractmethod
    def labels_of(self, arm: str) -> int:
        """Return how many labels have scored an arm."""

    @abstractmethod
    def backing_off(self) -> set[str]:
        """Return the arms that are backing off."""

    @abstractmethod
    def pending(self) -> int:
        """Return how many decisions wait for their true labels."""

    @abstractmethod
    def pause(self, arm: str, *, resume: bool = False) -> None: ...

    @abstractmethod
    def set_cost(self, arm: str, cost: float) -> None: ...

    @abstractmethod
    def wait_for_back_off(self) -> None:
        """Let a back-off pass that has just begun."""


def set_down(down: bool) -> None:
    """Let models of the working folder that depend on it fail, or work again."""
    if down:
        DOWN.touch()
    else:
        DOWN.unlink(missing_ok=True)


def lines_of(folder: Path) -> list[list[str]]:
    with suppress(FileNotFoundError):
        return [line.split("\t") for line in (folder / CALLS).read_text().splitlines()]
    return []


def built(models: Mapping[str, str]) -> dict[str, Any]:
    """Return models from their expressions."""
    return {name: eval(_call(name, text), vars(behaviours)) for name, text in models.items()}  # noqa: S307 - our own


def _call(name: str, text: str) -> str:
    """Return an expression with the name of the model as its first argument."""
    verb, _, rest = text.partition("(")
    return f"{verb}({name!r}{', ' if rest != ')' else ''}{rest}"


class InLibrary(Driver):
    """A `Site`, whose peers are others in this process; its models write to the working folder."""

    def __init__(self, spec: Spec) -> None:
        super().__init__(Path())
        axis = Feature("age", range=(0, 100))
        stacks = dict.fromkeys(spec.stacks, Learnt.STACK)
        given: dict[str, Any] = {"score_local": spec.score_local, "learns_from": spec.learns_from}
        policy = None if spec.policy is None else getattr(cosend, spec.policy)()
        self.site = Site(
            "north",
            classifiers={**built(spec.models), **stacks},
            context=axis,
            costs=spec.costs,
            policy=policy,
            retries=spec.retries,
            strict_labels=spec.strict_labels,
            learnt=spec.learnt,
            reward=cosend.Reward(confusions=spec.confusions, range=spec.score_range or (0.0, 1.0)),
            prices=spec.prices,
            money=None if spec.unit is None else cosend.Money(spec.unit, "USD"),
            **given,
        )
        for name, models in spec.peers.items():
            peer = Site(name, classifiers=built(models), context=axis, policy=policy, learnt=spec.learnt)
            self.site.add_peer(name, peer)

    def classify(self, *items: Item) -> list[Made]:
        made: list[Any]
        try:
            made = [self.site.classify(items[0])] if len(items) == 1 else self.site.classify_many(list(items))
        except SomeUnanswered as error:
            made = error.decisions
        except NoAnswer:
            made = [None]
        return [NOTHING if each is None else Made(each.arm, each.label, each) for each in made]

    def learn(self, made: Made | Any, truth: Any, cost: float | None = None) -> str:
        return self._told(made, truths=[truth], costs=[cost])

    def score(self, made: Made | Any, score: Any) -> str:
        return self._told(made, scores=[score])

    def gains(self) -> dict[str, float]:
        arms = self.site.summary().arms
        return {each.name: each.mean_reward + each.cost for each in arms if each.mean_reward is not None}

    def costs(self) -> dict[str, tuple[float, float | None]]:
        return {each.name: (each.cost, each.price) for each in self.site.summary().arms}

    def spent(self) -> dict[str, float]:
        return {each.name: each.spent for each in self.site.summary().arms}

    def set_price(self, arm: str, price: float) -> None:
        self.site.set_cost(arm, price=price)

    def set_budget(self, budget: Budget | None) -> None:
        self.site.set_budget(budget)

    def spent_of_limits(self) -> dict[tuple[str, str], float]:
        return {(each.arm, each.limit): each.spent for each in self.site.spending()}

    def _told(self, made: Made | Any, **known: Any) -> str:
        decision = made.decision if isinstance(made, Made) else made
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                missing = self.site.learn_many([decision], **known)
        except (LabelError, ScoreError):
            return "refused"
        except SettledDecision:
            return "not pending"
        except UnknownDecision:
            return "unknown"
        except ClassifierError:  # a model could not learn it; everything else is done
            return "learnt"
        return "missing" if missing else "learnt"

    def labels_of(self, arm: str) -> int:
        return next(each.scored for each in self.site.summary().arms if each.name == arm)

    def backing_off(self) -> set[str]:
        return {*self.site.backing_off()}

    def pending(self) -> int:
        return len(self.site.pending())

    def pause(self, arm: str, *, resume: bool = False) -> None:
        (self.site.resume if resume else self.site.pause)(arm)

    def set_cost(self, arm: str, cost: float) -> None:
        self.site.set_cost(arm, cost)

    def wait_for_back_off(self) -> None:
        for _ in range(64):
            if self.site.backing_off():
                self.classify({"age": 50})


class InService(Driver):
    """A site of `cosend serve`, through `cosend.client`; its models write to the folder of its network file."""

    def __init__(self, service: Service, client: Client, *folders: Path) -> None:
        super().__init__(*folders)
        self.service, self.client = service, client

    def classify(self, *items: Item) -> list[Made]:
        try:
            made: list[Any] = self.client.classify_many(items)
        except SomeUnanswered as error:
            made = error.decisions
        except NoAnswer:
            made = [None] * len(items)
        return [NOTHING if each is None else Made(each.arm, each.label, each) for each in made]

    def learn(self, made: Made | Any, truth: Any, cost: float | None = None) -> str:
        return self._told(made, truths=[truth], costs=[cost])

    def score(self, made: Made | Any, score: Any) -> str:
        return self._told(made, scores=[score])

    def gains(self) -> dict[str, float]:
        return {each.name: each.mean_gain for each in self.client.arms() if each.mean_gain is not None}

    def costs(self) -> dict[str, tuple[float, float | None]]:
        return {each.name: (each.cost, each.price) for each in self.client.arms()}

    def spent(self) -> dict[str, float]:
        return {each.name: each.spent for each in self.client.arms()}

    def set_price(self, arm: str, price: float) -> None:
        self.client.change_arm(arm, price=price)

    def set_budget(self, budget: Budget | None) -> None:
        self.client.set_budget(budget)

    def spent_of_limits(self) -> dict[tuple[str, str], float]:
        return {(each.arm, each.limit): each.spent for each in self.client.summary().budget}

    def _told(self, made: Made | Any, **known: Any) -> str:
        decision = made.decision if isinstance(made, Made) else str(made)
        try:
            heard = self.client.learn_many([decision], **known, wait_for_peers=True)
        except ServiceError as error:
            return "refused" if error.status == 422 else str(error)
        outcome = heard.outcome()
        return "not pending" if outcome in ("duplicate", "expired") else outcome

    def taught(self, model: str, count: int) -> list[str]:
        end = time.monotonic() + LIMIT_S  # models learn after the reply
        while len(super().taught(model, count)) < count and time.monotonic() < end:
            time.sleep(0.01)
        return super().taught(model, count)

    def labels_of(self, arm: str) -> int:
        return next(each.mean_over for each in self.client.arms() if each.name == arm)

    def backing_off(self) -> set[str]:
        return {each.name for each in self.client.arms() if each.breaker != "closed"}

    def pending(self) -> int:
        return self.client.summary().pending

    def pause(self, arm: str, *, resume: bool = False) -> None:
        self.client.change_arm(arm, paused=not resume)

    def set_cost(self, arm: str, cost: float) -> None:
        self.client.change_arm(arm, cost=cost)

    def wait_for_back_off(self) -> None:
        end = time.monotonic() + LIMIT_S
        while any(each.breaker == "open" for each in self.client.arms()) and time.monotonic() < end:
            time.sleep(0.02)


def network_of(spec: Spec, site: str = "north") -> str:
    """Return the network file of a site and its peers."""
    top = [f"retries = {spec.retries}", f"strict_labels = {str(spec.strict_labels).lower()}"]
    top += ["[network]", f"deadline_s = {spec.deadline_s}", f"discover = {str(spec.discover).lower()}"]
    top += ["[[context]]", 'feature = "age"', "range = [0, 100]"]
    if spec.policy is not None:
        top += ["[policy]", f'name = "{spec.policy}"']
    lines = [*top, *_worth(spec), "[[sites]]", f'name = "{site}"', f'learns_from = "{spec.learns_from}"']
    if spec.score_local is not None:
        lines += [f'score_local = "{spec.score_local}"']
    if spec.learnt is not None:
        lines += [f"learnt = {str(spec.learnt).lower()}"]
    for name in spec.models:
        lines += _classifier(name, f"models:{name}", spec.costs.get(name, 0.0), spec.limits_s.get(name, LIMIT_S))
        if name in spec.prices:
            lines[-2] = f"price = {spec.prices[name]}"
    for name in spec.stacks:
        lines += _classifier(name, "stack", spec.costs.get(name, 0.0))
    for peer, models in spec.peers.items():
        lines += ["[[sites]]", f'name = "{peer}"']
        for name in models:
            lines += _classifier(name, f"models:{name}")
    return "\n".join([*lines, ""])


def _worth(spec: Spec) -> list[str]:
    """Return what answers are worth, in a network file."""
    lines = [] if spec.unit is None else ["[costs]", f"unit = {spec.unit}", 'currency = "USD"']
    lines += ["[reward]", *([f"range = {[*spec.score_range]}"] if spec.score_range is not None else [])]
    for (truth, said), cost in (spec.confusions or {}).items():
        lines += ["[[reward.confusions]]", f'truth = "{truth}"', f'said = "{said}"', f"cost = {cost}"]
    return lines


def _classifier(name: str, model: str, cost: float = 0.0, limit_s: float = LIMIT_S) -> list[str]:
    head = ["[[sites.classifiers]]", f'name = "{name}"', f'model = "{model}"']
    return [*head, f"cost = {cost}", f"limit_s = {limit_s}"]


def write_files(spec: Spec, folder: Path, site: str = "north") -> None:
    """Write a network file, and the models of all of its sites."""
    folder.mkdir(exist_ok=True)
    models = dict(spec.models)
    for more in spec.peers.values():
        models.update(more)
    lines = ["from tests.conformance.behaviours import *", *(f"{key} = {_call(key, models[key])}" for key in models)]
    (folder / "models.py").write_text("\n".join([*lines, ""]))
    (folder / "network.toml").write_text(network_of(spec, site))


class PeerServices:
    """Peers that are started once and used by many sites.

    Each of these sites needs a name of its own, because peers remember which requests of a site they have seen.
    """

    def __init__(self, services: Services, folder: Path, url: str) -> None:
        self._services, self._folder, self.url = services, folder, url
        self._stack = ExitStack()
        self.folders: dict[str, Path] = {}

    def start(self, peers: Mapping[str, Mapping[str, str]], policy: str | None) -> list[Path]:
        """Start those that do not run yet, and return the folders of all."""
        for name, models in peers.items():
            if name not in self.folders:
                folder = self._folder / name
                write_files(Spec(models, policy=policy, discover=True), folder, name)
                self._stack.enter_context(self._services.running(folder, name, options=("--nats", self.url)))
                self.folders[name] = folder
        return [self.folders[name] for name in peers]

    def close(self) -> None:
        """End all of them."""
        self._stack.close()


def wait_for_peers(client: Client) -> None:
    """Wait until a site has found its peers."""
    end = time.monotonic() + LIMIT_S
    while not all(arm.present for arm in client.arms()):
        assert time.monotonic() < end
        time.sleep(0.01)
