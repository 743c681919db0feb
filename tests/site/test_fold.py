"""Events and what is made of them: the state to the last bit, the same decisions, or an error that says why not."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from cosend import CoS, Patience, Site, fold, verify
from cosend.algorithm.policies import Policy
from cosend.algorithm.values import ScoreLocal
from cosend.axes import Axis, Category, Feature, PreviousLabel
from cosend.engine import events
from cosend.engine.site_state import SiteState
from cosend.engine.snapshot import restore, state_of
from cosend.errors import NetworkError, SettingError, StateError
from tests.engine.world import whole
from tests.policies import POLICIES, mostly_claims
from tests.site.test_failing_arms import Line
from tests.site.test_site import always, high

AXES: list[Axis] = [Feature("x", range=(0, 1)), Category("kind")]
RANKED: list[Axis] = [Feature("x", window=7), PreviousLabel(0, 1)]
Log = list[events.Event]
LABELLED = (True, True)  # a question that trains, and whose label follows


def played(policy: Policy, axes: list[Axis], items: int = 60, **options: Any) -> tuple[list[Site], list[Log]]:
    """Play two sites with late labels, a line that fails, an arm that pauses and one that joins; return their logs."""
    draw, logs = random.Random(4), list[Log]([[], []])
    models = {"lab": {"one": always(1), "zero": always(0)}, "hq": {"high": high}}
    sites = [
        Site(name, classifiers=models[name], context=axes, policy=policy, journal=log.append, seed=3, **options)
        for name, log in zip(models, logs, strict=True)
    ]
    lab, hq = sites
    line = Line(hq)
    lab.add_peer("hq", line, cost=0.05)
    waiting = []
    for n in range(items):
        line.error = NetworkError("down") if n % 20 in (7, 8) else None
        if n in (5, 35):
            lab.pause("one")
        if n == 20:
            lab.resume("one")
        if n == 30:
            lab.add_classifier("late", always(1), cost=0.1)
            lab.set_cost("zero", 0.2)
        if n == 45:
            lab.remove("one")
        size = draw.choice([1, 1, 3])
        batch = [{"x": draw.random(), "kind": draw.choice("abc")} for _ in range(size)]
        waiting += list(zip(lab.classify_many(batch), batch, strict=True))
        if n % 9 == 4:
            hq.classify(batch[0])
        draw.shuffle(waiting)
        while len(waiting) > 4:
            decision, item = waiting.pop()
            if lab.is_pending(decision.id):
                lab.learn(decision, high(item), cost=draw.choice([None, 0.3]))
    return sites, logs


@pytest.mark.compiled
@pytest.mark.parametrize(("axes", "score_local"), [(AXES, "all"), (RANKED, "used")], ids=["category, all", "rank"])
@pytest.mark.parametrize("policy", mostly_claims(POLICIES))
def test_the_events_of_a_site_fold_to_its_state_byte_for_byte(
    policy: str, axes: list[Axis], score_local: ScoreLocal
) -> None:
    assert_folds(POLICIES[policy], axes, score_local)


@pytest.mark.parametrize(
    "policy",
    [
        "CoS doubling",
        "Zooming concentrated",
        "CellKLUCB doubling",
        "MixedViews",
        "MixedViews small",
        "MixedViews without a sum",
    ],
)
def test_they_do_so_without_the_compiler(policy: str) -> None:
    assert_folds(POLICIES[policy], AXES, "all")


def assert_folds(policy: Policy, axes: list[Axis], score_local: ScoreLocal) -> None:
    patience = Patience(wait_limit=40, max_pending=9, overdue=0.5)
    sites, logs = played(policy, axes, patience=patience, score_local=score_local)
    for site, log in zip(sites, logs, strict=True):
        assert whole(fold(log)) == whole(site.engine.state)
        assert verify(log) == []


def test_a_folded_site_goes_on_as_the_live_one_and_writes_its_own_journal() -> None:
    sites, (log, _) = played(CoS(slices=2, exploration_exponent=0.1), RANKED)
    written: Log = []
    folded, live = fold(log, axes=RANKED, journal=written.append), sites[0].engine.state
    before = len(log)
    for x in (0.2, 0.8, 0.5):
        steps = [each.choose(each.encode([[x], [0.0]])[0], without=["hq"]) for each in (folded, live)]
        assert steps[0] == steps[1]
    assert written == log[before:]
    assert whole(folded) == whole(live)
    recorded = fold(log)
    assert recorded.encode([[0.3], [0.0]])[0].shape == (1, 2)
    with pytest.raises(StateError, match="known from a log only: give the site its axes to continue"):
        recorded.encoder.axes[0].read([{"x": 1}])


def test_verify_says_where_the_rules_would_decide_otherwise_and_goes_on_from_what_was_recorded() -> None:
    _, (log, peer_log) = played(CoS(slices=2, exploration_exponent=0.1, order="train_first"), AXES)
    chosen = [n for n, event in enumerate(log) if isinstance(event, events.Chosen) and set(event.arms) == {"hq"}]
    asked = [n for n, event in enumerate(log) if isinstance(event, events.Asked)]
    late = chosen[-1]
    event = log[late]
    assert isinstance(event, events.Chosen)
    other = [*log[:late], replace(event, arms=("zero",) * len(event.arms), kinds=(2,) * len(event.kinds))]
    (difference,) = verify(other)
    assert (difference.number, difference.event) == (late, other[late])
    assert difference.recorded[0] == ("zero",) * len(event.arms)
    assert difference.now[0] == event.arms
    question = log[asked[-1]]
    assert isinstance(question, events.Asked)
    strange = [*log[: asked[-1]], replace(question, without=("hq",))]
    assert verify(strange)[0].recorded == ("hq",)
    served = [n for n, event in enumerate(peer_log) if isinstance(event, events.Served)]
    assert served
    wrong = [replace(event, propensities=(0.123,)) if isinstance(event, events.Chosen) else event for event in log]
    found = verify(wrong, most=3)
    assert len(found) == 3
    assert verify(iter(wrong), most=3) == found  # a log that can be read only once
    before = found[0].number + 1
    assert verify(wrong[before:], most=2, begin=lambda: fold(wrong[:before]), first=before) == found[1:]


def a_state(log: Log | None = None, **options: Any) -> SiteState:
    journal = None if log is None else log.append
    return SiteState("lab", local={"a": 0.0, "b": 0.1}, axes=[Feature("x", range=(0, 1))], journal=journal, **options)


def test_a_log_that_is_none_is_refused_with_the_event_that_is_wrong() -> None:
    log: Log = []
    state = a_state(log)
    step = state.choose(state.encode([[0.5]])[0])
    state.complete([step.first], [1])
    started = log[0]
    assert isinstance(started, events.Started)
    wrong: dict[str, list[Any]] = {
        "the log is empty: its first event must be Started": [],
        "event 0 of the log, Chosen, cannot be applied: the first event must be Started": log[1:],
        "event 1 of the log, Started, cannot be applied: a log has one start": [started, started],
        "it has version 99 of the events; this cosend reads 2": [replace(started, version=99)],
        "event 1 of the log, Labelled, cannot be applied": [started, events.Labelled((7,), (1,), (1.0,))],
        "site 'lab' knows no event str": [started, "nonsense"],
        "event 1 of the log, Chosen, cannot be applied: site 'lab' has no arm 'c'": [
            started,
            events.Chosen(1, ((0.5,),), ("c",), (3,), (1.0,), (0,)),
        ],
        "event 1 of the log, Served, cannot be applied: its contexts must be": [
            started,
            events.Served("hq", (1,), 1, (([0.5],),), ("a",), (True,)),
        ],
        "Served, cannot be applied: its contexts must be at least one": [
            started,
            events.Served("hq", (), 1, (), (), ()),
        ],
    }
    for sentence, bad in wrong.items():
        with pytest.raises(StateError, match=sentence):
            fold(bad)
    with pytest.raises(StateError, match="the log has the axes"):
        fold(log, axes=[Feature("y", range=(0, 1))])


def test_a_log_with_a_hole_is_refused_and_so_is_what_is_no_log() -> None:
    log: Log = []
    state = a_state(log)
    state.choose(state.encode([[0.5, 0.6]])[0])
    assert isinstance(log[-1], events.Chosen)
    with pytest.raises(StateError, match="it begins with id 77, the next one is 1"):
        fold([log[0], replace(log[-1], first=77)])
    with pytest.raises(SettingError, match="again must be the arrival of each item"):
        verify([log[0], replace(log[-1], again=(1, 10**9))])
    nothing: Any = None
    for call in (fold, verify):
        with pytest.raises(SettingError, match="log must be a list of events"):
            call(nothing)


def test_a_refused_change_is_no_change_and_writes_nothing() -> None:
    log: Log = []
    state = a_state(log)
    state.add_peer("hq", 0.1, 2)
    step = state.choose(state.encode([[0.5]])[0])
    before, written = whole(state), len(log)
    bad: list[Callable[[], object]] = [
        lambda: state.settle([step.first], [1], [1.0]),  # it is still being decided
        lambda: state.settle([99], [1], [1.0]),
        lambda: state.remove("nobody"),
        lambda: state.pause("nobody"),
        lambda: state.set_cost("a", 7),
        lambda: state.add_peer("far", 0.1, 2**63),
        lambda: state.choose(state.encode([[0.5]])[0], without=["a", "b", "hq"]),
        lambda: state.serve("hq", [1, 1], [(0.5,)] * 2, [LABELLED] * 2),
        lambda: state.serve("hq", [1], [(1.5,)], [LABELLED]),
        lambda: state.serve("hq", [1], [([0.5],)], [LABELLED]),
        lambda: state.serve("hq", [1, 2], [((0.5,),), (0.5,)], [LABELLED] * 2),
        lambda: state.serve("hq", [1], [(0.5,)], [LABELLED], without=["a", "b"]),
    ]
    for change in bad:
        with pytest.raises(Exception, match=r"lab|functions|hq|cost"):
            change()
        assert (whole(state), len(log)) == (before, written)
    state.complete([step.first], [1])
    state.settle([step.first], [1], [1.0])
    assert state.outbox == {}


DAMAGED: list[tuple[str, Any]] = [
    ("newest", None),
    ("recent", [[9, 7, []]]),
    ("recent", None),
    ("codes", [[-1, []]]),
    ("notes", [[1, 1, None, 0, [1], None]]),
    ("unanswered", [[1, 1, None, 5, [], None]]),
    ("outbox", [[1]]),
    ("outbox", {"hq": [[1]]}),
    ("answering", [["a"]]),
    ("features", {"seen": {}}),
    ("kinds", ["text", 5]),
]


@pytest.mark.parametrize(("part", "value"), DAMAGED)
def test_a_damaged_part_of_a_state_is_refused(part: str, value: Any) -> None:
    state = SiteState("lab", local={"a": 0.0}, axes=RANKED)
    saved = state_of(state)
    facts = {**saved.facts, "site": {**saved.facts["site"], "models": [["a", "b"]], part: value}}
    with pytest.raises(StateError, match="the saved state of site 'lab' is damaged"):
        restore(state, saved._replace(facts=facts))


def test_a_site_saved_in_the_middle_goes_on_with_its_outbox(tmp_path: Any) -> None:
    def two() -> tuple[Site, Site, Line]:
        lab = Site("lab", classifiers={"one": always(None)}, context=AXES)
        hq = Site("hq", classifiers={"high": high}, context=AXES)
        line = Line(hq)
        lab.add_peer("hq", line)
        return lab, hq, line

    lab, hq, line = two()
    made = lab.classify_many([{"x": n / 20, "kind": "a"} for n in range(20)])
    line.error = NetworkError("down")
    lab.learn_many(made, [1] * 20)
    assert lab.engine.state.outbox
    lab.save(tmp_path / "lab.npz")
    hq.save(tmp_path / "hq.npz")
    again, peer, line = two()
    again.load(tmp_path / "lab.npz")
    peer.load(tmp_path / "hq.npz")
    assert list(again.engine.state.outbox) == list(lab.engine.state.outbox)
    for _ in range(64):
        again.learn(again.classify({"x": 0.5, "kind": "b"}), 1)
    assert (list(again.engine.state.outbox), peer.pending()) == ([], {})
    for part in ("breakers", "items"):
        state = lab.state()
        state.facts["site"][part] = "many"
        with pytest.raises(StateError, match="damaged"):
            again.restore(state)
