"""What the report says of several streams, of places in the context's own units, and of a change in the middle."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cosend.cli.run import changed, play_all, with_seeds, write
from cosend.cli.shared import new_console
from cosend.config.network_file import NetworkFile, load
from cosend.run.play import Outcome, play
from cosend.run.prepare import Prepared, prepare
from cosend.run.result import one_stream, result, scale_and_bins
from tests.run.test_play import LOG, prepared_of

pytestmark = pytest.mark.compiled


def clinics(items: int) -> NetworkFile:
    return changed(load(None)[0], items, None)


@pytest.fixture(scope="module")
def prepared() -> Prepared:
    return prepare(clinics(3_000), Path())


@pytest.fixture(scope="module")
def outcome(prepared: Prepared) -> Outcome:
    return play(prepared)


def test_several_streams_give_means_and_intervals_of_what_each_gives_alone() -> None:
    networks = with_seeds(clinics(300), 3)
    both = play_all(networks, Path(), new_console(stderr=True))
    alone = [result(prepared, play(prepared)) for prepared in (prepare(each, Path()) for each in networks)]
    assert both["seeds"] == [0, 1, 2]
    for number, row in enumerate(both["overall"]):
        rewards = [each["overall"][number]["mean_reward"] for each in alone]
        assert row["mean_reward"] == pytest.approx(np.mean(rewards))
        assert row["reward_interval"] == pytest.approx(4.302653 * np.std(rewards, ddof=1) / np.sqrt(3), rel=1e-6)
        assert [each["overall"][number]["reward_interval"] for each in alone] == [None] * 3
        behind = [each["overall"][0]["mean_reward"] - reward for each, reward in zip(alone, rewards, strict=True)]
        assert row["behind"] == pytest.approx(np.mean(behind))
        assert row["behind_in"] == sum(each > 0 for each in behind)
    shares = [each["flows"]["percent"][0][1] for each in alone]
    assert both["flows"]["percent"][0][1] == pytest.approx(np.mean(shares))
    assert both["use"] == alone[0]["use"]


@pytest.mark.parametrize(("stop", "done"), [(1, 1), (2, 1), (3, 2)])
def test_no_stream_that_is_done_is_lost(stop: int, done: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C comes while what the first, second or third stream gives is put together."""
    called, real = [], one_stream

    def stopped(*given: Any) -> Any:
        called.append(given)
        if len(called) == stop:
            raise KeyboardInterrupt
        return real(*given)

    monkeypatch.setattr("cosend.run.result.one_stream", stopped)
    found = play_all(with_seeds(clinics(300), 3), Path(), new_console(stderr=True))
    assert found["stopped"] == f"Stopped after {done} of 3 streams: these are the results so far."
    assert found["seeds"] == list(range(done))


@pytest.mark.parametrize(("streams", "where"), [(1, ""), (5, " in the first of 5 streams")])
def test_who_stops_the_first_stream_is_told_how_far_it_was(
    streams: int, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = play

    def stopped(prepared: Prepared, watch: Any = None, **options: Any) -> Any:
        if watch is not None:
            watch(50, 0.0)
            raise KeyboardInterrupt
        return real(prepared, **options)

    monkeypatch.setattr("cosend.run.play.play", stopped)
    found = play_all(with_seeds(clinics(300), streams), Path(), new_console(stderr=True))
    assert found["stopped"] == f"Stopped after 150 of 300 items{where}: these are the results so far."


def test_who_stops_while_the_report_is_written_gets_it_whole(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    result: dict[str, Any] = {"seeds": [0]}
    written: list[dict[str, Any]] = []

    def stopped(given: dict[str, Any], out: Path) -> Path:
        written.append(dict(given))
        if len(written) == 1:
            raise KeyboardInterrupt
        return out

    monkeypatch.setattr("cosend.report.html_report.write_report", stopped)
    assert write(result, tmp_path) == tmp_path
    assert written[1]["stopped"] == result["stopped"] == "Stopped after the last item: the results are complete."


def test_ages_are_years(prepared: Prepared) -> None:
    scale, bins = scale_and_bins(prepared, 0)
    assert scale.name == "age"
    assert [text for _, text in scale.ticks] == ["0", "20", "40", "60", "80", "100"]
    assert [place for place, _ in scale.ticks] == pytest.approx([0, 6, 12, 18, 24, 30])
    ages = prepared.items.contexts["age"][prepared.arrivals[prepared.arrivals >= 0]]
    assert bins.tolist() == np.minimum(ages / 100 * scale.bins, scale.bins - 1).astype(int).tolist()


AXES = {
    "class names": ('kind = "previous_label"', ["attack", "normal"]),
    "decades": (LOG, ["0", "1", "10", "100"]),
    "items": ('kind = "time"', ["0", "100", "200", "300"]),
    "a category": ('kind = "category"\nfeature = "flag"', ["REJ", "S0", "SF"]),
    "quarters of the lengths of texts": ('feature = "flag"\nof = "length"', ["2", "3"]),
    "quarters of the ranks": ('feature = "logged_in"', ["0", "1"]),
}


@pytest.mark.parametrize("case", AXES)
def test_an_axis_has_its_own_units(case: str, tmp_path: Path) -> None:
    axis, expected = AXES[case]
    scale, bins = scale_and_bins(prepared_of(tmp_path, context=[axis]), 0)
    assert [text for _, text in scale.ticks] == expected
    assert scale.words == (case in ("class names", "a category"))
    assert -1 <= bins.min() <= bins.max() < scale.bins


def test_a_change_is_told_by_the_reward_around_it(prepared: Prepared, outcome: Outcome) -> None:
    shown = result(prepared, outcome)
    assert (shown["change"]["item"], shown["change"]["part"]) == (500, 125)
    own = [each for each in outcome.played if each.policy == "MixedViews"]
    after = np.concatenate([(each.right - each.paid)[500:625] for each in own])
    assert shown["change"]["reward"]["MixedViews"][1] == pytest.approx(after.mean(), abs=1e-5)


def test_no_change_no_picture_of_it(tmp_path: Path) -> None:
    prepared = prepared_of(tmp_path)
    assert result(prepared, play(prepared))["change"] is None


def test_the_use_of_arms_counts_the_second_half_of_each_site(prepared: Prepared, outcome: Outcome) -> None:
    used = result(prepared, outcome)["use"]
    assert {name: sum(map(sum, each["counts"])) for name, each in used.items()} == {
        "school": 500,
        "town": 500,
        "seniors": 500,
    }
    assert used["town"]["owners"] == ["town"] * 5 + ["school", "seniors"]
