"""A site of a network file, ready to run; and what its workers run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from uuid import uuid4

from cosend.config import LONGEST_CALL_S
from cosend.config.build import Built, needed_stream
from cosend.config.network_file import NetworkFile, load
from cosend.config.sections import SiteSection
from cosend.errors import NetworkFileError, SettingError
from cosend.runtime.model_threads import Worker
from cosend.runtime.remote_workers import worker_name
from cosend.runtime.site_setup import DAY_S, Setup
from cosend.server.auth import is_loopback
from cosend.transport.link import Link


@dataclass(frozen=True)
class Found:
    """A site of a network file."""

    setup: Setup
    setting: SiteSection
    link: Link | None  # to its peers, if it is known how to reach any
    workers: Link | None  # to its workers, if it has any
    others: list[str]  # the other sites of the file
    addresses: dict[str, str]  # of those that the file puts on this machine


def read_site(file: Path, name: str | None, keep_days: float, servers: list[str] | None = None) -> Found:
    """Return a site of a network file, its models loaded or trained; a file with one site needs no name.

    servers  brokers to use in the place of those that the file names
    """
    network_file, folder, setting = _read(file, name)
    network = network_file.brokers
    has_workers = any(each.workers for each in setting.classifiers)
    if has_workers:
        _check_servers(file, network_file, servers)
    link = _link(network_file, setting.name, folder, servers) if servers or network.servers else None
    built = Built(network_file, folder, needed_stream(network_file, folder, setting.name))
    peers = built.peers(setting.name)
    budget = built.budget(setting.name)
    policy, score_local = built.policy, setting.score_local
    if budget is not None:
        policy, score_local = network_file.policy_of(setting, policy)
    setup = Setup(
        name=setting.name,
        classifiers=built.classifiers_here(setting.name),
        axes=built.axes,
        policy=policy,
        costs=built.costs(setting.name),
        reward=built.reward,
        money=network_file.money,
        budget=budget,
        hashes=built.hashes(setting.name),
        patience=network_file.patience,
        seed=network_file.seed,
        retries=network_file.retries,
        strict_labels=network_file.strict_labels,
        learns_from=setting.learns_from,
        score_local=score_local,
        learnt=setting.learnt,
        shares=setting.shares,
        withholds=setting.withholds,
        share_labels=setting.share_labels,
        limits_s={each.name: each.limit_s for each in setting.classifiers},
        threads={each.name: each.threads for each in setting.classifiers},
        keep_s=keep_days * DAY_S,
        peers=peers if link is not None else {},
        discover=network.discover,
        call_cost=network_file.call_costs()[setting.name],
        deadline_s=network.deadline_s,
    )
    workers = _link(network_file, setting.name, folder, servers, setting.name) if has_workers else None
    return Found(setup, setting, link, workers, list(peers), _addresses(network_file, setting.name))


def _addresses(network: NetworkFile, here: str) -> dict[str, str]:
    """Return where the other sites are, as far as the file says; sites on other machines would refuse our links."""
    return {
        site.name: f"http://127.0.0.1:{site.port}"
        for site in network.sites
        if site.name != here and site.port is not None and (site.host is None or is_loopback(site.host))
    }


@dataclass(frozen=True)
class Lent:
    """Models of a site for a worker to run."""

    site: str
    workers: dict[str, Worker]  # by the name under which the site finds each
    links: dict[str, Link]


def read_worker(file: Path, name: str | None, classifiers: Sequence[str], servers: list[str] | None = None) -> Lent:
    """Return the models of a site that workers run, or some of them, loaded or trained."""
    network_file, folder, setting = _read(file, name)
    _check_servers(file, network_file, servers)
    site, number = setting.name, uuid4().hex[:12]
    built = Built(network_file, folder, needed_stream(network_file, folder, site))
    models = built.classifiers_for_workers(site, classifiers)
    settings = {each.name: each for each in setting.classifiers}
    workers = {
        worker_name(site, each, number): Worker(each, model, settings[each].limit_s, settings[each].threads)
        for each, model in models.items()
    }
    return Lent(site, workers, {each: _link(network_file, each, folder, servers, site) for each in workers})


def _read(file: Path, name: str | None) -> tuple[NetworkFile, Path, SiteSection]:
    network_file, folder = load(file)
    sites = {site.name: site for site in network_file.sites}
    name = next(iter(sites)) if name is None and len(sites) == 1 else name
    if name not in sites:
        raise SettingError("--site", name, f"one of {', '.join(sites)}")
    mistakes = network_file.serving_mistakes(name)
    if mistakes:
        raise NetworkFileError(str(file), mistakes)
    return network_file, folder, sites[name]


def _check_servers(file: Path, network_file: NetworkFile, servers: list[str] | None) -> None:
    if not servers and (network_file.network is None or network_file.network.servers is None):
        raise NetworkFileError(
            str(file), ["network.servers: workers are reached over NATS; name a server, or use --nats"]
        )


def _link(network_file: NetworkFile, name: str, folder: Path, servers: list[str] | None, workers_of: str = "") -> Link:
    """Return the link of a site to its peers; or one between a site and its workers, of either."""
    from cosend.transport.answering import Limits
    from cosend.transport.nats import NatsLink

    network, site = network_file.brokers, workers_of or name
    options = network.options(site, folder, servers)
    if workers_of:
        limits = Limits(callers=frozenset([site]), per_second=1e6, answer_s=LONGEST_CALL_S)
        return NatsLink(name, replace(options, workers_of=site), limits)
    callers = None if network.discover else frozenset(each.name for each in network_file.sites if each.name != site)
    return NatsLink(name, options, Limits(callers=callers, per_second=network.calls_per_second))
