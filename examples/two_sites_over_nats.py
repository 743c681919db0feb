"""Two sites as processes that ask each other over NATS; `cosend up` starts them and a nats-server."""

import random
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from cosend.client import Client

MODELS = """
def young(visit):
    return "ill" if visit["pressure"] > 125 else "well"

def old(visit):
    return "ill" if visit["pressure"] > 150 else "well"
"""
NETWORK = """
call_cost = 0.02

[[context]]
feature = "age"
range = [0, 100]

[[sites]]
name = "north"
classifiers = [{ name = "young", model = "models:young" }]

[[sites]]
name = "south"
classifiers = [{ name = "old", model = "models:old" }]
"""

folder = Path(tempfile.mkdtemp())
(folder / "models.py").write_text(MODELS)
(folder / "network.toml").write_text(NETWORK)
command = [sys.executable, "-m", "cosend.cli", "up", str(folder / "network.toml")]
draw, urls, sent = random.Random(1), {}, []
with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as network:
    for line in network.stdout:  # until north has found south
        urls.update(re.findall(r"(north|south) .*?(http://[\d.:]+)", line))
        if "peer appeared peer=south" in line:
            break
    with Client(urls["north"]) as north:
        for _ in range(600):
            visit = {"age": draw.uniform(0, 100), "pressure": draw.gauss(135, 20)}
            decision = north.classify(visit)
            north.learn(decision, "ill" if visit["pressure"] > (125 if visit["age"] < 50 else 150) else "well")
            sent.append((visit["age"] > 50, decision.arm == "south"))
    network.terminate()
for old, who in ((False, "young"), (True, "old")):
    arms = [south for is_old, south in sent[-300:] if is_old == old]
    print(f"{100 * sum(arms) / len(arms):.0f} % of the last {who} patients at north were sent to south")
