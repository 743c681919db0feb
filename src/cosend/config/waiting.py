"""How long a site waits for labels, as a file says it."""

from __future__ import annotations

from typing import Any

from pydantic import ValidationInfo, field_validator

from cosend.config.parts import Part
from cosend.core.learner.registry import Patience


class PatienceSetting(Part):
    """The options of `Patience`, under their names."""

    wait_limit: Any = None
    max_waiting: Any = Patience().max_waiting
    overdue: Any = "drop"

    @field_validator("*")
    @classmethod
    def _is_allowed(cls, value: Any, key: ValidationInfo) -> Any:
        options: dict[str, Any] = {key.field_name or "": value}
        Patience(**options)
        return value

    def build(self) -> Patience:
        """Return the patience of a site."""
        return Patience(wait_limit=self.wait_limit, max_waiting=self.max_waiting, overdue=self.overdue)
