"""Estimate from a log what another policy would have earned, with intervals.

A log answers that only if its choices were partly random and it says how likely each was. So the site here explores
with `CoS`; the default policy is deterministic and its log answers only for what it has chosen. The script writes
`decisions.jsonl` with columns as in `cosend export`, and the features next to them; reads it with pandas; and weights
each explored decision by 1 / propensity. Here the patients are generated, so what a policy really earns is known too.

    python examples/read_the_log.py
"""

import json
import random
import tempfile
from pathlib import Path

import pandas as pd

from cosend import CoS, Site, axes

MODELS = {"young": lambda visit: visit["pressure"] > 125, "old": lambda visit: visit["pressure"] > 150}
POLICIES = {
    "young alone": lambda age: "young",
    "old alone": lambda age: "old",
    "young below 50": lambda age: "young" if age < 50 else "old",
}
age = axes.Feature("age", range=(0, 100))
site = Site("clinic", classifiers=MODELS, context=age, policy=CoS(slices=4, exploration_exponent=0.4))
file, draw, earned = Path(tempfile.mkdtemp()) / "decisions.jsonl", random.Random(1), dict.fromkeys(POLICIES, 0)
with file.open("w") as log:
    for _ in range(4_000):
        visit = {"age": draw.uniform(0, 100), "pressure": draw.gauss(135, 20)}
        truth = visit["pressure"] + draw.gauss(0, 5) > (125 if visit["age"] < 50 else 150)
        decision = site.classify(visit)
        site.learn(decision, truth)
        row = {"arm": decision.arm, "phase": decision.phase.name.lower(), "propensity": decision.propensity}
        log.write(json.dumps({"id": decision.id, **row, "gain": float(decision.label == truth), **visit}) + "\n")
        for name, policy in POLICIES.items():
            earned[name] += MODELS[policy(visit["age"])](visit) == truth

log = pd.read_json(file, lines=True)
explored = log[(log["phase"] == "explore") & (log["propensity"] < 1)]
print(f"{len(explored)} of {len(log)} decisions were drawn at random")
for name, policy in POLICIES.items():
    weights = (explored["arm"] == explored["age"].map(policy)) / explored["propensity"]
    mean = (weights * explored["gain"]).sum() / weights.sum()
    error = ((weights * (explored["gain"] - mean)) ** 2).sum() ** 0.5 / weights.sum()
    low, high = max(0.0, mean - 1.96 * error), min(1.0, mean + 1.96 * error)
    print(f"{name} would earn {mean:.3f} (95% interval {low:.3f} to {high:.3f}); truly {earned[name] / len(log):.3f}")
print(f"the site itself earned {log['gain'].mean():.3f}, with what it spent on exploring")
