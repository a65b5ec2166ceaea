"""The OpenAPI document, generated from the routes and the structs of their JSON."""

import re
from collections.abc import Sequence
from typing import Any

import msgspec

from windlass import __version__
from windlass.web.calls import Route
from windlass.web.schema import Error

_PARAMETER = re.compile(r"\{(\w+)(?::((?:[^{}]|\{[^{}]*\})*))?\}")


def document(routes: Sequence[Route]) -> dict[str, Any]:
    types = [kind for route in routes for kind in (route.answer, route.body) if kind is not None]
    schemas, components = msgspec.json.schema_components(
        [*types, Error], ref_template="#/components/schemas/{name}"
    )
    by_type = dict(zip([*types, Error], schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        path = _PARAMETER.sub(lambda match: f"{{{match[1]}}}", route.path)
        paths.setdefault(path, {})[route.method.lower()] = _operation(route, by_type)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Windlass dashboard", "version": __version__},
        "paths": paths,
        "components": {"schemas": components},
    }


def _operation(route: Route, schemas: dict[Any, Any]) -> dict[str, Any]:
    parameters: list[dict[str, Any]] = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name, _ in _PARAMETER.findall(route.path)
    ]
    parameters += [
        {"name": each.name, "in": "query", "description": each.description, "schema": {"type": "string"}}
        for each in route.query
    ]
    answer = {"schema": schemas[route.answer]} if route.answer is not None else {}
    failure = {"description": "The error.", "content": {"application/json": {"schema": schemas[Error]}}}
    operation: dict[str, Any] = {
        "summary": route.summary,
        "parameters": parameters,
        "responses": {
            str(route.status): {"description": "The answer.", "content": {route.content_type: answer}},
            "default": failure,
        },
    }
    if route.body is not None:
        content = {"application/json": {"schema": schemas[route.body]}}
        operation["requestBody"] = {"required": True, "content": content}
    return operation
