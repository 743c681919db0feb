"""A site of a network file, ready to run."""

from __future__ import annotations

from pathlib import Path

from cosend.config.build import Built, needed_stream
from cosend.config.scenario import Scenario, load
from cosend.config.sites import SiteSetting
from cosend.errors import ScenarioError, SettingError
from cosend.node.setup import DAY_S, Setup


def read_site(file: Path, name: str | None, keep_days: float) -> tuple[Setup, SiteSetting]:
    """Return a site of a network file, its models loaded or trained; a file with one site needs no name."""
    scenario, folder = load(file)
    setting = _site(scenario, name)
    mistakes = scenario.serving_mistakes(setting.name)
    if mistakes:
        raise ScenarioError(str(file), mistakes)
    built = Built(scenario, folder, needed_stream(scenario, folder, setting.name))
    setup = Setup(
        name=setting.name,
        classifiers=built.classifiers(setting.name),
        axes=built.axes,
        policy=built.policy,
        costs=built.costs(setting.name),
        patience=built.patience,
        seed=scenario.seed,
        retries=scenario.retries,
        strict_labels=scenario.strict_labels,
        learns_from=setting.learns_from,
        score_local=setting.score_local,
        limits_s=built.limits(setting.name),
        threads=built.threads(setting.name),
        keep_s=keep_days * DAY_S,
    )
    return setup, setting


def _site(scenario: Scenario, name: str | None) -> SiteSetting:
    names = [site.name for site in scenario.sites]
    if name is None and len(names) > 1:
        raise SettingError("--site", name, f"one of {', '.join(names)}")
    for site in scenario.sites:
        if name in (None, site.name):
            return site
    raise SettingError("--site", name, f"one of {', '.join(names)}")
