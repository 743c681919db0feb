"""The slow twin of `CellThompson`: the twin of `CellKLUCB`, except that it samples what it believes of every arm."""

import math

from tests.oracle.index_twin import IndexTwin
from tests.oracle.twin_draws import WORD, draw, mix
from tests.oracle.twin_values import Pick, TwinArm, TwinCell, TwinSettings, Waiting

PER_ARM = 8  # purposes of samples: 8 for the first arm, 16 for the second, ... (exactness: Draws)


class Words:
    """The words of one sample, one after the other (exactness: Index policies)."""

    def __init__(self, first: int) -> None:
        """Start so that the number used first takes the word after this one."""
        self._word = first

    def unit(self) -> float:
        """Return the next word as a number between 0 and 1."""
        self._word = mix((self._word + 0x9E3779B9) & WORD)
        return (self._word + 0.5) / 2**32

    def normal(self) -> float:
        """Return a normal number, made of two words."""
        u = self.unit()
        v = self.unit()
        return math.sqrt(-2 * math.log(u)) * math.cos(2 * math.pi * v)

    def gamma(self, shape: float) -> float:
        """Return a gamma number: candidates are made until one is accepted."""
        scale = 1.0
        if shape < 1:
            scale = math.exp(math.log(self.unit()) / shape)
            shape += 1
        d = shape - 1 / 3
        c = 1 / math.sqrt(9 * d)
        while True:
            x = self.normal()
            u = self.unit()
            v = 1 + c * x
            v = v * v * v
            if v > 0 and math.log(u) < 0.5 * x * x + d - d * v + d * math.log(v):
                return d * v * scale


def right_of(arm: TwinArm) -> float:
    """Return how many of the rewards were right: never below 0, never above their number."""
    return min(max(arm.reward_sum, 0.0), arm.reward_count)


def sample(arm: TwinArm, overall: TwinArm, words: Words, burst: float = 1.0) -> float:
    """Draw a mean that the arm may have in a cell, given its rewards there (so many count as one) and in all cells."""
    prior = (right_of(overall) + 1) / (overall.reward_count + 2)
    x = words.gamma(1.0 * prior + right_of(arm) / burst)
    y = words.gamma(1.0 * (1 - prior) + arm.reward_count / burst - right_of(arm) / burst)
    return x / (x + y)


class ThompsonTwin(IndexTwin):
    """One learner that takes the arm with the largest sample. Rewards also count over all cells."""

    def __init__(self, settings: TwinSettings) -> None:
        """Start with no reward of any arm."""
        super().__init__(settings)
        self._overall = {name: TwinArm() for name in (*self._own, *self._peers)}

    def overall(self) -> dict[str, TwinArm]:
        """Return the rewards of every arm over all cells; the other numbers stay 0."""
        return self._overall

    def remove(self, arm: str) -> None:
        """Let an arm leave, with its rewards."""
        super().remove(arm)
        del self._overall[arm]

    def _pick_by_index(self, cell: TwinCell) -> Pick:
        samples: dict[str, float] = {}
        for place, (name, cost) in enumerate({**self._own, **self._peers}.items()):
            if self._is_out(name):
                continue
            words = Words(draw(self._keys, 0, self._next_id, PER_ARM + PER_ARM * place))
            samples[name] = sample(cell.arms[name], self._overall[name], words, self._burst(cell, name)) - cost
        arm = max(samples, key=lambda name: samples[name])  # the first of equals
        return self._phase_of(cell, arm), arm, None

    def _join(self, group: dict[str, float], name: str, cost: float) -> None:
        super()._join(group, name, cost)
        self._overall[name] = TwinArm()

    def _add_reward(self, cell: TwinCell | None, waited: Waiting, reward: float) -> None:
        """Count over all cells, even if the cell that holds the context by now was never visited."""
        super()._add_reward(cell, waited, reward)
        if waited.kind != "look":
            self._overall[waited.arm].reward_count += 1
            self._overall[waited.arm].reward_sum += reward

    def _next_era(self) -> None:
        super()._next_era()
        if self._settings.doubling == "reset":
            self._overall = {name: TwinArm() for name in (*self._own, *self._peers)}
