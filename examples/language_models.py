"""Route prompts among three language models under a budget, with scores that arrive 50 prompts late.

Runs offline: what each model would have answered is a recording, drawn from a seed. It prints the score and the
spending of each model alone, of cosend, and of the best fixed mixture of two models that spends as much as cosend did.

    python examples/language_models.py
"""

import random
from collections import deque
from itertools import combinations

from cosend import Answer, Budget, Money, Site, axes

PRICES = {"small": (0.1, 0.4), "medium": (0.5, 2.0), "large": (3.0, 15.0)}  # USD for a million tokens, in and out
GOOD = {  # how often an answer is good, by task
    "chat": {"small": 0.90, "medium": 0.92, "large": 0.94},
    "extract": {"small": 0.70, "medium": 0.93, "large": 0.95},
    "code": {"small": 0.25, "medium": 0.45, "large": 0.90},
}
BUDGET = 0.0015  # USD for a prompt, on average


def recorded(count, seed=1):
    """Return prompts, each with what every model would have scored and cost."""
    draw, rows = random.Random(seed), []
    for number in range(count):
        task, words = draw.choice([*GOOD]), draw.randrange(20, 400)
        answers = {}
        for model, (price_in, price_out) in PRICES.items():
            said = draw.randrange(50, 500)  # tokens of the answer
            paid = (1.3 * words * price_in + said * price_out) / 1_000_000
            answers[model] = (float(draw.random() < GOOD[task][model]), paid)
        rows.append(({"number": number, "task": task, "words": words}, answers))
    return rows


prompts = recorded(4_000)


def model(name):
    """Return a stand-in for a call of a model: its recorded answer, and what that call cost."""
    return lambda prompt: Answer(f"answer of {name}", cost=prompts[prompt["number"]][1][name][1])


site = Site(
    "assistant",
    classifiers={name: model(name) for name in PRICES},
    context=[axes.Category("task"), axes.Feature("words", range=(0, 400))],
    prices={"small": 0.0002, "medium": 0.0007, "large": 0.005},  # what to expect of a call; the answers tell the rest
    money=Money(1.0, "USD"),  # what a perfect answer is worth; Answer(cost=) is a fraction of it
    budget=Budget(per_item=BUDGET),
    score_local="used",  # a score is about the answer that was given, and no other
)
late, cosend = deque(), []
for prompt, answers in prompts:
    decision = site.classify(prompt)
    cosend.append(answers[decision.arm])
    late.append((decision, answers[decision.arm][0]))
    if len(late) > 50:
        decided, score = late.popleft()
        site.learn(decided, score=score)


def mean(pairs):
    score, paid = (sum(column) / len(pairs) for column in zip(*pairs, strict=True))
    return score, paid


alone = {name: mean([answers[name] for _, answers in prompts]) for name in PRICES}
score, paid = mean(cosend)
mixtures = []
for (low, cheap), (high, dear) in combinations(sorted(alone.values(), key=lambda pair: pair[1]), 2):
    if cheap <= paid <= dear:
        mixtures.append(low + (high - low) * (paid - cheap) / (dear - cheap))
for name, (each, spent) in [*alone.items(), ("cosend", (score, paid)), ("best fixed mixture", (max(mixtures), paid))]:
    print(f"{name:18}  score {each:.3f}  {1000 * spent:.2f} USD for 1,000 prompts")
print(site.summary())
