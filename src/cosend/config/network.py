"""How the sites of a network file reach each other."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import Field, field_validator, model_validator

from cosend.config.parts import Flag, Part, Seconds
from cosend.core.checks import check_path
from cosend.errors import SettingError, in_one_line, shown
from cosend.links.nats_options import NatsOptions

SITE: Final = "{site}"
FILES: Final = ("password_file", "nkey_file", "credentials_file", "tls_ca", "tls_certificate", "tls_key")
PROOFS: Final = ("password_file", "nkey_file", "credentials_file")
Rate = Annotated[float, Field(gt=0, le=1e9, strict=True)]


class NetworkSetting(Part):
    """Brokers, who a site is there, and what peers may do; {site} in texts stands for the name of the site."""

    servers: Annotated[list[str], Field(min_length=1)] | None = None
    name: str = "cosend"
    user: str | None = None
    password_file: str | None = None
    nkey_file: str | None = None
    credentials_file: str | None = None
    tls: Flag = False
    tls_ca: str | None = None
    tls_certificate: str | None = None
    tls_key: str | None = None
    discover: Flag = False
    deadline_s: Seconds = 1.0
    calls_per_second: Rate = 10_000.0

    @field_validator("servers")
    @classmethod
    def _are_addresses(cls, servers: list[str] | None) -> list[str] | None:
        for server in servers or []:
            if not server.startswith(("nats://", "tls://")) or server.endswith("//"):
                raise ValueError(f"a server is nats://HOST:PORT or tls://HOST:PORT, got {shown(server)}")
            if "@" in server:
                raise ValueError("user and password do not belong in an address: use user and password_file")
        return servers

    @field_validator("name")
    @classmethod
    def _can_be_a_subject(cls, name: str) -> str:
        NatsOptions(network=name)
        return name

    @model_validator(mode="after")
    def _is_whole(self) -> NetworkSetting:
        if (self.user is None) != (self.password_file is None):
            raise ValueError("user and password_file are given together, or not at all")
        given = [name for name in PROOFS if getattr(self, name) is not None]
        if len(given) > 1:
            raise ValueError(f"a site proves who it is in one way, not by {' and '.join(given)}")
        if (self.tls_certificate is None) != (self.tls_key is None):
            raise ValueError("tls_certificate and tls_key are given together, or not at all")
        return self

    def options(self, site: str, folder: Path, servers: list[str] | None) -> NatsOptions:
        """Return how a site reaches its brokers; paths start from the folder of the file."""
        files = {name: self._path(name, site, folder) for name in FILES}
        password = files.pop("password_file")
        given: dict[str, Any] = {**files, "network": self.name, "tls": self.tls}
        if self.user is not None and password is not None:
            given |= {"user": self.user.replace(SITE, site), "password": _password(password)}
        if servers or self.servers:
            given["servers"] = tuple(servers or self.servers or ())
        return NatsOptions(**given)

    def _path(self, name: str, site: str, folder: Path) -> Path | None:
        value: str | None = getattr(self, name)
        if value is None:
            return None
        path = folder / value.replace(SITE, site)
        check_path(f"network.{name}", path)
        if not path.is_file():
            raise SettingError(f"network.{name}", str(path), "a file that is there")
        return path


def _password(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingError("network.password_file", str(path), f"a file of text ({in_one_line(error)})") from error
