"""The sections of a network file, their types with limits, and mistakes that name their key."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields
from difflib import get_close_matches
from inspect import signature
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final, Literal, Self, get_args

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator
from pydantic_core import ErrorDetails

from cosend.algorithm.policies import ShareLabels
from cosend.algorithm.values import ScoreLocal
from cosend.axes import (
    AllFeatures,
    Axis,
    Category,
    Confidence,
    Feature,
    PreviousLabel,
    Says,
    Time,
    TimeOfDay,
    number_name,
    plain_name,
)
from cosend.checks import check_path
from cosend.config import LARGEST_SEED, LONGEST_CALL_S, MOST_ROWS
from cosend.engine.budget import Budget
from cosend.engine.learnt_arms import Learnt
from cosend.engine.money import LONGEST
from cosend.engine.sharing import Sharing
from cosend.errors import CosendError, SettingError, StreamError, in_one_line, shown
from cosend.models import endpoints
from cosend.models.built_in import NAMES
from cosend.models.loading import ALLOWED, PICKLES, RETURN
from cosend.streams.clinics import clinics, turn_of
from cosend.streams.read_files import read_table
from cosend.streams.river_datasets import river_dataset
from cosend.streams.table import Table
from cosend.streams.traffic import traffic
from cosend.transport.nats_options import NatsOptions

Unit = Annotated[float, Field(ge=0, le=1, strict=True)]
Price = Annotated[float, Field(ge=0, allow_inf_nan=False, strict=True)]
Rows = Annotated[int, Field(ge=1, le=MOST_ROWS, strict=True)]
RowsOrNone = Annotated[int, Field(ge=0, le=MOST_ROWS, strict=True)]
Count = Annotated[int, Field(ge=1, le=10**15, strict=True)]  # items that a service may see
Seed = Annotated[int, Field(ge=0, le=LARGEST_SEED, strict=True)]
Tries = Annotated[int, Field(ge=0, le=1_000, strict=True)]
Port = Annotated[int, Field(ge=1, le=65_535, strict=True)]
Seconds = Annotated[float, Field(gt=0, le=LONGEST_CALL_S, strict=True)]
Rate = Annotated[float, Field(gt=0, le=1e9, strict=True)]
Threads = Annotated[int, Field(ge=1, le=256, strict=True)]
AtOnce = Annotated[int, Field(ge=1, le=endpoints.MOST_AT_ONCE, strict=True)]
TokenPrice = Annotated[float, Field(ge=0, le=endpoints.MILLION, strict=True)]
Pointers = str | dict[str, str]
Flag = Annotated[bool, Field(strict=True)]
Number = Annotated[float, Field(allow_inf_nan=False, strict=True)]
Names = Annotated[list[str], Field(min_length=1)]
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$", max_length=100)]
Host = Annotated[str, Field(pattern=r"^[A-Za-z0-9\[:][A-Za-z0-9_.:\]-]*$", max_length=255)]
ITEMS: Final = 20_000  # of a stream that has no end
OF_FEATURES: Final = ("feature", "category", "time_of_day")  # the kinds of axes that read a feature
OF_OPINIONS: Final = ("confidence", "says")  # the kinds of axes that hear a classifier
COLUMN: Final = "column:"
SCORE: Final = "score:"
MODEL_FILES: Final = (".skops", ".onnx", *PICKLES)
LEARNT: Final = tuple(kind.value for kind in Learnt)
SITE: Final = "{site}"
ENDPOINT_KEYS: Final = tuple(each.name for each in fields(endpoints.Options) if each.name != "limit_s")
CREDENTIALS: Final = ("password_file", "nkey_file", "credentials_file")
BROKER_FILES: Final = (*CREDENTIALS, "tls_ca", "tls_certificate", "tls_key")


class Section(BaseModel):
    """A table of a network file: unknown keys are mistakes, and so are keys that are for another kind."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    of_kinds: ClassVar[dict[str, tuple[str, ...]]] = {}  # keys that only some kinds have
    kind_words: ClassVar[dict[str, str]] = {}

    @model_validator(mode="after")
    def _keys_are_of_its_kind(self) -> Self:
        for key, kinds in self.of_kinds.items():
            kind: Any = getattr(self, "kind", None)
            if kind not in kinds and getattr(self, key) != type(self).model_fields[key].default:
                *others, here = (self.kind_words.get(each, f"kind {each!r}") for each in (*kinds, kind))
                raise ValueError(f"{key} is for {' or '.join(others)}, not for {here}")
        return self


def wrong_options(kind: type[Any], options: Mapping[str, Any], needed: Mapping[str, Any]) -> Iterator[str]:
    """Yield what is wrong with each option of a type of the library, with its key, whatever the others are.

    needed  options that the type has to have, unless they are given
    """
    allowed = [*signature(kind).parameters]
    for name, value in options.items():
        if name not in allowed:
            yield f"{name}: no such option{did_you_mean(name, allowed)}; {kind.__name__} has {', '.join(allowed)}"
            continue
        try:
            kind(**{**needed, name: value})
        except CosendError as error:
            yield f"{name}: {error}"


def mistake_of(error: ErrorDetails, whole: type[Section]) -> str:
    """Return a mistake that pydantic has found, with its key; list positions start at 1."""
    key = ".".join(str(part + 1) if isinstance(part, int) else part for part in error["loc"])
    message = error["msg"].removeprefix("Value error, ")
    what, should, allowed = message.partition(" should ")
    if error["type"] == "options":
        return f"{key}.{message}"
    if error["type"] == "missing":
        message = "is required"
    elif error["type"] == "extra_forbidden":
        known = _keys_of_table(error["loc"][:-1], whole)
        message = f"no such key{did_you_mean(error['loc'][-1], known)}; allowed are {', '.join(known)}"
    elif error["type"] in ("model_type", "dataclass_type"):
        message = f"must be a table, got {shown(error['input'])}"
    elif should and what in ("Input", "String", "List"):
        given = "" if key.startswith("network.") else f", got {shown(error['input'])}"  # it may be a password
        message = f"must {allowed.partition(' after validation')[0]}{given}"
    return f"{key}: {message}" if key else message


def _keys_of_table(place: Sequence[int | str], whole: type[Section]) -> list[str]:
    section = whole
    for name in place:
        if isinstance(name, str):
            section = _section_in(section.model_fields[name].annotation) or section
    return list(section.model_fields)


def _section_in(annotation: Any) -> type[Section] | None:
    if isinstance(annotation, type) and issubclass(annotation, Section):
        return annotation
    return next((found for each in get_args(annotation) if (found := _section_in(each))), None)


def did_you_mean(word: Any, known: list[str]) -> str:
    close = get_close_matches(str(word)[:100], known, n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


class StreamSection(Section):
    """Where the items come from. The first `training` rows train models, the next `items` rows arrive.

    Without `items`, the rest of a file arrives, or 20,000 rows.
    """

    of_kinds = {**dict.fromkeys(("path", "label", "features", "contexts", "site"), ("file",)), "dataset": ("river",)}
    kind: Literal["clinics", "traffic", "file", "river"]
    items: Rows | None = None
    training: RowsOrNone = 0
    path: Path | None = None
    dataset: str | None = None
    label: str | None = None
    features: Names | None = None
    contexts: list[str] = []
    site: str | None = None

    @field_validator("path")
    @classmethod
    def _is_a_path(cls, path: Path | None) -> Path | None:
        if path is not None:
            check_path("path", path)
        return path

    @model_validator(mode="after")
    def _has_what_it_needs(self) -> StreamSection:
        if self.kind == "file" and self.path is None:
            raise ValueError("a stream of kind 'file' needs path and label")
        if self.kind == "river" and self.dataset is None:
            raise ValueError("a stream of kind 'river' needs a dataset")
        return self

    @property
    def changes(self) -> list[int]:
        """The numbers of items, over all sites, after which the stream is known to change."""
        return [turn_of(self.items or ITEMS)] if self.kind == "clinics" else []

    def read(self, seed: int, folder: Path, columns: Sequence[str] = ()) -> Table:
        """Return the rows for training, then the items.

        columns  columns of a file to read for contexts or as predictions, unless they have another use
        """
        rows = self.training + (self.items or ITEMS)
        if self.kind == "clinics":
            return clinics(rows, training=self.training, seed=seed)
        if self.kind == "traffic":
            return traffic(rows, seed=seed)
        if self.kind == "river":
            return river_dataset(self.dataset or "", rows)
        file = folder / (self.path or "")
        used = {self.label, self.site, *self.contexts, *(self.features or ())}
        table = read_table(
            file,
            label=self.label,
            features=self.features,
            contexts=[*self.contexts, *(name for name in dict.fromkeys(columns) if name not in used)],
            site=self.site,
            rows=None if self.items is None else rows,
        )
        if len(table) <= self.training:
            wrong = f"all of its {len(table):,} rows are for training, stream.training is {self.training:,}"
            raise StreamError(wrong, "at least one must arrive", file=file)
        if len(table) - self.training > MOST_ROWS:
            wrong = f"{len(table) - self.training:,} rows would arrive"
            raise StreamError(wrong, f"at most {MOST_ROWS:,} may: take fewer items", file=file)
        return table


class AxisSection(Section):
    """One axis of the context: a feature, the opinion of a classifier, or `kind`."""

    of_kinds = {
        **dict.fromkeys(("scale", "range", "outside", "of"), ("feature",)),
        **dict.fromkeys(("feature", "hidden"), OF_FEATURES),
        "horizon": ("time",),
        "classifier": OF_OPINIONS,
    }
    kind: Literal["feature", "category", "previous_label", "time", "time_of_day", "confidence", "says", "features"] = (
        "feature"
    )
    feature: str | None = None
    classifier: str | None = None
    scale: Literal["linear", "log", "rank"] | None = None  # linear with a range, else rank
    range: tuple[float, float] | None = None
    outside: Literal["error", "clip"] = "error"
    of: str | None = None  # a number of a text instead of the feature itself
    hidden: Flag = False
    horizon: Count | None = None

    @model_validator(mode="after")
    def _has_what_it_needs(self) -> AxisSection:
        if self.feature is None and self.kind in OF_FEATURES:
            raise ValueError("an axis needs a feature, or kind = 'previous_label', 'time' or 'features' without one")
        if self.classifier is None and self.kind in OF_OPINIONS:
            raise ValueError(f"kind = {self.kind!r} needs the classifier whose opinion it is: classifier = 'NAME'")
        if self.kind == "feature":
            self.build([], 1)  # raises for a bad range
        return self

    @property
    def title(self) -> str:
        if self.classifier is not None:
            return plain_name(self.build([], None))
        return number_name(self.feature or self.kind, self.of or "").replace("_", " ")

    def build(self, labels: Sequence[Any], horizon: int | None, hidden: Sequence[str] = ()) -> Axis:
        """Return the axis for a network with these labels and, if known, this many items at a site.

        hidden  features that `kind = "features"` skips
        """
        feature, classifier = self.feature or "", self.classifier or ""
        horizon = self.horizon or horizon
        if self.kind == "previous_label" and not labels:
            allowed = "known where there is no stream: labels = [...] at the top of the file"
            raise SettingError("the labels of the axis 'previous_label'", [], allowed)
        if self.kind == "time" and horizon is None:
            raise SettingError("horizon", None, "the number of items that time runs over: there is no stream")
        makers: dict[str, Callable[[], Axis]] = {
            "previous_label": lambda: PreviousLabel(*labels),
            "time": lambda: Time(horizon or 1),
            "features": lambda: AllFeatures(without=hidden),
            "time_of_day": lambda: TimeOfDay(feature),
            "category": lambda: Category(feature),
            "confidence": lambda: Confidence(classifier, optional=True),  # all sites have the same axes
            "says": lambda: Says(classifier, optional=True),
            "feature": lambda: Feature(feature, scale=self.scale, range=self.range, outside=self.outside, of=self.of),
        }
        return makers[self.kind]()


class ModelSection(Section):
    """A model of a site: its source, its training rows, the features it sees, its cost and its limits."""

    of_kinds = {
        **dict.fromkeys(("train", "train_on"), ("trained",)),
        "features": ("trained", "file", "module", *endpoints.KINDS),
        "workers": ("trained", "always", "column", "file", "module"),
        "threads": ("trained", "always", "learnt", "column", "file", "module", "return"),
        "trusted": ("file",),
        "label": ("always",),
        **{key: endpoints.OF_KINDS.get(key, endpoints.KINDS) for key in ENDPOINT_KEYS},
    }
    kind_words = {
        "always": "model 'always'",
        "trained": "models by name that are trained",
        "learnt": f"models {' and '.join(map(repr, LEARNT))}",
        "column": "columns of predictions",
        "score": "columns of scores",
        "file": "model files",
        "module": "models of a module",
        "return": "arms that only name a choice",
        **{kind: f"endpoints of kind '{kind}'" for kind in endpoints.KINDS},
    }
    name: Name
    model: str
    train: tuple[int, int] | None = None
    train_on: Literal["stream", "own"] = "stream"
    label: Any = None
    features: Names | None = None
    cost: Unit = 0.0
    price: Price | None = None
    trusted: Flag = False
    limit_s: Seconds = 1.0
    threads: Threads = 4
    workers: Flag = False
    labels: Annotated[list[str | int | float], Field(min_length=1)] | None = None
    template: str | None = None
    system: str | None = None
    parse: str | None = None
    max_tokens: Count | None = None
    temperature: Annotated[float, Field(ge=0, le=10, strict=True)] | None = None
    price_in: TokenPrice = 0.0
    price_out: TokenPrice = 0.0
    request: Pointers = ""
    reply: Pointers = ""
    input: str = endpoints.DEFAULTS.input
    output: str | None = None
    datatype: str | None = None
    batch: AtOnce = endpoints.DEFAULTS.batch
    in_flight: AtOnce = endpoints.DEFAULTS.in_flight
    headers: dict[str, str] = {}
    token_env: str | None = None
    token_header: str = endpoints.DEFAULTS.token_header
    tls_ca: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _some_take_longer(cls, given: Any) -> Any:
        if isinstance(given, dict) and isinstance(given.get("model"), str) and endpoints.kind_of(given["model"]):
            return {"limit_s": endpoints.limit_of(given["model"]), **given}
        return given

    @field_validator("model")
    @classmethod
    def _can_be_found(cls, model: str) -> str:
        check_path("model", model)
        if model in (COLUMN, SCORE):
            raise ValueError(f"name the column of the stream: {model}NAME")
        if endpoints.kind_of(model) is not None:
            wrong = endpoints.wrong_url(model)
            if wrong is not None:
                raise ValueError(wrong)
            return model
        if model == RETURN:
            raise ValueError("name the choice: return:NAME")
        names = [*NAMES, *LEARNT]
        if model not in names and ":" not in model and Path(model).suffix.lower() not in MODEL_FILES:
            guess = did_you_mean(model, names)
            others = "or column:NAME or score:NAME"
            raise ValueError(f"must be one of {', '.join(names)}, {others}; else {ALLOWED}; got {model!r}{guess}")
        return model

    @field_validator("features")
    @classmethod
    def _are_different(cls, features: list[str] | None) -> list[str] | None:
        if features and len(set(features)) < len(features):
            raise ValueError(f"each of them once, got {shown(features)}")
        return features

    @model_validator(mode="after")
    def _has_what_it_needs(self) -> ModelSection:
        if self.kind == "always" and self.label is None:
            raise ValueError("model 'always' needs the label that it gives")
        if self.trusted and Path(self.model).suffix.lower() == ".onnx":
            raise ValueError("trusted is for skops files and pickles: an ONNX file runs no code")
        if self.is_trained and self.train is None and self.train_on == "stream":
            raise ValueError(f"model {self.model!r} needs train = [first row, row after the last]")
        if self.train is not None and not 0 <= self.train[0] < self.train[1]:
            raise ValueError("train must be [first row, row after the last], at least one row, counted from 0")
        if self.kind == "oip" and self.input != "*" and self.features is None:
            raise ValueError("an endpoint of kind 'oip' needs features, in the order of its tensor, or input = '*'")
        if (self.price_in or self.price_out) and not (self.cost or self.price):
            raise ValueError("a model with a price needs the cost to expect: without one it is asked about every item")
        return self

    def endpoint_options(self, labels: list[Any] | None) -> dict[str, Any]:
        """Return the options of an endpoint; a language model without labels takes the labels of the file."""
        options = {key: getattr(self, key) for key in ENDPOINT_KEYS}
        if self.kind == "openai" and self.labels is None and self.parse is None:
            options["labels"] = labels
        return options | {"limit_s": self.limit_s}

    @property
    def is_endpoint(self) -> bool:
        return self.kind in endpoints.KINDS

    @property
    def kind(self) -> str:
        if self.model in NAMES:
            return "always" if self.model == "always" else "trained"
        if self.model in LEARNT:
            return "learnt"
        if self.model.startswith((COLUMN, SCORE)):
            return "column" if self.model.startswith(COLUMN) else "score"
        if self.model.startswith(RETURN):
            return "return"
        endpoint = endpoints.kind_of(self.model)
        if endpoint is not None:
            return endpoint
        return "file" if Path(self.model).suffix.lower() in MODEL_FILES else "module"

    @property
    def is_trained(self) -> bool:
        return self.kind == "trained"

    @property
    def column(self) -> str | None:
        """The column of the stream with what it says, or with the scores of that."""
        return self.model.partition(":")[2] if self.kind in ("column", "score") else None


class CostsSection(Section):
    """`[costs]`: the value of a correct prediction, so that you can give prices instead of costs."""

    unit: Annotated[float, Field(gt=0, allow_inf_nan=False, strict=True)]
    currency: Annotated[str, Field(max_length=LONGEST)] = ""


class AmountsSection(Section):
    """Amounts that may be spent."""

    per_item: Rate | None = None
    per_hour: Rate | None = None
    per_day: Rate | None = None
    total: Rate | None = None


class BudgetSection(AmountsSection):
    """`[budget]`: what a site may spend in money, by arm in calls, and how often in a second an arm may be used."""

    calls: dict[str, AmountsSection] = {}
    at_most_per_second: dict[str, Rate] = {}

    @model_validator(mode="after")
    def _limits_something(self) -> BudgetSection:
        if self.build() is None:
            raise ValueError(
                "must have at least one of per_item, per_hour, per_day, total, calls and at_most_per_second"
            )
        return self

    @property
    def in_money(self) -> list[str]:
        """The keys of amounts of money."""
        return [key for key in AmountsSection.model_fields if getattr(self, key) is not None]

    @property
    def arms(self) -> list[tuple[str, str]]:
        """The arms that it names, each behind its key."""
        tables: dict[str, Mapping[str, Any]] = {"calls": self.calls, "at_most_per_second": self.at_most_per_second}
        return [(f"{key}.{arm}", arm) for key, table in tables.items() for arm in table]

    def build(self) -> Budget | None:
        """Return the budget, None if nothing is limited."""
        calls = {arm: each.model_dump(exclude_none=True) for arm, each in self.calls.items()}
        calls = {arm: amounts for arm, amounts in calls.items() if amounts}
        if not (self.in_money or calls or self.at_most_per_second):
            return None
        money = {key: getattr(self, key) for key in self.in_money}
        return Budget(**money, calls=calls, at_most_per_second=self.at_most_per_second)


class ConfusionSection(Section):
    """The cost of one mistake, as a share of a correct prediction's value: `said` where `truth` was correct."""

    truth: Any
    said: Any
    cost: Unit

    @field_validator("truth", "said")
    @classmethod
    def _is_a_label(cls, label: Any) -> Any:
        if not isinstance(label, str | int | float) or label != label:
            raise ValueError(f"a label is text, a number or a truth value, got {shown(label)}")
        return label

    @model_validator(mode="after")
    def _is_a_mistake(self) -> ConfusionSection:
        if self.truth == self.said:
            raise ValueError(
                f"truth and said must differ, both are {shown(self.truth)}: a correct answer costs nothing"
            )
        return self


class RewardSection(Section):
    """`[reward]`: what answers are worth, by their labels or by scores."""

    confusions: list[ConfusionSection] = []
    range: tuple[Number, Number] | None = None
    function: str | None = None

    @field_validator("function")
    @classmethod
    def _is_in_a_module(cls, function: str | None) -> str | None:
        module, _, name = (function or "any:any").partition(":")
        if not all(part.isidentifier() for part in (*module.split("."), *name.split("."))):
            raise ValueError(f"must be module:function, as in 'rewards:gain', got {function!r}")
        return function

    @model_validator(mode="after")
    def _fits_together(self) -> RewardSection:
        if self.confusions and self.function is not None:
            raise ValueError("confusions and function are not given together: each says what labels gain")
        pairs = [(each.truth, each.said) for each in self.confusions]
        for n, (truth, said) in enumerate(pairs):
            if (truth, said) in pairs[:n]:
                raise ValueError(f"confusions has truth {shown(truth)} and said {shown(said)} twice")
        if self.range is not None and not self.range[0] < self.range[1]:
            raise ValueError(f"range must be [lowest, highest] score, got {list(self.range)}")
        return self


class SiteSection(Section):
    """A site: where it listens, what calling it costs, and its models."""

    name: Name
    host: Host | None = None
    port: Port | None = None
    call_cost: Unit | None = None
    call_price: Price | None = None
    learns_from: Literal["used", "all"] = "all"
    score_local: ScoreLocal | None = None  # None: "all" if no policy is named, else "used"
    learnt: Flag | None = None  # None: if labels score all models
    label_share: Annotated[float, Field(gt=0, le=1, strict=True)] = 1.0
    shares: list[str] | None = None  # the features that peers may see; None: all
    withholds: list[str] = []
    share_labels: ShareLabels | None = None  # None: as the policy says
    budget: BudgetSection | None = None  # None: as at the top of the file
    classifiers: Annotated[list[ModelSection], Field(min_length=1)]

    @model_validator(mode="after")
    def _shares_what_it_does_not_withhold(self) -> SiteSection:
        Sharing(self.shares, self.withholds)  # raises
        return self

    @property
    def sharing(self) -> Sharing:
        return Sharing(self.shares, self.withholds)


class BrokerSection(Section):
    """`[network]`: the brokers, how a site logs in, and what peers may do; {site} in texts is the name of the site."""

    servers: Annotated[list[str], Field(min_length=1)] | None = None
    name: str = "cosend"
    user: str | None = None
    password_file: str | None = None
    nkey_file: str | None = None
    credentials_file: str | None = None
    tls: Flag = False
    tls_ca: str | None = None
    tls_certificate: str | None = None
    tls_key: str | None = None
    discover: Flag = False
    deadline_s: Seconds = 1.0
    calls_per_second: Rate = 10_000.0

    @field_validator("servers")
    @classmethod
    def _are_addresses(cls, servers: list[str] | None) -> list[str] | None:
        for server in servers or []:
            if not server.startswith(("nats://", "tls://")) or server.endswith("//"):
                raise ValueError(f"a server is nats://HOST:PORT or tls://HOST:PORT, got {shown(server)}")
            if "@" in server:
                raise ValueError("user and password do not belong in an address: use user and password_file")
        return servers

    @field_validator("name")
    @classmethod
    def _can_be_a_subject(cls, name: str) -> str:
        NatsOptions(network=name)
        return name

    @model_validator(mode="after")
    def _is_complete(self) -> BrokerSection:
        for one, other in (("user", "password_file"), ("tls_certificate", "tls_key")):
            if (getattr(self, one) is None) != (getattr(self, other) is None):
                raise ValueError(f"{one} and {other} are given together, or not at all")
        given = [name for name in CREDENTIALS if getattr(self, name) is not None]
        if len(given) > 1:
            raise ValueError(f"a site logs in in one way, not by {' and '.join(given)}")
        return self

    def options(self, site: str, folder: Path, servers: list[str] | None) -> NatsOptions:
        """Return how a site reaches its brokers; paths start from the folder of the network file."""
        files = {name: self._path(name, site, folder) for name in BROKER_FILES}
        password = files.pop("password_file")
        given: dict[str, Any] = {**files, "network": self.name, "tls": self.tls}
        if self.user is not None and password is not None:
            given |= {"user": self.user.replace(SITE, site), "password": _password(password)}
        if servers or self.servers:
            given["servers"] = tuple(servers or self.servers or ())
        return NatsOptions(**given)

    def _path(self, name: str, site: str, folder: Path) -> Path | None:
        value: str | None = getattr(self, name)
        if value is None:
            return None
        path = folder / value.replace(SITE, site)
        check_path(f"network.{name}", path)
        if not path.is_file():
            raise SettingError(f"network.{name}", str(path), "an existing file")
        return path


def _password(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingError("network.password_file", str(path), f"a file of text ({in_one_line(error)})") from error
