"""The description of the service says of features what the contexts of the site take, no more and no less."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cosend import Context
from cosend.errors import ContextError
from cosend.service.description import feature_schemas
from cosend.site.context import Axis, read_columns
from tests.node.sites import setup_of

AXES: dict[str, Axis] = {
    "range": Context("x", range=(-1, 7)),
    "range that clips": Context("x", range=(-1, 7), outside="clip"),
    "counts": Context("x", scale="log"),
    "ranks": Context("x"),
    "time of day": Context.time_of_day("x"),
    "category": Context.category("x"),
}
NUMBERS = [0, 7, -1, 7.5, -5, 1e9, 2e9, 2.0**41, 2.0**70, 1.7e308, -1.7e308, True]


@pytest.mark.parametrize("kind", AXES)
def test_a_feature_is_described_as_it_is_taken(kind: str) -> None:
    schema = feature_schemas(replace(setup_of(), axes=[AXES[kind]]))["x"]
    for value in NUMBERS:
        try:
            read_columns([AXES[kind]], [{"x": value}])
        except ContextError:
            is_taken = False
        else:
            is_taken = True
        assert (schema.get("minimum", value) <= value <= schema.get("maximum", value)) == is_taken, value
