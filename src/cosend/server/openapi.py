"""The OpenAPI description of a site, made from the schema, with the features and labels that this site knows.

Two pages are made from it: the first page of a site, and /docs, which shows every route to people.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from html import escape
from typing import Any, Final

import msgspec

from cosend.axes import Axis, Category, Context, PreviousLabel, TimeOfDay
from cosend.models.adapters import all_known_labels
from cosend.runtime.site_setup import Setup
from cosend.server import schema
from cosend.server.auth import PAGES, SCOPES
from cosend.version import VERSION

Json = dict[str, Any]
REF: Final = "#/components/schemas/"
NUMBER: Final = ["number", "boolean"]  # for Python, and so for contexts, true is 1
PROBLEMS: Final = {
    400: "not JSON",
    401: "a token is needed",
    403: "the token lacks the scope, or a web page from elsewhere asks",
    404: "no such thing",
    408: "the body came too slowly",
    413: "the body is too long",
    415: "the body is not declared as JSON",
    422: "not allowed here",
    503: "the site cannot answer now",
}


def describe(setup: Setup, *, secured: bool) -> Json:
    """Return the OpenAPI document of a site."""
    kinds = {kind for route in schema.ROUTES for kind in (route.reply, route.body) if isinstance(kind, type)} - {str}
    kinds |= {schema.Decision, schema.Unanswered, schema.Problem}
    _, known = msgspec.json.schema_components(
        sorted(kinds, key=lambda kind: kind.__name__), ref_template=REF + "{name}"
    )
    features, labels = feature_schemas(setup), label_schema(setup)
    known["Item"]["properties"]["features"] |= {"properties": features, "required": [*features]}
    known["Truth"]["properties"]["label"] = labels or known["Truth"]["properties"]["label"]
    known["DecisionOrError"] = {"anyOf": [{"$ref": f"{REF}Decision"}, {"$ref": f"{REF}Unanswered"}]}
    known["Problem"]["required"] = [*known["Problem"]["properties"]]
    paths: dict[str, Json] = {}
    for route in schema.ROUTES:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, secured=secured)
    document: Json = {
        "openapi": "3.1.0",
        "info": {"title": f"cosend site {setup.name}", "version": VERSION},
        "paths": paths,
        "components": {"schemas": known},
    }
    if secured:
        about = f"a bearer token with one of the scopes {', '.join(SCOPES)}"
        document["components"]["securitySchemes"] = {
            "token": {"type": "http", "scheme": "bearer", "description": about}
        }
    return document


def _operation(route: schema.Route[Any], *, secured: bool) -> Json:
    reply = {route.media_type: {"schema": _schema(route.reply)}}
    operation: Json = {
        "summary": route.about,
        "operationId": route.name,
        "responses": {"200": {"description": "done", "content": reply}},
    }
    parameters = []
    if "{" in route.path:
        name = route.path.partition("{")[2].removesuffix("}")
        parameters.append({"name": name, "in": "path", "required": True, "schema": _schema(schema.Id)})
    if route.query is not None:
        _, known = msgspec.json.schema_components([route.query])
        for name, of in known[route.query.__name__]["properties"].items():
            parameters.append({"name": name, "in": "query", "required": False, "schema": of})
    if parameters:
        operation["parameters"] = parameters
    if route.body is not None:
        operation["requestBody"] = {"required": True, "content": {"application/json": {"schema": _schema(route.body)}}}
    problem = {schema.PROBLEM_TYPE: {"schema": {"$ref": f"{REF}Problem"}}}
    for status in _problems(route, secured=secured):
        operation["responses"][str(status)] = {"description": PROBLEMS[status], "content": problem}
    if secured and route.scope is not None:
        operation["security"] = [{"token": []}]
        operation["description"] = f"{route.about}. Needs the scope {route.scope}."
    return operation


def _schema(kind: Any) -> Json:
    (found,), _ = msgspec.json.schema_components([kind], ref_template=REF + "{name}")
    return found


def _problems(route: schema.Route[Any], *, secured: bool) -> tuple[int, ...]:
    if route.path.startswith("/v1"):
        return tuple(PROBLEMS)
    if route.scope is not None:
        return (401, 403) if secured else ()
    return (503,) if route.name == "ready" else ()


def feature_schemas(setup: Setup) -> dict[str, Json]:
    """Return what the contexts require of the features of an item."""
    schemas = {}
    for axis in setup.axes:
        feature = getattr(axis, "feature", None)
        if feature is not None:
            schemas[feature] = _axis_schema(axis)
    return schemas


def _axis_schema(axis: Axis) -> Json:
    match axis:
        case Category():
            return {"type": ["string", "boolean", "number"], "maxLength": schema.MAX_TEXT}
        case TimeOfDay():
            return {"type": NUMBER, "description": "seconds since 1970"}
        case Context(range=(low, high), outside="error"):
            return {"type": NUMBER, "minimum": low, "maximum": high}
        case Context(scale="log", range=None, outside="error"):
            return {"type": NUMBER, "minimum": 0, "maximum": 1e9}
    return {"type": NUMBER}


def label_schema(setup: Setup) -> Json | None:
    """Return the schema of a true label where all possible ones are known; null is a missing label."""
    for axis in setup.axes:
        if isinstance(axis, PreviousLabel):
            return {"enum": [*axis.classes, None]}
    known = all_known_labels(setup.models.values()) if setup.strict_labels else None
    return None if known is None else {"enum": [*sorted(known, key=str), None]}


# Pages

HEAD: Final = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>{title} \N{MIDDLE DOT} cosend</title>
"""
STYLE: Final = """<style>
:root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif }
body { max-width: 60rem; margin: 2rem auto; padding: 0 1rem }
pre { padding: .6rem .8rem; overflow-x: auto; background: color-mix(in srgb, currentColor 8%, transparent) }
code, pre { font-size: .85rem } h2 code { font-size: 1.1rem } h2 { margin-top: 2.5rem }
</style>
"""


def start_page(site: str, *, has_pages: bool) -> str:
    """Return the first page of a site: where to go from here."""
    links = {"/docs": "all routes", "/openapi.json": "the same for programs (OpenAPI)"}
    if has_pages:
        links = {f"{PAGES}/": "how the site is doing", **links}
    rows = "".join(f'<li><a href="{path}">{path}</a>: {what}</li>\n' for path, what in links.items())
    return f"{HEAD.format(title=escape(site))}<h1>{escape(site)}</h1>\n<ul>\n{rows}</ul>\n</html>\n"


def docs_page(document: Json, url: str) -> str:
    """Return all routes of a document, each with a command to try, as a page that loads nothing from anywhere."""
    title = escape(document["info"]["title"])
    parts = [HEAD.format(title=title), STYLE, f"<h1>{title}</h1>\n"]
    parts.append('<p>This page for programs: <a href="/openapi.json">/openapi.json</a>.</p>\n')
    for path, methods in document["paths"].items():
        for method, route in methods.items():
            parts.append(f'<h2 id="{route["operationId"]}"><code>{method.upper()} {escape(path)}</code></h2>\n')
            parts.append(f"<p>{escape(str(route.get('description', route['summary'])))}</p>\n")
            parts.append(f"<pre>{escape(_command(document, url + path, route))}</pre>\n<ul>\n")
            parts += [f"<li>{fact}</li>\n" for fact in _facts(route)]
            parts.append("</ul>\n")
    parts.append("<h1>Schemas</h1>\n")
    for name, each in sorted(document["components"]["schemas"].items()):
        text = re.sub(f"{REF}(\\w+)", r'<a href="#\1">\1</a>', escape(json.dumps(each, indent=2, ensure_ascii=False)))
        parts.append(f'<details><summary>{name}</summary><pre id="{name}">{text}</pre></details>\n')
    return "".join([*parts, "</html>\n"])


def _facts(route: Json) -> Iterator[str]:
    """Yield what a route takes and replies."""
    for each in route.get("parameters", ()):
        yield f"<code>{each['name']}</code> in the {each['in']}: <code>{escape(json.dumps(each['schema']))}</code>"
    if "requestBody" in route:
        yield f"body: {_link(route['requestBody'])}"
    yield f"reply: {_link(route['responses']['200'])}"
    refusals = {status: reply for status, reply in route["responses"].items() if status != "200"}
    if refusals:
        reasons = "; ".join(f"{status} {escape(reply['description'])}" for status, reply in refusals.items())
        yield f"refused with a {_link(next(iter(refusals.values())))}: {reasons}"


def _link(content: Json) -> str:
    ((media_type, of),) = content["content"].items()
    name = of["schema"].get("$ref", "").removeprefix(REF)
    return f'<a href="#{name}">{name}</a>' if name else media_type


def _command(document: Json, url: str, route: Json) -> str:
    command = f"curl '{re.sub(r'{(.+?)}', lambda name: name[1].upper(), url)}'"
    if "security" in route:
        command += " -H 'Authorization: Bearer TOKEN'"
    if "requestBody" in route:
        example = _example(document, route["requestBody"]["content"]["application/json"]["schema"])
        given = json.dumps(example, ensure_ascii=False).replace("'", r"'\''")
        command += f" \\\n  -H 'Content-Type: application/json' -d '{given}'"
    return command


def _example(document: Json, of: Json) -> Any:
    """Return a value that a schema allows: its required properties, and one item of a list."""
    if "$ref" in of:
        return _example(document, document["components"]["schemas"][of["$ref"].removeprefix(REF)])
    if "anyOf" in of:
        return _example(document, of["anyOf"][0])
    if "enum" in of:
        return of["enum"][0]
    kind = of.get("type")
    match kind if isinstance(kind, str) else kind[0] if kind else None:
        case "object":
            wanted = of.get("required") or of.get("properties", {})
            return {name: _example(document, of["properties"][name]) for name in wanted}
        case "array":
            return [_example(document, of["items"])]
        case "integer" | "number":
            return of.get("minimum", 1)
        case "boolean":
            return True
    return "ID" if of.get("maxLength") == schema.MAX_ID else "text"
