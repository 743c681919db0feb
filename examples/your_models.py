"""Three fitted scikit-learn models, one of them expensive, with late labels.

It prints the reward per patient (correct predictions minus costs) of the site and of each model alone.

    pip install '.[demo]' pandas
    python examples/your_models.py
"""

import csv
import tempfile
from collections import deque
from pathlib import Path

import pandas as pd
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression

from cosend import Site, axes
from cosend.streams.clinics import clinics

# A CSV file; replace it by yours. Here: patients, of which the first 3,000 have known diagnoses.
file = Path(tempfile.mkdtemp()) / "patients.csv"
with file.open("w", newline="") as target:
    rows = csv.writer(target)
    for number, (patient, diagnosis) in enumerate(clinics(9_000, training=3_000, seed=1).rows()):
        if number == 0:
            rows.writerow([*patient, "diagnosis"])
        rows.writerow([*patient.values(), diagnosis])

table = pd.read_csv(file)
signs = ["temperature", "pulse", "breathing", "pressure"]
past, future = table[:3_000], table[3_000:]
young, old = past[past.age < 20], past[past.age > 60]

models = {
    "young": LogisticRegression(max_iter=1_000).fit(young[signs], young.diagnosis),
    "old": LogisticRegression(max_iter=1_000).fit(old[signs], old.diagnosis),
    "forest": RandomForestClassifier(random_state=0).fit(past[signs], past.diagnosis),
}
# A cost is a fraction of the value of a correct prediction: the forest must be correct 10 points more often.
site = Site("clinic", classifiers=models, context=axes.Feature("age", range=(0, 100)), costs={"forest": 0.1})

late = deque()
truths = future.diagnosis.tolist()
for start in range(0, len(future), 50):
    decisions = site.classify_many(future[start : start + 50])
    late.extend(zip(decisions, truths[start : start + 50], strict=True))
    while len(late) > 50:  # labels arrive 50 patients late
        site.learn(*late.popleft())

earned = [arm.mean_reward * arm.labels for arm in site.summary().arms if arm.labels]
labels = sum(arm.labels for arm in site.summary().arms)
print(site.summary())
print(f"\nreward per patient, routed: {sum(earned) / labels:.3f}")
for name, model in models.items():
    cost = 0.1 if name == "forest" else 0.0
    print(f"reward per patient, {name} alone: {(model.predict(future[signs]) == future.diagnosis).mean() - cost:.3f}")
