"""Two models, each good only for some patients: a site learns which one to use for whom."""

from random import Random

from cosend import Site, axes

rules = {"young": lambda patient: patient["pressure"] > 125, "old": lambda patient: patient["pressure"] > 150}
clinic = Site("clinic", classifiers=rules, context=axes.Feature("age", range=(0, 100)))
draw = Random(1)
for _ in range(2_000):
    patient = {"age": draw.uniform(0, 100), "pressure": draw.gauss(135, 20)}
    decision = clinic.classify(patient)  # its label, the model that gave it, and an id
    clinic.learn(decision, rules["young" if patient["age"] < 50 else "old"](patient))  # when the truth is known
print(clinic.summary())
