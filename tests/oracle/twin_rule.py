"""How a slow twin chooses: the rule of CoS as plain loops, and the arms that it chooses from."""

from collections.abc import Iterable

from tests.oracle.twin_clock import TwinClock
from tests.oracle.twin_draws import (
    ANYTHING_OWED,
    BEST_TIE,
    OWN_OWED,
    PEER_OWED,
    PEER_UNTRAINED,
    PER_ASKED,
    draw,
    hash_words,
)
from tests.oracle.twin_values import Ask, Pick, TwinCell, TwinSettings, count_of, net_mean


class TwinRule(TwinClock):
    """The arms of a twin and the choice among them (SPEC 2; exactness: Order `random`, Arms that are left out)."""

    def __init__(self, settings: TwinSettings) -> None:
        """Start with the arms that are given, none of them paused."""
        super().__init__(settings)
        self._own = dict(settings.own)
        self._peers = dict(settings.peers)
        self._announced = dict.fromkeys(settings.peers, 1)  # how many functions a peer says it has
        self._keys = hash_words(f"{settings.seed}/{settings.name}")
        self._next_id = 1
        self._paused: set[str] = set()
        self.left_out: set[str] = set()  # of the choice or the answer that is being made

    def cost(self, arm: str) -> float:
        """Return what an arm costs now."""
        return self._group_of(arm)[arm]

    def set_cost(self, arm: str, cost: float) -> None:
        """Change what an arm costs from now on."""
        self._group_of(arm)[arm] = cost

    def pause(self, arm: str) -> None:
        """Leave an arm out until it is resumed."""
        self._paused.add(arm)

    def resume(self, arm: str) -> None:
        """Leave an arm out no longer."""
        self._paused.discard(arm)

    def _group_of(self, arm: str) -> dict[str, float]:
        for group in (self._own, self._peers):
            if arm in group:
                return group
        raise KeyError(arm)

    def _is_out(self, arm: str) -> bool:
        return arm in self._paused or arm in self.left_out

    def _in(self, *groups: dict[str, float]) -> dict[str, float]:
        """Return the arms that may be chosen, with their costs, in their order."""
        return {name: cost for group in groups for name, cost in group.items() if not self._is_out(name)}

    def _pick(self, cell: TwinCell, ask: Ask) -> Pick:
        if self._settings.order == "random":
            pick = self._pick_random(cell, ask)
        elif self._settings.order == "train_first":
            pick = self._train(cell, ask) or self._explore(cell, self._own, OWN_OWED)
        else:
            pick = self._explore(cell, self._own, OWN_OWED) or self._train(cell, ask)
        # In order `random` an empty draw leaves no peer owed either, so the next line only exploits.
        return pick or self._explore(cell, self._peers, PEER_OWED) or self._exploit(cell)

    def _owed(self, cell: TwinCell, group: Iterable[str]) -> list[str]:
        """Rewards received plus choices that still wait count against D1 or D3 (exactness: Arithmetic)."""
        return [name for name in group if not self._is_out(name) and count_of(cell.arms[name]) <= self._quota(cell)]

    def _explore(self, cell: TwinCell, group: dict[str, float], purpose: int) -> Pick | None:
        owed = self._owed(cell, group)
        return ("explore", self._one_of(owed, purpose, self._next_id), len(owed)) if owed else None

    def _train(self, cell: TwinCell, ask: Ask) -> Pick | None:
        asked = 0
        # A peer that was asked is either trained at once or no longer in the list: never asked twice.
        while stale := [name for name in self._peers if self._is_untrained(cell, name)]:
            peer = self._one_of(stale, PEER_UNTRAINED + PER_ASKED * asked, self._next_id)
            asked += self._hear(cell, peer, ask)
            if self._is_untrained(cell, peer):
                return "train", peer, len(stale)
        return None

    def _exploit(self, cell: TwinCell) -> Pick:
        best = self._best(cell, self._in(self._own, self._peers))
        return "exploit", self._one_of(best, BEST_TIE, self._next_id), len(best)

    def _pick_random(self, cell: TwinCell, ask: Ask) -> Pick | None:
        asked = 0
        arms = {**self._own, **self._peers}
        while owed := [arm for arm in arms if self._owed(cell, [arm]) or self._is_untrained(cell, arm)]:
            arm = self._one_of(owed, ANYTHING_OWED + PER_ASKED * asked, self._next_id)
            if self._is_untrained(cell, arm):
                asked += self._hear(cell, arm, ask)
                if self._is_untrained(cell, arm):
                    return "train", arm, len(owed)
            if self._owed(cell, [arm]):
                return "explore", arm, len(owed)
        return None

    def _is_untrained(self, cell: TwinCell, arm: str) -> bool:
        is_peer = arm in self._peers and not self._is_out(arm)
        return is_peer and cell.arms[arm].training_count <= self._training_quota(cell)

    def _hear(self, cell: TwinCell, peer: str, ask: Ask) -> bool:
        """Ask a peer; one that does not tell is left out of the rest of the choice."""
        told = ask(peer)
        if told is None:
            self.left_out.add(peer)
            return False
        self._refresh(cell, peer, told)
        return True

    def _refresh(self, cell: TwinCell, peer: str, told: tuple[int, int]) -> None:
        """Replace the cached training count (exactness: Asking and training)."""
        arrivals, taught = told
        arm = cell.arms[peer]
        mine = taught if self._settings.training_count == "reported" else arm.my_training_count
        arm.training_count = arrivals + mine + arm.training_waiting_count

    def _best(self, cell: TwinCell, costs: dict[str, float]) -> list[str]:
        means = {name: net_mean(cell.arms[name], cost) for name, cost in costs.items()}
        largest = max(means.values())
        return [name for name, mean in means.items() if mean == largest]

    def _one_of(self, candidates: list[str], purpose: int, number: int, word: int = 0) -> str:
        if len(candidates) == 1:
            return candidates[0]
        return candidates[(draw(self._keys, word, number, purpose) * len(candidates)) >> 32]

    def _training_quota(self, cell: TwinCell) -> float:
        """D2."""
        return self._max_peer_functions() * self._quota(cell)

    def _max_peer_functions(self) -> int:
        if self._settings.max_peer_functions is not None:
            return self._settings.max_peer_functions
        return max(self._announced.values(), default=1)
