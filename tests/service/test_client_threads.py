"""Clients in several threads of a new process."""

from __future__ import annotations

import subprocess
import sys

TRIES = 40
SCRIPT = f"""
import os, sys, threading
from cosend.client import replies
from cosend.client.requests import Requests
from cosend.client.retries import Retries

sys.setswitchinterval(1e-6)  # threads take turns as often as they can
body = b'{{"decisions": [{{"id": "1", "label": "a", "arm": "x", "phase": "exploit", "cell": 1, "cost": 0.0}}]}}'
requests = Requests("http://127.0.0.1", Retries(1))
crashed = 0
for _ in range({TRIES}):
    child = os.fork()
    if not child:
        together = threading.Barrier(6)
        def read():
            together.wait()
            requests._read(body, replies.Decided)
        threads = [threading.Thread(target=read) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        os._exit(0)
    crashed += os.waitpid(child, 0)[1] != 0
print(crashed)
"""


def test_the_first_replies_may_come_to_several_threads_at_once() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)  # noqa: S603
    assert int(done.stdout) == 0
