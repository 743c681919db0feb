"""Two models, each good only for some patients: a site learns which one to use for which patient."""

from collections import Counter
from random import Random

from cosend import Site, axes

models = {"young": lambda patient: patient["pressure"] > 125, "old": lambda patient: patient["pressure"] > 150}
clinic = Site("clinic", classifiers=models, context=axes.Feature("age", range=(0, 100)))
draw, waiting, correct = Random(1), [], Counter()
for _ in range(2_000):
    age, ill = draw.uniform(0, 100), draw.random() < 0.5
    usual = 110 if age < 50 else 135  # the blood pressure of the healthy; in the ill it is 30 higher
    patient = {"age": age, "pressure": draw.gauss(usual + 30 * ill, 8)}
    decision = clinic.classify(patient)
    waiting.append((decision, ill))
    if len(waiting) > 50:  # the true label of a patient arrives 50 patients later
        clinic.learn(*waiting.pop(0))
    correct.update(name for name, model in models.items() if model(patient) == ill)
    correct.update(["cosend"] if decision.label == ill else [])
print(", ".join(f"{name}: {count / 2_000:.1%} correct" for name, count in correct.items()))
print(clinic.summary())
