"""The slow twin of `ContextSelection`: one twin for every view, of which one is trusted (exactness: Views)."""

import math
from collections.abc import Iterable
from dataclasses import replace

from tests.oracle.twin import Twin
from tests.oracle.twin_values import (
    NO_SCORES,
    Ask,
    Context,
    Place,
    Scores,
    TwinAnswer,
    TwinCell,
    TwinChoice,
    TwinSettings,
)

Axes = tuple[int, ...]
LEAD = 16.0  # how much smaller the loss of a view must be before it is trusted instead


def candidates_of(dimensions: int) -> tuple[Axes, ...]:
    """Return every axis alone, and then all axes together (candidates="auto")."""
    alone = tuple((axis,) for axis in range(dimensions))
    return alone if dimensions == 1 else (*alone, tuple(range(dimensions)))


class ViewsTwin:
    """One learner with several views. The twins inside hold the same items, answers and labels."""

    def __init__(self, inside: type[Twin], settings: TwinSettings, candidates: tuple[Axes, ...]) -> None:
        """Start with no item seen and trust in the first view."""
        self._candidates = candidates
        self._time = (settings.dimensions,) if settings.time_dimension else ()
        self._views = [inside(settings_of(settings, axes)) for axes in candidates]
        for view in self._views:
            view.siblings = self._views
        self.losses = [0.0 for _ in candidates]
        self.decided = [0 for _ in candidates]
        self.trusted = 0

    def choose(self, context: Context, ask: Ask, without: Iterable[str] = (), again: int = 0) -> TwinChoice:
        """Decide which arm the next own item goes to, or one that came before."""
        self._begin_choice(set(without), again)
        places = self._enter(context)

        def ask_for_all(peer: str) -> tuple[int, int] | None:
            told = ask(peer)
            if told is not None:
                for view, place in zip(self._views, places, strict=True):
                    view.enter_report(place, peer, told)
            return told

        number = self.trusted
        pick = self._views[number].pick(places[number], ask_for_all)
        self.decided[number] += 0 if again else 1
        choices = [view.enter_choice(place, pick) for view, place in zip(self._views, places, strict=True)]
        for view in self._views:
            view.end_choice()
        self._limit_waiting()
        return replace(choices[number], view=number)

    def _begin_choice(self, left_out: set[str], again: int) -> None:
        for view in self._views:
            view.begin_choice(again)
            view.left_out = left_out  # the same set for all: a peer that does not tell is left out by all
        if again:
            return
        for id in self._views[0].overdue_ids():
            self._overdue(id)
        for view in self._views:
            view.begin_era()

    def answer(
        self, context: Context, caller: str, request: int, training: bool, without: Iterable[str] = ()
    ) -> TwinAnswer:
        """Answer a peer's call from the own functions only."""
        for view in self._views:
            view.left_out = set(without)
        is_labelled = training or self.shares_all()
        places: list[Place] = (
            [*self._enter(context)] if is_labelled else [view.look_up(seen) for view, seen in self._seen(context)]
        )
        function = self._views[self.trusted].pick_answer(places[self.trusted], caller, request, training)
        ticket = None
        if is_labelled:
            for view, place in zip(self._views, places, strict=True):
                ticket = view.wait_for("answer", function, place)
        self._limit_waiting()
        return TwinAnswer(function, ticket)

    def report(self, context: Context) -> tuple[int, int]:
        """Return (arrivals, taught) of the trusted cell that holds the context."""
        view, seen = self._seen(context)[self.trusted]
        return view.report(seen)

    def learn(self, id: int, gain: float, cost: float | None = None, others: Scores = NO_SCORES) -> None:
        """Judge every view by a label, and enter it there; KeyError when the id is not waiting."""
        for number, view in enumerate(self._views):
            waited = view.waiting(id)
            if waited.kind != "training":
                self.losses[number] += loss(view.judged_by(waited), waited.arm, view.reward(waited, gain, cost))
            view.learn(id, gain, cost, others)
        best = self.losses.index(min(self.losses))
        if self.losses[best] + LEAD < self.losses[self.trusted]:
            self.trusted = best

    def share(self, number: int) -> float:
        """Return exp(-loss) of a view, normalised."""
        weights = [math.exp(min(self.losses) - loss) for loss in self.losses]
        return weights[number] / sum(weights)

    def views(self) -> list[Twin]:
        """Return the twins of all views."""
        return self._views

    def axes(self) -> list[Axes]:
        """Return the axes of all views; the time, if it is an axis, is the last of each."""
        return [(*axes, *self._time) for axes in self._candidates]

    def shares_all(self) -> bool:
        """Tell whether the label is passed on after every call."""
        return self._views[0].shares_all()

    def cost(self, arm: str) -> float:
        """Return what an arm costs now."""
        return self._views[0].cost(arm)

    def set_cost(self, arm: str, cost: float) -> None:
        """Change what an arm costs from now on."""
        for view in self._views:
            view.set_cost(arm, cost)

    def pause(self, arm: str) -> None:
        """Leave an arm out until it is resumed."""
        for view in self._views:
            view.pause(arm)

    def resume(self, arm: str) -> None:
        """Leave an arm out no longer."""
        for view in self._views:
            view.resume(arm)

    def fail(self, id: int) -> int:
        """Take a decision back; return the arrival number of its item."""
        (arrival,) = {view.fail(id) for view in self._views}
        return arrival

    def withdraw(self, id: int) -> None:
        """Wait for a label no longer."""
        for view in self._views:
            view.withdraw(id)

    def add_own(self, name: str, cost: float) -> None:
        """Let an own function join, after the other own ones."""
        for view in self._views:
            view.add_own(name, cost)

    def add_peer(self, name: str, cost: float, functions: int = 1) -> None:
        """Let a peer join, at the end."""
        for view in self._views:
            view.add_peer(name, cost, functions)

    def remove(self, arm: str) -> None:
        """Let an arm leave."""
        for view in self._views:
            view.remove(arm)

    def _enter(self, context: Context) -> list[Place]:
        """Visit the cells of all views, that of the trusted one first: there may be room for one new cube only."""
        seen = self._seen(context)
        places: dict[int, Place] = {}
        for number in [self.trusted, *range(len(seen))]:
            if number not in places:
                view, part = seen[number]
                places[number] = view.enter(part)
        return [places[number] for number in range(len(seen))]

    def _seen(self, context: Context) -> list[tuple[Twin, Context]]:
        """Return for every view the part of the context that it looks at."""
        return [
            (view, tuple(context[axis] for axis in axes))
            for view, axes in zip(self._views, self._candidates, strict=True)
        ]

    def _limit_waiting(self) -> None:
        for id in self._views[0].too_many_ids():
            self._overdue(id)

    def _overdue(self, id: int) -> None:
        default = self._views[0].default_reward(id)
        if default is not None:
            self.learn(id, default)
            return
        for view in self._views:
            view.overdue(id)


def settings_of(settings: TwinSettings, axes: Axes) -> TwinSettings:
    """Return what a view is told: some of the axes, but how many there are of all that are cut."""
    all_axes = settings.dimensions - len(settings.categories) + (1 if settings.time_dimension else 0)
    categories = frozenset(place for place, axis in enumerate(axes) if axis in settings.categories)
    return replace(settings, dimensions=len(axes), categories=categories, all_axes=all_axes)


def loss(cell: TwinCell | None, arm: str, reward: float) -> float:
    """Return how surprising a reward is for a view, given what it knows of the arm."""
    count, total = (0.0, 0.0) if cell is None else (cell.arms[arm].reward_count, cell.arms[arm].reward_sum)
    x = min(max(reward, 0.0), 1.0)
    p = (min(max(total, 0.0), count) + 0.5) / (count + 1)
    return -x * math.log(p) - (1 - x) * math.log(1 - p)
