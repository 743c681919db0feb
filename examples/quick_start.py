"""Two models, each good for some patients only: a site learns which one to use for whom."""

import random

from cosend import Context, Site

site = Site(
    "clinic",
    classifiers={"young": lambda patient: patient["pressure"] > 125, "old": lambda patient: patient["pressure"] > 150},
    context=Context("age", range=(0, 100)),
)
draw = random.Random(1)
for _ in range(2_000):
    patient = {"age": draw.uniform(0, 100), "pressure": draw.gauss(135, 20)}
    decision = site.classify(patient)  # its label, the model that gave it, and an id
    ill = patient["pressure"] > (125 if patient["age"] < 50 else 150)
    site.learn(decision, ill)  # when the truth is known: late, in any order
print(site.summary())
