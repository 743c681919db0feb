"""Train the functions, simulate the network for every row of the tables, run the baselines."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import product
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from cosend.algorithm.cells import keys_of
from cosend.algorithm.layout import EXPLORE, TRAIN, Floats, Ints
from cosend.algorithm.learner import Learner
from cosend.algorithm.policies import CoS, Policy
from cosend.algorithm.values import ScoreLocal
from cosend.models.built_in import train
from cosend.simulation.adaboost import adaboost, sliding_window_adaboost
from cosend.simulation.baselines import best_fixed, epsilon_greedy, linucb, per_cell_oracle, persistence, uniform_random
from cosend.simulation.loop import Trace
from cosend.simulation.simulate import simulate
from cosend.streams.table import Table
from research.kdd99 import kdd99
from research.paper import settings as fixed
from research.paper.settings import Settings, paper

CURVE_STEP: Final = 20  # items between two points of a curve
DRAWN: Final = ("swa_100", "swa_1000", "persistence")  # beside CoS

Report = Callable[[str, int, int], None]  # what is being done, how much is done, of how much


class Data(NamedTuple):
    """The rows that are used: those for training, and the window with what came right before it."""

    training: Table
    window: Table  # the last `rows` rows are the window
    rows: int

    @property
    def labels(self) -> Ints:
        """The labels of the window."""
        return self.window.labels[-self.rows :]


class Outputs(NamedTuple):
    """What every function says: [row, function]."""

    training: Ints
    window: Ints


class Experiment(NamedTuple):
    """Everything that the rows of the results are made from."""

    settings: Settings
    data: Data
    outputs: dict[str, list[Outputs]]  # by scenario and seed
    contexts: dict[str, Floats]
    curves: dict[str, dict[str, list[float]]]  # errors so far of what is drawn, by scenario and name
    report: Report


def silent(what: str, done: int, total: int) -> None:
    """Report nothing."""


def run(settings: Settings, report: Report = silent) -> dict[str, Any]:
    """Run everything and return the results in the shape of results.json."""
    report("reading the data", 0, 1)
    data = load(settings)
    outputs = {name: function_outputs(data, name, settings.seeds) for name in fixed.SCENARIOS}
    curves: dict[str, dict[str, list[float]]] = {name: {} for name in fixed.SCENARIOS}
    experiment = Experiment(settings, data, outputs, window_contexts(data), curves, report)
    return {
        "window": {"start": settings.start, "rows": settings.rows, "attacks": 100 * float(data.labels.mean())},
        "rows": list(cos_rows(experiment)),
        "baselines": list(baseline_rows(experiment)),
        "functions": list(function_rows(experiment)),
        "curves": curves,
    }


def load(settings: Settings) -> Data:
    """Read the training rows, and the window with the rows that a sliding window needs before it."""
    before = max(fixed.WINDOWS)
    training = kdd99(settings.data, start=0, rows=fixed.TRAINING_END)
    window = kdd99(settings.data, start=settings.start - before, rows=settings.rows + before)
    return Data(training, window, settings.rows)


def function_outputs(data: Data, scenario: str, seeds: int) -> list[Outputs]:
    """Train the functions of a scenario and return what they say, for every seed: random ones are drawn anew."""
    rows, labels, window = data.training.matrix(), data.training.labels, data.window.matrix()
    by_seed = [Outputs(_empty(rows), _empty(window)) for _ in range(seeds)]
    for number, function in enumerate(fixed.SCENARIOS[scenario]):
        part = slice(*function.rows)
        seed = number if function.model == "random" else 0  # two coins must not fall alike
        model = train(function.model, rows[part], labels[part], seed=seed, label=function.label)
        said = (model.predict(rows), model.predict(window))
        for outputs in by_seed:
            outputs.training[:, number], outputs.window[:, number] = said
            if function.model == "random":
                said = (model.predict(rows), model.predict(window))
    return by_seed


def _empty(rows: Floats) -> Ints:
    return np.zeros((len(rows), 2 * len(fixed.LEARNERS)), np.int64)


def window_contexts(data: Data) -> dict[str, Floats]:
    """Return the three contexts of every item of the window, scaled to [0, 1]."""
    labels, rows = data.labels, data.rows
    source = np.log1p(data.window.features["src_bytes"][-rows:].astype(np.float64))
    return {
        "previous_label": np.concatenate([[0.0], labels[:-1].astype(np.float64)]),
        "src_bytes": source / max(1e-12, float(source.max())),
        "time": np.arange(rows) / rows,
    }


def right(data: Data, outputs: Outputs) -> npt.NDArray[np.uint8]:
    """Return for every item of the window which functions are right: [item, function]."""
    is_right: npt.NDArray[np.uint8] = (outputs.window[-data.rows :] == data.labels[:, None]).astype(np.uint8)
    return is_right


def cos_rows(experiment: Experiment) -> Iterator[dict[str, Any]]:
    """Yield a row of the results for every combination of scenario, parameters, context, order and count."""
    settings, data, outputs, contexts, curves, report = experiment
    combinations = list(product(fixed.SCENARIOS, fixed.PARAMETERS, fixed.CONTEXTS, fixed.ORDERS, fixed.TRAINING_COUNTS))
    printed = paper()["cos"] if settings.is_the_papers else {}
    for done, (scenario, parameters, context, order, counts) in enumerate(combinations):
        report("CoS", done, len(combinations))
        shares = []
        for seed in range(settings.seeds):
            gains = right(data, outputs[scenario][seed])
            trace = simulated(data.rows, gains, contexts[context], parameters, order, counts, seed)
            gained = gains[np.arange(data.rows), trace.functions[:, 0]]
            shares.append(_shares(gained, trace))
            if seed == 0 and (parameters, order, counts) == ("C1", "pseudocode", "reported"):
                curves[scenario][context] = np.cumsum(1.0 - gained)[::CURVE_STEP].tolist()
        error, training, exploration = np.mean(shares, axis=0).tolist()
        numbers = printed.get(scenario, {}).get(parameters, {}).get(context)
        yield {
            "scenario": scenario,
            "parameters": parameters,
            "context": context,
            "policy": "cos",
            "order": order,
            "training_count": counts,
            "seeds": settings.seeds,
            "error": error,
            "training": training,
            "exploration": exploration,
            "paper": None if numbers is None else dict(zip(("error", "training", "exploration"), numbers, strict=True)),
        }


def simulated(
    rows: int, gains: npt.NDArray[np.uint8], context: Floats, parameters: str, order: Any, counts: Any, seed: int
) -> Trace:
    """Replay the four learners, all on the same stream."""
    policy = CoS(
        horizon=rows,
        slices=fixed.SLICES,
        exploration_exponent=fixed.PARAMETERS[parameters],
        max_peer_functions=fixed.PEER_FUNCTIONS,
        order=order,
        training_count=counts,
    )
    return simulate(four_learners(policy, seed=seed), context[:, None], gains)


def four_learners(
    policy: Policy,
    *,
    dimensions: int = 1,
    peer_cost: float = 0.0,
    seed: int = 0,
    score_local: ScoreLocal = "used",
    functions: int = fixed.PEER_FUNCTIONS,
) -> list[Learner]:
    """Return the four learners, each with its functions and the others as peers.

    What is there beyond the paper's functions is what learners learn themselves.
    """
    return [
        Learner(
            name,
            own={f"{name}.{n}": 0.0 for n in range(1, functions + 1)},
            improving=[f"{name}.{n}" for n in range(fixed.PEER_FUNCTIONS + 1, functions + 1)],
            peers={peer: peer_cost for peer in fixed.LEARNERS if peer != name},
            dimensions=dimensions,
            policy=policy,
            seed=seed,
            score_local=score_local,
        )
        for name in fixed.LEARNERS
    ]


def _shares(gained: npt.NDArray[Any], trace: Trace) -> list[float]:
    phases = trace.phases[:, 0]
    return [100 * float(np.mean(share)) for share in (1.0 - gained, phases == TRAIN, phases == EXPLORE)]


def baseline_rows(experiment: Experiment) -> Iterator[dict[str, Any]]:
    """Yield a row of the results for every baseline; those that use a context once for each."""
    settings, _, _, _, curves, report = experiment
    printed = paper()["baselines"] if settings.is_the_papers else {}
    for done, scenario in enumerate(fixed.SCENARIOS):
        report("baselines", done, len(fixed.SCENARIOS))
        for name, context, gained in _baselines(experiment, scenario):
            if name in DRAWN:
                curves[scenario][name] = np.cumsum(1.0 - gained)[::CURVE_STEP].tolist()
            yield {
                "name": name,
                "scenario": scenario,
                "context": context,
                "error": 100 * float(np.mean(1.0 - gained)),
                "paper_error": printed.get(scenario, {}).get(name) if context is None else None,
            }


def _baselines(experiment: Experiment, scenario: str) -> Iterator[tuple[str, str | None, Floats]]:
    settings, data, contexts = experiment.settings, experiment.data, experiment.contexts
    outputs = experiment.outputs[scenario][0]
    gains, labels = right(data, outputs), data.labels
    for name, booster in BOOSTERS.items():
        yield name, None, (booster(data, outputs) == labels).astype(np.float64)
    yield "persistence", None, (persistence(labels) == labels).astype(np.float64)
    yield "best_fixed", None, gained_by(gains, best_fixed(gains))
    drawn = [gained_by(gains, uniform_random(gains, seed)) for seed in range(settings.seeds)]
    yield "uniform_random", None, np.mean(drawn, axis=0)
    for context, values in contexts.items():
        cells = keys_of(values[:, None], fixed.SLICES)
        yield "per_cell_oracle", context, gained_by(gains, per_cell_oracle(gains, cells))
        greedy = [gained_by(gains, epsilon_greedy(gains, cells, seed=seed)) for seed in range(settings.seeds)]
        yield "epsilon_greedy", context, np.mean(greedy, axis=0)
        yield "linucb", context, gained_by(gains, linucb(gains, values[:, None]))


def once(data: Data, outputs: Outputs) -> Ints:
    """Predict the window by AdaBoost, trained once on other rows."""
    part, first = slice(*fixed.BOOSTING_ROWS), len(data.window) - data.rows
    return adaboost(outputs.training[part], data.training.labels[part], outputs.window[first:])


def sliding(data: Data, outputs: Outputs, *, window: int, every: int | None = None) -> Ints:
    """Predict the window by AdaBoost, retrained on the last rows."""
    labels, first = data.window.labels, len(data.window) - data.rows
    return sliding_window_adaboost(outputs.window, labels, first=first, window=window, every=every)


# They see the outputs of all functions; values are the predicted labels of the window.
BOOSTERS: Final[Mapping[str, Callable[[Data, Outputs], Ints]]] = {
    "adaboost": once,
    **{
        f"swa_{window}" + ("_every_item" if every else ""): partial(sliding, window=window, every=every)
        for window, every in product(fixed.WINDOWS, (None, 1))
    },
}


def gained_by(gains: npt.NDArray[Any], picked: Ints) -> Floats:
    """Return what the picked function gained for every item."""
    gained: Floats = gains[np.arange(len(gains)), picked].astype(np.float64)
    return gained


def function_rows(experiment: Experiment) -> Iterator[dict[str, Any]]:
    """Yield the error of every function over the window."""
    settings, data, outputs, *_ = experiment
    printed = paper()["functions"] if settings.is_the_papers else {}
    for scenario, functions in fixed.SCENARIOS.items():
        errors = 100 * (1.0 - np.mean([right(data, each).mean(axis=0) for each in outputs[scenario]], axis=0))
        for number, (function, error) in enumerate(zip(functions, errors.tolist(), strict=True)):
            learner, place = divmod(number, 2)
            yield {
                "learner": learner + 1,
                "name": function.name,
                "scenario": scenario,
                "error": error,
                "paper_error": printed[scenario][learner][place] if printed else None,
            }
