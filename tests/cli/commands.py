"""Commands, run in this process: what they say and write is the same as in one of their own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from typer.testing import CliRunner, Result

from cosend.cli.main import app


def called(*arguments: str | Path, columns: int = 300) -> Result:
    return CliRunner(env={"COLUMNS": str(columns)}).invoke(app, [*map(str, arguments)])


def refused(*arguments: str | Path) -> str:
    """Return what a command says when it refuses."""
    result = called(*arguments)
    assert isinstance(result.exception, SystemExit), repr(result.exception)
    assert (result.exit_code, result.stdout) == (2, ""), result.output
    assert "Traceback" not in result.stderr
    return result.stderr


def result_of(*arguments: str | Path) -> dict[str, Any]:
    """Return what `run --json` prints."""
    result = called("run", *arguments, "--json")
    assert result.exit_code == 0, result.output
    found: dict[str, Any] = json.loads(result.stdout)
    return found
