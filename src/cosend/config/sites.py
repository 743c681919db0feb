"""The sites of a scenario and their classifiers."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, model_validator

from cosend.classifiers.zoo import NAMES
from cosend.config.parts import Name, Names, Part, Unit, perhaps


class ClassifierSetting(Part):
    """A classifier: a model by name, the rows it is trained on, the features it may see, its cost."""

    name: Name
    model: str
    train: tuple[int, int] | None = None
    label: Any = None
    features: Names | None = None
    cost: Unit = 0.0

    @model_validator(mode="after")
    def _has_what_it_needs(self) -> ClassifierSetting:
        if self.model not in NAMES:
            guess = perhaps(self.model, list(NAMES))
            raise ValueError(f"model must be one of {', '.join(NAMES)}, got {self.model!r}{guess}")
        if self.model == "always" and self.label is None:
            raise ValueError("model 'always' needs the label that it gives")
        if self.model != "always" and self.label is not None:
            raise ValueError(f"label is for model 'always', not for {self.model!r}")
        if self.model != "always" and (self.train is None or not 0 <= self.train[0] < self.train[1]):
            raise ValueError(f"model {self.model!r} needs train = [first row, row after the last]")
        return self


class SiteSetting(Part):
    """A site and its classifiers."""

    name: Name
    classifiers: Annotated[list[ClassifierSetting], Field(min_length=1)]
