"""Sites to which labels come for a share of their items only: what they learn from, and what still counts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cosend.cli.run import changed
from cosend.config.network_file import NetworkFile, load
from cosend.run.play import Outcome, play, play_policy, play_sites
from cosend.run.prepare import Prepared, prepare
from cosend.run.result import result

pytestmark = pytest.mark.compiled

ITEMS = 3_000


def clinics(**shares: float) -> NetworkFile:
    network = changed(load(None)[0], ITEMS, None)
    sites = [site.model_copy(update={"label_share": shares.get(site.name, 1.0)}) for site in network.sites]
    return network.model_copy(update={"sites": sites})


@pytest.fixture(scope="module")
def prepared() -> Prepared:
    return prepare(clinics(school=0.1, seniors=0.1), Path())


@pytest.fixture(scope="module")
def outcome(prepared: Prepared) -> Outcome:
    return play(prepared)


def test_labels_come_for_about_the_share_and_all_items_count(prepared: Prepared, outcome: Outcome) -> None:
    told = [prepared.told(site).mean() for site in range(3)]
    assert told == [pytest.approx(0.1, abs=0.03), 1.0, pytest.approx(0.1, abs=0.03)]
    assert not np.array_equal(prepared.told(0), prepared.told(2))
    assert all(len(each.net) == ITEMS // 3 for each in outcome.played)
    learnt = [site["stack"].labels for site in outcome.first.learnt]
    assert learnt == [prepared.told(site).sum() for site in range(3)]
    shown = result(prepared, outcome)
    assert (
        "true labels arrive for 10% of the items at school and 10% of the items at seniors; the results count all items"
        in (shown["notes"])
    )


def test_with_all_labels_nothing_changes(prepared: Prepared) -> None:
    whole = prepare(clinics(), Path())
    assert whole.comes[whole.arrivals >= 0].all()
    assert whole.delays == whole.network.label_delay
    assert prepared.contexts.tolist() == whole.contexts.tolist()
    assert not any("true labels arrive for" in note for note in whole.notes)


def test_the_compiled_simulation_and_real_sites_learn_from_the_same_labels(prepared: Prepared) -> None:
    policy = prepared.policy._replace(learnt={})
    compiled, sites = play_policy(prepared, policy), play_sites(prepared, policy)
    assert [*map(list, compiled.arms)] == [*map(list, sites.arms)]
    assert [*map(list, compiled.right)] == [*map(list, sites.right)]
    for one, other in zip(compiled.own, sites.own, strict=True):
        np.testing.assert_array_equal(one, other)


def test_what_is_played_of_the_first_items_alone_is_the_beginning_of_the_whole(
    prepared: Prepared, outcome: Outcome
) -> None:
    part = prepared.first_slots(200)
    begun = play(part, others=False)
    assert begun.first.arms[0].tolist() == outcome.first.arms[0][:200].tolist()
    assert result(part, begun)["why"]["town"]["items"] == 100


def test_without_peers_a_site_keeps_what_it_learns_itself(outcome: Outcome) -> None:
    alone = [each for each in outcome.played if each.policy == "local only"]
    assert [each.site for each in alone] == ["school", "town", "seniors"]
    assert not any(each.sent.any() or each.paid.any() for each in alone)
    town = np.nanmean(outcome.first.own[1], axis=0)
    assert alone[1].right.mean() > town[:3].max()  # better than each of its models, which only what it learns can be


def test_the_reasons_count_what_was_asked_and_what_own_arms_say_about_it(prepared: Prepared, outcome: Outcome) -> None:
    why, first = result(prepared, outcome)["why"], outcome.first
    for number, name in enumerate(("school", "town", "seniors")):
        assert why[name]["items"] == ITEMS // 6
        parts = [why[name]["kept"], *why[name]["peers"].values()]
        assert sum(part["items"] for part in parts) == ITEMS // 6
        assert sum(part["gained"] for part in parts) == first.right[number][ITEMS // 6 :].sum()
        known, gained = why[name]["kept"]["own"]["grown"]
        assert 0 <= gained <= known <= why[name]["kept"]["known"]
