"""Eight threads that use the same object, with all its verbs: a process of its own, because it may crash.

    python -m tests.site.at_once site|network|learner FOLDER

The last line says what came of it, as JSON.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from cosend import CosendError, Decision, Learner, MixedViews, Network, Site
from cosend.algorithm.values import LabelledData
from cosend.axes import Feature
from cosend.engine.needs import Call, Forward, Question
from cosend.errors import DecisionError

THREADS = 8
ROUNDS = 40


class Spy:
    """Passes everything on, and notes which verbs were called."""

    def __init__(self, of: Any, used: set[str]) -> None:
        self._of, self._used = of, used

    def __getattr__(self, name: str) -> Any:
        self._used.add(name)
        return getattr(self._of, name)


def all_at_once(work: Callable[[int], None]) -> list[str]:
    """Let threads work, and return what went wrong."""
    errors: list[str] = []
    start = threading.Barrier(THREADS)

    def run(number: int) -> None:
        start.wait()
        try:
            work(number)
        except BaseException as error:
            errors.append(f"{type(error).__name__}: {error}")

    threads = [threading.Thread(target=run, args=(number,), daemon=True) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(240)
    return [*errors, *("it hangs" for thread in threads if thread.is_alive())]


def a_site(name: str = "here", **options: Any) -> Site:
    models = {"yes": lambda item: True, "no": lambda item: False}
    return Site(name, classifiers=models, context=Feature("x", range=(0, 1)), **options)


class Nobody:
    """A peer that labels nothing."""

    def report(self, context: tuple[Any, ...]) -> LabelledData:
        return LabelledData(0, 0)

    def serve(self, call: Call) -> list[Any]:
        raise CosendError("nobody is there")

    def teach(self, forward: Forward) -> None:
        raise CosendError("nobody is there")


def try_site(folder: Path) -> dict[str, Any]:
    used: set[str] = set()
    real = a_site()
    site: Any = Spy(real, used)
    made: list[int] = []

    def work(me: int) -> None:
        for n in range(ROUNDS):
            item = {"x": (me + n) % 10 / 10}
            decision = site.classify(item)
            many = site.classify_many([item] * 3)
            made.extend(each.id for each in [decision, *many])
            assert decision.id in site.pending()
            assert site.is_pending(decision)
            site.learn(decision, True)
            site.learn_many(many, [True] * 3)
            request = ROUNDS * me + n
            asked = Call("here", f"caller {me}", [Question(request, item, (0.5,), True, True)], ("x",))
            site.serve(asked)
            site.teach(Forward("here", f"caller {me}", request, True))
            site.report((0.5,))
            site.report_of(item, (0.5,), ("x",))
            site.summary(), site.weights(), site.backing_off(), site.may_drop(1), site.best_model([item]), site.state()
            site.predict("yes", [item])
            site.pause("no")
            site.set_cost("no", 0.1)
            site.resume("no")
        site.save(folder / f"saved {me}.npz")

    errors = all_at_once(work)
    items, labels = real.learner.arrivals, sum(arm.labels for arm in real.summary().arms)
    mixed: Any = Spy(a_site(policy=MixedViews()), used)
    log: list[Any] = []
    written = a_site("written", journal=log.append)
    for _ in range(20):
        written.learn(written.classify({"x": 0.5}), True)
    folded: Any = Spy(a_site("written"), used)

    def go_back(me: int) -> None:
        for _ in range(5):
            mixed.explain({"x": 0.5})
            site.restore(site.state())()
            site.load(folder / f"saved {me}.npz")
            folded.recover([*log])
            folded.classify({"x": 0.5})
            decision = site.classify({"x": 0.5})
            with suppress(DecisionError):  # somebody went back to where it was not made yet
                site.learn(decision, True)

    def join(me: int) -> None:
        for _ in range(5):
            site.add_classifier(f"new {me}", lambda item: True)
            site.add_peer(f"peer {me}", Nobody())
            decision = site.classify({"x": 0.5})
            with suppress(DecisionError):  # somebody removed the arm
                site.learn(decision, True)
            site.remove(f"peer {me}")
            site.remove(f"new {me}")

    errors += (all_at_once(go_back) or all_at_once(join)) if not errors else []
    return {"errors": errors, "made": len(made), "ids": len({*made}), "items": items, "labels": labels} | {
        "used": sorted(used)
    }


def try_network(folder: Path) -> dict[str, Any]:
    used: set[str] = set()
    real = Network([a_site("north"), a_site("south"), a_site("east", seed=1)])
    network: Any = Spy(real, used)
    made: list[tuple[str, int]] = []

    def work(me: int) -> None:
        site = real.sites[("north", "south", "east")[me % 3]]
        for n in range(ROUNDS // 4):
            rows = [({"x": (n + k) % 10 / 10}, True) for k in range(3)]
            turns = network.run({"north": rows, "south": rows, "east": rows})
            made.extend((turn.site, turn.decision.id) for turn in turns)
            decision: Decision = site.classify({"x": 0.5})
            made.append((site.name, decision.id))
            site.learn(decision, True)
            network.summary()
            network.save(folder / f"network {me}")

    errors = all_at_once(work)
    items = sum(site.learner.arrivals for site in real.sites.values())

    def go_back(me: int) -> None:
        for _ in range(5):
            network.load(folder / f"network {me}")
            real.sites["north"].classify({"x": 0.5})

    def join(me: int) -> None:
        rows = [({"x": 0.5}, True)] * 3
        for _ in range(3):
            network.add(a_site(f"new-{me}"))
            for turn in network.run({f"new-{me}": rows, "north": rows}):
                assert turn.site in ("north", f"new-{me}")
            network.remove(f"new-{me}")

    errors += (all_at_once(go_back) or all_at_once(join)) if not errors else []
    return {"errors": errors, "made": len(made), "ids": len({*made}), "items": items, "used": sorted(used)}


def try_learner(_: Path) -> dict[str, Any]:
    used: set[str] = set()
    real = Learner("here", own={"yes": 0.0, "no": 0.1}, policy=MixedViews())
    learner: Any = Spy(real, used)
    made: list[int] = []

    def work(me: int) -> None:
        for n in range(ROUNDS):
            points = [[(me + n + k) % 10 / 10] + [0.5] * (real.dimensions - 1) for k in range(3)]
            choices = learner.choose_many(points).choices if me else [learner.choose(points[0]) for _ in range(3)]
            made.extend(choice.id for choice in choices)
            learner.learn(choices[0].id, 1.0)
            learner.learn_many([choices[1].id], [1.0])
            if n % 2:
                learner.withdraw(choices[2].id)
            elif n % 4:
                learner.fail(choices[2].id)
            else:
                learner.withdraw_many([choices[2].id])
            request = ROUNDS * me + n
            learner.answer(points[0], caller=f"caller {me}", request=request, training=False)
            learner.answer_many([points[0]], caller=f"caller {me}", requests=[request], flags=[(False, False)])
            learner.report(points[0])
            learner.cells(), learner.views(), learner.explain(points[0]), learner.state(), learner.take_overdue()
            learner.pause("no")
            learner.set_cost("no", 0.2)
            learner.resume("no")

    def join(me: int) -> None:
        for _ in range(5):
            learner.add_own(f"new {me}")
            learner.choose([0.5])
            learner.add_peer(f"peer {me}")
            learner.choose([0.5])
            learner.remove(f"new {me}")
            learner.remove(f"peer {me}")

    errors = all_at_once(work)
    waiting, items = real.pending_count, real.arrivals
    late = (all_at_once(join) or all_at_once(lambda me: learner.add_axes(1))) if not errors else []
    return {"errors": errors + late, "made": len(made), "ids": len({*made}), "items": items, "waiting": waiting} | {
        "dimensions": real.dimensions,
        "used": sorted(used),
    }


if __name__ == "__main__":
    sys.setswitchinterval(1e-6)
    work = {"site": try_site, "network": try_network, "learner": try_learner}[sys.argv[1]]
    print(json.dumps(work(Path(sys.argv[2]))))
