"""A whole network file. Every mistake in it is found and named with its key before anything runs."""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from inspect import signature
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import BeforeValidator, Field, ValidationError, field_validator
from pydantic_core import PydanticCustomError

from cosend.algorithm.learner import Learner
from cosend.algorithm.pending import Patience
from cosend.algorithm.policies import POLICIES, EqualCells, Policy, how_to_decide, with_labels_shared
from cosend.algorithm.values import ScoreLocal
from cosend.checks import check_path
from cosend.config import BUILT_IN
from cosend.config.sections import (
    OF_OPINIONS,
    SCORE,
    AxisSection,
    BrokerSection,
    BudgetSection,
    CostsSection,
    Flag,
    ModelSection,
    Price,
    RewardSection,
    RowsOrNone,
    Section,
    Seed,
    SiteSection,
    StreamSection,
    Tries,
    Unit,
    did_you_mean,
    mistake_of,
    wrong_options,
)
from cosend.engine.budget import Budget
from cosend.engine.learnt_arms import Learnt, learnt_arms
from cosend.engine.money import Money
from cosend.errors import ArmError, NetworkFileError, SettingError, listed, shown

LONGEST: Final = 10_000_000  # characters of a file; a device has no end
SOURCE: Final = "the network file"
NO_STREAM: Final = "there is no stream: give --stream FILE --label COLUMN, or a table [stream] in the file"
NO_LABEL: Final = "a stream of kind 'file' needs path and label, or model = 'score:COLUMN' for every classifier"
UNKNOWN: Final = "unknown"  # as the horizon: it is guessed, and the guess doubles
BY_NAME: Final = {name.lower(): kind for name, kind in POLICIES.items()}  # names may be in any case


def _per_unit(model: ModelSection, money: Money) -> ModelSection:
    """Return a model whose tokens are priced in shares of what a correct answer is worth, as costs are."""
    return model.model_copy(update={"price_in": model.price_in / money.unit, "price_out": model.price_out / money.unit})


def wrong_policy(options: Mapping[str, Any]) -> list[str]:
    """Return what is wrong with a table that names a policy, with its key."""
    known, name = ", ".join(POLICIES), options.get("name")
    kind = BY_NAME.get(name.lower()) if isinstance(name, str) else None
    if "name" not in options:
        return [f"name: a policy needs its name, one of {known}"]
    if kind is None:
        return [f"name: must be one of {known}, got {shown(name)}{did_you_mean(name, list(POLICIES))}"]
    has_horizon = "horizon" in signature(kind).parameters
    guesses = has_horizon and options.get("horizon") == UNKNOWN
    given = {key: value for key, value in options.items() if key != "name" and not (key == "horizon" and guesses)}
    return list(wrong_options(kind, given, {"horizon": 1} if has_horizon else {}))


def _patience(table: Any) -> Any:
    if not isinstance(table, Mapping):
        return table
    wrong = list(wrong_options(Patience, table, {}))
    if wrong:
        raise PydanticCustomError("options", "{wrong}", {"wrong": "; ".join(wrong)})
    return Patience(**table)


def build_policy(options: Mapping[str, Any], horizon: int | None) -> Policy:
    """Return the policy that a checked table stands for.

    horizon  the number of items at a site, if known: policies of equal cells get it unless the table has one
    """
    kind = BY_NAME[options["name"].lower()]
    given = {name: value for name, value in options.items() if name != "name"}
    if wants_horizon(options):
        given["horizon"] = horizon
    if given.get("horizon") == UNKNOWN:
        given["horizon"] = None
    return kind(**given)


def wants_horizon(options: Mapping[str, Any]) -> bool:
    """Tell whether a policy depends on the number of items at a site, and the table does not name it."""
    kind = BY_NAME[options["name"].lower()]
    return "horizon" not in options and issubclass(kind, EqualCells)


class NetworkFile(Section):
    """A whole network file, for simulations and for services alike."""

    title: Annotated[str, Field(max_length=200)] = "A network of sites"
    seed: Seed = 0
    call_cost: Unit = 0.0
    call_price: Price | None = None
    costs: CostsSection | None = None
    budget: BudgetSection | None = None
    label_delay: RowsOrNone = 1
    labels: Annotated[list[Any], Field(min_length=2)] | None = None
    retries: Tries = 3
    strict_labels: Flag = False
    patience: Annotated[Patience, BeforeValidator(_patience)] = Patience()
    reward: RewardSection = RewardSection()
    network: BrokerSection | None = None
    stream: StreamSection | None = None
    context: list[AxisSection] = Field(default_factory=list)
    policy: dict[str, Any] | None = None
    sites: Annotated[list[SiteSection], Field(min_length=1)]

    @field_validator("title")
    @classmethod
    def _is_one_line(cls, title: str) -> str:
        if not title.isprintable():
            raise ValueError("must be one line of text without control characters")
        return title

    @field_validator("labels")
    @classmethod
    def _are_different(cls, labels: list[Any] | None) -> list[Any] | None:
        for label in labels or []:
            if not isinstance(label, str | int | float) or label != label:
                raise ValueError(f"a label is text, a number or a truth value, got {shown(label)}")
        if labels and len(set(labels)) < len(labels):
            raise ValueError(f"must be different, got {shown(labels)}")
        return labels

    def build_policy(self, horizon: int | None) -> Policy | None:
        """Return the policy that the file names, None if it names none; `horizon` as in `build_policy`."""
        return None if self.policy is None else build_policy(self.policy, horizon)

    def policy_of(self, site: SiteSection, policy: Policy | None) -> tuple[Policy, ScoreLocal]:
        """Return the policy of a site, the default if there is none, and which of its models a label scores."""
        policy, score_local = how_to_decide(policy, site.score_local)
        return with_labels_shared(policy, site.share_labels), score_local

    @property
    def watches(self) -> bool:
        """Whether every feature is looked at: no context is given, or it includes `kind = "features"`."""
        return not self.context or any(axis.kind == "features" for axis in self.context)

    @property
    def given(self) -> list[AxisSection]:
        """The axes that are read off items by name."""
        return [axis for axis in self.context if axis.kind not in ("features", *OF_OPINIONS)]

    @property
    def heard(self) -> list[AxisSection]:
        """The axes that are opinions of classifiers."""
        return [axis for axis in self.context if axis.kind in OF_OPINIONS]

    @property
    def training(self) -> int:
        return 0 if self.stream is None else self.stream.training

    @property
    def brokers(self) -> BrokerSection:
        return self.network or BrokerSection()

    def call_costs(self) -> dict[str, float]:
        return {site.name: self.call_cost if site.call_cost is None else site.call_cost for site in self.sites}

    def classifiers(self, site: str | None = None) -> Iterator[tuple[str, SiteSection, ModelSection]]:
        """Yield every model of a site, or of all sites, with its key in the file and its site."""
        for n, owner in enumerate(self.sites, start=1):
            if site in (None, owner.name):
                for k, model in enumerate(owner.classifiers, start=1):
                    yield f"sites.{n}.classifiers.{k}", owner, model

    def models(self, site: str | None = None) -> Iterator[tuple[str, SiteSection, ModelSection]]:
        """Yield as `classifiers` does, without arms that a site learns itself."""
        return (each for each in self.classifiers(site) if each[2].kind != "learnt")

    def learnt_arms(self, site: SiteSection, policy: Policy | None) -> dict[str, str]:
        """Return the arms that a site learns itself with a policy, None for the default."""
        named = {each.name: Learnt(each.model) if each.kind == "learnt" else None for each in site.classifiers}
        return learnt_arms(site.name, named, False if self.is_scored else site.learnt, policy, site.score_local)

    @property
    def is_scored(self) -> bool:
        """Whether the stream has scores instead of labels."""
        return any(each.kind == "score" for _, _, each in self.classifiers())

    def prediction_columns(self) -> list[str]:
        return [each.column for _, _, each in self.classifiers() if each.column is not None]

    def hidden(self) -> list[str]:
        """Return the features that models do not see: hidden contexts, and columns of predictions."""
        axes = [axis.feature for axis in self.context if axis.hidden and axis.feature is not None]
        contexts = [] if self.stream is None else self.stream.contexts
        return list(dict.fromkeys([*axes, *contexts, *self.prediction_columns()]))

    def serving_mistakes(self, site: str | None = None) -> list[str]:
        """Return why a site, or any of them, cannot be run as a service, each with its key."""
        models = list(self.classifiers(site))
        found = [
            f"{key}.model: {each.model!r} is what a recorded stream says: a service needs the model itself"
            for key, _, each in models
            if each.column is not None
        ]
        if self.stream is not None:
            return found
        for n, axis in enumerate(self.context, start=1):
            try:
                axis.build(self.labels or [], None)
            except SettingError as error:
                found.append(f"context.{n}: {error}")
        found += [
            f"{key}.model: {each.model!r} is trained on rows of the stream: give a table [stream] or a fitted model"
            for key, _, each in models
            if each.is_trained
        ]
        try:
            self.build_policy(None)
        except SettingError as error:
            found.append(f"policy: {error}")
        return found

    def mistakes(self) -> list[str]:
        """Return what is wrong though every section for itself is right."""
        found = [*self._double_names(), *self._double_ports(), *self._wrong_models(), *self._wrong_learnt()]
        found += [*self._wrong_scores(), *self._wrong_reward(), *self._wrong_prices(), *self._wrong_budgets()]
        if len(self.context) - len(self.given) - len(self.heard) > 1:
            found.append("context: kind = 'features' is given twice; once is enough for every feature")
        found += self._wrong_policy()
        return [*found, *self._wrong_opinions(), *self._wrong_sharing()]

    def _wrong_learnt(self) -> Iterator[str]:
        for n, site in enumerate(self.sites, start=1):
            try:
                self.learnt_arms(site, None)
            except ArmError as error:
                yield f"sites.{n}.learnt: {error}".replace("learnt=False", "learnt = false")  # as a file has it

    def _wrong_opinions(self) -> Iterator[str]:
        """Yield why an opinion cannot be part of the context; a site without such a classifier lacks that axis."""
        if not self.heard:
            return
        policy = None if self.policy is None or wrong_policy(self.policy) else self.build_policy(1)
        if policy is not None and not policy.mixes:
            name = type(policy).__name__
            yield f"policy.name: only MixedViews can do without an opinion that is missing, {name} cannot"
            return
        free = [each.name for _, _, each in self.classifiers() if not each.cost]
        for n, site in enumerate(self.sites, start=1):
            try:
                learnt = self.learnt_arms(site, policy)
            except ArmError:  # which has been said
                continue
            free += learnt
            decides, scores = self.policy_of(site, policy)
            if not decides.mixes or not (learnt or scores == "all"):
                allowed = "score_local = 'all': with 'used' no classifier is heard before the choice"
                yield f"sites.{n}.score_local: what classifiers say is part of the context, which needs {allowed}"
        for n, axis in enumerate(self.context, start=1):
            if axis.kind in OF_OPINIONS and axis.classifier not in free:
                allowed = f"a classifier that costs nothing, at any site ({', '.join(dict.fromkeys(free)) or 'none'})"
                yield f"context.{n}.classifier: must be {allowed}, got {shown(axis.classifier)}"

    def _wrong_sharing(self) -> Iterator[str]:
        """Yield why a site cannot keep a feature from its peers as it should."""
        if self.policy is not None and wrong_policy(self.policy):  # which has been said
            return
        for n, site in enumerate(self.sites, start=1):
            try:
                policy, _ = self.policy_of(site, self.build_policy(1))
            except SettingError as error:
                yield f"sites.{n}.share_labels: {error}"
                continue
            for k, axis in enumerate(self.context, start=1):
                if not policy.mixes and axis.kind == "previous_label" and policy.share_labels == "never":
                    key, why = "share_labels", "tells what the true labels are"
                elif not policy.mixes and axis.feature is not None and not site.sharing.has(axis.feature):
                    key = "shares" if axis.feature not in site.withholds else "withholds"
                    why = f"reads {axis.feature!r}"
                else:
                    continue
                name, allowed = type(policy).__name__, "only MixedViews can do without an axis"
                yield f"sites.{n}.{key}: context.{k} {why}, and {name} needs it at every site; {allowed}"

    @property
    def money(self) -> Money | None:
        """The value of a correct prediction, if the file has it."""
        return None if self.costs is None else Money(self.costs.unit, self.costs.currency)

    def _prices(self) -> Iterator[tuple[str, Section, str, float]]:
        """Yield every price with its key, its section, and the key of the cost that it stands for."""
        if self.call_price is not None:
            yield "call_price", self, "call_cost", self.call_price
        for n, site in enumerate(self.sites, start=1):
            if site.call_price is not None:
                yield f"sites.{n}.call_price", site, "call_cost", site.call_price
        for key, _, model in self.classifiers():
            if model.price is not None:
                yield f"{key}.price", model, "cost", model.price

    def _wrong_prices(self) -> Iterator[str]:
        for key, section, cost, price in self._prices():
            if cost in section.model_fields_set:
                yield f"{key}: not together with {cost}: the one is the other in money"
            elif self.money is None:
                yield f"{key}: needs a table [costs] with unit, what a correct answer is worth"
            else:
                try:
                    self.money.cost(price)
                except SettingError as error:
                    yield f"{key}: {error}"

    def budget_of(self, site: SiteSection) -> Budget | None:
        """Return what a site may spend: in money, if the file has a unit."""
        section = self.budget if site.budget is None else site.budget
        return None if section is None else section.build()

    def _budgets(self) -> Iterator[tuple[str, BudgetSection]]:
        if self.budget is not None:
            yield "budget", self.budget
        for n, site in enumerate(self.sites, start=1):
            if site.budget is not None:
                yield f"sites.{n}.budget", site.budget

    def _wrong_budgets(self) -> Iterator[str]:
        """Yield why a budget cannot be kept."""
        policy = None if self.policy is None or wrong_policy(self.policy) else self.build_policy(1)
        known = [each.name for _, _, each in self.classifiers()] + [site.name for site in self.sites]
        for key, budget in self._budgets():
            for amount in budget.in_money if self.money is None else ():
                yield f"{key}.{amount}: is in money: needs a table [costs] with unit, what a correct answer is worth"
            for place, arm in budget.arms:
                if arm not in known:
                    yield f"{key}.{place}: must be a classifier or a site ({listed(known)}), got {shown(arm)}"
            if policy is not None and not policy.mixes:
                name = type(policy).__name__
                yield f"{key}: needs the policy MixedViews, got {name}: no other policy weighs costs for each item"

    def priced(self) -> NetworkFile:
        """Return the file with costs instead of prices."""
        money = self.money
        if money is None:
            return self

        def costing(section: Any, cost: str, price: float | None) -> Any:
            given = {} if price is None else {cost: money.cost(price), cost.replace("cost", "price"): None}
            return section.model_copy(update=given)

        sites = []
        for site in self.sites:
            models = [costing(_per_unit(each, money), "cost", each.price) for each in site.classifiers]
            sites.append(costing(site, "call_cost", site.call_price).model_copy(update={"classifiers": models}))
        whole: NetworkFile = costing(self, "call_cost", self.call_price).model_copy(update={"sites": sites})
        return whole

    def _wrong_scores(self) -> Iterator[str]:
        """Yield why a stream has neither labels nor the scores of every model."""
        stream = self.stream
        if not self.is_scored:
            if stream is not None and stream.kind == "file" and stream.label is None:
                yield f"stream: {NO_LABEL}"
            return
        if stream is not None and (stream.kind != "file" or stream.label is not None):
            yield "stream.label: no labels where a classifier has scores of the stream, and kind = 'file'"
        for key, _, model in self.classifiers():
            if model.kind == "learnt":
                yield f"{key}.model: {model.model!r} learns from labels, and the stream has scores"
            elif model.kind != "score":
                yield f"{key}.model: must be score:COLUMN where another has scores of the stream, got {model.model!r}"
        for n, axis in enumerate(self.context, start=1):
            if axis.kind == "previous_label":
                yield f"context.{n}.kind: there is no previous label where the stream has scores"

    def _wrong_reward(self) -> Iterator[str]:
        for n, each in enumerate(self.reward.confusions if self.labels is not None else (), start=1):
            for key, label in (("truth", each.truth), ("said", each.said)):
                if label not in (self.labels or ()):
                    known = listed(self.labels or ())
                    yield f"reward.confusions.{n}.{key}: {shown(label)} is not one of the labels, {known}"

    def _double_names(self) -> Iterator[str]:
        names = [site.name for site in self.sites] + [each.name for _, _, each in self.classifiers()]
        for name, count in Counter(names).items():
            if count > 1:
                yield f"sites: names of sites and classifiers must differ, {name!r} appears twice"

    def _double_ports(self) -> Iterator[str]:
        taken: dict[tuple[str | None, int], str] = {}
        for n, site in enumerate(self.sites, start=1):
            if site.port is not None:
                other = taken.setdefault((site.host, site.port), site.name)
                if other != site.name:
                    yield f"sites.{n}.port: {site.port} is the port of {other!r} already: each site needs its own"

    def _wrong_models(self) -> Iterator[str]:
        hidden = {axis.feature: n for n, axis in enumerate(self.context, start=1) if axis.hidden}
        for key, _, model in self.classifiers():
            if self.stream is not None and model.train is not None and model.train[1] > self.training:
                yield f"{key}.train: ends at row {model.train[1]:,}, but stream.training is {self.training:,}"
            if self.labels is not None and model.model == "always" and model.label not in self.labels:
                yield f"{key}.label: {shown(model.label)} is not one of the labels, {listed(self.labels)}"
            for name in model.features or ():
                if name in hidden:
                    yield f"{key}.features: {name!r} is hidden from models by context.{hidden[name]}.hidden"

    def _wrong_policy(self) -> Iterator[str]:
        """Yield what is wrong with the policy, or why it does not go with the axes."""
        categories = [n for n, axis in enumerate([*self.given, *self.heard]) if axis.kind in ("category", "says")]
        wrong = [] if self.policy is None else wrong_policy(self.policy)
        if wrong:
            yield from (f"policy.{each}" for each in wrong)
            return
        try:
            policy = self.build_policy(1)
            if self.watches and policy is not None and not policy.mixes:
                name = type(policy).__name__
                yield f"policy.name: {name} needs a context, [[context]]: only MixedViews can look at every feature"
                return
            for each in {how_to_decide(policy, site.score_local)[0] for site in self.sites}:
                dimensions = len(self.given) + len(self.heard)
                Learner("site", own={"arm": 0.0}, policy=each, dimensions=dimensions, categories=categories)
        except SettingError as error:
            yield f"policy: {error}"


def built_in() -> dict[str, NetworkFile]:
    return {name: _built_in(name) for name in BUILT_IN}


def is_built_in(path: Path | None) -> bool:
    """Tell whether a path stands for a built-in network file; a file of that name comes first."""
    return path is None or (str(path) in BUILT_IN and not path.exists())


def _built_in(name: str) -> NetworkFile:
    return parse(files(__package__).joinpath(f"{name}.toml").read_text(), f"the built-in file {name!r}")


def load(path: Path | None) -> tuple[NetworkFile, Path]:
    """Return a network file, or a built-in one, and the folder from which its paths start."""
    if path is None or is_built_in(path):
        return _built_in(BUILT_IN[0] if path is None else str(path)), Path()
    check_path("network file", path)
    try:
        with path.open(encoding="utf-8") as file:
            text = file.read(LONGEST + 1)
    except FileNotFoundError:
        known = " and ".join(BUILT_IN)
        raise NetworkFileError(str(path), [f"No such file; the built-in network files are {known}"]) from None
    except (OSError, UnicodeDecodeError) as error:
        raise NetworkFileError(str(path), [str(error)]) from error
    if len(text) > LONGEST:
        raise NetworkFileError(str(path), [f"longer than {LONGEST:,} characters"])
    return parse(text, str(path)), path.parent


def parse(text: str, source: str) -> NetworkFile:
    """Return what a text says, or raise with every mistake and its key."""
    try:
        network = NetworkFile.model_validate(tomllib.loads(text))
    except ValidationError as error:
        raise NetworkFileError(source, [mistake_of(each, NetworkFile) for each in error.errors()]) from error
    except RecursionError:
        raise NetworkFileError(source, ["not TOML: too many brackets within brackets"]) from None
    except ValueError as error:
        raise NetworkFileError(source, [f"not TOML: {error}"]) from error
    mistakes = network.mistakes()
    if mistakes:
        raise NetworkFileError(source, mistakes)
    return network.priced()


def with_scores(network: NetworkFile, scores: Sequence[str]) -> NetworkFile:
    """Return the network with the scores of a recorded stream instead of its models: "ARM=COLUMN" for each."""
    columns = dict[str, str]()
    names = [each.name for _, _, each in network.models()]
    for each in scores:
        arm, is_pair, column = each.partition("=")
        if not is_pair or not column:
            raise SettingError("--score", each, "ARM=COLUMN, as in small=small_score")
        if arm not in names:
            raise SettingError("--score", each, f"ARM=COLUMN with one of the classifiers {listed(names)}")
        columns[arm] = column

    def scored(model: ModelSection) -> ModelSection:
        if model.name not in columns:
            return model
        told = {"name": model.name, "model": f"{SCORE}{columns[model.name]}", "cost": model.cost}
        return ModelSection.model_validate(told)

    if not scores:
        return network
    sites = [
        site.model_copy(update={"classifiers": [scored(each) for each in site.classifiers]}) for site in network.sites
    ]
    return network.model_copy(update={"sites": sites})


def with_stream(
    network: NetworkFile, file: Path | None, label: str | None, site_column: str | None, scores: Sequence[str] = ()
) -> NetworkFile:
    """Return the network with the recorded stream of the command line, or with other columns of the stream in the file.

    All rows of the recorded stream arrive, but for those that train models. Columns stay as the network
    file names them.

    scores  as in `with_scores`: then there are no labels
    """
    given = {"--score": ", ".join(scores) or None, "--label": label, "--site-column": site_column}
    options_given = {option: value for option, value in given.items() if value is not None}
    if scores and label is not None:
        raise SettingError("--label", label, "given without --score: a stream has labels or scores")
    network = with_scores(network, scores)
    if file is None and not options_given:
        return network
    before = network.stream
    if file is None and (before is None or before.kind != "file"):
        option, value = next(iter(options_given.items()))
        raise SettingError(option, value, "given with --stream FILE: the network file has no stream of kind 'file'")
    options: dict[str, Any] = {"kind": "file", "training": network.training}
    if before is None:  # the rows that train models are the first ones
        options["training"] = max((each.train[1] for _, _, each in network.classifiers() if each.train), default=0)
    elif before.kind == "file":
        options = before.model_dump(exclude_none=True)
    if file is not None:
        check_path("--stream", file)
        options |= {"path": file.absolute(), "items": None}
    options |= {key: given for key, given in (("label", label), ("site", site_column)) if given is not None}
    network = network.model_copy(update={"stream": _stream(network, options)})
    mistakes = network.mistakes()
    if mistakes:
        raise NetworkFileError(SOURCE, mistakes)
    return network


def _stream(network: NetworkFile, options: dict[str, Any]) -> StreamSection:
    """Return a stream with these options, without labels if it has scores; raise if it has neither."""
    if network.is_scored:
        options.pop("label", None)
    elif "label" not in options:
        allowed = (
            "given with --stream FILE: the column with the true labels; or --score ARM=COLUMN for every classifier"
        )
        raise SettingError("--label", None, allowed)
    try:
        return StreamSection.model_validate(options)
    except ValidationError as error:
        raise NetworkFileError("the stream", [mistake_of(each, StreamSection) for each in error.errors()]) from error
