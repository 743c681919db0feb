"""A site of a network file, ready to run; and what its workers run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from uuid import uuid4

from cosend.config.build import Built, needed_stream
from cosend.config.network import NetworkSetting
from cosend.config.parts import LONGEST_CALL_S
from cosend.config.scenario import Scenario, load
from cosend.config.sites import SiteSetting
from cosend.errors import ScenarioError, SettingError
from cosend.links.link import Link
from cosend.node.elsewhere import worker_name
from cosend.node.setup import DAY_S, Setup
from cosend.node.workers import Worker


@dataclass(frozen=True)
class Found:
    """A site of a network file."""

    setup: Setup
    setting: SiteSetting
    link: Link | None  # to its peers, if it is known how to reach any
    workers: Link | None  # to its workers, if it has any
    others: list[str]  # the other sites of the file


def read_site(file: Path, name: str | None, keep_days: float, servers: list[str] | None = None) -> Found:
    """Return a site of a network file, its models loaded or trained; a file with one site needs no name.

    servers  brokers to use in the place of those that the file names
    """
    scenario, folder, setting = _read(file, name)
    network = scenario.network or NetworkSetting()
    has_workers = any(each.workers for each in setting.classifiers)
    if has_workers:
        _check_servers(file, scenario, servers)
    link = _link(scenario, setting.name, folder, servers) if servers or network.servers else None
    built = Built(scenario, folder, needed_stream(scenario, folder, setting.name))
    peers = built.peers(setting.name)
    setup = Setup(
        name=setting.name,
        classifiers=built.classifiers_here(setting.name),
        axes=built.axes,
        policy=built.policy,
        costs=built.costs(setting.name),
        hashes=built.hashes(setting.name),
        patience=built.patience,
        seed=scenario.seed,
        retries=scenario.retries,
        strict_labels=scenario.strict_labels,
        learns_from=setting.learns_from,
        score_local=setting.score_local,
        limits_s=built.limits(setting.name),
        threads=built.threads(setting.name),
        keep_s=keep_days * DAY_S,
        peers=peers if link is not None else {},
        discover=network.discover,
        call_cost=scenario.call_costs()[setting.name],
        deadline_s=network.deadline_s,
    )
    workers = _workers_link(scenario, setting.name, setting.name, folder, servers) if has_workers else None
    return Found(setup, setting, link, workers, list(peers))


@dataclass(frozen=True)
class Lent:
    """Models of a site for a worker to run."""

    site: str
    workers: dict[str, Worker]  # by the name under which the site finds each
    links: dict[str, Link]


def read_worker(file: Path, name: str | None, classifiers: Sequence[str], servers: list[str] | None = None) -> Lent:
    """Return the models of a site that workers run, or some of them, loaded or trained."""
    scenario, folder, setting = _read(file, name)
    _check_servers(file, scenario, servers)
    site, number = setting.name, uuid4().hex[:12]
    built = Built(scenario, folder, needed_stream(scenario, folder, site))
    models = built.classifiers_for_workers(site, classifiers)
    limits, threads = built.limits(site), built.threads(site)
    workers = {
        worker_name(site, each, number): Worker(each, model, limits[each], threads[each])
        for each, model in models.items()
    }
    return Lent(site, workers, {each: _workers_link(scenario, site, each, folder, servers) for each in workers})


def _read(file: Path, name: str | None) -> tuple[Scenario, Path, SiteSetting]:
    scenario, folder = load(file)
    setting = _site(scenario, name)
    mistakes = scenario.serving_mistakes(setting.name)
    if mistakes:
        raise ScenarioError(str(file), mistakes)
    return scenario, folder, setting


def _check_servers(file: Path, scenario: Scenario, servers: list[str] | None) -> None:
    if not servers and (scenario.network is None or scenario.network.servers is None):
        raise ScenarioError(str(file), ["network.servers: workers are reached over NATS; name a server, or use --nats"])


def _workers_link(scenario: Scenario, site: str, name: str, folder: Path, servers: list[str] | None) -> Link:
    """Return a link between a site and its workers, of the site itself or of a worker."""
    from cosend.links.nats import NatsLink
    from cosend.links.serving import Limits

    network = scenario.network or NetworkSetting()
    options = replace(network.options(site, folder, servers), workers_of=site)
    return NatsLink(name, options, Limits(callers=frozenset([site]), per_second=1e6, answer_s=LONGEST_CALL_S))


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
