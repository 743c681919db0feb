"""A served site that people attack or end: what it needs is loaded before, descriptors are left, Ctrl-C is an end."""

from __future__ import annotations

import os
import random
import select
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.processes.served import CONTEXT, Served, network, started

FILES = 256
IDLE = 400
WATCH = """
import os, sys

def watch(event, given):
    if event == "open" and isinstance(given[0], str) and given[0].endswith((".nbi", ".nbc")):
        os.write(to, given[0].encode() + b"\\n")

to = os.open(os.environ["OPENED"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
sys.addaudithook(watch)
"""
LONG_START = """
from cosend.runtime.site_setup import Setup

Setup.warm_up = lambda setup: time.sleep(60)  # as long as compiling takes on a busy machine
"""


@pytest.mark.compiled
@pytest.mark.parametrize(
    ("context", "policy"), [(CONTEXT, ""), ("", ""), (CONTEXT, '[policy]\nname = "ZoomingKLUCB"\n')]
)
def test_nothing_compiled_is_read_from_a_file_once_a_site_is_ready(context: str, policy: str, tmp_path: Path) -> None:
    file, opened = network(tmp_path / "n", "young", "old", context=context, rest=policy), tmp_path / "opened"
    opened.touch()
    (file.parent / "sitecustomize.py").write_text(WATCH)
    path = os.pathsep.join([str(file.parent), os.environ.get("PYTHONPATH", "")])
    with started(file, "--no-dashboard", env={"OPENED": str(opened), "PYTHONPATH": path}) as site:
        site.wait_until_ready()
        before = opened.read_text().splitlines()
        assert before
        work(site)
        site.interrupt()
        assert site.process.wait(60) == 0
        assert [*site.store.glob("state-*.npz")]
        assert opened.read_text().splitlines()[len(before) :] == []  # nor for the snapshot when it stopped


def work(site: Served) -> None:
    """Do whatever clients and operators do, until tables have grown more than once and features have come."""
    draw, waiting = random.Random(1), list[str]()
    for turn in range(150):
        count = draw.choice((1, 1, 3, 40))
        more: dict[str, Any] = {f"f{turn % 7}": draw.choice("abc"), f"g{turn // 30}": draw.random()}
        answer = site.classify(*(draw.uniform(0, 100) for _ in range(count)), **more)
        assert answer.status_code == 200, answer.text
        waiting += [each["id"] for each in answer.json()["decisions"]]
        if turn % 3 == 0:
            draw.shuffle(waiting)
            some, waiting = waiting[:20], waiting[20:]
            labels = [{"id": each, "label": draw.choice(["ill", "well"])} for each in some]
            assert site.http.post("/v1/labels", json={"labels": labels}).status_code == 200
        if turn % 40 == 1:
            for path in ("summary", "arms", "cells", f"decisions/{waiting[0]}", "events"):
                assert site.http.get(f"/v1/{path}").status_code == 200
        if turn in (50, 70):
            change = {"paused": True} if turn == 50 else {"paused": False, "cost": 0.1}
            assert site.http.post("/v1/arms/young", json=change).status_code == 200


def test_idle_connections_do_not_use_up_the_files_of_a_site(tmp_path: Path) -> None:
    limited = ["/bin/sh", "-c", f'ulimit -n {FILES}; exec "$0" "$@"']
    env = {"NUMBA_DISABLE_JIT": "1"}
    file = network(tmp_path / "n", "young", "old")
    with ExitStack() as stack, started(file, "--no-dashboard", before=limited, env=env) as site:
        site.wait_until_ready()
        assert site.classify(5).status_code == 200
        idle = [stack.enter_context(socket.socket()) for _ in range(IDLE)]
        for one in idle:
            one.setblocking(False)
            one.connect_ex(("127.0.0.1", site.port))
        time.sleep(1.0)
        assert [site.classify(age).status_code for age in range(20)] == [200] * 20  # who was connected before
        open_files = len([*Path(f"/proc/{site.process.pid}/fd").iterdir()])
        assert open_files < FILES - 32
        assert any(b"503" in reply for reply in replies(idle))  # those who are too many hear so
        stack.close()
        time.sleep(0.5)
        site.http.close()
        other = Served(site.file, site.port, site.process, site.log)
        assert other.http.get("/health/ready").status_code == 200
        assert other.classify(5).status_code == 200
        other.http.close()


def replies(clients: list[socket.socket]) -> Iterator[bytes]:
    """Yield what clients hear, until nothing has come for as long as a silent client is let alone."""
    poll, by_number = select.poll(), {one.fileno(): one for one in clients}
    for number in by_number:
        poll.register(number, select.POLLIN)
    while heard := poll.poll(15_000):
        for number, _ in heard:
            poll.unregister(number)
            with suppress(OSError):
                yield by_number[number].recv(100)


def test_ctrl_c_twice_ends_a_site_at_once_and_in_order(tmp_path: Path) -> None:
    with started(network(tmp_path / "n", "slow"), "--no-dashboard", env={"NUMBA_DISABLE_JIT": "1"}) as site:
        site.wait_until_ready()
        statuses = list[int]()
        asking = threading.Thread(target=lambda: statuses.append(site.classify(5).status_code))
        asking.start()
        time.sleep(1.0)
        begun = time.monotonic()
        site.interrupt()
        site.wait_until_said("stopping, after 1 open request and a snapshot; press Ctrl-C again to stop at once")
        site.interrupt()
        assert site.process.wait(30) == 0
        assert time.monotonic() - begun < 4.5  # and does not wait for the model, which takes a minute
        assert "Traceback" not in site.said()
        assert site.said().rstrip().endswith("stopped")
        assert [*site.store.glob("state-*.npz")]  # what it knows is left in order
        asking.join()
        assert statuses == [503]


def test_ctrl_c_twice_ends_a_site_that_still_starts(tmp_path: Path) -> None:
    file = network(tmp_path / "n", "young")
    with (file.parent / "models.py").open("a") as models:
        models.write(LONG_START)
    with started(file, "--no-dashboard", env={"NUMBA_DISABLE_JIT": "1"}) as site:
        site.wait_until_said("listening on")
        site.interrupt()
        site.wait_until_said("stopping, after its start; press Ctrl-C again to stop at once")
        assert site.process.poll() is None
        site.interrupt()
        assert site.process.wait(10) == 130
        assert "Traceback" not in site.said()
