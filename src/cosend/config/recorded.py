"""A network file with the recorded stream that a command names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import ValidationError

from cosend.config.parts import mistake_of
from cosend.config.scenario import Scenario
from cosend.config.streams import Stream
from cosend.core.checks import check_path
from cosend.errors import ScenarioError, SettingError


def with_stream(scenario: Scenario, file: Path | None, label: str | None, site_column: str | None) -> Scenario:
    """Return the scenario with the stream that was named, or with other columns of its own.

    All rows of a file that is named arrive, but for those that train models. What the file of the network says of
    columns stays.
    """
    if file is None and label is None and site_column is None:
        return scenario
    before = scenario.stream
    if file is None and (before is None or before.kind != "file"):
        option, given = ("--label", label) if label is not None else ("--site-column", site_column)
        raise SettingError(option, given, "given with --stream FILE: the network file has no stream of kind 'file'")
    options: dict[str, Any] = _kept(scenario, before)
    if file is not None:
        check_path("--stream", file)
        options |= {"path": file.absolute(), "items": None, "start": 0}
    options |= {key: given for key, given in (("label", label), ("site", site_column)) if given is not None}
    if "label" not in options:
        raise SettingError("--label", None, "given with --stream FILE: the column with the true labels")
    try:
        stream = Stream.model_validate(options)
    except ValidationError as error:
        raise ScenarioError("the stream", [mistake_of(each, Stream) for each in error.errors()]) from error
    scenario = scenario.model_copy(update={"stream": stream})
    mistakes = scenario.mistakes()
    if mistakes:
        raise ScenarioError("the network file", mistakes)
    return scenario


def _kept(scenario: Scenario, before: Stream | None) -> dict[str, Any]:
    """Return what stays of the stream of the file; without one, the rows that train models are the first ones."""
    if before is None:
        last = max((each.train[1] for _, _, each in scenario.classifiers() if each.train is not None), default=0)
        return {"kind": "file", "training": last}
    if before.kind == "file":
        return before.model_dump(exclude_none=True)
    return {"kind": "file", "training": before.training, "arrivals": before.arrivals}
