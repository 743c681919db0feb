"""Check the English of the documentation and of the texts that cosend shows: known patterns, and what to write instead.

    python docs/_tools/english.py          all pages and the texts of src/cosend
    python docs/_tools/english.py FILE...  these files

CONTRIBUTING.md has the rules. In Markdown, code is not read; in Python, strings with a space, docstrings and comments
are read, and in src/cosend/algorithm only the strings.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
CHECKED: Final = (
    "*.md",
    "deploy/*.md",
    "docs/*.md",
    "docs/benchmarks/*.md",
    "docs/contributing/[!e]*.md",  # exactness.md is formulas
    "docs/guides/*.md",
    "docs/operate/*.md",
    "docs/reference/*.md",
    "docs/research/*.md",
    "docs/start/*.md",
    "examples/*.md",
    "src/cosend/**/*.html",
    "src/cosend/**/*.py",
)
MOST_WORDS: Final = 30  # of a sentence; write less than 25
OWNERS: Final = r"(?:its|your|their|our|my|his|her|one's)"
PARTS: Final = r"(?:third|quarter|fifth|sixth|seventh|eighth|ninth|tenth|twentieth|thirtieth|hundredth)"
# What to look for, and what to write instead.
PATTERNS: Final = tuple(
    (re.compile(pattern, re.IGNORECASE), advice)
    for pattern, advice in (
        (r"\d %(?!\w)", "62%, without a space"),
        (r"\bbeside\b", "alongside, next to, compared with"),
        (
            r"\b(?:sen[dt]s?|tries|tried|start(?:s|ed)?|ask(?:s|ed)?|connect(?:s|ed)?|decide[sd]?|chosen|buil[dt]|"
            r"fitted|delivered|written|checked) (?:\w+ ){0,3}again\b",
            "resend, retry, restart, reconnect, re-evaluate, rebuild",
        ),
        (r"\b(?:go|goes|went|going) on(?! to)\b", "continue, keep running, resume"),
        (rf"\bof {OWNERS} own\b", "your models, its own folder, a separate table"),
        (
            r"\b(?:now and then|for a while|all the same|by then|as ever|of late|for good|here and now)\b",
            "say when, or delete it",
        ),
        (r"\b(?:some|no|every)body\b|\bwho(?:m|ever)\b", "name who: a user, a client, no subscriber, which model"),
        (r"\b(?:know[ns]?|learnt|learned|learns?|tells?|told|says?|said) of\b", "about"),
        (r"\b(?:anew|afresh)\b", "resets, starts over"),
        (r"\bwhat (?:it|there|that|they|these) (?:is|was|are|were)\b|\b(?:came|become|became) of\b", "name it"),
        (r"\berr(?:s|ed)\b", "its error rate is 3%"),
        (r"\b(?:decided|chosen|decides|choose) for\b", "routed, handled"),
        (r"\bsays? (?:so|otherwise)\b|\bunless you say\b", "unless overridden by, reports it"),
        (r"\b(?:left|leaves?|leaving) (?:\w+ )?(?:out|alone)\b|\bpass(?:ed|es)? over\b", "skip, exclude"),
        (r"\bin place of\b", "instead of; overrides"),
        (r"\b(?:is|are|was|were) (?:a )?warnings?\b", "raises a warning"),
        (rf"\b(?:a|one) {PARTS} (?:less|more|better|worse|faster|slower|longer|of that)\b", "14% worse"),
        (r"\b(?:right|wrong) labels?\b", "correct prediction, incorrect prediction"),
        (r"\blabels? (?:comes?|came)\b", "labels arrive"),
        (r"\b(?:stands?|lies?) (?:at|in|on|below|above|there)\b(?! for)|\b(?:stands|stood)\b(?! for)", "is, are"),
        (r"\b(?:that|those) of (?:the|an?|its|their|all|each|others?)\b", "repeat the noun"),
        (r"\bsuch (?:a )?ones?\b|\bso many\b", "name it; this many"),
        (r"(?-i:^What) (?!to\b|if\b)[^?]*$", "start with the noun: Inference is the bottleneck"),
    )
)


def found_in(text: str) -> list[tuple[str, str]]:
    """Return the patterns that a text has, as they are written there, and what to write instead."""
    return [(each[0].strip(), advice) for pattern, advice in PATTERNS for each in pattern.finditer(text)]


def prose(text: str) -> Iterator[tuple[int, str]]:
    """Yield the lines of a page with their numbers: without code, comments, generated parts and targets of links."""
    text = re.sub(
        r"^( *)```.*?^ *```$|<!-- .*? -->\n.*?<!-- end -->|<!--.*?-->", _blank, text, flags=re.MULTILINE | re.DOTALL
    )
    for number, line in enumerate(text.splitlines(), 1):
        yield number, re.sub(r"\]\([^)]*\)", "]", re.sub(r"`[^`]*`", "CODE", line)).strip()


def _blank(match: re.Match[str]) -> str:
    return "\n" * match[0].count("\n")


def in_markdown(text: str) -> Iterator[tuple[int, str, str]]:
    """Yield the number of a line, what is written there, and what to write instead."""
    for number, line in prose(text):
        is_heading, is_row = line.startswith("#"), line.startswith("|")
        sentence = re.sub(r"^(?:[#>*-]|\d+\.)+ ", "", line)
        for written, advice in found_in(sentence):
            if not (is_heading and written.startswith("What")):
                yield number, written, advice
        words = len(sentence.split())
        if words > MOST_WORDS and not is_row:
            yield number, f"{words} words", "two sentences, each under 25 words"


def in_python(text: str, *, strings_only: bool = False) -> Iterator[tuple[int, str, str]]:
    """Yield the same for the strings, docstrings and comments of a program; what is filled in counts as a number."""
    tree = ast.parse(text)
    docstrings = list(_docstrings(tree))
    skipped = {id(each) for each in docstrings}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            skipped |= {id(part) for part in node.values}
        sentence = "" if id(node) in skipped else _sentence(node)
        if " " in sentence:
            plain = re.sub(r"`[^`]*`", "CODE", " ".join(sentence.split()))
            yield from ((node.lineno, written, advice) for written, advice in found_in(plain))
    if not strings_only:
        for each in docstrings:
            yield from _in_sentences(each.lineno, each.value)
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT:
                yield from _in_sentences(token.start[0], token.string.lstrip("#! "))


def _docstrings(tree: ast.AST) -> Iterator[ast.Constant]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and node.body:
            value = getattr(node.body[0], "value", None)
            if isinstance(node.body[0], ast.Expr) and isinstance(value, ast.Constant) and isinstance(value.value, str):
                yield value


def _sentence(node: ast.AST) -> str:
    if isinstance(node, ast.JoinedStr):
        return "".join(str(part.value) if isinstance(part, ast.Constant) else "0" for part in node.values)
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def _in_sentences(first: int, text: str) -> Iterator[tuple[int, str, str]]:
    """Yield the same for each sentence of a docstring or a comment, with the line in which it begins."""
    plain = re.sub(r"^ *(?:>>>|\.\.\. ).*|`[^`]*`", lambda code: f"CODE{_blank(code)}", text, flags=re.MULTILINE)
    for sentence in re.finditer(r"\S.*?(?:[.!?](?=\s)|$(?![\s\S])|(?=\n\s*\n))", plain, flags=re.DOTALL):
        number = first + plain.count("\n", 0, sentence.start())
        for written, advice in found_in(" ".join(sentence[0].split())):
            yield number, written, advice


def in_template(text: str) -> Iterator[tuple[int, str, str]]:
    """Yield the same for the text of a page; what is filled in counts as a number."""
    text = re.sub(r"<(style|script)\b.*?</\1>|{#.*?#}|{%.*?%}|<[^>]*>", _blank, text, flags=re.DOTALL)
    for number, line in enumerate(re.sub(r"{{.*?}}", "0", text).splitlines(), 1):
        yield from ((number, written, advice) for written, advice in found_in(line))


def mistakes(path: Path) -> list[str]:
    """Return a line for everything that is found in a file."""
    text = path.read_text()
    if path.suffix == ".py":
        found = in_python(text, strings_only="algorithm" in path.parts)
    else:
        found = in_markdown(text) if path.suffix == ".md" else in_template(text)
    name = path.relative_to(ROOT) if path.is_relative_to(ROOT) else path
    return [f"{name}:{number}: {written!r} -> {advice}" for number, written, advice in sorted(found)]


def files(patterns: Iterable[str]) -> list[Path]:
    """Return the files that patterns name; none of them is made by a program."""
    return sorted({path for pattern in patterns for path in ROOT.glob(pattern) if "generated" not in path.parts})


def main(arguments: list[str]) -> int:
    """Print every mistake, and return the exit code."""
    paths = [Path(each).resolve() for each in arguments] or files(CHECKED)
    lines = [line for path in paths for line in mistakes(path)]
    print("\n".join([*lines, f"English: {len(lines)} to rewrite in {len(paths)} files"]))
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
