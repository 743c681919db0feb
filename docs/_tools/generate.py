"""The pages of the reference that are made from the code: HTTP, events and commands. Do not edit what this writes."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any, get_args

import msgspec
from msgspec.structs import fields
from page_examples import TOKEN, Exchange, event_lines, exchanges, setup
from typer.main import get_command
from typer.testing import CliRunner

from cosend.cli.main import app
from cosend.engine.events import VERSION, Event
from cosend.runtime.running_site import RunningSite
from cosend.server.auth import SCOPES, Tokens
from cosend.server.openapi import PROBLEMS
from cosend.server.routes import Service

MADE = "<!-- made by docs/_tools/generate.py: do not edit -->\n"
Schema = dict[str, Any]


def generate(folder: Path) -> None:
    """Write all generated pages and schemas into a folder; a file that would not change is not touched."""
    folder.mkdir(parents=True, exist_ok=True)
    openapi, events = openapi_document(), event_schema()
    pages = {
        "http.md": http_page(openapi),
        "openapi.json": json.dumps(openapi, indent=2) + "\n",
        "events.md": events_page(),
        "events.schema.json": json.dumps(events, indent=2) + "\n",
        "commands.md": commands_page(),
    }
    for name, text in pages.items():
        path = folder / name
        if not path.is_file() or path.read_text() != text:
            path.write_text(text)


def openapi_document() -> Schema:
    """Return what the service of a site says about itself: here one with the context age, and tokens."""
    with tempfile.TemporaryDirectory() as folder:
        service = Service(RunningSite(setup(), Path(folder)), Tokens({TOKEN: frozenset(["admin"])}))
        return json.loads(json.dumps(service.description()))


def event_schema() -> Schema:
    """Return the JSON Schema of a line of `cosend export --events` or of `/v1/events`."""
    kinds = get_args(Event)
    objects = [msgspec.defstruct(kind.__name__, [(each.name, each.type) for each in fields(kind)]) for kind in kinds]
    _, known = msgspec.json.schema_components(objects, ref_template="#/$defs/{name}")  # lines have names, logs do not
    lines = []
    for kind in kinds:
        schema = known[kind.__name__]
        head = {"number": {"type": "integer"}, "at": {"type": "number"}, "event": {"const": kind.__name__}}
        schema["properties"] = {**head, **schema["properties"]}
        schema["required"] = [*head, *[field.name for field in fields(kind)]]  # a line has all of them
        lines.append({"$ref": f"#/$defs/{kind.__name__}"})
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"An event in the log of a site, version {VERSION} of the vocabulary",
        "oneOf": lines,
        "$defs": known,
    }


def http_page(document: Schema) -> str:
    """Return the routes of a site as a page, each with a request and the response of a real site."""
    parts = [
        MADE,
        "# HTTP\n",
        "These are the routes of `cosend serve`.",
        "The responses come from a site with the context `age` and the models `young` and `old`; times are set.",
        "A running site describes itself at `/docs`, and for programs at `/openapi.json`.",
        "The schemas of all requests and responses are in {download}`openapi.json`.\n",
        f"A token has some of the scopes {', '.join(f'`{scope}`' for scope in SCOPES)}; `admin` includes the others.",
        "Without tokens, leave out the header `Authorization`.\n",
        "`cost` of a decision is the cost that was expected when its arm was chosen, `cost_paid` the real one.",
        "It is null unless the answer or the label named it; `price` and `price_paid` are the same in money.",
        "`spent` adds up the real costs, and the expected ones where these are not known.\n",
        "Errors follow RFC 9457 (`application/problem+json`): `detail` says what was wrong and what is allowed.\n",
        "| status | meaning |",
        "|---|---|",
        *(f"| {status} | {meaning} |" for status, meaning in PROBLEMS.items()),
        "",
    ]
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            title = f"{method.upper()} {path}"
            parts.append(_route(title, operation, exchanges()[title]))
    return "\n".join(parts)


def _route(title: str, operation: Schema, example: Exchange) -> str:
    parts = [f"## `{title}`\n", f"{operation.get('description') or operation['summary'] + '.'}\n"]
    for each in operation.get("parameters", []):
        parts += [f"- `{each['name']}` in the {each['in']}: {_in_words(each['schema'])}"]
    language = "json" if example.reply.startswith("{") and "\n{" not in example.reply else "text"
    parts += [f"\n```sh\n{example.curl}\n```\n", f"```{language}\n{example.reply}\n```\n"]
    return "\n".join(parts)


def _in_words(schema: Schema) -> str:
    """Return what a parameter may be."""
    about = f"; {schema['description']}" if "description" in schema else ""
    schema = next((each for each in schema.get("anyOf", ()) if each["type"] != "null"), schema)
    kind = {"string": "text", "integer": "a whole number"}[schema["type"]]
    lowest, highest = schema.get("minimum"), schema.get("maximum")
    limits = f" from {lowest:,} to {highest:,}" if lowest is not None else ""
    if "maxLength" in schema:
        limits = f" of at most {schema['maxLength']} characters"
    return f"{kind}{limits}{', default ' + str(schema['default']) if 'default' in schema else ''}{about}"


def events_page() -> str:
    """Return the events of a log as a page, each with the line of a real site."""
    parts = [
        MADE,
        "# Events\n",
        "Every change of what a site knows is an event.",
        "You find them in `cosend export --events`, at `/v1/events`, and in the `journal` of a `Site`.\n",
        "A line has `number`, `at` (seconds since 1970) and `event` (the name) before the fields of the event.",
        "In these examples, long lists are cut.",
        "{download}`events.schema.json` is the JSON Schema of a line; the classes are in `cosend.engine.events`.\n",
    ]
    lines = event_lines()
    for kind in get_args(Event):
        parts += [f"## {kind.__name__}\n", f"{kind.__doc__}\n", f"```json\n{lines[kind.__name__]}\n```\n"]
    return "\n".join(parts)


def commands_page() -> str:
    """Return the help of every command as a page."""
    parts = [MADE, "# Commands\n", "The output of `cosend COMMAND --help`.\n"]
    for words in _commands(get_command(app), []):
        said = CliRunner().invoke(app, [*words, "--help"], env={**os.environ, **PLAIN}, color=False).stdout
        text = "\n".join(line.rstrip() for line in said.strip().splitlines())
        parts += [f"## cosend {' '.join(words)}\n", f"```text\n{text}\n```\n"]
    return "\n".join(parts)


PLAIN = {"COLUMNS": "100", "TERM": "dumb", "NO_COLOR": "1"}


def _commands(command: Any, words: list[str]) -> list[list[str]]:
    if not hasattr(command, "commands"):
        return [words]
    return [found for name, each in command.commands.items() for found in _commands(each, [*words, name])]
