"""Say what mistakes cost: a site that must not miss an illness routes in another way than one that counts mistakes.

It prints the mean gain, where a missed illness costs all of a correct answer and a false alarm a tenth of it.

    python examples/custom_reward.py
"""

import random

from cosend import Reward, Site, axes

reward = Reward(confusions={("ill", "well"): 1.0, ("well", "ill"): 0.1})  # (true label, prediction): what it costs
# Anything else is a function of both: reward=lambda prediction, truth: ... in [0, 1]

MODELS = {
    "careful": lambda visit: "ill" if visit["pressure"] > 110 else "well",
    "balanced": lambda visit: "ill" if visit["pressure"] > 130 else "well",
}


def visits(count=4_000, seed=1):
    """Yield visits and diagnoses; how well the pressure tells depends on age."""
    draw = random.Random(seed)
    for _ in range(count):
        visit = {"age": draw.uniform(0, 100), "pressure": draw.gauss(125, 20)}
        noise = draw.gauss(0, 2 if visit["age"] < 50 else 15)
        yield visit, "ill" if visit["pressure"] + noise > 130 else "well"


def routed(**options):
    """Return the mean gain of a site with these options, by the reward above."""
    site = Site("clinic", classifiers=MODELS, context=axes.Feature("age", range=(0, 100)), learnt=False, **options)
    gains = []
    for visit, truth in visits():
        decision = site.classify(visit)
        gains.append(reward(decision.label, truth))
        site.learn(decision, truth)
    return sum(gains) / len(gains)


for name, model in MODELS.items():
    gains = [reward(model(visit), truth) for visit, truth in visits()]
    print(f"{name} alone: {sum(gains) / len(gains):.3f}")
print(f"cosend, counts mistakes: {routed():.3f}")
print(f"cosend, knows what they cost: {routed(reward=reward):.3f}")
