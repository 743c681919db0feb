"""Where the brokers are and how a site proves who it is; subjects; the options of nats-py for both."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, unquote

from cosend.checks import check_number, check_text
from cosend.errors import CosendError, LinkError, SettingError, in_one_line, install

PENDING_BYTES: Final = 16 * 2**20  # that wait to be written to the broker


@dataclass(frozen=True, slots=True)
class NatsOptions:
    """How a site reaches its brokers.

    servers             URLs of brokers; whichever can be reached is used
    network             the first word of all subjects, and the name of the service: networks do not hear each other
    workers_of          for a link between a site and its workers: the site, under whose own subjects these are
    user, password      who this is, where the broker asks for it
    nkey_file           a file with the seed of an nkey, in their place
    credentials_file    a file with a JWT and its seed, in their place
    tls                 True for the usual authorities; it is used where the broker asks for it too
    tls_ca              a file with the authorities to trust, in their place
    tls_certificate, tls_key  files with a certificate of this site, and its key
    connect_s           how long one try to connect may take
    again_s             how long to wait between two tries
    ping_s              how often a silent broker is pinged; after two pings without an answer it is gone
    discover_s          how often peers are looked for; one that is missed three times is gone
    """

    servers: tuple[str, ...] = ("nats://127.0.0.1:4222",)
    network: str = "cosend"
    workers_of: str | None = None
    user: str | None = None
    password: str | None = None
    nkey_file: Path | None = None
    credentials_file: Path | None = None
    tls: bool = False
    tls_ca: Path | None = None
    tls_certificate: Path | None = None
    tls_key: Path | None = None
    connect_s: float = 2.0
    again_s: float = 0.25
    ping_s: float = 2.0
    discover_s: float = 2.0

    def __post_init__(self) -> None:
        check_text("network", self.network)
        if not self.network.replace("-", "_").isidentifier() or not self.network.isascii():
            raise SettingError("network", self.network, "letters, digits, - and _, a letter first")
        if not self.servers:
            raise SettingError("servers", self.servers, "at least one URL")
        for name in ("connect_s", "again_s", "ping_s", "discover_s"):
            check_number(name, getattr(self, name), 3_600.0)

    @property
    def service(self) -> str:
        """The name of the service."""
        return self.network if self.workers_of is None else f"{self.network}-workers"

    @property
    def addresses(self) -> str:
        """Where the brokers are, for a log: a URL may hold a password, which is removed."""
        return ", ".join(url.rpartition("@")[2].rpartition("//")[2] for url in self.servers)

    @property
    def subjects(self) -> str:
        """The first word of all subjects."""
        return self.network if self.workers_of is None else f"{self.network}.{token(self.workers_of)}.workers"

    def inbox(self, site: str) -> str:
        """Return where answers to a site arrive."""
        return f"_INBOX.{token(site if self.workers_of is None else self.workers_of)}"

    def connect_options(self, name: str) -> dict[str, Any]:
        """Return what nats-py takes to connect."""
        options: dict[str, Any] = {
            "servers": list(self.servers),
            "name": name,
            "connect_timeout": self.connect_s,
            "reconnect_time_wait": self.again_s,
            "max_reconnect_attempts": -1,  # for ever
            "ping_interval": self.ping_s,
            "max_outstanding_pings": 2,
            "pending_size": PENDING_BYTES,
            "flush_timeout": self.connect_s,
        }
        given = {"user": self.user, "password": self.password, "tls": self._tls_context()}
        given |= {"nkeys_seed": _file(self.nkey_file), "user_credentials": _file(self.credentials_file)}
        return options | {key: value for key, value in given.items() if value is not None}

    def _tls_context(self) -> ssl.SSLContext | None:
        if not (self.tls or self.tls_ca or self.tls_certificate):
            return None
        try:
            context = ssl.create_default_context(cafile=self.tls_ca)
            if self.tls_certificate is not None:
                context.load_cert_chain(self.tls_certificate, self.tls_key)
        except (OSError, ValueError) as error:
            raise LinkError("connection", self.servers[0], "unfit", f"TLS: {in_one_line(error)}") from error
        return context


def _file(path: Path | None) -> str | None:
    if path is None:
        return None
    if find_spec("nkeys") is None:
        raise CosendError(f"nkeys and credentials files need nkeys: {install('network')}")
    if not path.is_file():
        raise LinkError("connection", str(path), "unfit", "there is no such file")
    return str(path)


@lru_cache(maxsize=4_096)
def token(name: str) -> str:
    """Return a name as one part of a subject: what subjects give a meaning to is written as %2E and the like."""
    return quote(name, safe="").replace(".", "%2E")


@lru_cache(maxsize=4_096)
def name_of(token: str) -> str:
    """Return the name that is a part of a subject."""
    return unquote(token)
