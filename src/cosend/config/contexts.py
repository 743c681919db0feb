"""The context of a scenario: from an item to a point, axis by axis."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import model_validator

from cosend.config.parts import Part
from cosend.site.context import Axis, Context


class AxisSetting(Part):
    """One axis of the context: a feature, or `kind`."""

    kind: Literal["feature", "previous_label", "time", "time_of_day"] = "feature"
    feature: str | None = None
    scale: Literal["linear", "log", "rank"] | None = None  # linear with a range, else rank
    range: tuple[float, float] | None = None
    outside: Literal["error", "clip"] = "error"

    @model_validator(mode="after")
    def _fits_its_kind(self) -> AxisSetting:
        if (self.feature is None) == (self.kind in ("feature", "time_of_day")):
            raise ValueError("an axis needs a feature, or kind = 'previous_label' or 'time' without one")
        if self.kind != "feature" and (self.scale, self.range, self.outside) != (None, None, "error"):
            raise ValueError(f"scale, range and outside are for features, not for kind {self.kind!r}")
        if self.kind == "feature":
            self.build([], 1)  # refuses a range that is none
        return self

    def build(self, classes: list[Any], horizon: int) -> Axis:
        """Return the axis for a stream with these labels and so many items at a site."""
        if self.kind == "previous_label":
            return Context.previous_label(*classes)
        if self.kind == "time":
            return Context.time(horizon)
        if self.kind == "time_of_day":
            return Context.time_of_day(self.feature or "")
        return Context(self.feature or "", scale=self.scale, range=self.range, outside=self.outside)
