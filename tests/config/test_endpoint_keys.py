"""Endpoints in a network file: their keys, every mistake with its key, and what the commands do with them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cosend.server.from_file import read_site
from tests.cli.commands import called
from tests.tools.endpoints import Server, endpoints, young

TOKEN = "a-token-that-is-nowhere"  # noqa: S105 - of a server of the tests
TWO = """
[[sites]]
name = "clinic"
[[sites.classifiers]]
name = "far"
model = "oip:https://host/x/v2/models/m"
features = ["age"]
token_env = "FAR_TOKEN"
[[sites.classifiers]]
name = "words"
model = "openai:https://host/v1#gpt-x"
labels = ["ill", "well"]
token_env = "FAR_TOKEN"
"""


def validated(folder: Path, text: str) -> Any:
    file = folder / "network.toml"
    file.write_text(text)
    return called("validate", file)


def test_a_variable_that_is_missing_is_named_with_its_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FAR_TOKEN", raising=False)
    said = validated(tmp_path, TWO)
    assert said.exit_code == 2
    sentence = "the environment variable FAR_TOKEN is not set"
    for n in (1, 2):
        assert f"sites.1.classifiers.{n}.token_env: {sentence}" in said.stderr
    assert sentence in called("serve", tmp_path / "network.toml").stderr
    monkeypatch.setenv("FAR_TOKEN", TOKEN)
    good = validated(tmp_path, TWO)
    assert good.exit_code == 0, good.stderr
    assert "far (Endpoint from oip:https://host/x/v2/models/m)" in good.stdout
    assert TOKEN not in good.stdout


WRONG = {
    'model = "oip:https://me:hidden@host/v2"': "classifiers.1.model: user and password do not belong in an address",
    'model = "http:https://host/?token=hidden"': "classifiers.1.model: a secret does not belong in an address",
    'model = "openai:https://host/v1"': "name the model behind #",
    'model = "oip:https://host/v2"': "needs features, in the order of its tensor, or input = '*'",
    'model = "openai:https://host/v1#m"\nprice_in = 1.0': "a model with a price needs the cost to expect",
    'model = "openai:https://host/v1#m"\nbatch = 3': "batch is for endpoints of kind 'oip' or",
    'model = "mlflow:https://host/x"\ntemplate = "x"': "template is for endpoints of kind 'openai'",
    'model = "always"\nlabel = 1\ntoken_env = "X"': "token_env is for endpoints of kind 'oip'",
    'model = "http:https://host/x"\nworkers = true': "workers is for",
    'model = "http:https://host/x"\nthreads = 2': "threads is for",
    'model = "http:https://host/x"\nreply = "label"': "classifiers.1.reply: reply must be a JSON pointer",
    'model = "http:https://host/x"\nin_flight = 0': "in_flight: must be greater than or equal to 1",
    'model = "http:https://host/x"\ntls_ca = "none.pem"': "tls_ca: tls_ca must be a file with certificates",
    'model = "return:"': "name the choice: return:NAME",
}


@pytest.mark.parametrize("lines", WRONG)
def test_a_mistake_about_an_endpoint_is_named_with_its_key(lines: str, tmp_path: Path) -> None:
    said = validated(tmp_path, f'[[sites]]\nname = "north"\n[[sites.classifiers]]\nname = "far"\n{lines}\n')
    assert said.exit_code == 2
    assert WRONG[lines] in said.stderr
    assert "hidden" not in said.stderr


def setting(folder: Path, *lines: str, top: str = "") -> Any:
    """Return the only arm of a file."""
    arm = "\n".join(lines)
    (folder / "network.toml").write_text(
        f'{top}[[sites]]\nname = "north"\n[[sites.classifiers]]\nname = "far"\n{arm}\n'
    )
    return read_site(folder / "network.toml", None, 1.0)


def test_three_lines_are_an_arm(tmp_path: Path) -> None:
    found = setting(tmp_path, 'model = "openai:https://host/v1#m"', top='labels = ["ill", "well"]\n').setup
    assert found.classifiers["far"].all_labels == ["ill", "well"]
    assert found.limits_s == {"far": 30.0}
    found = setting(tmp_path, 'model = "mlflow:https://host/x"').setup
    assert found.limits_s == {"far": 1.0}
    before = found.hashes
    assert setting(tmp_path, 'model = "mlflow:https://host/x"').setup.hashes == before
    assert setting(tmp_path, 'model = "mlflow:https://host/x"', 'reply = "/0"').setup.hashes != before


def test_a_run_asks_an_endpoint_once_about_each_row_and_validate_asks_nothing(tmp_path: Path) -> None:
    rows = "age,state\n" + "".join(f"{age},{young([age])}\n" for age in range(0, 100, 2))
    (tmp_path / "visits.csv").write_text(rows)
    with endpoints() as server:
        (tmp_path / "network.toml").write_text(file_of(server))
        stream = ("--stream", tmp_path / "visits.csv", "--label", "state")
        assert called("validate", tmp_path / "network.toml", *stream).exit_code == 0
        assert not server.counts
        played = called("run", tmp_path / "network.toml", *stream, "--json")
        assert played.exit_code == 0, played.output
        assert server.counts == {"right": 50}
        notes = json.loads(played.stdout)["notes"]
        assert "'far' says what its answers cost; a run counts the cost that its file names" in notes


def file_of(server: Server) -> str:
    return f"""
    [[context]]
    feature = "age"
    range = [0, 100]
    [[sites]]
    name = "north"
    [[sites.classifiers]]
    name = "far"
    model = "http:{server.url}/right/x"
    reply = {{label = "/result/0/label", cost = "/result/0/cost"}}
    cost = 0.01
    [[sites.classifiers]]
    name = "well"
    model = "always"
    label = "well"
    """
