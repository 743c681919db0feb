"""Roll out a new version of a model in shadow mode: the old version answers, and the site learns from the same labels.

It prints how often the old version, the new one and the site's choice were correct while the old version answered, and
after the site was switched on. A service does the same with `POST /v1/mode`.

    python examples/shadow_rollout.py
"""

import random

from cosend import Site, axes


def old_version(mail):
    return mail["links"] > 2


def new_version(mail):  # better with long mails; short ones were rare when it was trained
    return mail["links"] > (3 if mail["words"] < 100 else 0)


site = Site(
    "mail",
    classifiers={"v1": old_version, "v2": new_version},  # both cost nothing, so each label scores both
    context=axes.Feature("words", scale="log"),
    learnt=False,  # only these two are to be compared
)
draw = random.Random(1)


def play(count, shadow):
    """Answer mails and return how often each answer was correct."""
    correct = dict.fromkeys(("v1 alone", "v2 alone", "choice of the site", "answered"), 0)
    for _ in range(count):
        mail = {"words": int(draw.lognormvariate(4.6, 1)) + 1, "links": draw.randrange(6)}
        truth = mail["links"] > (2 if mail["words"] < 100 else 0)
        decision = site.classify(mail)
        answer = old_version(mail) if shadow else decision.label
        said = (old_version(mail), new_version(mail), decision.label, answer)
        for name, each in zip(correct, said, strict=True):
            correct[name] += each == truth
        site.learn(decision, truth)
    return {name: f"{each / count:.1%}" for name, each in correct.items()}


print("shadow:", play(1_000, shadow=True))
print("live:", play(1_000, shadow=False))
