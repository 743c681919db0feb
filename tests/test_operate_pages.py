"""What the pages for operators say that the product prints, it prints."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from cosend.algorithm import state
from cosend.store import event_log
from cosend.transport import codec

ROOT = Path(__file__).parents[1]
OPERATE = ROOT / "docs" / "operate"
SOURCE = "\n".join(path.read_text() for path in (ROOT / "src").rglob("*.py"))
PUT_IN = r"\.\.\.| must be |: it is text, and | say a number|policy"  # where a sentence is put together
PRINTED_BY_OTHERS = {"Authorization Violation", "CERTIFICATE_VERIFY_FAILED", "Address already in use"}


def test_every_message_of_the_troubleshooting_page_is_one_of_the_product() -> None:
    rows = re.findall(r"^\| (.+?) \| .+ \|$", (OPERATE / "troubleshooting.md").read_text(), flags=re.MULTILINE)
    rows = [row for row in rows if row not in ("symptom", "message", "status and message")]
    assert len(rows) >= 12
    said = [message for row in rows for message in re.findall(r"`([^`]* [^`]*)`", row) if '"' not in message]
    parts = {part.strip(" ():;,") for message in said for part in re.split(PUT_IN, message)} - PRINTED_BY_OTHERS - {""}
    assert len(parts) > 15
    joined = re.sub(r'"\s*\n\s*f?"', "", SOURCE)  # a sentence over several lines
    assert [part for part in sorted(parts) if part not in joined] == []


@pytest.mark.parametrize(
    ("words", "number"),
    [
        ("the saved state has version", state.VERSION),
        ("has version {} of the log", event_log.VERSION),
        ("of the encoding", codec.VERSION),
    ],
)
def test_the_versions_that_are_refused_are_other_ones(words: str, number: int) -> None:
    text = (OPERATE / "upgrades.md").read_text()
    (line,) = [line for line in text.splitlines() if words.rpartition("{}")[2] in line and "this cosend reads" in line]
    assert line.endswith(f"; this cosend reads version {number}")


@pytest.mark.compiled
def test_the_bytes_of_a_pending_decision_are_those_that_the_page_shows(capsys: pytest.CaptureFixture[str]) -> None:
    page = (OPERATE / "sizing.md").read_text()
    code, shown = (re.findall(rf"^```{kind}\n(.*?)^```", page, flags=re.M | re.S)[0] for kind in ("python", "text"))
    exec(compile(code, "sizing.md", "exec"), {"__name__": "page"})  # noqa: S102 - our own
    assert capsys.readouterr().out == shown
