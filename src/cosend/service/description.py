"""The two hot routes in the OpenAPI description, with the features and labels that this site knows."""

from __future__ import annotations

from typing import Any, Final

from cosend.node.setup import Setup
from cosend.service.bodies import LONGEST_ID, LONGEST_TEXT, MOST_ITEMS
from cosend.service.problems import MEDIA_TYPE, problem_schema
from cosend.service.tokens import SCOPES
from cosend.site.context import Axis, Category, Context, PreviousLabel, TimeOfDay
from cosend.site.label_check import all_labels

Schema = dict[str, Any]
NUMBER: Final = ["number", "boolean"]  # for Python, and so for contexts, true is 1
LABEL: Final[Schema] = {"type": ["string", "integer", "number", "boolean", "null"]}
ID: Final[Schema] = {"type": "string", "minLength": 1, "maxLength": LONGEST_ID}
OWN_ID: Final[Schema] = {**ID, "type": ["string", "null"], "description": "the client's own; null is none"}
PROBLEMS: Final = {
    400: "not JSON",
    401: "a token is needed",
    403: "the token is not allowed to do this",
    404: "no such thing",
    408: "too slow",
    413: "too long",
    415: "a body that does not say that it is JSON",
    422: "not allowed here",
    503: "cannot answer now",
}


def feature_schemas(setup: Setup) -> dict[str, Schema]:
    """Return what the contexts say of the features that items must have."""
    schemas = {}
    for axis in setup.axes:
        feature = getattr(axis, "feature", None)
        if feature is not None:
            schemas[feature] = _axis_schema(axis)
    return schemas


_SCALAR: Final[Schema] = {"type": ["string", "number", "boolean", "null"], "maxLength": LONGEST_TEXT}
_SCALARS: Final[Schema] = {"type": "array", "items": _SCALAR}
_FEATURE: Final[Schema] = {
    "anyOf": [
        _SCALAR,
        {"type": "array", "items": {"anyOf": [_SCALAR, _SCALARS]}},
        {"type": "object", "additionalProperties": _SCALAR},
    ]
}


def _axis_schema(axis: Axis) -> Schema:
    match axis:
        case Category():
            return {"type": ["string", "boolean", "number"], "maxLength": LONGEST_TEXT}
        case TimeOfDay():
            return {"type": NUMBER, "description": "seconds since 1970"}
        case Context(range=(low, high), outside="error"):
            return {"type": NUMBER, "minimum": low, "maximum": high}
        case Context(scale="log", range=None, outside="error"):
            return {"type": NUMBER, "minimum": 0, "maximum": 1e9}
    return {"type": NUMBER}


def label_schema(setup: Setup) -> Schema:
    """Return the schema of a true label: all that are possible, where that is known; null is one that is missing."""
    for axis in setup.axes:
        if isinstance(axis, PreviousLabel):
            return {"enum": [*axis.classes, None]}
    known = all_labels(dict(setup.classifiers)) if setup.strict_labels else None
    return LABEL if known is None else {"enum": [*sorted(known, key=str), None]}


def hot_paths(setup: Setup) -> dict[str, Any]:
    """Return the paths of the hot routes, as OpenAPI has them."""
    features = feature_schemas(setup)
    item = _object({"features": _object(features, [*features], more=_FEATURE), "id": OWN_ID}, ["features"])
    decided = _object(
        {
            "id": {"type": "string"},
            "label": LABEL,
            "arm": {"type": "string"},
            "phase": {"enum": ["train", "explore", "exploit"]},
            "cell": {"type": "integer"},
            "cost": {"type": "number", "minimum": 0, "maximum": 1},
            "propensity": {"type": ["number", "null"]},
            "answered_by": {"type": "string"},
        },
        ["id", "label", "arm", "phase", "cell", "cost", "propensity"],
    )
    failed = _object({"error": {"type": "string"}, "id": {"type": ["string", "null"]}}, ["error", "id"])
    decisions = _object({"decisions": {"type": "array", "items": {"anyOf": [decided, failed]}}}, ["decisions"])
    label = _object({"id": ID, "label": label_schema(setup), "cost": _COST}, ["id", "label"])
    labels = _many("labels", label)
    labels["properties"]["wait_for_peers"] = {
        "type": "boolean",
        "description": "answer when peers have learnt them too",
    }
    ids = {"type": "array", "items": {"type": "string"}}
    fates = ("learnt", "duplicate", "unknown", "expired", "missing")
    heard = _object(dict.fromkeys(fates, ids), ["learnt", "duplicate"])
    return {
        "/v1/classify": _post("classify", "Label items", _many("items", item), decisions),
        "/v1/labels": _post("labels", "Learn true labels", labels, heard),
    }


_COST: Final[Schema] = {
    "type": ["number", "null"],
    "minimum": 0,
    "maximum": 1,
    "description": "what the decision really cost, if that was not known before",
}


def _object(properties: Schema, required: list[str], *, more: bool | Schema = False) -> Schema:
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": more}


def _many(name: str, schema: Schema) -> Schema:
    return _object({name: {"type": "array", "items": schema, "minItems": 1, "maxItems": MOST_ITEMS}}, [name])


def _post(name: str, summary: str, body: Schema, answer: Schema) -> Schema:
    return {
        "post": {
            "summary": summary,
            "operationId": name,
            "requestBody": {"required": True, "content": {"application/json": {"schema": body}}},
            "responses": {"200": {"description": "done", "content": {"application/json": {"schema": answer}}}},
        }
    }


def _problems(path: str, *, secured: bool) -> dict[int, str]:
    """Return what may go wrong on a path."""
    if path.startswith("/v1"):
        return PROBLEMS
    return {status: PROBLEMS[status] for status in (401, 403)} if secured and path == "/metrics" else {}


def described(document: dict[str, Any], setup: Setup, *, secured: bool) -> dict[str, Any]:
    """Return an OpenAPI document with the hot routes, the problems, and the tokens that are needed."""
    document["paths"] = {**hot_paths(setup), **document["paths"]}
    schemas = document.setdefault("components", {}).setdefault("schemas", {})
    schemas["Problem"] = problem_schema()
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    content = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    for path, operations in document["paths"].items():
        for operation in operations.values():
            for status, what in _problems(path, secured=secured).items():
                operation["responses"][str(status)] = {"description": what, "content": content}
            if secured and not path.startswith("/health"):
                operation["security"] = [{"token": []}]
    if secured:
        what = f"a bearer token with one of the scopes {', '.join(SCOPES)}"
        document["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer", "description": what}}
    return document
