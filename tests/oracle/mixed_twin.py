"""The slow twin of `MixedViews`, written from SPEC 7 (exactness: Mixed views, Features)."""

import itertools
import math
from collections.abc import Iterable
from copy import deepcopy
from dataclasses import dataclass, field
from typing import NamedTuple

from tests.oracle.cell_twins import bound
from tests.oracle.twin import (
    ANSWER_TIE,
    BEST_TIE,
    NO_SCORES,
    Ask,
    Context,
    Scores,
    Twin,
    TwinAnswer,
    TwinArm,
    TwinCell,
    TwinChoice,
    TwinSettings,
    Waiting,
    hash_words,
)

Key = tuple[int, ...]
CODES = 4096


class View(NamedTuple):
    """One way to look at an item."""

    axes: tuple[int, ...] = ()
    slices: int = 1
    memory: float = 1.0
    up: int = 0  # the next coarser view of the same axes
    is_fine: bool = False
    is_pattern: bool = False


@dataclass
class Kept:
    """What is kept with a decision until its label comes."""

    rows: list[Key | None]  # in every view
    forecasts: dict[str, list[float]] = field(default_factory=dict)  # of own functions
    used: list[float] = field(default_factory=list)  # of the arm that was used


def logistic(total: float) -> float:
    return 1 / (1 + math.exp(-min(max(total, -30.0), 30.0)))


def sureness(mean: float) -> float:
    """Return by what the share is multiplied when all views together forecast this of the used arm."""
    certain = 2 * min(max(mean, 0.01), 0.99) - 1
    return max(0.01, (certain * certain) * (certain * certain))


def chance(forecast: float, gain: float) -> float:
    q = min(max(forecast, 0.01), 0.99)
    if gain >= 1:
        return q
    if gain <= 0:
        return 1 - q
    return math.exp(gain * math.log(q) + (1 - gain) * math.log(1 - q))


SUM = 2  # the view that adds up, if there is one


def in_fours(numbers: list[float]) -> float:
    """Return the sum as exactness.md has it: four sums side by side; what is behind the last four goes to the first."""
    sums, end = [0.0] * 4, len(numbers) - len(numbers) % 4
    for place, number in enumerate(numbers):
        sums[place % 4 if place < end else 0] += number
    return (sums[0] + sums[1]) + (sums[2] + sums[3])


class MixedTwin(Twin):
    """One learner that mixes what all views forecast."""

    def __init__(self, settings: TwinSettings) -> None:
        super().__init__(settings)
        self.mixed = [View(memory=0.9), View(), *([View()] if settings.adds_up else [])]  # the order of SPEC 7
        d = settings.dimensions
        parts = [*itertools.combinations(range(d), 1)]
        parts += itertools.combinations(range(d), 2) if 2 < d <= 12 else ()
        for axes in [*parts, *([tuple(range(d))] if 1 < d <= 12 else [])]:
            self._add_levels(axes, [4, 16, 64] if d <= 12 else [4, 16, 1024])
        self.mixed += [View(memory=0.9, is_pattern=True), View(is_pattern=True)]
        self.sum = SUM if settings.adds_up else None
        self.weights = [1 / len(self.mixed) for _ in self.mixed]
        self.times = [1 for _ in self.mixed]  # for how many views each stands
        self.rows: list[dict[Key, TwinCell]] = [{} for _ in self.mixed]
        self.pattern, self.newest = 0, 0
        self.tries_free = False  # some labels did not score all free local models
        self.features = 0  # that have got axes
        self.unchanged = 0  # features that have none because they never changed
        self._items_before = 0
        self.paid_explored = 0  # own choices of arms that cost something, made to learn about them
        self.giver = 0  # the view that stands for those of these
        self._kept: dict[int, Kept] = {}

    def choose(self, context: Context, ask: Ask, without: Iterable[str] = (), again: int = 0) -> TwinChoice:
        """Decide which arm the next own item goes to, or one that came before; nobody is asked."""
        self._arrive(again, without)
        self._items_before = self.arrivals - (0 if again else 1)
        rows = self._rows_of(context, begins=True)
        forecasts = self._forecasts(rows)
        candidates = self._best_of(self._in(self._own, self._peers), rows, forecasts)
        arm = self._one_of(candidates, BEST_TIE, self._next_id)
        phase = self._phase(arm, rows, forecasts)
        self.paid_explored += phase == "explore" and {**self._own, **self._peers}[arm] > 0
        for cell in self._cells_of(rows):
            cell.arrivals += 0 if again else 1
            cell.arms[arm].pending_count += 1
        id = self._wait("own", arm, rows, forecasts)
        self._again = 0
        self._limit_waiting()
        view = self._shown(rows)
        key = rows[view]
        assert key is not None
        return TwinChoice(id, phase, arm, (self.mixed[view].slices, key), len(candidates), view)

    def answer(
        self, context: Context, caller: str, request: int, training: bool, without: Iterable[str] = ()
    ) -> TwinAnswer:
        """Answer a peer's call: nothing is entered until its label is passed on."""
        self.left_out, self._items_before = set(without), self.arrivals
        is_labelled = training or self.shares_all()
        rows = self._rows_of(context, begins=is_labelled)
        forecasts = self._forecasts(rows)
        candidates = self._best_of(self._in(self._own), rows, forecasts)
        function = self._one_of(candidates, ANSWER_TIE, request, hash_words(caller)[0])
        ticket = self._wait("answer", function, rows, forecasts) if is_labelled else None
        self._limit_waiting()
        return TwinAnswer(function, ticket)

    def report(self, context: Context) -> tuple[int, int]:
        view = self._reporting()
        key = self._key(view, context)
        if key is None:
            view, key = 1, self._key(1, context)
        cell = TwinCell() if key is None else self.rows[view].get(key, TwinCell())
        return cell.arrivals, cell.taught

    def learn(self, id: int, gain: float, cost: float | None = None, others: Scores = NO_SCORES) -> None:
        """Take the label of an own decision or of an answer; KeyError when the id is not waiting."""
        waited = self.waiting.pop(id)
        kept = self._kept.pop(id)
        reward = self.reward(waited, gain, cost)
        scored = {name: others[name] for name in self._own if name in others}
        if self.sum is not None:
            self._add_evidence(kept.rows, {waited.arm: reward, **scored})
        self._weigh(kept, reward, scored)
        for view, key in enumerate(kept.rows):
            if key is not None:
                self._enter_label(self.rows[view][key], self.mixed[view].memory, waited, reward, scored)
        for name, arm in self.rows[0][()].arms.items():
            if name != waited.arm and name not in scored:
                arm.reward_sum, arm.reward_count = 0.9995 * arm.reward_sum, 0.9995 * arm.reward_count
        if id > self.newest:
            self.newest, self.pattern = id, 1 + self._pattern(waited.arm, reward, scored)

    def withdraw(self, id: int) -> None:
        waited, kept = self.waiting.pop(id), self._kept.pop(id)
        if waited.kind == "own":
            for cell in self._cells_of(kept.rows):
                cell.arms[waited.arm].pending_count -= 1

    def remove(self, arm: str) -> None:
        group = self._group_of(arm)
        first = self.rows[0].get(())
        if arm != [*group][-1] or (first is not None and first.arms[arm].reward_count > 0):
            self._forget_patterns()
        super().remove(arm)
        self._kept = {id: kept for id, kept in self._kept.items() if id in self.waiting}
        for kept in self._kept.values():
            kept.forecasts.pop(arm, None)
        for rows in self.rows:
            for cell in rows.values():
                del cell.arms[arm]

    def _join(self, group: dict[str, float], name: str, cost: float) -> None:
        super()._join(group, name, cost)
        for rows in self.rows:
            for cell in rows.values():
                cell.arms[name] = TwinArm()

    def _forget_patterns(self) -> None:
        self.pattern = 0
        for view, rows in zip(self.mixed, self.rows, strict=True):
            for cell in rows.values() if view.is_pattern else ():
                for arm in cell.arms.values():
                    arm.reward_sum = arm.reward_count = arm.evidence = 0.0

    # Rows

    def _reporting(self) -> int:
        return next(n for n, view in [*enumerate(self.mixed), (1, None)] if view is None or self._sees_all(view))

    def _sees_all(self, view: View) -> bool:
        return view.axes == tuple(range(self._settings.dimensions)) and bool(view.axes)

    def _shown(self, rows: list[Key | None]) -> int:
        return self._reporting() if rows[self._reporting()] is not None else 0

    def _key(self, number: int, context: Context) -> Key | None:
        view = self.mixed[number]
        if view.is_pattern:
            return (self.pattern,)
        if any(math.isnan(context[axis]) for axis in view.axes):
            return None
        return tuple(
            int(context[axis])
            if axis in self._settings.categories
            else min(math.floor(view.slices * context[axis]), view.slices - 1)
            for axis in view.axes
        )

    def _rows_of(self, context: Context, begins: bool) -> list[Key | None]:
        found: list[Key | None] = []
        for number, view in enumerate(self.mixed):
            found.append(self._row_of(number, view, context, begins, found))
        return found

    def _row_of(self, number: int, view: View, context: Context, begins: bool, found: list[Key | None]) -> Key | None:
        if number == self.sum:
            return None
        if view.is_fine:
            coarser = found[view.up]
            if coarser is None or self.rows[view.up][coarser].labels < 32:
                return None
        key = self._key(number, context)
        if key is None:
            return None
        if key not in self.rows[number]:
            if not begins or not self._has_room():
                return None
            self.rows[number][key] = self._blank()
        return key

    def _has_room(self) -> bool:
        limit = math.inf if self._settings.max_cells is None else self._settings.max_cells
        return sum(map(len, self.rows)) < limit

    def _cells_of(self, rows: list[Key | None]) -> list[TwinCell]:
        return [self.rows[view][key] for view, key in enumerate(rows) if key is not None]

    # Forecasts and indices

    def _forecasts(self, rows: list[Key | None]) -> list[dict[str, float]]:
        names = (*self._own, *self._peers)
        forecasts: list[dict[str, float]] = []
        for number, key in enumerate(rows):
            if number == self.sum:
                forecasts.append({name: logistic(self._sum(name, rows)) for name in names})
                continue
            if key is None:
                up = self.mixed[number].up
                forecasts.append(dict(forecasts[up]) if number else dict.fromkeys(names, 0.5))
                continue
            arms = self.rows[number][key].arms
            prior = forecasts[0] if number else dict.fromkeys(names, 0.5)
            forecasts.append(
                {name: (arms[name].reward_sum + prior[name]) / (arms[name].reward_count + 1) for name in names}
            )
        return forecasts

    def _mu(self, arm: str, forecasts: list[dict[str, float]]) -> float:
        return in_fours([weight * forecast[arm] for weight, forecast in zip(self.weights, forecasts, strict=True)])

    def _sum(self, arm: str, rows: list[Key | None]) -> float:
        """Return z: the sum over views with even numbers, and the one over those with odd numbers."""
        totals = [0.0, 0.0]
        for number, key in enumerate(rows):
            if key is not None and self.mixed[number].memory == 1:
                totals[number % 2] += self.rows[number][key].arms[arm].evidence
        return totals[0] + totals[1]

    def _n(self, arm: str, rows: list[Key | None]) -> float:
        n = 0.0
        for number, key in enumerate(rows):
            if key is not None:
                known = self.rows[number][key].arms[arm]
                n += self.weights[number] * (known.reward_count + known.pending_count)
        return n

    def _seen(self, rows: list[Key | None]) -> float:
        seen = 0.0
        for number, key in enumerate(rows):
            if key is not None:
                seen += self.weights[number] * self.rows[number][key].arrivals
        return seen

    def _is_scored(self, arm: str) -> bool:
        every = self._settings.scores and not self.tries_free
        return every and arm in self._own and self._own[arm] == 0 and not self._is_out(arm)

    def _best_of(self, arms: dict[str, float], rows: list[Key | None], forecasts: list[dict[str, float]]) -> list[str]:
        indices = {arm: self._index_of(arm, cost, rows, forecasts) for arm, cost in arms.items()}
        return [arm for arm, index in indices.items() if index == max(indices.values())]

    def _index_of(self, arm: str, cost: float, rows: list[Key | None], forecasts: list[dict[str, float]]) -> float:
        mu = self._mu(arm, forecasts)
        if self._is_scored(arm):
            return mu - cost
        is_dear = cost > 0
        if arm in self._peers:
            cost += self._settings.home_margin
        if is_dear and self.paid_explored > 50 + 0.01 * self._items_before:
            return mu - cost
        n = self._n(arm, rows)
        if n <= 0.001:
            return 3.0 - cost
        level = self._settings.bonus * math.log(max(1.0, self._seen(rows)))
        return bound(max(0.0, mu), level / n) - cost

    def _phase(self, arm: str, rows: list[Key | None], forecasts: list[dict[str, float]]) -> str:
        margin = self._settings.home_margin
        worth = {
            name: self._mu(name, forecasts) - cost - (margin if name in self._peers else 0.0)
            for name, cost in self._in(self._own, self._peers).items()
        }
        known = self._is_scored(arm) or self._n(arm, rows) > 0.001
        return "exploit" if known and worth[arm] == max(worth.values()) else "explore"

    # Labels

    def _wait(self, kind: str, arm: str, rows: list[Key | None], forecasts: list[dict[str, float]]) -> int:
        id = self._next_id
        self._next_id += 1
        self.waiting[id] = Waiting(kind, arm, (), (1, ()), self._number(), self._era)
        own = {name: [forecast[name] for forecast in forecasts] for name in self._own}
        self._kept[id] = Kept(rows, own, [forecast[arm] for forecast in forecasts])
        return id

    def _add_evidence(self, rows: list[Key | None], gains: dict[str, float]) -> None:
        """Move what the rows of an item add up to towards the gains."""
        cells = [
            None if key is None or view.memory < 1 else self.rows[number][key]
            for number, (view, key) in enumerate(zip(self.mixed, rows, strict=False))
        ]
        for arm, gain in gains.items():
            every = self._settings.scores and arm in self._own
            counts = [None if cell is None else cell.labels if every else cell.arms[arm].reward_count for cell in cells]
            rates = [
                0.0 if count is None else 1.0 / (count + 1.0) * times
                for count, times in zip(counts, self.times, strict=False)
            ]
            totals = [0.0, 0.0]
            for number, rate in enumerate(rates):
                totals[number % 2] += rate
            missed = min(max(gain, 0.0), 1.0) - logistic(self._sum(arm, rows))
            for cell, rate in zip(cells, rates, strict=True):
                if cell is not None:
                    cell.arms[arm].evidence += missed / (totals[0] + totals[1]) * rate

    def _weigh(self, kept: Kept, reward: float, scored: Scores) -> None:
        """Multiply every weight by how likely the view held the gains, about as if there were one of them."""
        judges = [(kept.used, reward)]
        judges += [(kept.forecasts[name], gain) for name, gain in scored.items() if name in kept.forecasts][:128]
        mean = in_fours([weight * forecast for weight, forecast in zip(self.weights, kept.used, strict=True)])
        share = self._settings.share * sureness(mean)
        for number in range(len(self.weights)):
            likely = 1.0
            for forecasts, gain in judges:
                likely *= chance(forecasts[number], gain)
            power = 1
            while power < len(judges):
                likely, power = math.sqrt(likely), 2 * power
            self.weights[number] *= likely
        total = in_fours(self.weights)
        each = share / sum(self.times)
        both = zip(self.weights, self.times, strict=True)
        self.weights = [(1 - share) * (weight / total) + each + each * (times - 1) for weight, times in both]

    def _enter_label(self, cell: TwinCell, memory: float, waited: Waiting, reward: float, scored: Scores) -> None:
        cell.labels += 1
        if waited.kind == "answer":
            cell.taught += 1
        else:
            cell.arms[waited.arm].pending_count -= 1
        for name, gain in ((waited.arm, reward), *scored.items()):
            arm = cell.arms[name]
            keep = 0.98 if memory == 1 and name in self.improving else memory
            arm.reward_sum = keep * arm.reward_sum + gain
            arm.reward_count = keep * arm.reward_count + 1

    def _pattern(self, used: str, reward: float, scored: Scores) -> int:
        if not self._settings.scores:
            group = self._group_of(used)
            return 4 * [*group].index(used) + 2 * (used in self._peers) + (reward >= 0.5)
        gains = {**scored, used: reward}
        return sum(2**bit for bit, name in enumerate([*self._own][:4]) if gains.get(name, 0.0) >= 0.5)

    # Features that get axes

    def add_axes(self, count: int, same: int = 0, places: tuple[float, ...] = ()) -> None:
        """Add axes of features behind the others (exactness: Mixed views, features)."""
        before, first, stood_for = len(self.mixed), self._settings.dimensions + self.features, sum(self.times)
        last = first + count
        self.features += count
        self.unchanged += same - len(places)
        if same:
            self.mixed.append(View())
            self.giver = before
        for axis in range(first, last):
            self._add_levels((axis,), [4, 16, 2**20])
            for other in range(axis) if last + self.unchanged <= 12 else ():
                self._add_levels((other, axis), [4, 16, 64])
        new = range(before, len(self.mixed))
        self._begin(new, 3 * same)
        heirs = [n for n in new if len(self.mixed[n].axes) == 1 and self.mixed[n].axes[0] >= last - len(places)]
        if heirs:
            self._inherit(heirs, places)
        total = stood_for + sum(self.times[n] for n in new if n not in heirs)
        for n in range(len(self.mixed)):
            known = n < before or n in heirs
            self.weights[n] = self.weights[n] * (stood_for / total) if known else self.times[n] / total

    def _begin(self, new: range, stands_for: int) -> None:
        """Begin views that know nothing; what waits has no rows in them, and the first view's forecasts."""
        self.times += [stands_for if stands_for and n == new[0] else 1 for n in new]
        self.rows += [{} for _ in new]
        self.weights += [0.0 for _ in new]
        for kept in self._kept.values():
            kept.rows = kept.rows + [None for _ in new]
            kept.used = kept.used + [kept.used[0] for _ in new]
            for name, said in kept.forecasts.items():
                kept.forecasts[name] = said + [said[0] for _ in new] if said else said

    def _inherit(self, heirs: list[int], places: tuple[float, ...]) -> None:
        stood_for = self.times[self.giver]
        part = self.weights[self.giver] / stood_for
        self.times[self.giver] -= len(heirs)
        self.weights[self.giver] = part * self.times[self.giver]
        given = self.rows[self.giver].get(())
        for arm in given.arms.values() if given is not None else ():
            arm.evidence /= stood_for
        for n, heir in enumerate(heirs):
            self.weights[heir] = part
            key = self._key(heir, (places[n // 3],) * (self.mixed[heir].axes[0] + 1))
            assert key is not None
            if given is not None and (given.labels >= 32 or not self.mixed[heir].is_fine) and self._has_room():
                self.rows[heir][key] = deepcopy(given)
            self._hand_on(heir, key if key in self.rows[heir] else None)
        for arm in given.arms.values() if given is not None else ():
            arm.evidence *= self.times[self.giver]

    def _hand_on(self, heir: int, key: Key | None) -> None:
        """Let what waits have had a row of an heir where it had one of the view that stood for it."""
        for kept in self._kept.values():
            kept.rows[heir] = None if kept.rows[self.giver] is None else key
            kept.used[heir] = kept.used[self.giver]
            for said in kept.forecasts.values():
                if said:
                    said[heir] = said[self.giver]

    def _add_levels(self, axes: tuple[int, ...], levels: list[int]) -> None:
        codes = [axis for axis in axes if axis in self._settings.categories]
        for level, slices in enumerate(levels if len(codes) < len(axes) else [1]):
            if slices ** (len(axes) - len(codes)) * CODES ** len(codes) <= 2**48:
                self.mixed.append(View(axes, slices, up=len(self.mixed) - 1 if level else 0, is_fine=level > 0))
