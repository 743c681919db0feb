"""The check of the English finds the patterns that it knows, and only them; the files of its list have none."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

TOOLS = Path(__file__).parents[1] / "docs" / "_tools"


@pytest.fixture(name="english")
def english_of(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(TOOLS))
    return import_module("english")


@pytest.mark.parametrize(
    ("sentence", "written"),
    [
        ("Its error is 62 %.", "2 %"),
        ("The models are in the folder beside the file.", "beside"),
        ("A failed message is sent again.", "sent again"),
        ("The site is started once more and then starts the others again.", "starts the others again"),
        ("The others go on.", "go on"),
        ("Each site has a folder of its own.", "of its own"),
        ("It is skipped for a while.", "for a while"),
        ("It learns whom to ask.", "whom"),
        ("What was learnt of a peer is kept.", "learnt of"),
        ("It says so in its log.", "says so"),
        ("The counters begin anew.", "anew"),
        ("The first version: what there is.", "what there is"),
        ("It errs 3% of the time.", "errs"),
        ("An id that was decided for gets the same reply.", "decided for"),
        ("The arm is left out.", "left out"),
        ("Use it in place of the other.", "in place of"),
        ("A missing range is a warning.", "is a warning"),
        ("It takes a tenth less time.", "a tenth less"),
        ("It is a seventh worse.", "a seventh worse"),
        ("A cost is a share of a right label.", "right label"),
        ("Labels come late.", "Labels come"),
        ("A marker stands at the top.", "stands at"),
        ("Its cost and that of the other differ.", "that of the"),
        ("What takes time is the models.", "What takes time is the models."),
    ],
)
def test_a_pattern_is_found(sentence: str, written: str, english: Any) -> None:
    assert written in [each[1] for each in english.in_markdown(sentence)]


@pytest.mark.parametrize(
    "sentence",
    [
        "Its error rate is 62%, and the site continues.",
        "What happens if a peer is gone?",
        "## What a version promises",
        "| What it costs | 5% |",
        "- What to read next",
        "It must go on to the next item only when the first is stored.",
        "`what there is` and [a page](beside-the-file.md) are not read.",
        "Please try again later.",
        "These are the labels of the site.",
    ],
)
def test_plain_english_is_left_in_peace(sentence: str, english: Any) -> None:
    allowed = {"What it costs | 5% |", "What it costs"}
    assert [each for each in english.in_markdown(sentence) if each[1] not in allowed] == []


def test_code_and_comments_are_not_read_and_lines_keep_their_numbers(english: Any) -> None:
    page = "<!-- beside\nbeside -->\n```sh\necho beside\n```\n\n1. Labels come late.\n"
    assert [each[:2] for each in english.in_markdown(page)] == [(7, "Labels come")]


def test_long_sentences_are_found_but_not_in_tables(english: Any) -> None:
    words = " ".join(["word"] * 31)
    assert [each[1] for each in english.in_markdown(f"{words}\n| {words} |\n")] == ["31 words"]


def test_strings_docstrings_and_comments_of_a_program_are_read(english: Any) -> None:
    program = '''"""Beside.

It is fine. What there
is stands beside it.

>>> what_is(9 % 3)
"""


def command(share):
    """Starts it again."""
    return f"{share} % of all", "beside", "it is " "beside the file"  # nobody knows
'''
    strings = [(12, "0 %"), (12, "beside")]
    assert [each[:2] for each in english.in_python(program, strings_only=True)] == strings
    rest = [(1, "Beside"), (3, "What there is stands beside it."), (3, "beside"), (3, "stands"), (3, "What there is")]
    rest += [(11, "Starts it again"), (12, "nobody")]
    assert sorted(each[:2] for each in english.in_python(program)) == sorted([*strings, *rest])


def test_templates_are_read_without_tags_and_scripts(english: Any) -> None:
    page = '<p class="beside">{{ share }} %</p>\n<script>beside</script>\n{# beside #}{% if beside %}<b>fine</b>\n'
    assert [each[:2] for each in english.in_template(page)] == [(1, "0 %")]


def test_the_files_of_the_list_have_none_of_it(english: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert english.main([]) == 0, capsys.readouterr().out
    assert len(english.files(english.CHECKED)) > 150


def test_what_is_found_is_named_with_its_file_and_line(
    english: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "page.md").write_text("# A page\n\nLabels come late.\n")
    assert english.main([str(tmp_path / "page.md")]) == 1
    assert f"{tmp_path}/page.md:3: 'Labels come' -> labels arrive\n" in capsys.readouterr().out
