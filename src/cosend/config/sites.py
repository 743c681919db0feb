"""The sites of a network and their classifiers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import Field, field_validator, model_validator

from cosend.classifiers.loading import ALLOWED
from cosend.classifiers.model_files import PICKLES
from cosend.classifiers.zoo import NAMES
from cosend.config.parts import Flag, Host, Name, Names, Part, Port, Seconds, Threads, Unit, perhaps
from cosend.core.checks import check_path
from cosend.core.learner.values import ScoreLocal
from cosend.errors import shown
from cosend.site.checks import wrong_voter

COLUMN: Final = "column:"
FILES: Final = (".skops", ".onnx", *PICKLES)
TRUSTED: Final = (".skops", *PICKLES)  # files that may need trust
VOTE: Final = "vote"
Kind = Literal["zoo", "vote", "column", "file", "module"]


class ClassifierSetting(Part):
    """A classifier: its model, what that is trained on, the features it may see, its cost, and how long it may take."""

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
        if model not in names and ":" not in model and Path(model).suffix.lower() not in FILES:
            guess = perhaps(model, names)
            raise ValueError(f"must be one of {', '.join(names)}, or column:NAME; else {ALLOWED}; got {model!r}{guess}")
        return model

    @field_validator("features")
    @classmethod
    def _are_different(cls, features: list[str] | None) -> list[str] | None:
        if features and len(set(features)) < len(features):
            raise ValueError(f"each of them once, got {shown(features)}")
        return features

    @model_validator(mode="after")
    def _has_what_it_needs(self) -> ClassifierSetting:
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
        self._check_training()
        return self

    def _check_training(self) -> None:
        if self.is_trained:
            if self.train is None and self.train_on == "stream":
                raise ValueError(f"model {self.model!r} needs train = [first row, row after the last]")
            if self.train is not None and not 0 <= self.train[0] < self.train[1]:
                raise ValueError("train must be [first row, row after the last], at least one row, counted from 0")
        elif self.train_on == "own" or (self.train is not None and self.kind != "zoo"):
            raise ValueError(f"train and train_on are for models by name that are trained, not for {self.model!r}")

    @property
    def kind(self) -> Kind:
        """Where the model comes from."""
        if self.model in NAMES:
            return "zoo"
        if self.model == VOTE:
            return "vote"
        if self.model.startswith(COLUMN):
            return "column"
        return "file" if Path(self.model).suffix.lower() in FILES else "module"

    @property
    def is_trained(self) -> bool:
        """Whether it is trained on rows of the stream."""
        return self.kind == "zoo" and self.model != "always"

    @property
    def column(self) -> str | None:
        """The column of the stream that holds its predictions, if it is one."""
        return self.model.removeprefix(COLUMN) if self.kind == "column" else None


class SiteSetting(Part):
    """A site: where it listens, what calling it costs, and its classifiers."""

    name: Name
    host: Host | None = None
    port: Port | None = None
    call_cost: Unit | None = None
    learns_from: Literal["used", "all"] = "all"
    score_local: ScoreLocal | None = None  # None: all if no policy is named, else used
    classifiers: Annotated[list[ClassifierSetting], Field(min_length=1)]

    @model_validator(mode="after")
    def _votes_have_voters(self) -> SiteSetting:
        voters = [each.name for each in self.classifiers if each.kind != "vote"]
        if not voters:
            raise ValueError("a vote needs other classifiers to combine, and this site has none")
        for each in self.classifiers:
            if wrong := wrong_voter(each.over, voters):
                raise ValueError(wrong)
        return self
