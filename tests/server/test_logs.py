"""Logs: a record is one line of JSON with all its facts, whatever is in it."""

from __future__ import annotations

import json
import logging
import socket
import time
import warnings
from pathlib import Path
from typing import Any

import pytest

from cosend.errors import LabelWarning
from cosend.server.logs import Limited, Lines, Text, set_up_logs
from tests.cli.serving import write_network
from tests.tools.processes import Services


def record(message: str, *values: Any, error: BaseException | None = None, **facts: Any) -> logging.LogRecord:
    trace = None if error is None else (type(error), error, error.__traceback__)
    made = logging.LogRecord("cosend.runtime", logging.WARNING, "file.py", 7, message, values, trace)
    vars(made).update(facts)
    return made


def test_a_record_is_one_line_of_json_with_its_facts() -> None:
    line = Lines("north").format(record("arm %s failed", "old", arm="old", count=3, reason="a\nb \ud800"))
    assert "\n" not in line
    line.encode()
    found = json.loads(line)
    assert found.pop("at").endswith("Z")
    told = {"event": "arm old failed", "level": "warning", "site": "north"}
    assert found == {**told, "arm": "old", "count": 3, "reason": "a\nb \ud800"}
    found = json.loads(Lines("north").format(record("no", fact={1, 2}, error=ValueError("why"))))
    assert found["fact"] == "{1, 2}"
    assert "ValueError: why" in found["trace"]


def test_people_get_text_and_what_peers_say_is_no_line_of_its_own() -> None:
    assert Text().format(record("arm failed", arm="old")).endswith("warning arm failed arm=old")
    assert "ValueError: why" in Text().format(record("no", error=ValueError("why")))
    line = Text().format(record("arm failed", reason="no\n12:00:00 error   all is lost\x1b[2J\ud800 für immer"))
    assert line.endswith(r"reason=no\n12:00:00 error   all is lost\x1b[2J\ud800 für immer")
    line.encode()


@pytest.mark.parametrize("form", ["json", "text"])
def test_all_logs_go_to_standard_error(
    form: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    root = logging.getLogger()
    monkeypatch.setattr(warnings, "formatwarning", warnings.formatwarning)  # put back afterwards
    before, level = root.handlers[:], root.level
    try:
        set_up_logs("north", form)
        logging.getLogger("cosend.runtime").warning("arm failed", extra={"arm": "old"})
        logging.getLogger("uvicorn.error").warning("hm")
        logging.getLogger("uvicorn.access").info("GET /")
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            logging.captureWarnings(False)
            logging.captureWarnings(True)
            warnings.warn("that is odd", LabelWarning, stacklevel=1)
        root.handlers[0].flush()
    finally:
        root.handlers[:], root.level = before, level
        logging.captureWarnings(False)
        logging.getLogger("uvicorn.access").disabled = False
    told = capsys.readouterr()
    assert told.out == ""
    assert "GET" not in told.err
    assert len(told.err.splitlines()) == 3
    assert "LabelWarning: that is odd" in told.err


def test_a_client_without_a_token_writes_few_lines_into_the_log(tmp_path: Path, services: Services) -> None:
    write_network(tmp_path)
    (tmp_path / "tokens").write_text("admin-0123456789 admin")
    with services.running(tmp_path, "north", options=("--tokens", "tokens", "--log", "json")) as (site,):
        for n in range(40):
            for wish in (
                b"nonsense\r\n\r\n",
                b"GET /v1/summary HTTP/1.1\r\nHost: x\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\n",
                b"GET /dashboard/%d%b HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n" % (n, b"x" * 5_000),
            ):
                with socket.create_connection(("127.0.0.1", site.port), timeout=60) as client:
                    client.sendall(wish)
                    assert client.recv(100).startswith(b"HTTP/1.1 4")
    lines = (tmp_path / "north.log").read_text().splitlines()
    assert 20 <= len(lines) < 60
    assert sum("such lines are suppressed" in line for line in lines) >= 2
    assert max(map(len, lines)) < 4_000


def test_what_was_left_out_is_counted_and_the_site_s_own_lines_never_are(monkeypatch: pytest.MonkeyPatch) -> None:
    limited, now = Limited(), 0.0
    monkeypatch.setattr(time, "monotonic", lambda: now)

    def others() -> logging.LogRecord:
        return logging.LogRecord("uvicorn.error", logging.WARNING, "impl.py", 7, "no %s", ("HTTP",), None)

    assert [limited.filter(others()) for _ in range(25)] == [True] * 10 + [False] * 15
    assert all(limited.filter(record("arm failed")) for _ in range(25))
    now = 61.0
    later = others()
    assert limited.filter(later)
    assert Text().format(later).endswith("no HTTP left_out=15")


def test_a_typo_in_what_is_withheld_is_a_line_of_the_log(tmp_path: Path, services: Services) -> None:
    write_network(tmp_path)
    file = tmp_path / "network.toml"
    file.write_text(file.read_text().replace('name = "north"\n', 'name = "north"\nwithholds = ["nmae"]\n'))
    with services.running(tmp_path, "north", options=("--log", "json")) as (site,):
        for age in (5, 50):
            site.ask("/v1/classify", {"items": [{"features": {"age": age, "name": "Ada"}}]})
    lines = (tmp_path / "north.log").read_text().splitlines()
    records = [json.loads(line) for line in lines if line.startswith("{")]
    (said,) = [each for each in records if "nmae" in each["event"]]
    assert said["level"] == "warning"
    assert "site 'north' withholds 'nmae', and an item has no such feature: it has 'age', 'name'" in said["event"]
    assert "Ada" not in said["event"]
