"""Where the items of a scenario come from."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field, field_validator, model_validator

from cosend.config.parts import Names, Part, Row, Rows, RowsOrNone
from cosend.core.checks import check_path
from cosend.streams.files import read_table
from cosend.streams.kdd99 import kdd99
from cosend.streams.river import river_dataset
from cosend.streams.table import Table
from cosend.streams.traffic import traffic


class Stream(Part):
    """Where the items come from. The first `training` rows train the classifiers, the next `items` rows arrive."""

    kind: Literal["traffic", "kdd99", "file", "river"]
    items: Rows = 20_000
    training: RowsOrNone = 0
    path: Path | None = None
    dataset: str | None = None
    start: Row = 0
    label: str | None = None
    features: Names | None = None
    contexts: list[str] = Field(default_factory=list)
    site: str | None = None
    arrivals: Literal["same", "deal"] = "same"

    @field_validator("path")
    @classmethod
    def _is_a_path(cls, path: Path | None) -> Path | None:
        if path is not None:
            check_path("path", path)
        return path

    @model_validator(mode="after")
    def _fits_its_kind(self) -> Stream:
        if self.kind == "file" and (self.path is None or self.label is None):
            raise ValueError("a stream of kind 'file' needs path and label")
        if self.kind != "file" and (self.label, self.features, self.site, self.contexts) != (None, None, None, []):
            raise ValueError(f"label, features, contexts and site are for kind 'file', not {self.kind!r}")
        if self.kind in ("traffic", "river") and (self.path is not None or self.start):
            raise ValueError("path and start are for kinds 'file' and 'kdd99'")
        if (self.kind == "river") != (self.dataset is not None):
            raise ValueError("dataset goes with kind 'river', and kind 'river' needs one")
        return self

    @property
    def must_be_fetched(self) -> bool:
        """Whether it may have to be downloaded before anything is known of it."""
        return self.kind == "kdd99" and self.path is None

    def read(self, seed: int, folder: Path) -> Table:
        """Return the rows for training and the items, in this order."""
        rows = self.training + self.items
        if self.kind == "traffic":
            return traffic(rows, seed=seed)
        if self.kind == "river":
            return river_dataset(self.dataset or "", rows)
        path = None if self.path is None else folder / self.path
        if self.kind == "kdd99":
            return kdd99(path, start=self.start, rows=rows)
        return read_table(
            path or folder,
            label=self.label or "",
            features=self.features,
            contexts=self.contexts,
            site=self.site,
            rows=rows,
            start=self.start,
        )
