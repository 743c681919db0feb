"""KDD Cup 1999: connections of a network, each normal or one of 22 attacks, in the order of the file.

The file has no header; its columns and values are fixed here, so that a window of it means the same as the whole.
"""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from http.client import HTTPException
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any, Final, TypeVar

import numpy as np

from cosend.checks import check_one_of, check_path, check_whole
from cosend.errors import StreamError, shown
from cosend.streams.table import Column, Table

SERVICES: Final = (
    "IRC", "X11", "Z39_50", "auth", "bgp", "courier", "csnet_ns", "ctf", "daytime", "discard", "domain", "domain_u",
    "echo", "eco_i", "ecr_i", "efs", "exec", "finger", "ftp", "ftp_data", "gopher", "hostnames", "http", "http_443",
    "imap4", "iso_tsap", "klogin", "kshell", "ldap", "link", "login", "mtp", "name", "netbios_dgm", "netbios_ns",
    "netbios_ssn", "netstat", "nnsp", "nntp", "ntp_u", "other", "pm_dump", "pop_2", "pop_3", "printer", "private",
    "red_i", "remote_job", "rje", "shell", "smtp", "sql_net", "ssh", "sunrpc", "supdup", "systat", "telnet", "tftp_u",
    "tim_i", "time", "urh_i", "urp_i", "uucp", "uucp_path", "vmnet", "whois",
)  # fmt: skip
FLAGS: Final = ("OTH", "REJ", "RSTO", "RSTOS0", "RSTR", "S0", "S1", "S2", "S3", "SF", "SH")
VOCABULARY: Final = {"protocol_type": ("icmp", "tcp", "udp"), "service": SERVICES, "flag": FLAGS}
NORMAL: Final = "normal"
ATTACKS: Final = (
    "back", "buffer_overflow", "ftp_write", "guess_passwd", "imap", "ipsweep", "land", "loadmodule", "multihop",
    "neptune", "nmap", "perl", "phf", "pod", "portsweep", "rootkit", "satan", "smurf", "spy", "teardrop", "warezclient",
    "warezmaster",
)  # fmt: skip
FEATURES: Final = (
    "duration", "protocol_type", "service", "flag", "src_bytes", "dst_bytes", "land", "wrong_fragment", "urgent", "hot",
    "num_failed_logins", "logged_in", "num_compromised", "root_shell", "su_attempted", "num_root", "num_file_creations",
    "num_shells", "num_access_files", "num_outbound_cmds", "is_host_login", "is_guest_login", "count", "srv_count",
    "serror_rate", "srv_serror_rate", "rerror_rate", "srv_rerror_rate", "same_srv_rate", "diff_srv_rate",
    "srv_diff_host_rate", "dst_host_count", "dst_host_srv_count", "dst_host_same_srv_rate", "dst_host_diff_srv_rate",
    "dst_host_same_src_port_rate", "dst_host_srv_diff_host_rate", "dst_host_serror_rate", "dst_host_srv_serror_rate",
    "dst_host_rerror_rate", "dst_host_srv_rerror_rate",
)  # fmt: skip
LABEL: Final = "label"
COLUMNS: Final = (*FEATURES, LABEL)
WORDS: Final = {**VOCABULARY, LABEL: (NORMAL, *ATTACKS)}

FETCHED: Final = "fetch_kddcup99"  # stands for the file in errors
Row = TypeVar("Row")
PIECE: Final = 4096  # rows whose fields are held as text at a time: all of them would take a gigabyte


def kdd99(
    path: str | os.PathLike[str] | None = None,
    *,
    start: int = 0,
    rows: int | None = None,
    labels: str = "binary",
) -> Table:
    """Read so many rows from row `start` (from 0) on: from a file, or else as scikit-learn fetches and keeps it.

    Labels are 1 for an attack and 0 for normal ("binary"), or the name of the attack or "normal" ("names").
    """
    check_one_of("labels", labels, ("binary", "names"))
    window = Window(start, rows)
    if path is None:
        columns = _columns(FETCHED, _fetched(window))
    else:
        check_path("path", path)
        lines = window.of(numbered_lines(Path(path)), path)
        columns = _columns(os.fspath(path), ((line, text.rstrip("\r\n").split(",")) for line, text in lines))
    names = columns.pop(LABEL)
    return Table(columns, names if labels == "names" else (names != NORMAL).astype(np.int64), vocabulary=VOCABULARY)


@dataclass(frozen=True, slots=True)
class Window:
    """The rows to read: `rows` of them, or all, from row `start` (from 0)."""

    start: int = 0
    rows: int | None = None

    def __post_init__(self) -> None:
        check_whole("start", self.start, 0)
        if self.rows is not None:
            check_whole("rows", self.rows)

    def of(self, records: Iterable[Row], file: str | os.PathLike[str]) -> Iterator[Row]:
        """Yield the rows of the window and stop right after it."""
        count = 0
        for count, record in enumerate(records, start=1):
            if count > self.start:
                yield record
            if self.rows is not None and count == self.start + self.rows:
                return
        self.check(count, file)

    def check(self, count: int, file: str | os.PathLike[str]) -> None:
        """Raise unless a file with `count` rows holds the whole window."""
        if not count:
            raise StreamError("there are no data rows", "at least one is needed", file=file)
        stop = self.start + (self.rows or 1)
        if count < stop:
            wrong = f"rows {self.start} to {stop - 1}, counted from 0, are not all there"
            raise StreamError(wrong, f"the file has {count} rows", file=file)


def numbered_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the lines of a text file with their numbers, unpacked if its name ends in .gz, without a BOM."""
    number = 0
    try:
        with gzip.open(path) if path.name.lower().endswith(".gz") else path.open("rb") as file:
            for number, raw in enumerate(file, start=1):
                try:
                    text = raw.decode()
                except UnicodeDecodeError as error:
                    wrong = f"byte {raw[error.start]:#04x} is not UTF-8"
                    raise StreamError(wrong, "save the file as UTF-8", file=path, line=number) from None
                yield number, text.removeprefix("\ufeff") if number == 1 else text
    except FileNotFoundError:
        raise StreamError("no such file", file=path) from None
    except EOFError as error:
        raise StreamError("the gzip file is cut off here", "fetch it again", file=path, line=number + 1) from error
    except (OSError, zlib.error) as error:
        raise StreamError(f"cannot be read ({error})", file=path, line=number + 1) from error


def _fetched(window: Window) -> Iterator[tuple[int, list[str]]]:
    """Yield the rows of scikit-learn's copy as the fields they have in the file."""
    advice = "give a file of KDD Cup 1999 instead"
    try:
        datasets = import_module("sklearn.datasets")
    except ImportError as error:
        raise StreamError("fetching KDD Cup 1999 needs scikit-learn, which is not installed", advice) from error
    try:
        fetched = datasets.fetch_kddcup99(percent10=True)
    except (OSError, HTTPException) as error:
        raise StreamError(f"KDD Cup 1999 cannot be fetched ({error})", advice) from error
    window.check(len(fetched.data), FETCHED)
    stop = None if window.rows is None else window.start + window.rows
    both = zip(fetched.data[window.start : stop], fetched.target[window.start : stop], strict=True)
    for line, (fields, label) in enumerate(both, start=window.start + 1):
        yield line, [_text(field) for field in (*fields, label)]


def _text(field: Any) -> str:
    return field.decode() if isinstance(field, bytes) else str(field)


def _columns(file: str, records: Iterable[tuple[int, list[str]]]) -> dict[str, Column]:
    """Turn numbered rows of fields into a column for every name."""
    rest = iter(records)
    pieces: list[list[Column]] = []
    while piece := list(islice(rest, PIECE)):
        for line, fields in piece:
            if len(fields) != len(COLUMNS):
                wrong = f"the row has {len(fields)} fields"
                raise StreamError(wrong, f"{len(FEATURES)} features and a label are needed", file=file, line=line)
        columns = zip(COLUMNS, zip(*(fields for _, fields in piece), strict=True), strict=True)
        pieces.append([_array(file, piece[0][0], name, values) for name, values in columns])
    return {name: np.concatenate(parts) for name, *parts in zip(COLUMNS, *pieces, strict=True)}


def _array(file: str, first: int, name: str, values: Sequence[str]) -> Column:
    """Turn the fields of a column, from a line on, into an array."""
    if name in WORDS:
        words = [value.removesuffix(".") for value in values] if name == LABEL else values
        if not set(words) <= set(WORDS[name]):
            unknown = next(word for word in words if word not in WORDS[name])
            line = first + list(words).index(unknown)
            known = f"known are {', '.join(WORDS[name])}"
            raise StreamError(f"{shown(unknown)} is unknown", known, file=file, line=line, column=name)
        return np.array(words, np.str_)
    kind: type = np.float64 if name.endswith("_rate") else np.int64
    try:
        numbers: Column = np.array(values).astype(kind)
        if np.isfinite(numbers).all():
            return numbers
        wrong = "a number is not finite"
    except (ValueError, OverflowError) as error:
        wrong = f"not a number ({error})"
    raise StreamError(wrong, f"in one of the rows from line {first:,} on", file=file, line=first, column=name)
