"""Who learns from a label: the model that was used, or all models of the site that learn."""

from __future__ import annotations

import random
from typing import Any

import pytest

from cosend import CellKLUCB, Site, fold
from cosend.axes import Feature
from cosend.errors import ClassifierError
from tests.engine.world import whole


class Pupil:
    """Remembers what it was taught, and says the label it was taught last."""

    learns = True

    def __init__(self) -> None:
        self.taught: list[tuple[Any, Any]] = []

    def predict(self, items: Any) -> list[Any]:
        return [self.taught[-1][1] if self.taught else 0] * len(items)

    def learn(self, item: Any, label: Any) -> None:
        self.taught.append((item["x"], label))


def zero(_: Any) -> int:
    return 0


def site_of(name: str, learns_from: Any, log: list[Any] | None = None, **models: Any) -> Site:
    return Site(
        name,
        classifiers=models or {f"{name}_a": Pupil(), f"{name}_b": Pupil(), f"{name}_c": zero},
        context=Feature("x", range=(0, 1)),
        policy=CellKLUCB(slices=2),
        learns_from=learns_from,
        journal=None if log is None else log.append,
    )


def taught(site: Site) -> dict[str, list[tuple[Any, Any]]]:
    return {name: model.taught for name, model in site.classifiers.items() if isinstance(model, Pupil)}


def rows(count: int, seed: int = 1) -> list[tuple[dict[str, float], int]]:
    draw = random.Random(seed)
    return [({"x": x}, int(x > 0.5)) for x in (draw.random() for _ in range(count))]


@pytest.mark.parametrize("learns_from", ["used", "all"])
def test_a_batch_teaches_what_item_by_item_teaches_and_the_log_folds(learns_from: str) -> None:
    logs: list[list[Any]] = [[], []]
    one, many = (site_of("s", learns_from, log) for log in logs)
    stream = rows(30)
    singly = [one.classify(item) for item, _ in stream]
    together = many.classify_many([item for item, _ in stream])
    assert singly == together
    for decision, (_, truth) in zip(singly, stream, strict=True):
        one.learn(decision, truth)
    many.learn_many(together, [truth for _, truth in stream])
    assert taught(one) == taught(many)
    for site, log in zip((one, many), logs, strict=True):
        again: list[Any] = []
        folded = fold(log, examples=again.extend)
        assert [(example.item["x"], example.truth) for example in again] == [
            (item["x"], truth) for item, truth in stream
        ]
        assert whole(folded) == whole(site.engine.state)


def test_a_model_that_fails_to_learn_keeps_no_other_from_learning() -> None:
    class Stubborn(Pupil):
        def learn(self, item: Any, label: Any) -> None:
            raise ValueError("no")

    site = site_of("s", "all", stubborn=Stubborn(), pupil=Pupil())
    decision = site.classify({"x": 0.2})
    with pytest.raises(ClassifierError, match="'stubborn' failed to learn: ValueError: no"):
        site.learn(decision, 1)
    assert taught(site)["pupil"] == [(0.2, 1)]
    assert not site.is_pending(decision)
