"""The OpenAPI description of a site, made from the schema, with the features and labels that this site knows.

`/docs` is a page made from it that shows every route to people, and loads nothing from anywhere.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

import msgspec
from markupsafe import Markup, escape

from cosend.axes import Axis, Category, Feature, PreviousLabel, TimeOfDay
from cosend.engine.scoring import UNITS, Reward
from cosend.models.adapters import all_known_labels
from cosend.runtime.site_setup import Setup
from cosend.server import schema
from cosend.server.auth import SCOPES
from cosend.text import templates
from cosend.version import VERSION

Json = dict[str, Any]
REF: Final = "#/components/schemas/"
NUMBER: Final = ["number", "boolean"]  # for Python, and so for contexts, true is 1
PROBLEMS: Final = {
    400: "the body is not JSON",
    401: "a token is missing or unknown",
    403: "the token lacks the scope, or the request comes from a foreign web page",
    404: "not found",
    408: "the body arrived too slowly",
    413: "the body is too long",
    415: "the body is not declared as JSON",
    422: "a value is not allowed",
    503: "the site cannot answer now; retry",
}


def describe(setup: Setup, *, secured: bool) -> Json:
    kinds = {kind for route in schema.ROUTES for kind in (route.reply, route.body) if isinstance(kind, type)} - {str}
    kinds |= {schema.Decision, schema.Unanswered, schema.Problem}
    _, known = _components(*sorted(kinds, key=lambda kind: kind.__name__))
    features = {name: _axis_schema(axis) for axis in setup.axes if (name := getattr(axis, "feature", None)) is not None}
    known["Item"]["properties"]["features"] |= {"properties": features, "required": [*features]}
    known["Truth"]["properties"]["label"] = _label_schema(setup) or known["Truth"]["properties"]["label"]
    _limit_scores(known["Truth"]["properties"], setup)
    one_of = {"anyOf": [{"$ref": f"{REF}Decision"}, {"$ref": f"{REF}Unanswered"}]}  # msgspec has no such unions
    known["Decisions"]["properties"]["decisions"]["items"] = one_of
    known["Problem"]["required"] = [*known["Problem"]["properties"]]
    document: Json = {
        "openapi": "3.1.0",
        "info": {"title": f"cosend site {setup.name}", "version": VERSION},
        "paths": {each.path: {each.method.lower(): _operation(each, secured=secured)} for each in schema.ROUTES},
        "components": {"schemas": known},
    }
    if secured:
        about = f"a bearer token with one of the scopes {', '.join(SCOPES)}"
        token = {"type": "http", "scheme": "bearer", "description": about}
        document["components"]["securitySchemes"] = {"token": token}
    return document


def _components(*kinds: Any) -> tuple[tuple[Json, ...], dict[str, Any]]:
    return msgspec.json.schema_components(kinds, ref_template=REF + "{name}")


def _content(media_type: str, kind: Any) -> Json:
    return {"content": {media_type: {"schema": _components(kind)[0][0]}}}


def _operation(route: schema.Route[Any], *, secured: bool) -> Json:
    refusal = _content(schema.PROBLEM_TYPE, schema.Problem)
    operation: Json = {
        "summary": route.about,
        "operationId": route.name,
        "responses": {
            "200": {"description": "done", **_content(route.media_type, route.reply)},
            **{str(status): {"description": PROBLEMS[status], **refusal} for status in _problems(route, secured)},
        },
    }
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": _components(schema.Id)[0][0]}
        for name in re.findall(r"{(\w+)}", route.path)
    ]
    if route.query is not None:
        properties = _components(route.query)[1][route.query.__name__]["properties"]
        parameters += [{"name": n, "in": "query", "required": False, "schema": of} for n, of in properties.items()]
    if parameters:
        operation["parameters"] = parameters
    if route.body is not None:
        operation["requestBody"] = {"required": True, **_content("application/json", route.body)}
    if secured and route.scope is not None:
        operation["security"] = [{"token": []}]
        operation["description"] = f"{route.about}. Needs the scope {route.scope}."
    return operation


def _problems(route: schema.Route[Any], secured: bool) -> tuple[int, ...]:
    if route.path.startswith("/v1"):
        return tuple(PROBLEMS)
    if route.scope is not None:
        return (401, 403) if secured else ()
    return (503,) if route.name == "ready" else ()


def _axis_schema(axis: Axis) -> Json:
    match axis:
        case Category():
            return {"type": ["string", "boolean", "number"], "maxLength": schema.MAX_TEXT}
        case TimeOfDay():
            return {"type": NUMBER, "description": "seconds since 1970"}
        case Feature(range=(low, high), outside="error"):
            return {"type": NUMBER, "minimum": low, "maximum": high}
        case Feature(scale="log", range=None, outside="error"):
            return {"type": NUMBER, "minimum": 0, "maximum": 1e9}
    return {"type": NUMBER}


def _limit_scores(truth: Json, setup: Setup) -> None:
    """Say between which numbers scores are."""
    low, high = setup.reward.range if isinstance(setup.reward, Reward) else UNITS
    by_arm = next(each for each in truth["scores"]["anyOf"] if each["type"] == "object")
    for numbers in (truth["score"]["anyOf"], by_arm["additionalProperties"]["anyOf"]):
        for each in numbers:
            if each["type"] == "number":
                each |= {"minimum": low, "maximum": high}


def _label_schema(setup: Setup) -> Json | None:
    """Return the schema of a true label where all possible ones are known; null is a missing label."""
    for axis in setup.axes:
        if isinstance(axis, PreviousLabel):
            return {"enum": [*axis.classes, None]}
    known = all_known_labels(setup.models.values()) if setup.strict_labels else None
    return None if known is None else {"enum": [*sorted(known, key=str), None]}


# Pages


def start_page(site: str, *, has_pages: bool) -> str:
    return templates(__package__).get_template("start.html").render(title=site, has_pages=has_pages)


def docs_page(document: Json, url: str) -> str:
    def command(url: str, route: Json) -> str:
        found = f"curl '{re.sub(r'{(.+?)}', lambda name: name[1].upper(), url)}'"
        if "security" in route:
            found += " -H 'Authorization: Bearer TOKEN'"
        if "requestBody" in route:
            example = _example(document, route["requestBody"]["content"]["application/json"]["schema"])
            given = _json(example).replace("'", r"'\''")
            found += f" \\\n  -H 'Content-Type: application/json' -d '{given}'"
        return found

    values = {"title": document["info"]["title"], "document": document, "url": url, "ref": REF}
    page = templates(__package__).get_template("docs.html")
    return page.render(**values, command=command, json=_json, with_links=_with_links)


def _json(value: Any, indent: int | None = None) -> str:
    return json.dumps(value, indent=indent, ensure_ascii=False)


def _with_links(of: Json) -> Markup:
    text = re.sub(f"{REF}(\\w+)", r'<a href="#\1">\1</a>', str(escape(_json(of, 2))))
    return Markup(text)  # noqa: S704 - it was escaped


def _example(document: Json, of: Json) -> Any:
    """Return a value that a schema allows: its required properties, and one item of a list."""
    if "$ref" in of:
        there = document["components"]["schemas"][of["$ref"].removeprefix(REF)]
        first = of["oneOf"][0]["required"] if "oneOf" in of else []  # of keys that replace each other
        return _example(document, {**there, "required": [*there.get("required", []), *first]} if first else there)
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
