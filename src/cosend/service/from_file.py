"""A site of a network file, ready to run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from cosend.config.build import Built, needed_stream
from cosend.config.network import NetworkSetting
from cosend.config.scenario import Scenario, load
from cosend.config.sites import SiteSetting
from cosend.errors import ScenarioError, SettingError
from cosend.links.link import Link
from cosend.node.setup import DAY_S, Setup


@dataclass(frozen=True)
class Found:
    """A site of a network file."""

    setup: Setup
    setting: SiteSetting
    link: Link | None  # to its peers, if it is known how to reach any
    others: list[str]  # the other sites of the file


def read_site(file: Path, name: str | None, keep_days: float, servers: list[str] | None = None) -> Found:
    """Return a site of a network file, its models loaded or trained; a file with one site needs no name.

    servers  brokers to use in the place of those that the file names
    """
    scenario, folder = load(file)
    setting = _site(scenario, name)
    mistakes = scenario.serving_mistakes(setting.name)
    if mistakes:
        raise ScenarioError(str(file), mistakes)
    network = scenario.network or NetworkSetting()
    link = _link(scenario, setting.name, folder, servers) if servers or network.servers else None
    built = Built(scenario, folder, needed_stream(scenario, folder, setting.name))
    peers = built.peers(setting.name)
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
        limits_s=built.limits(setting.name),
        threads=built.threads(setting.name),
        keep_s=keep_days * DAY_S,
        peers=peers if link is not None else {},
        discover=network.discover,
        call_cost=scenario.call_costs()[setting.name],
        deadline_s=network.deadline_s,
    )
    return Found(setup, setting, link, list(peers))


def _link(scenario: Scenario, site: str, folder: Path, servers: list[str] | None) -> Link:
    """Return the link of a site to its peers, which starts with the site."""
    from cosend.links.nats import NatsLink
    from cosend.links.serving import Limits

    network = scenario.network or NetworkSetting()
    callers = None if network.discover else frozenset(each.name for each in scenario.sites if each.name != site)
    limits = Limits(callers=callers, per_second=network.calls_per_second)
    return NatsLink(site, network.options(site, folder, servers), limits)


def _site(scenario: Scenario, name: str | None) -> SiteSetting:
    names = [site.name for site in scenario.sites]
    if name is None and len(names) > 1:
        raise SettingError("--site", name, f"one of {', '.join(names)}")
    for site in scenario.sites:
        if name in (None, site.name):
            return site
    raise SettingError("--site", name, f"one of {', '.join(names)}")
