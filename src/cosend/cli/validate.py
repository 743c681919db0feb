"""`cosend validate`: whether a network file can be played and served, with every file that it names."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from cosend.classifiers.adapters import Classifier, RiverModel, SeesAllBut, SeesOnly, SklearnModel
from cosend.cli.errors import say_errors
from cosend.cli.extras import NETWORK, SERVICE, lacking
from cosend.cli.run import LabelColumn, SiteColumn, StreamFile
from cosend.cli.show import printable
from cosend.config.build import Built
from cosend.config.recorded import with_stream
from cosend.config.scenario import NO_STREAM, Scenario, load
from cosend.config.sites import ClassifierSetting, SiteSetting
from cosend.errors import ScenarioError, shown
from cosend.experiments.scenario.world import build
from cosend.reports.text import counted


class Found(NamedTuple):
    """What a file holds."""

    scenario: Scenario
    models: dict[str, Classifier]  # by name, as far as they could be made
    stream: str


def validate(
    scenario: Annotated[Path, typer.Argument(help="The network file to check.")],
    stream: StreamFile = None,
    label: LabelColumn = None,
    site_column: SiteColumn = None,
) -> None:
    """Check a network file and name every mistake with its key.

    Every file that it names is opened: models are loaded, the stream is read and models are trained on it, unless it
    would have to be downloaded. Nothing is played.
    """
    with say_errors():
        checked, folder = load(scenario)
        found = looked_at(with_stream(checked, stream, label, site_column), folder, str(scenario))
    sites = found.scenario.sites
    functions = sum(len(site.classifiers) for site in sites)
    has = f"{counted(len(sites), 'site')}, {counted(functions, 'classifier')}, {found.stream}"
    lines = [f"{printable(scenario)}: good. {has}."]
    lines += [f"  {described(site, found.models)}" for site in sites]
    typer.echo("\n".join([*lines, *(f"  {line}" for line in commands(found.scenario))]))


def looked_at(scenario: Scenario, folder: Path, source: str) -> Found:
    """Make all that a command would make before it starts, or raise with what it would say."""
    if scenario.stream is not None:
        world = build(scenario, folder)
        return Found(scenario, world.built.made(), counted(len(world.items), "item"))
    why = scenario.serving_mistakes()
    if why:
        raise ScenarioError(source, [*why, f"stream: {NO_STREAM}"])
    built = Built(scenario, folder)
    built.all_classifiers()
    return Found(scenario, built.made(), "no stream")


def described(site: SiteSetting, models: dict[str, Classifier]) -> str:
    """Return a site and its classifiers in a line."""
    where = "" if site.port is None else f", port {site.port}"
    each = [f"{setting.name} ({_kind(setting, models.get(setting.name))})" for setting in site.classifiers]
    return f"{site.name}{where}: {', '.join(each)}"


def _kind(setting: ClassifierSetting, model: Classifier | None) -> str:
    while isinstance(model, SeesOnly | SeesAllBut):
        model = model.classifier
    if setting.kind == "zoo":
        return f"always {shown(setting.label)}" if setting.model == "always" else setting.model
    if setting.kind == "vote":
        return f"vote of {', '.join(setting.over or ['all that cost nothing'])}"
    if setting.column is not None:
        return f"column {shown(setting.column)} of the stream"
    inner = type(model.model).__name__ if isinstance(model, SklearnModel | RiverModel) else type(model).__name__
    learns = ", learns" if model is not None and model.learns else ""
    return f"{inner} from {setting.model}{learns}"


def commands(scenario: Scenario) -> Iterator[str]:
    """Yield what can be done with a good file, and what cannot, and why."""
    yield "cosend run: ready" if scenario.stream is not None else "cosend run: ready with --stream FILE --label COLUMN"
    links = NETWORK if scenario.network is not None and scenario.network.servers else ()
    missing = lacking([*SERVICE, *links])
    why = [*scenario.serving_mistakes(), *([missing] if missing else [])]
    yield f"cosend serve: {'ready' if not why else 'no, ' + '; '.join(why)}"
