"""The OpenAPI documents of the served kinds: `/openapi/v2`, one in Swagger 2.0, and `/openapi/v3`, one per version.

kubectl validates, explains and works out patches from them. What is in them comes from `openapi_schemas` and
`openapi_operations`; here it is put together. Parts are shared between documents: they are to be read only.
"""

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from windlass.localcluster.apiserver.kinds.kind import Kind
from windlass.localcluster.apiserver.openapi import discovery, operations, schemas
from windlass.localcluster.apiserver.openapi.operations import Operation, Path
from windlass.localcluster.apiserver.openapi.schemas import Dialect

Document = dict[str, Any]

_TEXT = {"type": "string"}
_FLAG = {"type": "boolean"}
_NUMBER = {"type": "integer"}
_QUERY_SCHEMAS: dict[str, Document] = {
    "allowWatchBookmarks": _FLAG,
    "dryRun": {"type": "string", "enum": ["All"]},
    "fieldValidation": {"type": "string", "enum": ["Ignore", "Warn", "Strict"]},
    "follow": _FLAG,
    "gracePeriodSeconds": _NUMBER,
    "limit": _NUMBER,
    "limitBytes": _NUMBER,
    "ports": _NUMBER,
    "previous": _FLAG,
    "propagationPolicy": {"type": "string", "enum": ["Background", "Foreground", "Orphan"]},
    "resourceVersionMatch": {"type": "string", "enum": ["Exact", "NotOlderThan"]},
    "sinceSeconds": _NUMBER,
    "stderr": _FLAG,
    "stdin": _FLAG,
    "stdout": _FLAG,
    "tailLines": _NUMBER,
    "timeoutSeconds": _NUMBER,
    "timestamps": _FLAG,
    "tty": _FLAG,
    "watch": _FLAG,
}
_JSON_PATCH: Document = {
    "type": "array",
    "items": {
        "type": "object",
        "required": ["op", "path"],
        "properties": {
            "op": {"type": "string", "enum": ["add", "remove", "replace", "move", "copy", "test"]},
            "path": _TEXT,
            "from": _TEXT,
            "value": {},
        },
    },
}
_TOKEN = {"type": "apiKey", "name": "authorization", "in": "header"}
_REFUSED = "the request was refused"
_UNAUTHORIZED = "Unauthorized"


def definitions(kinds: Sequence[Kind]) -> Document:
    """Every schema of the Swagger document."""
    return schemas.definitions(kinds, Dialect.SWAGGER)


def document_v2(kinds: Sequence[Kind]) -> Document:
    return {
        "swagger": "2.0",
        "info": _info(),
        "paths": {path.path: _path_v2(path) for path in _paths(kinds)},
        "definitions": definitions(kinds),
        "securityDefinitions": {"BearerToken": _TOKEN},
        "security": [{"BearerToken": []}],
    }


def index_v3(kinds: Sequence[Kind]) -> Document:
    """Where each version's document is. The hash changes with the document, so that clients may keep it."""
    groups = ["", *discovery.groups_in_order(kinds)]
    paths = {}
    for group in groups:
        for version in discovery.versions_in_order(kinds, group):
            content = msgspec.json.encode(document_v3(kinds, group, version))
            location = f"apis/{group}/{version}" if group else f"api/{version}"
            digest = hashlib.sha512(content).hexdigest().upper()
            paths[location] = {"serverRelativeURL": f"/openapi/v3/{location}?hash={digest}"}
    return {"paths": paths}


def document_v3(kinds: Sequence[Kind], group: str, version: str) -> Document | None:
    found = discovery.kinds_of(kinds, group, version)
    if not found:
        return None
    return {
        "openapi": "3.0.0",
        "info": _info(),
        "paths": {path.path: _path_v3(path) for path in _paths(found)},
        "components": {
            "schemas": schemas.definitions(found, Dialect.OPENAPI),
            "securitySchemes": {"BearerToken": _TOKEN},
        },
        "security": [{"BearerToken": []}],
    }


def _info() -> Document:
    return {"title": "Windlass", "version": discovery.version()["gitVersion"]}


def _paths(kinds: Iterable[Kind]) -> list[Path]:
    found = [path for kind in kinds for path in operations.paths(kind)]
    return sorted(found, key=lambda path: path.path)


def _path_v2(path: Path) -> Document:
    document: Document = {operation.method: _operation_v2(operation, path) for operation in path.operations}
    named = [{"name": name, "in": "path", "required": True, "type": "string"} for name in path.parameters]
    return document | {"parameters": named} if named else document


def _path_v3(path: Path) -> Document:
    document: Document = {operation.method: _operation_v3(operation, path) for operation in path.operations}
    named = [{"name": name, "in": "path", "required": True, "schema": _TEXT} for name in path.parameters]
    return document | {"parameters": named} if named else document


def _operation_v2(operation: Operation, path: Path) -> Document:
    parameters: list[Document] = [
        {"name": name, "in": "query", **_QUERY_SCHEMAS.get(name, _TEXT)} for name in operation.query
    ]
    document = _head(operation, path)
    if operation.body is not None:
        document["consumes"] = list(operation.body.media_types)
        schema = schemas.reference(operation.body.definition, Dialect.SWAGGER)
        parameters.append(
            {"name": "body", "in": "body", "required": operation.body.required, "schema": schema}
        )
    answer = {"description": "OK", "schema": _answer(operation.answers[:1], Dialect.SWAGGER)}
    responses: Document = {str(code): answer for code in operation.successes}
    refusal = schemas.reference(schemas.definition_name("V1Status"), Dialect.SWAGGER)
    return document | {
        "produces": list(operation.media_types),
        "parameters": parameters,
        "responses": responses
        | {"401": {"description": _UNAUTHORIZED}, "default": {"description": _REFUSED, "schema": refusal}},
    }


def _operation_v3(operation: Operation, path: Path) -> Document:
    document = _head(operation, path)
    document["parameters"] = [
        {"name": name, "in": "query", "schema": _QUERY_SCHEMAS.get(name, _TEXT)} for name in operation.query
    ]
    if operation.body is not None:
        schema = schemas.reference(operation.body.definition, Dialect.OPENAPI)
        content = {
            media_type: {"schema": _JSON_PATCH if media_type == operations.JSON_PATCH else schema}
            for media_type in operation.body.media_types
        }
        document["requestBody"] = {"required": operation.body.required, "content": content}
    schema = _answer(operation.answers, Dialect.OPENAPI)
    answer = {"description": "OK", "content": {name: {"schema": schema} for name in operation.media_types}}
    responses: Document = {str(code): answer for code in operation.successes}
    refusal = schemas.reference(schemas.definition_name("V1Status"), Dialect.OPENAPI)
    return document | {
        "responses": responses
        | {
            "401": {"description": _UNAUTHORIZED},
            "default": {"description": _REFUSED, "content": {"application/json": {"schema": refusal}}},
        }
    }


def _head(operation: Operation, path: Path) -> Document:
    named = {"group": operation.group, "version": operation.version, "kind": operation.kind}
    return {
        "operationId": operation.id,
        "tags": [path.tag],
        "x-kubernetes-action": operation.action,
        "x-kubernetes-group-version-kind": named,
    }


def _answer(definitions: Sequence[str], dialect: Dialect) -> Document:
    if not definitions:
        return _TEXT
    references = [schemas.reference(definition, dialect) for definition in definitions]
    return references[0] if len(references) == 1 else {"anyOf": references}
