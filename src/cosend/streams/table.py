"""A stream that fits into memory: columns of features and a label for every row, in the order they arrive."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of a stream: `features` by name, and the true `labels`."""

    features: dict[str, npt.NDArray[Any]]
    labels: npt.NDArray[Any]

    def __len__(self) -> int:
        return len(self.labels)

    def rows(self) -> Iterator[tuple[dict[str, Any], Any]]:
        """Yield every row as an item, a dictionary of plain values, with its label."""
        names = list(self.features)
        columns = [column.tolist() for column in self.features.values()]
        for *values, label in zip(*columns, self.labels.tolist(), strict=True):
            yield dict(zip(names, values, strict=True)), label

    def part(self, start: int, stop: int) -> Table:
        """Return the rows start .. stop-1."""
        return Table({name: column[start:stop] for name, column in self.features.items()}, self.labels[start:stop])
