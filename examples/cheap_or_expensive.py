"""Route questions by topic: a cheap model where it is good enough, an expensive one where it is worth its price.

It prints which questions went to the expensive model, and the reward (correct answers minus costs) of each model alone.

    python examples/cheap_or_expensive.py
"""

import random

from cosend import Site, axes

CORRECT = {"greeting": (0.98, 0.99), "billing": (0.90, 0.97), "legal": (0.40, 0.97)}  # how often: cheap, expensive
COST = 0.2  # a call is worth it where it is correct at least 20 percentage points more often

# What the site never sees: the true answer of each question, and what each model answers. Replace it by your models.
draw, questions, truths, said = random.Random(1), [], [], {"cheap": [], "expensive": []}
for number in range(6_000):
    topic = draw.choice([*CORRECT])
    questions.append({"number": number, "topic": topic})
    truths.append(draw.choice("abc"))
    for model, chance in zip(said, CORRECT[topic], strict=True):
        said[model].append(truths[-1] if draw.random() < chance else "no idea")

site = Site(
    "helpdesk",
    classifiers={
        "cheap": lambda question: said["cheap"][question["number"]],
        "expensive": lambda question: said["expensive"][question["number"]],
    },
    context=axes.Category("topic"),  # a cell for every topic, new ones as they come
    costs={"expensive": COST},
)
decisions = []
for question, truth in zip(questions, truths, strict=True):
    decisions.append(site.classify(question))
    site.learn(decisions[-1], truth)

last = [(question["topic"], each.arm) for question, each in zip(questions, decisions, strict=True)][3_000:]
for topic in CORRECT:
    arms = [arm for about, arm in last if about == topic]
    print(f"{topic}: {arms.count('expensive') / len(arms):.0%} of the last questions went to the expensive model")


def reward(answers, costs):
    return sum((said == truth) - cost for said, truth, cost in zip(answers, truths, costs, strict=True)) / len(truths)


free, paid = [0] * len(truths), [COST] * len(truths)
print(f"reward of cheap alone: {reward(said['cheap'], free):.3f}")
print(f"reward of expensive alone: {reward(said['expensive'], paid):.3f}")
costs = [COST if each.arm == "expensive" else 0 for each in decisions]
print(f"reward of cosend: {reward([each.label for each in decisions], costs):.3f}")
