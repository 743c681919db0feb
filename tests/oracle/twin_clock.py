"""How far a slow twin has come, and what follows from it: quotas, slices and the time as an axis."""

import math

from tests.oracle.twin_values import CellKey, Codes, Context, TwinCell, TwinSettings


class TwinClock:
    """Steps, quotas and cells (exactness: Ids and steps, Arithmetic, Categories, Chosen again, Doubling)."""

    def __init__(self, settings: TwinSettings) -> None:
        """Start with no item seen."""
        self._settings = settings
        time_axes = 1 if settings.time_dimension else 0
        self._axes = settings.dimensions - len(settings.categories) + time_axes  # that are cut
        self._is_doubling = settings.horizon is None and settings.slices is None
        self._arrivals = 0  # never reset: waiting is measured in it (exactness: Waiting)
        self._again = 0  # the arrival number of an item that is chosen for again; 0 while no such choice is made
        self._era = 1  # the doubling phase; stays 1 without doubling
        self._era_start = 0  # arrivals before this doubling phase

    def begin_choice(self, again: int) -> None:
        """Count one more own item, unless it is chosen for again."""
        self._again = again
        self._arrivals += 0 if again else 1

    def end_choice(self) -> None:
        """Go back to the newest item."""
        self._again = 0

    def _number(self) -> int:
        """Return the arrival number of the item being decided; for an answer, the arrivals so far."""
        return self._again or self._arrivals

    def _step(self) -> int:
        """Return the step of the item being decided, or that of an answer: never below 1."""
        start = self._era_start if self._settings.doubling == "reset" else 0
        return max(1, self._number() - start)

    def _quota(self, cell: TwinCell) -> float:
        """D1 and D3."""
        alpha, exponent = self._settings.alpha, self._settings.exploration_exponent
        if exponent is None:
            exponent = 2 * alpha / (3 * alpha + self._axes)
        log_step = math.log(self._step())
        return math.exp(exponent * log_step) * log_step

    def _length(self) -> int:
        """Return the horizon, or the length of the doubling phase: 2, 4, 8, ..."""
        return 2**self._era if self._settings.horizon is None else self._settings.horizon

    def _slices_now(self, alphas: int = 3) -> int:
        if self._axes == 0:
            return 1
        slices = self._settings.slices
        if slices is None:
            power = 1 / (alphas * self._settings.alpha + self._axes)
            slices = max(1, math.ceil(float(self._length()) ** power - 1e-9))
        limit = self._settings.max_cells
        while limit is not None and slices > 1 and slices**self._axes > limit:
            slices -= 1
        return slices

    def _cell_of(self, point: Context, slices: int) -> CellKey:
        """Return the cell of the partition into so many slices; a category has a cell for each code."""
        indices = (
            int(x) if axis in self._settings.categories else min(math.floor(slices * x), slices - 1)
            for axis, x in enumerate(point)
        )
        return slices, tuple(indices)

    def _codes_of(self, key: CellKey) -> Codes:
        """Return the codes of the categories of a cell."""
        return tuple(index for axis, index in enumerate(key[1]) if axis in self._settings.categories)

    def _point(self, context: Context) -> Context:
        """Return the context, with the time as the last axis if it is one."""
        return (*context, *self._time(self._step()))

    def _time(self, step: int) -> Context:
        """Return the time at a step as an axis, or nothing if it is none."""
        return (min(1.0, step / self._length()),) if self._settings.time_dimension else ()
