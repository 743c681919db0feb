"""Who learns from a label: the model that was used, or all models of the site that learn."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from cosend import CellKLUCB, CoS, Network, Site, fold
from cosend.axes import Feature
from cosend.engine.snapshot import state_of
from cosend.errors import ClassifierError, SettingError


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


def test_all_models_that_learn_get_every_label_in_the_order_of_the_labels() -> None:
    used, every = site_of("s", "used"), site_of("s", "all")
    stream = rows(40)
    for site in (used, every):
        made = [(site.classify(item), truth) for item, truth in stream]
        for decision, truth in reversed(made):  # late, and out of order
            site.learn(decision, truth)
    expected = [(item["x"], truth) for item, truth in reversed(stream)]
    assert taught(every) == {"s_a": expected, "s_b": expected}
    lessons = taught(used)
    assert 0 < len(lessons["s_a"]) + len(lessons["s_b"]) < 40
    assert not set(lessons["s_a"]) & set(lessons["s_b"])


def test_labels_of_items_that_a_peer_labelled_or_sent_are_labels_of_the_site_too() -> None:
    """Both pupils of a site get the labels of its own items, and those that the other site passes on."""
    north, south = site_of("north", "all"), site_of("south", "all")
    network = Network([north, south])
    turns = list(network.run({"north": rows(60), "south": rows(60, seed=2)}))
    own = {name: [truth for site, _, truth in turns if site == name] for name in ("north", "south")}
    calls = {name: sum(turn.site == name and turn.decision.arm in network.sites for turn in turns) for name in own}
    assert min(calls.values()) > 5
    for site, other in ((north, south), (south, north)):
        first, second = taught(site).values()
        assert first == second
        assert len(first) == 60 + calls[other.name]


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
        folded, live = state_of(fold(log, examples=again.extend)), state_of(site.engine.state)
        assert [(example.item["x"], example.truth) for example in again] == [
            (item["x"], truth) for item, truth in stream
        ]
        assert json.dumps(folded.facts, sort_keys=True) == json.dumps(live.facts, sort_keys=True)
        assert {name: each.tobytes() for name, each in folded.arrays.items()} == {
            name: each.tobytes() for name, each in live.arrays.items()
        }


def test_items_are_kept_for_as_long_as_a_model_needs_them_and_for_no_other_site() -> None:
    plain = site_of("s", "all", only=zero)
    plain.classify({"x": 0.1})
    assert [note[1] for note in plain.learner.registry.notes.values()] == [None]
    site = site_of("s", "all")
    decisions = [site.classify(item) for item, _ in rows(9)]
    assert all(note[1] is not None for note in site.learner.registry.notes.values())
    site.learn_many(decisions, [0] * 9)
    assert site.learner.registry.notes == {}


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


@pytest.mark.parametrize("value", ["some", None, True, ["all"]])
def test_anything_else_is_refused(value: Any) -> None:
    with pytest.raises(SettingError, match="learns_from must be one of 'used', 'all'"):
        Site("s", classifiers={"c": zero}, context=Feature("x"), policy=CoS(), learns_from=value)


def test_unless_told_otherwise_a_model_that_is_never_used_learns_all_the_same() -> None:
    pupil = Pupil()
    site = Site("s", classifiers={"good": lambda item: int(item["x"] > 0.5), "pupil": pupil}, costs={"pupil": 1.0})
    for item, truth in rows(60):
        site.learn(site.classify(item), truth)
    assert len(pupil.taught) == 60
