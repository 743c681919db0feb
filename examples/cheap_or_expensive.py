"""Route questions by topic: a cheap model where it is good enough, an expensive one where it pays."""

import random
from collections import Counter

from cosend import Site, axes

TOPICS = {"greeting": 0.98, "billing": 0.90, "legal": 0.40}  # how often the cheap model is right
draw = random.Random(1)


def cheap(question):
    """Stand in for a small model of your own; the truth is hidden in the question."""
    return question["truth"] if question["luck"] < TOPICS[question["topic"]] else "no idea"


def expensive(question):
    """Stand in for a large model behind an API."""
    return question["truth"] if question["luck"] < 0.97 else "no idea"


site = Site(
    "helpdesk",
    classifiers={"cheap": cheap, "expensive": expensive},
    context=axes.Category("topic"),  # a cell for every topic, new ones as they come
    costs={"expensive": 0.2},  # a call is worth it if it is right 20 percentage points more often
)

used = {topic: Counter() for topic in TOPICS}
for number in range(6_000):
    question = {"topic": draw.choice([*TOPICS]), "truth": draw.choice("abc"), "luck": draw.random()}
    decision = site.classify(question)
    site.learn(decision, question["truth"])
    if number >= 3_000:
        used[question["topic"]][decision.arm] += 1

for topic, arms in used.items():
    print(f"{topic}: {100 * arms['expensive'] / arms.total():.0f} % of the last questions went to the expensive model")
print(site.summary())
