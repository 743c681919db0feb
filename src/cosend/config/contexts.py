"""The context of a network: from an item to a point, axis by axis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Literal

from pydantic import model_validator

from cosend.config.parts import Count, Flag, Part
from cosend.errors import SettingError
from cosend.site.context import Axis, Context

OF_FEATURES: Final = ("feature", "category", "time_of_day")  # the kinds that read a feature


class AxisSetting(Part):
    """One axis of the context: a feature, or `kind`."""

    kind: Literal["feature", "category", "previous_label", "time", "time_of_day", "features"] = "feature"
    feature: str | None = None
    scale: Literal["linear", "log", "rank"] | None = None  # linear with a range, else rank
    range: tuple[float, float] | None = None
    outside: Literal["error", "clip"] = "error"
    hidden: Flag = False
    horizon: Count | None = None

    @model_validator(mode="after")
    def _fits_its_kind(self) -> AxisSetting:
        if (self.feature is None) == (self.kind in OF_FEATURES):
            raise ValueError("an axis needs a feature, or kind = 'previous_label', 'time' or 'features' without one")
        if self.kind != "feature" and (self.scale, self.range, self.outside) != (None, None, "error"):
            raise ValueError(f"scale, range and outside are for features, not for kind {self.kind!r}")
        if self.hidden and self.feature is None:
            raise ValueError(f"hidden is for an axis with a feature, not for kind {self.kind!r}")
        if self.horizon is not None and self.kind != "time":
            raise ValueError(f"horizon is for kind 'time', not for kind {self.kind!r}")
        if self.kind == "feature":
            self.build([], 1)  # refuses a range that is none
        return self

    def build(self, labels: Sequence[Any], horizon: int | None, hidden: Sequence[str] = ()) -> Axis:
        """Return the axis for a network with these labels, and so many items at a site as far as that is known.

        hidden  features of which `kind = "features"` knows nothing
        """
        if self.kind == "previous_label":
            if not labels:
                allowed = "known where there is no stream: labels = [...] at the top of the file"
                raise SettingError("the labels of the axis 'previous_label'", [], allowed)
            return Context.previous_label(*labels)
        if self.kind == "time":
            if (self.horizon or horizon) is None:
                raise SettingError("horizon", None, "the number of items that time runs over: there is no stream")
            return Context.time(self.horizon or horizon or 1)
        if self.kind == "features":
            return Context.features(without=hidden)
        if self.kind == "time_of_day":
            return Context.time_of_day(self.feature or "")
        if self.kind == "category":
            return Context.category(self.feature or "")
        return Context(self.feature or "", scale=self.scale, range=self.range, outside=self.outside)
