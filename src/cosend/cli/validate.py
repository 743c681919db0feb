"""`cosend validate`: whether a network file can be played and served, with every file that it names."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cosend.cli.shared import (
    NETWORK,
    SERVICE,
    LabelColumn,
    ScoreColumns,
    SiteColumn,
    StreamFile,
    lacking,
    printable,
    say_errors,
)

if TYPE_CHECKING:
    from cosend.config.network_file import NetworkFile
    from cosend.config.sections import ModelSection, SiteSection
    from cosend.models.adapters import Classifier


def validate(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The network file to check.")],
    stream: StreamFile = None,
    label: LabelColumn = None,
    score: ScoreColumns = None,
    site_column: SiteColumn = None,
) -> None:
    """Check a network file and report every mistake with its key.

    Models are loaded, and models that train on the stream are trained. A stream that has to be downloaded is not read.
    Nothing is simulated, and no endpoint is called.
    """
    from cosend.config.network_file import load, with_stream
    from cosend.text import counted

    with say_errors():
        loaded, folder = load(file)
        network = with_stream(loaded, stream, label, site_column, score or ())
        models, items = make_all(network, folder, str(file))
    of_sites = sum(len(site.classifiers) for site in network.sites)
    has = f"{counted(len(network.sites), 'site')}, {counted(of_sites, 'classifier')}, {items}"
    lines = [f"{printable(file)}: OK. {has}."]
    lines += [f"  {described(site, models)}" for site in network.sites]
    typer.echo("\n".join([*lines, *(f"  {line}" for line in commands(network))]))


def make_all(network: NetworkFile, folder: Path, source: str) -> tuple[dict[str, Classifier], str]:
    """Make all that a command would make before it starts; return the models, and how many items there are."""
    from cosend.config.build import Built, read_stream
    from cosend.config.network_file import NO_STREAM
    from cosend.errors import NetworkFileError
    from cosend.run.prepare import prepare
    from cosend.text import counted

    if network.stream is not None and any(each.is_endpoint for _, _, each in network.classifiers()):
        table = read_stream(network, folder)  # no endpoint is called: that may cost money
        return Built(network, folder, table).classifiers(), counted(len(table) - network.training, "item")
    if network.stream is not None:
        prepared = prepare(network, folder)
        return prepared.built.classifiers(), counted(len(prepared.items), "item")
    why = network.serving_mistakes()
    if why:
        raise NetworkFileError(source, [*why, f"stream: {NO_STREAM}"])
    return Built(network, folder).classifiers(), "no stream"


def described(site: SiteSection, models: dict[str, Classifier]) -> str:
    where = "" if site.port is None else f", port {site.port}"
    each = [f"{setting.name} ({_kind(setting, models[setting.name])})" for setting in site.classifiers]
    return f"{site.name}{where}: {', '.join(each)}"


def _kind(setting: ModelSection, model: Classifier) -> str:
    from cosend.errors import shown
    from cosend.models.adapters import RiverModel, SeesAllBut, SeesOnly, SklearnModel

    while isinstance(model, SeesOnly | SeesAllBut):
        model = model.classifier
    if setting.kind in ("always", "trained"):
        return f"always {shown(setting.label)}" if setting.kind == "always" else setting.model
    if setting.kind == "learnt":
        return f"{setting.model}, learnt from the labels of the site"
    if setting.column is not None:
        what = "scores in column" if setting.kind == "score" else "column"
        return f"{what} {shown(setting.column)} of the stream"
    inner = type(model.model).__name__ if isinstance(model, SklearnModel | RiverModel) else type(model).__name__
    return f"{inner} from {setting.model}{', learns' if model.learns else ''}"


def commands(network: NetworkFile) -> Iterator[str]:
    """Yield what can be done with a good file, and what cannot, and why."""
    yield "cosend run: ready" if network.stream is not None else "cosend run: ready with --stream FILE --label COLUMN"
    missing = lacking([*SERVICE, *(NETWORK if network.brokers.servers else ())])
    why = [*network.serving_mistakes(), *([missing] if missing else [])]
    yield f"cosend serve: {'ready' if not why else 'no, ' + '; '.join(why)}"
