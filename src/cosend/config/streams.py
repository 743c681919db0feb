"""Where the items of a simulation come from."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final, Literal

from pydantic import Field, field_validator, model_validator

from cosend.config.parts import MOST_ROWS, Names, Part, Row, Rows, RowsOrNone
from cosend.core.checks import check_path
from cosend.errors import StreamError
from cosend.streams.clinics import clinics, turn_of
from cosend.streams.files import read_table
from cosend.streams.river import river_dataset
from cosend.streams.table import Table
from cosend.streams.traffic import traffic

ITEMS: Final = 20_000  # of a stream that has no end of its own


class Stream(Part):
    """Where the items come from. The first `training` rows train the classifiers, the next `items` rows arrive.

    Without a number of items they are all that are left of a file, or 20,000.
    """

    kind: Literal["clinics", "traffic", "file", "river"]
    items: Rows | None = None
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
        if self.kind != "file" and (self.path is not None or self.start):
            raise ValueError(f"path and start are for kind 'file', not {self.kind!r}")
        if (self.kind == "river") != (self.dataset is not None):
            raise ValueError("dataset goes with kind 'river', and kind 'river' needs one")
        return self

    @property
    def changes(self) -> list[int]:
        """After how many items, counted over all sites, it is known to change."""
        return [turn_of(self.items or ITEMS)] if self.kind == "clinics" else []

    def read(self, seed: int, folder: Path, columns: Sequence[str] = ()) -> Table:
        """Return the rows for training and the items, in this order.

        `columns` of a file are read for contexts, or as predictions, unless the file gives them another use.
        """
        if self.kind == "file":
            return self._read_file(folder, columns)
        rows = self.training + (self.items or ITEMS)
        if self.kind == "clinics":
            return clinics(rows, training=self.training, seed=seed)
        if self.kind == "traffic":
            return traffic(rows, seed=seed)
        return river_dataset(self.dataset or "", rows)

    def _read_file(self, folder: Path, columns: Sequence[str]) -> Table:
        file = folder / (self.path or "")
        used = {self.label, self.site, *self.contexts, *(self.features or ())}
        table = read_table(
            file,
            label=self.label or "",
            features=self.features,
            contexts=[*self.contexts, *(name for name in dict.fromkeys(columns) if name not in used)],
            site=self.site,
            rows=None if self.items is None else self.training + self.items,
            start=self.start,
        )
        if len(table) <= self.training:
            wrong = f"all of its {len(table):,} rows are for training, stream.training is {self.training:,}"
            raise StreamError(wrong, "at least one must arrive", file=file)
        if len(table) - self.training > MOST_ROWS:
            wrong = f"{len(table) - self.training:,} rows would arrive"
            raise StreamError(wrong, f"at most {MOST_ROWS:,} may: take fewer items", file=file)
        return table
