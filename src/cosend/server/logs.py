"""Logs as lines of JSON for log collectors, or as text for people."""

from __future__ import annotations

import json
import logging
import sys
import time
import warnings
from typing import Any, Final, Literal

from cosend.errors import cut

MAX_LINES: Final = 10  # from one place in the code,
WITHIN_S: Final = 60.0  # in this time
MAX_MESSAGE: Final = 2_000  # characters of a line that others can cause
PLAIN: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "color_message", "taskName"}


class Lines(logging.Formatter):
    """A record as one line of JSON: what happened, and its facts."""

    def __init__(self, site: str) -> None:
        super().__init__()
        self.site = site

    def format(self, record: logging.LogRecord) -> str:
        facts: dict[str, Any] = {
            "at": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03}Z",
            "level": record.levelname.lower(),
            "site": self.site,
            "event": record.getMessage(),
            **{key: value for key, value in vars(record).items() if key not in PLAIN},
        }
        if record.exc_info:
            facts["trace"] = self.formatException(record.exc_info)
        return json.dumps(facts, default=str)


class Text(logging.Formatter):
    """A record as people read it."""

    def format(self, record: logging.LogRecord) -> str:
        facts = " ".join(f"{key}={_in_line(value)}" for key, value in vars(record).items() if key not in PLAIN)
        line = f"{time.strftime('%H:%M:%S')} {record.levelname.lower():7} {record.getMessage()} {facts}".rstrip()
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


class Limited(logging.Filter):
    """Limits the lines that anybody can cause who reaches the site, even without a token.

    These are the lines of HTTP libraries, and of requests that failed. The site's own lines are never skipped.
    """

    def __init__(self) -> None:
        super().__init__()
        self._seen: dict[tuple[str, int], tuple[float, int]] = {}  # by place: since when, and how many

    def filter(self, record: logging.LogRecord) -> bool:
        """Tell whether a line is written; the last one before a gap announces it, the next one counts the gap."""
        if record.name == "py.warnings" or (record.name.startswith("cosend.") and record.name != "cosend.server"):
            return True
        record.msg, record.args = cut(record.getMessage(), MAX_MESSAGE), ()
        place, now = (record.pathname, record.lineno), time.monotonic()
        since, count = self._seen.get(place, (now, 0))
        if now - since >= WITHIN_S:
            if count > MAX_LINES:
                record.left_out = count - MAX_LINES
            since, count = now, 0
        self._seen[place] = since, count + 1
        if count + 1 == MAX_LINES:
            record.more = f"such lines are suppressed for {WITHIN_S:g} s"
        return count < MAX_LINES


def _without_source(message: Warning | str, category: type[Warning], *_: Any) -> str:
    """Return a warning as a line; its place in the code says nothing to readers of logs."""
    return f"{category.__name__}: {message}"


def _in_line(value: Any) -> str:
    """Return a fact as part of a line; some come from peers, which must not be able to write whole lines."""
    text = str(value)
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


def set_up_logs(site: str, form: Literal["json", "text"]) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(Lines(site) if form == "json" else Text())
    handler.addFilter(Limited())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.INFO)
    logging.captureWarnings(True)
    warnings.formatwarning = _without_source  # type: ignore[assignment]  # it is called by place
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access"):
        logging.getLogger(name).handlers.clear()
        logging.getLogger(name).propagate = True
    logging.getLogger("uvicorn.access").disabled = True  # metrics count requests; a line for each would cost more
    logging.getLogger("uvicorn.error").setLevel(logging.WARNING)
    logging.getLogger("httpx").setLevel(logging.WARNING)  # which would write a line for each call of an endpoint
    is_noise = "eof_received"  # of nats-py
    logging.getLogger("asyncio").addFilter(lambda record: is_noise not in record.getMessage())
