"""Ask a peer without showing it everything: names stay at home, and so do the true labels.

North withholds a feature from south and still learns for which patients south is the better choice. It prints what
south was shown, and the reward of each choice; a call costs 5% of a correct answer.

    python examples/hidden_features.py
"""

import random

from cosend import Network, Site, axes

seen = []  # what the model of south is given


def young(visit):
    return visit["pressure"] > 125


def old(visit):
    seen.append(visit)
    return visit["pressure"] > 150


age = axes.Feature("age", range=(0, 100))
north = Site("north", classifiers={"young": young}, context=age, withholds=["name"], share_labels="never")
south = Site("south", classifiers={"old": old}, context=age)
network = Network([north, south], call_cost=0.05)

draw, visits = random.Random(1), []
for number in range(2_000):
    visit = {"name": f"patient {number}", "age": draw.uniform(0, 100), "pressure": draw.gauss(135, 20)}
    visits.append((visit, visit["pressure"] > (125 if visit["age"] < 50 else 150)))
rewards = []
for visit, truth in visits:
    decision = north.classify(visit)
    rewards.append((decision.label == truth) - (0.05 if decision.arm == "south" else 0.0))
    north.learn(decision, truth)

print("south was shown:", ", ".join(seen[0]))
print(f"{len(seen)} of {len(visits)} visits left north")
print(f"always the model of north: {sum(young(visit) == truth for visit, truth in visits) / len(visits):.3f}")
print(f"always ask south: {sum(old(visit) == truth for visit, truth in visits) / len(visits) - 0.05:.3f}")
print(f"cosend: {sum(rewards) / len(rewards):.3f}")
