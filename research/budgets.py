"""A router of language models that keeps to a budget: `make budgets`.

The recording has prompts, and for three and for four models what each would have earned (a score of a judge) and cost
in dollars, prompt by prompt. A site without anything learnt routes all of it in a random order, within a budget per
prompt; it sees a few numbers about a prompt, learns the score and the cost of the model that it used, and knows the
price of each model to one digit in advance. Beside what it earns stands the best fixed mixture of two models with the
same spending, known in hindsight.

In the middle something may happen: the dearest model costs a twentieth, and says so (`cut`); the last model loses 30%
of its quality, silently (`loss`); the last model comes only then (`new`). What counts then is what comes more than 200
prompts later, beside the best mixture in the new world.

Two more numbers say how much there is to gain: the best single model whose mean cost is within the budget, and the most
that somebody could earn who knows every score and every cost in advance and spends no more.

With the field, ParetoBandit's router routes the same prompts in the same orders, with its own settings for a cold
start, and its pacer. It needs vectors, made by a language model that is not here: it gets how far each
prompt goes in the 25 directions in which the words of all prompts differ most, which cosend does not see. With the few
numbers that cosend sees, it earns less.

The folder of the recording has val.jsonl.gz, val_k4.jsonl.gz and budgets.json. It is not part of cosend.
"""

from __future__ import annotations

import gzip
import json
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from itertools import permutations, product
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from cosend import Budget, Money, Site
from cosend.checks import check_whole
from cosend.errors import CosendError, SettingError, install
from research.output import Section, as_markdown
from research.output import write as write_all

FOLDER: Final = Path("recordings")
NAMES: Final = ("val", "val_k4")
EVENTS: Final = ("", "cut", "loss", "new")
ABOVE_CHEAPEST: Final = 1.5  # times its price: smaller budgets allow nothing else
UNIT: Final = 100.0  # dollars that the best answer is worth: so much that only the budget limits what is spent
AFTER: Final = 200  # prompts after which a site is back
CUT: Final = 1 / 20  # what is left of a price
LOSS: Final = 0.7  # and of a quality
STEPS: Final = 80  # in which a price of spending is found
DIRECTIONS: Final = 25  # of the words of prompts, as many as ParetoBandit has of its vectors
FARTHEST: Final = 3.0  # in standard deviations
TOKENS: Final = 600  # of an answer, for a router that wants prices by the token: what it expects itself
FILES: Final = ("results.json", "tables.md")
CAPTION: Final = (
    "Spent: of the budget, the mean and the most over the orders. Score: the mean. Beside mixture: the score less that "
    "of the best fixed mixture of two models with the same spending, known in hindsight. Single: the best model whose "
    "mean cost is within the budget. Oracle: every score and every cost is known in advance, and the budget is kept."
)
Floats = npt.NDArray[np.float64]
Row = dict[str, Any]
Progress = Callable[[str, float, float | None], None]


class Recording(NamedTuple):
    """What models earn and cost: [prompt, model]."""

    models: list[str]
    prompts: list[Mapping[str, float]]  # numbers about each
    texts: list[str]
    scores: Floats
    dollars: Floats

    def first(self, count: int | None) -> Recording:
        columns = self.prompts[:count], self.texts[:count], self.scores[:count], self.dollars[:count]
        return Recording(self.models, *columns)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What is played."""

    orders: int = 5
    names: tuple[str, ...] = NAMES
    events: tuple[str, ...] = EVENTS
    prompts: int | None = None  # at most
    field: bool = False  # ParetoBandit too

    def __post_init__(self) -> None:
        check_whole("orders", self.orders)
        for what, given, known in (("recording", self.names, NAMES), ("event", self.events, EVENTS)):
            for each in given:
                if each not in known:
                    raise SettingError(what, each, f"one of {', '.join(known)}")


def described(prompt: str) -> dict[str, float]:
    """Return a few numbers about a prompt."""
    length, words = max(1, len(prompt)), prompt.split()
    return {
        "length": len(prompt),
        "words": len(words),
        "lines": prompt.count("\n") + 1,
        "digits": sum(letter.isdigit() for letter in prompt) / length,
        "upper": sum(letter.isupper() for letter in prompt) / length,
        "other": sum(ord(letter) > 127 for letter in prompt) / length,
        "code": sum(map(prompt.count, "{}()[]=;_")) / length,
        "question": float("?" in prompt),
        "word_length": len(prompt) / max(1, len(words)),
    }


def load(folder: Path, name: str) -> Recording:
    """Return the prompts for which everything is known of every model."""
    with gzip.open(folder / f"{name}.jsonl.gz", "rt") as lines:
        rows = [json.loads(line) for line in lines]
    models = sorted({model for row in rows for model in row["arms"]})
    rows = [row for row in rows if len(row["arms"]) == len(models)]
    scores, dollars = (
        np.array([[row["arms"][model][what] for model in models] for row in rows]) for what in ("reward", "cost")
    )
    texts = [row["prompt"] for row in rows]
    return Recording(models, [*map(described, texts)], texts, scores, dollars)


def budgets(folder: Path, recording: Recording) -> list[float]:
    """Return the budgets per prompt at which there is something to decide."""
    given = json.loads((folder / "budgets.json").read_text())["per_item_usd"]
    return [each for each in given if each > ABOVE_CHEAPEST * recording.dollars.mean(0).min()]


def best_mixture(spent: float, scores: Sequence[float], dollars: Sequence[float]) -> float:
    """Return the score of the best fixed mixture of two models that spends so much for a prompt, or less."""
    best = max([score for score, price in zip(scores, dollars, strict=True) if price <= spent], default=min(scores))
    for one, other in permutations(range(len(scores)), 2):
        if dollars[one] <= spent < dollars[other]:
            share = (spent - dollars[one]) / (dollars[other] - dollars[one])
            best = max(best, (1 - share) * scores[one] + share * scores[other])
    return best


def best_single(budget: float | None, scores: Sequence[float], dollars: Sequence[float]) -> float:
    """Return the score of the best model whose mean cost is within the budget."""
    return max(score for score, price in zip(scores, dollars, strict=True) if budget is None or price <= budget)


def best_known(budget: float | None, scores: Floats, dollars: Floats) -> float:
    """Return the mean score if every score and cost is known in advance: the best answers for a price of spending.

    The price is the lowest at which the budget is kept.
    """
    rows, low, high = np.arange(len(scores)), 0.0, np.inf
    price, best = 0.0, scores[rows, dollars.argmin(1)].mean()
    for _ in range(STEPS):
        picked = (scores - price * dollars).argmax(1)
        if budget is None or dollars[rows, picked].mean() <= budget:
            high, best = price, scores[rows, picked].mean()
        else:
            low = price
        price = (low + high) / 2 if np.isfinite(high) else max(1.0, 2 * price)
    return float(best)


class Routed(NamedTuple):
    """What was spent and earned, prompt by prompt, and what every model would have: [prompt, model]."""

    spent: Floats
    earned: Floats
    scores: Floats
    dollars: Floats

    def since(self, start: int) -> Routed:
        return Routed(*(column[start:] for column in self))

    def beside_mixture(self) -> float:
        """Return how much more is earned than by the best fixed mixture with the same spending."""
        mixture = best_mixture(self.spent.mean(), self.scores.mean(0).tolist(), self.dollars.mean(0).tolist())
        return float(self.earned.mean() - mixture)


class Router(Protocol):
    """A router in the middle of a stream, which is told what the models that it uses have earned and cost."""

    def pick(self, row: int) -> str:
        """Return the model for a prompt."""

    def learn(self, score: float, dollars: float) -> None:
        """Take what the model that was picked last has earned and cost."""

    def add(self, model: str, price: float) -> None: ...

    def reprice(self, model: str, price: float) -> None: ...


class Cosend:
    """A site without anything learnt."""

    def __init__(self, recording: Recording, prices: Mapping[str, float], budget: float | None, seed: int) -> None:
        self.prompts = recording.prompts
        self.site = Site(
            "router",
            classifiers={model: _saying(model) for model in prices},
            prices=prices,
            money=Money(UNIT, "USD"),
            budget=None if budget is None else Budget(per_item=budget),
            score_local="used",
            learnt=False,
            seed=seed,
        )

    def pick(self, row: int) -> str:
        self.decision = self.site.classify(self.prompts[row])
        return self.decision.arm

    def learn(self, score: float, dollars: float) -> None:
        self.site.learn(self.decision, score=score, cost=dollars / UNIT)

    def add(self, model: str, price: float) -> None:
        self.site.add_classifier(model, _saying(model), price=price)

    def reprice(self, model: str, price: float) -> None:
        self.site.set_cost(model, price=price)


class ParetoBandit:
    """The router of the package paretobandit, with its settings for a cold start and its pacer, as in its demo."""

    def __init__(self, vectors: Floats, prices: Mapping[str, float], budget: float | None, seed: int) -> None:
        self.vectors, package, pacers = vectors, pareto_bandit(), pareto_bandit("budget_pacer")
        settings = pareto_bandit("config").BEST_K3_TABULA_RASA_HPARAMS
        logging.getLogger(package.__name__).setLevel(logging.ERROR)  # it says each time that its pacer was too strict
        self.router = package.BanditRouter.create(
            model_registry={model: _by_token(price) for model, price in prices.items()},
            feature_service=package.FeatureService.for_precomputed(vectors.shape[1]),
            priors="none",
            alpha=settings["alpha"],
            forgetting_factor=settings["forgetting_factor"],
            cost_penalty=0.0,
            budget_pacer=None if budget is None else pacers.BudgetPacer(target_avg_spend_usd=budget),
            bandit_seed=seed,
        )

    def pick(self, row: int) -> str:
        model, self.log = self.router.route(self.vectors[row])
        return str(model)

    def learn(self, score: float, dollars: float) -> None:
        self.log.cost_usd = dollars
        self.router.process_feedback(self.log.request_id, reward=score)

    def add(self, model: str, price: float) -> None:
        self.router.register_model(model, **_by_token(price))

    def reprice(self, model: str, price: float) -> None:
        self.router.update_model_pricing(model, **_by_token(price))


def pareto_bandit(*module: str) -> Any:
    try:
        return import_module(".".join(("pareto_bandit", *module)))
    except ImportError as error:
        raise CosendError(f"the router of ParetoBandit is not installed: {install('field')}") from error


def _by_token(price: float) -> dict[str, float]:
    """Return the price of an answer as ParetoBandit wants it: for a million tokens."""
    return dict.fromkeys(("input_cost_per_m", "output_cost_per_m"), price / TOKENS * 1e6)


def vectors_of(texts: Sequence[str]) -> Floats:
    """Return how far each text goes in the directions in which the words of all of them differ most, and a 1."""
    words = import_module("sklearn.feature_extraction.text").TfidfVectorizer(sublinear_tf=True, ngram_range=(1, 2))
    directions = import_module("sklearn.decomposition").TruncatedSVD(DIRECTIONS, random_state=0)
    places = directions.fit_transform(words.fit_transform(texts))
    spread = places.std(0)
    places = np.clip((places - places.mean(0)) / np.where(spread > 0, spread, 1.0), -FARTHEST, FARTHEST)
    return np.hstack([places, np.ones((len(texts), 1))])


Start = Callable[[Mapping[str, float], float | None, int], Router]  # with prices, a budget and a seed


def route(recording: Recording, start: Start, budget: float | None, order: int, event: str = "") -> Routed:
    """Let a router route all prompts once; something may happen in the middle."""
    models, count = recording.models, len(recording.prompts)
    rows = np.random.default_rng(order).permutation(count)
    scores, dollars, middle = recording.scores[rows].copy(), recording.dollars[rows].copy(), count // 2
    prices = [float(f"{price:.1g}") for price in recording.dollars.mean(0)]
    dearest, last = int(np.argmax(prices)), len(models) - 1
    if event == "cut":
        dollars[middle:, dearest] *= CUT
    if event == "loss":
        scores[middle:, last] *= LOSS
    first = models[:last] if event == "new" else models
    router = start(dict(zip(first, prices, strict=False)), budget, order)
    used = np.zeros(count, np.int64)
    for n, row in enumerate(rows.tolist()):
        if n == middle and event == "new":
            router.add(models[last], prices[last])
        if n == middle and event == "cut":
            router.reprice(models[dearest], prices[dearest] * CUT)
        used[n] = models.index(router.pick(row))
        router.learn(float(scores[n, used[n]]), float(dollars[n, used[n]]))
    all_rows = np.arange(count)
    return Routed(dollars[all_rows, used], scores[all_rows, used], scores, dollars)


def _saying(model: str) -> Callable[[Any], str]:
    return lambda _: model


def rows(settings: Settings, folder: Path, progress: Progress) -> Iterator[Row]:
    """Play everything; yields a row for every recording, event and budget."""
    recordings = {name: load(folder, name).first(settings.prompts) for name in settings.names}
    if settings.field:
        pareto_bandit()  # before anything is played
    vectors = {name: vectors_of(each.texts) for name, each in recordings.items() if settings.field}
    wanted = [
        (name, event, budget)
        for name, event in product(settings.names, settings.events)
        for budget in [*budgets(folder, recordings[name]), *([] if event else [None])]
    ]
    for number, (name, event, budget) in enumerate(wanted):
        progress(f"{name}, {event or 'nothing happens'}, {budget}", number, len(wanted))
        recording = recordings[name]
        start = len(recording.prompts) // 2 + AFTER if event else 0
        what: Any = {"budget": budget, "event": event}
        found = [route(recording, partial(Cosend, recording), order=n, **what) for n in range(settings.orders)]
        since = [each.since(start) for each in found]
        row: Row = {
            "recording": name,
            "event": event,
            "budget": budget,
            **_earned(found, start, budget),
            "single": float(
                np.mean([best_single(budget, each.scores.mean(0), each.dollars.mean(0)) for each in since])
            ),
            "oracle": float(np.mean([best_known(budget, each.scores, each.dollars) for each in since])),
        }
        if settings.field:
            router = partial(ParetoBandit, vectors[name])
            found = [route(recording, router, order=n, **what) for n in range(settings.orders)]
            row["field"] = _earned(found, start, budget)
        yield row


def _earned(found: Sequence[Routed], start: int, budget: float | None) -> Row:
    """Return what a router has spent, and what it has earned from a prompt on: means over orders."""
    spent, since = [each.spent.mean() / (budget or 1.0) for each in found], [each.since(start) for each in found]
    return {
        "spent": float(np.mean(spent)),
        "most_spent": float(max(spent)),
        "score": float(np.mean([each.earned.mean() for each in since])),
        "beside_mixture": float(np.mean([each.beside_mixture() for each in since])),
    }


def results(settings: Settings, found: Sequence[Row]) -> dict[str, Any]:
    return {"orders": settings.orders, "rows": [*found]}


def console_sections(results: Mapping[str, Any]) -> list[Section]:
    """Return a table for each recording and event."""
    heading = ["USD per prompt", "spent", "most", "score", "beside mixture", "single", "oracle"]
    heading += ["ParetoBandit", "beside mixture", "spent"] if any("field" in row for row in results["rows"]) else []
    sections: list[Section] = []
    for name, event in dict.fromkeys((row["recording"], row["event"]) for row in results["rows"]):
        cells = [
            [
                "none" if row["budget"] is None else f"{row['budget']:g}",
                *(("", "") if row["budget"] is None else (f"{row['spent']:.2f}", f"{row['most_spent']:.2f}")),
                f"{row['score']:.4f}",
                f"{row['beside_mixture']:+.4f}",
                f"{row['single']:.4f}",
                f"{row['oracle']:.4f}",
                *((f"{row['field']['score']:.4f}", f"{row['field']['beside_mixture']:+.4f}") if "field" in row else ()),
                *((f"{row['field']['spent']:.2f}" if row["budget"] else "",) if "field" in row else ()),
            ]
            for row in results["rows"]
            if (row["recording"], row["event"]) == (name, event)
        ]
        sections.append(((f"{name}{f', {event}' if event else ''}", heading, cells), ()))
    return sections


def remarks(_: Mapping[str, Any]) -> list[str]:
    return [CAPTION]


def write(results: Mapping[str, Any], folder: Path) -> list[str]:
    text = as_markdown("Budgets", CAPTION, console_sections(results))
    return write_all(folder, results, {"tables.md": text}, {})
