"""Every block of the documentation runs, or at least can be read; every command and link in it exists."""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, cast

import pytest
from typer.main import get_command

from cosend import Patience
from cosend.algorithm.policies import POLICIES
from cosend.cli.main import app
from cosend.config.network_file import NetworkFile
from cosend.config.sections import (
    AxisSection,
    BrokerSection,
    BudgetSection,
    CostsSection,
    ModelSection,
    RewardSection,
    SiteSection,
    StreamSection,
)

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(page for page in DOCS.rglob("*.md") if "generated" not in page.parts)]
LANGUAGES = {"python", "bash", "sh", "toml", "json", "text", "", "{toctree}", "{eval-rst}"}


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), flags=re.MULTILINE | re.DOTALL)


def is_done_as_a_whole(page: Path) -> bool:
    """Tell whether test_guides.py writes the files of a page and runs its commands in one shell."""
    return bool(blocks(page, "bash"))


def runs_alone(page: Path) -> bool:
    """Tell whether a page has Python that needs nothing else; that of the reference talks to a service."""
    return bool(blocks(page, "python")) and name_of(page) != "docs/reference/python.md"


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.compiled
@pytest.mark.parametrize(
    "page", [page for page in PAGES if runs_alone(page) and not is_done_as_a_whole(page)], ids=name_of
)
def test_every_example_runs(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The blocks of a page continue each other; the pages for newcomers show what they print."""
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "page"}
    for number, code in enumerate(blocks(page, "python")):
        exec(compile(code, f"{page.name}, block {number}", "exec"), names)  # noqa: S102 - that is what this test is for
    if page.parent.name == "start":
        assert "".join(blocks(page, "text")) == capsys.readouterr().out


def test_every_extra_is_on_the_page_of_the_installation() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    rows = re.findall(r"^\| ((?:`\w+`(?:, )?)+) \|", (DOCS / "start/install.md").read_text(), flags=re.MULTILINE)
    assert sorted(name for row in rows for name in re.findall(r"\w+", row)) == sorted(extras)


def test_every_command_that_installs_names_the_extras_of_a_task() -> None:
    """The page of the installation has one set for each task, and no other page has another one."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    tasks = re.findall(
        r"^\| [^`|]+ \| `\.\[([a-z,]+)\]` \|$", (DOCS / "start/install.md").read_text(), flags=re.MULTILINE
    )
    assert {name for task in tasks for name in task.split(",")} <= extras.keys()
    places = [*PAGES, *MORE, *(ROOT / "examples").glob("*.py"), *(ROOT / "deploy").rglob("*")]
    found = [
        (name_of(path), written)
        for path in places
        if path.is_file()
        for written in re.findall(r"'(?:\.{1,2}|/src)\[([a-z,]+)\]'", path.read_text())
    ]
    assert len(found) > 10
    assert [each for each in found if each[1] not in tasks] == []


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_blocks_that_are_not_run_can_be_read(page: Path) -> None:
    starts = re.findall(r"^```(.*)$", page.read_text(), flags=re.MULTILINE)
    assert set(starts[::2]) <= LANGUAGES
    for text in blocks(page, "toml"):
        tomllib.loads(text)
    for text in blocks(page, "json"):
        json.loads(text)


def commands(page: Path) -> list[list[str]]:
    """Return the commands of a page that call cosend or make, word by word."""
    lines = [line for language in ("sh", "bash") for text in blocks(page, language) for line in text.splitlines()]
    found = [re.search(r"(?:^|\| )((?:cosend|make) [^>&#]*)", line) for line in lines]
    return [shlex.split(each[1]) for each in found if each]


@pytest.mark.parametrize("page", [page for page in PAGES if commands(page)], ids=name_of)
def test_every_command_exists_with_its_options(page: Path) -> None:
    targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE)
    for program, *words in commands(page):
        if program == "make":
            assert {word for word in words if "=" not in word} <= set(targets), words
            continue
        command: Any = get_command(app)
        while hasattr(command, "commands"):
            command, words = command.commands[words[0]], words[1:]
        command.make_context("cosend", words, resilient_parsing=True)  # raises if an option does not exist


@pytest.mark.compiled
def test_the_first_code_runs_and_its_label_comes_late(capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {"__name__": "page"}
    (code,) = blocks(ROOT / "README.md", "python")
    exec(compile(code, "README.md", "exec"), names)  # noqa: S102 - that is what this test is for
    site, decision = names["site"], names["decision"]
    assert capsys.readouterr().out == f"{decision.label} by {decision.arm}\n"
    assert not site.is_pending(decision)
    assert site.learner.pending_count == 100  # those that came meanwhile


def test_the_first_code_of_the_quick_start_is_the_first_example() -> None:
    code = (ROOT / "examples" / "quick_start.py").read_text().partition('"""\n\n')[2]
    assert blocks(DOCS / "start/quick-start.md", "python")[0] == code


def test_nothing_says_how_to_install_what_is_not_published() -> None:
    places = [*PAGES, *MORE, *(ROOT / "deploy").rglob("*"), *(ROOT / "src").rglob("*.py")]
    texts = {path: path.read_text() for path in places if path.is_file() and path.suffix not in (".png", ".pyc")}
    assert [name_of(path) for path, text in texts.items() if re.search(r"pip install '?cosend\b", text)] == []


def test_the_extras_of_a_command_that_needs_several_have_one_name() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]

    def parts(extra: str) -> set[str]:
        (line,) = project[extra]
        within = set(line.removeprefix("cosend[").removesuffix("]").split(","))
        return within | (parts("demo") if "demo" in within else set())

    assert parts("demo") == {"client", "endpoints", "local", "models", "network", "service"}
    assert parts("all") == project.keys() - {"all", "dev", "docs"}


def targets(page: Path) -> set[Path]:
    """Return the pages that a page links to, as they are found where only Markdown is read."""
    found = re.findall(r"\]\((?!http)([^)#]+\.md)", prose(page))
    return {(page.parent / target).resolve() for target in found}


def test_every_page_is_reached_by_links_from_the_readme() -> None:
    reached, new = set[Path](), {ROOT / "README.md"}
    while new:
        reached |= new
        new = {target for page in new for target in targets(page)} - reached
    assert [name_of(page) for page in PAGES if page not in reached] == []


def prose(page: Path) -> str:
    return re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)


def words(page: Path) -> int:
    """Count the words of a page: no code, no bars of tables, no targets of links."""
    text = re.sub(r"\]\([^)]*\)|<!--.*?-->|<[^>]*>", "]", prose(page))
    return sum(any(letter.isalnum() for letter in word) for word in text.split())


def test_users_have_no_more_to_read_than_they_need() -> None:
    pages = [page for page in PAGES if not {"research", "contributing"} & {*page.parts}]
    assert len(pages) > 30
    assert sum(map(words, pages)) <= 16_000


MORE = [*(ROOT / name for name in ("CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")), ROOT / "examples" / "README.md"]


@pytest.mark.parametrize("page", [*PAGES, *MORE], ids=name_of)
def test_a_line_has_one_sentence(page: Path) -> None:
    """Then a change shows as what it is. Cells of tables may have several."""
    lines = [re.sub(r"^\s*\d+\. ", "", line) for line in prose(page).splitlines() if not line.startswith("|")]
    assert [line for line in lines if re.search(r"[\w`)%*][.?!] +[A-Z`*\[(]", line)] == []


def test_links_between_pages_lead_somewhere() -> None:
    for page in [*PAGES, *MORE]:
        for target in re.findall(r"\]\((?!http)([^)#]+)", prose(page)):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


TABLES: dict[str, Mapping[str, Any]] = {
    "At the top": NetworkFile.model_fields,
    "`[costs]`": CostsSection.model_fields,
    "`[budget]`": BudgetSection.model_fields,
    "`[reward]`": RewardSection.model_fields,
    "`[patience]`": {each.name: each for each in fields(Patience)},
    "`[network]`": BrokerSection.model_fields,
    "`[stream]`": StreamSection.model_fields,
    "`[[context]]`": AxisSection.model_fields,
    "`[[sites]]`": SiteSection.model_fields,
    "`[[sites.classifiers]]`": ModelSection.model_fields,
}


@pytest.mark.parametrize("title", TABLES)
def test_every_key_of_a_network_file_is_documented(title: str) -> None:
    text = (ROOT / "docs" / "reference" / "network-file.md").read_text()
    section = text.partition(f"## {title}\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (`\w+`(?:, `\w+`)*) \|", section, flags=re.MULTILINE)
    named = {key for row in rows for key in re.findall(r"\w+", row)}
    tables = {name for name in TABLES[title] if f"{name}]" in text}  # these have sections of their own
    assert TABLES[title].keys() - tables - named == set()


@pytest.mark.parametrize("policy", POLICIES)
def test_every_option_of_a_policy_is_documented(policy: str) -> None:
    text = (ROOT / "docs" / "reference" / "policies.md").read_text()
    rows = re.findall(r"^\| `(\w+)` \| (all|all others|`.+?`) \| (.+?) \| .+ \|$", text, flags=re.MULTILINE)
    others = "MixedViews" if policy == "MixedViews" else "all others"
    named = {option for option, of, _ in rows if of == "all" or of == others or f"`{policy}`" in of}
    assert named == {each.name for each in fields(cast("Any", POLICIES[policy]))}
    assert f"| `{policy}` | " in text
