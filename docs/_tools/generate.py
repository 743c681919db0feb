"""The pages of the reference that are made of the code: HTTP, events and commands. Nobody edits what this writes."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any, get_args

import msgspec
from msgspec.structs import fields
from typer.main import get_command
from typer.testing import CliRunner

from cosend.axes import Feature
from cosend.cli.main import app
from cosend.engine.events import VERSION, Event
from cosend.models.adapters import as_classifier
from cosend.runtime.running_site import RunningSite
from cosend.runtime.site_setup import Setup
from cosend.server.auth import SCOPES, Tokens
from cosend.server.routes import Service

MADE = "<!-- made by docs/_tools/generate.py: do not edit -->\n"
Schema = dict[str, Any]


def generate(folder: Path) -> None:
    """Write all generated pages and schemas into a folder; what is the same already is left alone."""
    folder.mkdir(parents=True, exist_ok=True)
    openapi, events = openapi_document(), event_schema()
    pages = {
        "http.md": http_page(openapi),
        "openapi.json": json.dumps(openapi, indent=2) + "\n",
        "events.md": events_page(events),
        "events.schema.json": json.dumps(events, indent=2) + "\n",
        "commands.md": commands_page(),
    }
    for name, text in pages.items():
        path = folder / name
        if not path.is_file() or path.read_text() != text:
            path.write_text(text)


def openapi_document() -> Schema:
    """Return what the service of a site says of itself: here one with the context age, and tokens."""
    setup = Setup(
        name="north",
        classifiers={"young": as_classifier(lambda visit: "ill")},
        axes=[Feature("age", range=(0, 100))],
    )
    with tempfile.TemporaryDirectory() as folder:
        service = Service(RunningSite(setup, Path(folder)), Tokens({"a-token-of-an-admin": frozenset(["admin"])}))
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
    """Return the routes of a site as a page."""
    parts = [
        MADE,
        "# HTTP\n",
        "What `cosend serve` answers, made of the OpenAPI document of a site whose context is `age`, with tokens.",
        "{download}`openapi.json` is that document; a running site has its own at `/openapi.json`, and shows it at"
        " `/docs`.\n",
        f"Scopes of a token: {', '.join(f'`{scope}`' for scope in SCOPES)}.",
        "What goes wrong is a problem of RFC 9457 (`application/problem+json`).\n",
    ]
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            parts.append(_route(f"{method.upper()} {path}", operation))
    parts.append("## Schemas\n")
    for name, schema in sorted(document["components"]["schemas"].items()):
        parts += [f"### {name}\n", _json(schema)]
    return "\n".join(parts)


def _route(title: str, operation: Schema) -> str:
    parts = [f"## `{title}`\n", f"{operation.get('description') or operation['summary']}\n"]
    for each in operation.get("parameters", []):
        parts += [f"- `{each['name']}` (in the {each['in']}): `{json.dumps(each['schema'])}`"]
    body = operation.get("requestBody")
    if body:
        parts += ["\nBody:\n", _json(body["content"]["application/json"]["schema"])]
    for status, answer in operation["responses"].items():
        content = answer.get("content", {})
        if status == "200":
            parts += ["\nAnswer:\n", *(_json(each["schema"]) for each in content.values())]
    refused = [
        f"{status} {answer['description']}" for status, answer in operation["responses"].items() if status != "200"
    ]
    if refused:
        parts.append(f"Refused with: {'; '.join(refused)}.\n")
    return "\n".join(parts)


def events_page(schema: Schema) -> str:
    """Return the events of a log as a page."""
    parts = [
        MADE,
        "# Events\n",
        "Everything that changes what a site knows is an event: in the log of a running site, in"
        " `cosend export --events`, at `/v1/events`, and in the `journal` of a `Site`.",
        "The fields are those of the classes in `cosend.engine.events`; a JSON line has `number`, `at` (seconds since"
        " 1970) and `event` (the name) before them.",
        "{download}`events.schema.json` is the JSON Schema of a line.\n",
    ]
    for kind in get_args(Event):
        properties = schema["$defs"][kind.__name__]["properties"]
        rows = [f"| `{name}` | `{json.dumps(properties[name])}` |" for name in (field.name for field in fields(kind))]
        parts += [f"## {kind.__name__}\n", f"{kind.__doc__}\n", "| field | schema |", "|---|---|", *rows, ""]
    return "\n".join(parts)


def commands_page() -> str:
    """Return what `--help` says of every command as a page."""
    parts = [MADE, "# Commands\n", "What `cosend COMMAND --help` says.\n"]
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


def _json(schema: Schema) -> str:
    return f"```json\n{json.dumps(schema, indent=2)}\n```\n"
