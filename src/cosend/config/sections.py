"""The sections of a network file, their types with limits, and mistakes that name their key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from inspect import signature
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator
from pydantic_core import ErrorDetails, InitErrorDetails, PydanticCustomError

from cosend.algorithm.values import ScoreLocal
from cosend.axes import AllFeatures, Axis, Category, Feature, PreviousLabel, Time, TimeOfDay
from cosend.checks import check_path
from cosend.config import LARGEST_SEED, LONGEST_CALL_S, MOST_ROWS
from cosend.errors import CosendError, SettingError, StreamError, in_one_line, shown
from cosend.models.built_in import NAMES
from cosend.models.loading import ALLOWED, PICKLES
from cosend.site import wrong_voter
from cosend.streams.clinics import clinics, turn_of
from cosend.streams.read_files import read_table
from cosend.streams.river_datasets import river_dataset
from cosend.streams.table import Table
from cosend.streams.traffic import traffic
from cosend.transport.nats_options import NatsOptions

Unit = Annotated[float, Field(ge=0, le=1, strict=True)]
Rows = Annotated[int, Field(ge=1, le=MOST_ROWS, strict=True)]
RowsOrNone = Annotated[int, Field(ge=0, le=MOST_ROWS, strict=True)]
Count = Annotated[int, Field(ge=1, le=10**15, strict=True)]  # items that a service may see
Seed = Annotated[int, Field(ge=0, le=LARGEST_SEED, strict=True)]
Tries = Annotated[int, Field(ge=0, le=1_000, strict=True)]
Port = Annotated[int, Field(ge=1, le=65_535, strict=True)]
Seconds = Annotated[float, Field(gt=0, le=LONGEST_CALL_S, strict=True)]
Rate = Annotated[float, Field(gt=0, le=1e9, strict=True)]
Threads = Annotated[int, Field(ge=1, le=256, strict=True)]
Flag = Annotated[bool, Field(strict=True)]
Names = Annotated[list[str], Field(min_length=1)]
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$", max_length=100)]
Host = Annotated[str, Field(pattern=r"^[A-Za-z0-9\[:][A-Za-z0-9_.:\]-]*$", max_length=255)]
Made = TypeVar("Made")
ITEMS: Final = 20_000  # of a stream that has no end
OF_FEATURES: Final = ("feature", "category", "time_of_day")  # the kinds of axes that read a feature
COLUMN: Final = "column:"
MODEL_FILES: Final = (".skops", ".onnx", *PICKLES)
TRUSTED: Final = (".skops", *PICKLES)  # files that may need trust
VOTE: Final = "vote"
SITE: Final = "{site}"
CREDENTIALS: Final = ("password_file", "nkey_file", "credentials_file")
BROKER_FILES: Final = (*CREDENTIALS, "tls_ca", "tls_certificate", "tls_key")


class Section(BaseModel):
    """A table of a network file: unknown keys are mistakes."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def made_from(kind: type[Made], table: Any, always: Mapping[str, Any] | None = None) -> Made:
    """Build a type of the library from a table with its options, or raise with every option that is wrong.

    always  options that the type needs in any case, unless the table has them
    """
    if isinstance(table, kind):
        return table
    if not isinstance(table, Mapping):
        raise PydanticCustomError("model_type", "must be a table, got {given}", {"given": shown(table)})
    allowed, always = [*signature(kind).parameters], always or {}
    mistakes = [
        mistake for name, value in table.items() if (mistake := _wrong_option(kind, allowed, name, value, always))
    ]
    if mistakes:
        raise ValidationError.from_exception_data(kind.__name__, mistakes)
    return kind(**{**always, **table})


def wrong_key(key: str, wrong: str, value: Any) -> InitErrorDetails:
    return InitErrorDetails(type=PydanticCustomError("setting", "{wrong}", {"wrong": wrong}), loc=(key,), input=value)


def _wrong_option(
    kind: type[Any], allowed: list[str], name: str, value: Any, always: Mapping[str, Any]
) -> InitErrorDetails | None:
    """Return what is wrong with an option, whatever the others are."""
    if name not in allowed:
        wrong = f"no such option{did_you_mean(name, allowed)}; {kind.__name__} has {', '.join(allowed)}"
    else:
        try:
            kind(**{**always, name: value})
        except CosendError as error:
            wrong = str(error)
        else:
            return None
    return wrong_key(name, wrong, value)


def mistake_of(error: ErrorDetails, whole: type[Section]) -> str:
    """Return a mistake that pydantic has found, with its key; list positions start at 1."""
    key = ".".join(str(part + 1) if isinstance(part, int) else part for part in error["loc"])
    message = error["msg"].removeprefix("Value error, ")
    what, should, allowed = message.partition(" should ")
    if should and what in ("Input", "String", "List"):
        given = "" if key.startswith("network.") else f", got {shown(error['input'])}"  # it may be a password
        message = f"must {allowed.partition(' after validation')[0]}{given}"
    if error["type"] == "missing":
        message = "is required"
    if error["type"] == "extra_forbidden":
        known = _keys_of_table(error["loc"][:-1], whole)
        message = f"no such key{did_you_mean(error['loc'][-1], known)}; allowed are {', '.join(known)}"
    if error["type"] == "model_type":
        message = f"must be a table, got {shown(error['input'])}"
    return f"{key}: {message}" if key else message


def _keys_of_table(place: Sequence[int | str], whole: type[Section]) -> list[str]:
    section = whole
    for name in place:
        if isinstance(name, str):
            section = _section_in(section.model_fields[name].annotation) or section
    return list(section.model_fields)


def _section_in(annotation: Any) -> type[Section] | None:
    """Return the section that a key holds, alone or in a list."""
    if isinstance(annotation, type) and issubclass(annotation, Section):
        return annotation
    return next((found for each in get_args(annotation) if (found := _section_in(each))), None)


def did_you_mean(word: Any, known: list[str]) -> str:
    """Return a guess at what was meant, as a part of a sentence."""
    close = get_close_matches(str(word)[:100], known, n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


class StreamSection(Section):
    """Where the items come from. The first `training` rows train models, the next `items` rows arrive.

    Without `items`, the rest of a file arrives, or 20,000 rows.
    """

    kind: Literal["clinics", "traffic", "file", "river"]
    items: Rows | None = None
    training: RowsOrNone = 0
    path: Path | None = None
    dataset: str | None = None
    label: str | None = None
    features: Names | None = None
    contexts: list[str] = Field(default_factory=list)
    site: str | None = None

    @field_validator("path")
    @classmethod
    def _is_a_path(cls, path: Path | None) -> Path | None:
        if path is not None:
            check_path("path", path)
        return path

    @model_validator(mode="after")
    def _fits_its_kind(self) -> StreamSection:
        if self.kind == "file" and (self.path is None or self.label is None):
            raise ValueError("a stream of kind 'file' needs path and label")
        of_files = (self.path, self.label, self.features, self.site, self.contexts)
        if self.kind != "file" and of_files != (None, None, None, None, []):
            raise ValueError(f"path, label, features, contexts and site are for kind 'file', not {self.kind!r}")
        if (self.kind == "river") != (self.dataset is not None):
            raise ValueError("dataset goes with kind 'river', and kind 'river' needs one")
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
            label=self.label or "",
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
    """One axis of the context: a feature, or `kind`."""

    kind: Literal["feature", "category", "previous_label", "time", "time_of_day", "features"] = "feature"
    feature: str | None = None
    scale: Literal["linear", "log", "rank"] | None = None  # linear with a range, else rank
    range: tuple[float, float] | None = None
    outside: Literal["error", "clip"] = "error"
    hidden: Flag = False
    horizon: Count | None = None

    @model_validator(mode="after")
    def _fits_its_kind(self) -> AxisSection:
        if (self.feature is None) == (self.kind in OF_FEATURES):
            raise ValueError("an axis needs a feature, or kind = 'previous_label', 'time' or 'features' without one")
        if self.kind != "feature" and (self.scale, self.range, self.outside) != (None, None, "error"):
            raise ValueError(f"scale, range and outside are for features, not for kind {self.kind!r}")
        if self.hidden and self.feature is None:
            raise ValueError(f"hidden is for an axis with a feature, not for kind {self.kind!r}")
        if self.horizon is not None and self.kind != "time":
            raise ValueError(f"horizon is for kind 'time', not for kind {self.kind!r}")
        if self.kind == "feature":
            self.build([], 1)  # raises for a bad range
        return self

    @property
    def title(self) -> str:
        return (self.feature or self.kind).replace("_", " ")

    def build(self, labels: Sequence[Any], horizon: int | None, hidden: Sequence[str] = ()) -> Axis:
        """Return the axis for a network with these labels and, if known, this many items at a site.

        hidden  features that `kind = "features"` leaves out
        """
        feature = self.feature or ""
        if self.kind == "previous_label":
            if not labels:
                allowed = "known where there is no stream: labels = [...] at the top of the file"
                raise SettingError("the labels of the axis 'previous_label'", [], allowed)
            return PreviousLabel(*labels)
        if self.kind == "time":
            if (self.horizon or horizon) is None:
                raise SettingError("horizon", None, "the number of items that time runs over: there is no stream")
            return Time(self.horizon or horizon or 1)
        if self.kind == "features":
            return AllFeatures(without=hidden)
        if self.kind == "time_of_day":
            return TimeOfDay(feature)
        if self.kind == "category":
            return Category(feature)
        return Feature(feature, scale=self.scale, range=self.range, outside=self.outside)


class ModelSection(Section):
    """A model of a site: where it comes from, what it is trained on, the features it sees, its cost and its limits."""

    name: Name
    model: str
    train: tuple[int, int] | None = None
    train_on: Literal["stream", "own"] = "stream"
    label: Any = None
    features: Names | None = None
    cost: Unit = 0.0
    trusted: Flag = False
    limit_s: Seconds = 1.0
    threads: Threads = 4
    workers: Flag = False
    over: Names | None = None

    @field_validator("model")
    @classmethod
    def _can_be_found(cls, model: str) -> str:
        check_path("model", model)
        if model == COLUMN:
            raise ValueError("name the column of the stream that holds the predictions: column:NAME")
        names = [*NAMES, VOTE]
        if model not in names and ":" not in model and Path(model).suffix.lower() not in MODEL_FILES:
            guess = did_you_mean(model, names)
            raise ValueError(f"must be one of {', '.join(names)}, or column:NAME; else {ALLOWED}; got {model!r}{guess}")
        return model

    @field_validator("features")
    @classmethod
    def _are_different(cls, features: list[str] | None) -> list[str] | None:
        if features and len(set(features)) < len(features):
            raise ValueError(f"each of them once, got {shown(features)}")
        return features

    @model_validator(mode="after")
    def _has_what_it_needs(self) -> ModelSection:
        if self.model == "always" and self.label is None:
            raise ValueError("model 'always' needs the label that it gives")
        if self.model != "always" and self.label is not None:
            raise ValueError(f"label is for model 'always', not for {self.model!r}")
        if self.kind == "column" and self.features is not None:
            raise ValueError("features are for models, and a column of predictions needs none")
        if self.kind == "vote" and (self.features is not None or self.workers):
            raise ValueError("a vote sees what other classifiers of its site say: it has no features and no workers")
        if self.kind != "vote" and self.over is not None:
            raise ValueError(f"over is for model 'vote', not for {self.model!r}")
        if self.trusted and not (self.kind == "file" and Path(self.model).suffix.lower() in TRUSTED):
            raise ValueError(f"trusted is for files that end in {', '.join(TRUSTED)}, not for model {self.model!r}")
        if not self.is_trained and (self.train_on == "own" or (self.train is not None and self.kind != "zoo")):
            raise ValueError(f"train and train_on are for models by name that are trained, not for {self.model!r}")
        if self.is_trained and self.train is None and self.train_on == "stream":
            raise ValueError(f"model {self.model!r} needs train = [first row, row after the last]")
        if self.is_trained and self.train is not None and not 0 <= self.train[0] < self.train[1]:
            raise ValueError("train must be [first row, row after the last], at least one row, counted from 0")
        return self

    @property
    def kind(self) -> Literal["zoo", "vote", "column", "file", "module"]:
        if self.model in NAMES:
            return "zoo"
        if self.model == VOTE:
            return "vote"
        if self.model.startswith(COLUMN):
            return "column"
        return "file" if Path(self.model).suffix.lower() in MODEL_FILES else "module"

    @property
    def is_trained(self) -> bool:
        return self.kind == "zoo" and self.model != "always"

    @property
    def column(self) -> str | None:
        return self.model.removeprefix(COLUMN) if self.kind == "column" else None


class SiteSection(Section):
    """A site: where it listens, what calling it costs, and its models."""

    name: Name
    host: Host | None = None
    port: Port | None = None
    call_cost: Unit | None = None
    learns_from: Literal["used", "all"] = "all"
    score_local: ScoreLocal | None = None  # None: "all" if no policy is named, else "used"
    classifiers: Annotated[list[ModelSection], Field(min_length=1)]

    @model_validator(mode="after")
    def _votes_have_voters(self) -> SiteSection:
        voters = [each.name for each in self.classifiers if each.kind != "vote"]
        if not voters:
            raise ValueError("a vote needs other classifiers to combine, and this site has none")
        for each in self.classifiers:
            if wrong := wrong_voter(each.over, voters):
                raise ValueError(wrong)
        return self


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
        if (self.user is None) != (self.password_file is None):
            raise ValueError("user and password_file are given together, or not at all")
        given = [name for name in CREDENTIALS if getattr(self, name) is not None]
        if len(given) > 1:
            raise ValueError(f"a site logs in in one way, not by {' and '.join(given)}")
        if (self.tls_certificate is None) != (self.tls_key is None):
            raise ValueError("tls_certificate and tls_key are given together, or not at all")
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
