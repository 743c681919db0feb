"""Read the log of a site with pandas: who was right where, and what other policies would have earned."""

import json
import random
import subprocess
import sys
import tempfile
from pathlib import Path

import pandas as pd

MODELS = """
def young(visit):
    return "ill" if visit["pressure"] > 125 else "well"

def old(visit):
    return "ill" if visit["pressure"] > 150 else "well"
"""
NETWORK = """
[[context]]
feature = "age"
range = [0, 100]
[policy]
name = "CoS"            # it explores at random, so its log has propensities
horizon = 2000
[[sites]]
name = "clinic"
classifiers = [{ name = "young", model = "models:young" }, { name = "old", model = "models:old" }]
"""

folder = Path(tempfile.mkdtemp())
(folder / "models.py").write_text(MODELS)
(folder / "network.toml").write_text(NETWORK)
draw, lines = random.Random(1), []
for number in range(2_000):
    age, pressure = draw.uniform(0, 100), draw.gauss(135, 20)
    lines.append({"id": f"visit-{number}", "features": {"age": age, "pressure": pressure}})
    lines.append({"id": f"visit-{number}", "label": "ill" if pressure > (125 if age < 50 else 150) else "well"})


def cosend(*words, **options):
    return subprocess.run(
        [sys.executable, "-m", "cosend.cli", *map(str, words)], check=True, text=True, capture_output=True, **options
    )


# A site in a pipe: it decides, learns, and writes every event to store/clinic before it answers.
cosend("classify", folder / "network.toml", input="\n".join(map(json.dumps, lines)))
cosend("export", folder / "store" / "clinic", "--to", folder / "decisions.jsonl")

log = pd.read_json(folder / "decisions.jsonl", lines=True)
log["age"] = 100 * log.context.str.get("age").astype(float)  # contexts are in [0, 1]
print(log.groupby([pd.cut(log.age, [0, 50, 100]), "arm"], observed=True).gain.agg(["count", "mean"]).round(2))
policies = {"young alone": lambda age: "young", "old alone": lambda age: "old"}
policies["young below 50"] = lambda age: "young" if age < 50 else "old"
explored = log[log.phase == "explore"]  # at random: a decision that a policy shares stands for 1 / propensity like it
for name, policy in policies.items():
    weights = (explored.arm == explored.age.map(policy)) / explored.propensity
    print(f"{name} would earn {(explored.gain * weights).sum() / weights.sum():.2f}")
