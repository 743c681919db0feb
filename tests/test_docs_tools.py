"""What makes and checks the documentation does so."""

from __future__ import annotations

import json
import re
from importlib import import_module
from pathlib import Path
from pydoc import locate
from typing import Any, get_args

import jsonschema_rs
import pytest

import cosend
from cosend import Site, axes
from cosend.axes import Feature
from cosend.engine.events import Event
from cosend.runtime.inspection import event_line
from cosend.server.schema import ROUTES

DOCS = Path(__file__).parents[1] / "docs"


@pytest.fixture(name="tool")
def tool_of(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(DOCS / "_tools"))
    return lambda name: import_module(name)


def written(folder: Path, **pages: str) -> Path:
    (folder / "searchindex.js").write_text("")
    for name, text in pages.items():
        (folder / f"{name}.html").write_text(text)
    return folder


def test_links_that_lead_nowhere_and_things_from_other_hosts_are_found(tool: Any, tmp_path: Path) -> None:
    mistakes = tool("check").mistakes
    good = written(tmp_path, a='<a href="b.html#there">b</a> <a href="https://elsewhere/">x</a>', b='<p id="there">')
    assert list(mistakes(good)) == []
    written(tmp_path, a='<a href="c.html">c</a>', b='<a href="a.html#no"></a><script src="https://cdn/x.js"></script>')
    assert list(mistakes(tmp_path)) == [
        "a.html links to c.html, which is not there",
        "b.html loads https://cdn/x.js, which is not here",
        "b.html links to a.html#no, which is not there",
    ]
    (tmp_path / "searchindex.js").unlink()
    assert "there is no index to search in" in list(mistakes(tmp_path))


def test_every_event_has_a_schema_that_its_lines_obey(tool: Any) -> None:
    log: list[Event] = []
    site = Site("s", classifiers={"one": lambda _: 1}, context=Feature("x"), journal=log.append)
    site.add_classifier("two", lambda _: 2)
    site.learn_many(site.classify_many([{"x": 1.0}, {"x": 2.0}]), [1, 2])
    site.set_cost("two", 0.1)
    site.pause("two")
    site.resume("two")
    site.remove("two")
    schema = tool("generate").event_schema()
    assert set(schema["$defs"]) == {kind.__name__ for kind in get_args(Event)}
    assert len({type(event) for event in log}) >= 9
    valid = jsonschema_rs.validator_for(schema)
    for number, event in enumerate(log):
        line = json.loads(event_line(number, 1.5, event))
        valid.validate(line)
        with pytest.raises(jsonschema_rs.ValidationError):
            valid.validate({**line, "event": "Other"})


def test_generated_pages_have_every_route_event_and_command(tool: Any, tmp_path: Path) -> None:
    tool("generate").generate(tmp_path)
    http = (tmp_path / "http.md").read_text()
    for route in ("POST /v1/classify", "POST /v1/labels", "GET /v1/summary", "POST /v1/mode", "GET /metrics"):
        assert f"## `{route}`" in http
    parts = re.split(r"^## ", http, flags=re.MULTILINE)[1:]
    assert len(parts) == len(ROUTES)
    for part in parts:
        assert re.search(r"```sh\ncurl '.+?\n```\n\n```(?:json|text)\n[^`]+```", part, flags=re.DOTALL), part
    for text in re.findall(r"```json\n(.*?)```", http, flags=re.DOTALL):
        assert json.loads(text)
    events = (tmp_path / "events.md").read_text()
    lines = [json.loads(text) for text in re.findall(r"```json\n(.*?)```", events, flags=re.DOTALL)]
    assert [line["event"] for line in lines] == [kind.__name__ for kind in get_args(Event)]
    assert {"Summary", "Problem"} <= json.loads((tmp_path / "openapi.json").read_text())["components"]["schemas"].keys()
    commands = (tmp_path / "commands.md").read_text()
    for command in ("run", "serve", "up", "warmup"):
        assert f"## cosend {command}\n" in commands
    for path in tmp_path.glob("*.md"):
        assert path.read_text() == (DOCS / "reference" / "generated" / path.name).read_text(), "make docs renews it"
    before = (tmp_path / "http.md").stat().st_mtime_ns
    tool("generate").generate(tmp_path)
    assert (tmp_path / "http.md").stat().st_mtime_ns == before  # so that Sphinx does not read it again


def test_every_exported_name_is_in_the_reference() -> None:
    page = (DOCS / "reference" / "python.md").read_text()
    named = set(re.findall(r"^\.\. auto(?:class|function):: (\w+)$", page, flags=re.MULTILINE))
    assert named | {"axes"} == set(cosend.__all__)
    kinds = {kind.__name__ for kind in vars(axes).values() if isinstance(kind, type) and issubclass(kind, axes.Axis)}
    assert kinds == set(re.findall(r"^\.\. autoclass:: cosend\.axes\.(\w+)$", page, flags=re.MULTILINE))


def test_functions_of_the_paper_page_exist() -> None:
    names = re.findall(r"`((?:cosend|research)(?:\.\w+)+)`", (DOCS / "research/paper.md").read_text())
    assert len(names) > 10
    assert [name for name in names if locate(name) is None] == []
