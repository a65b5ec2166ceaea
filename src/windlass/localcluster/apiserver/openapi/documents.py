"""The OpenAPI documents: `/openapi/v2` in Swagger 2.0, and `/openapi/v3` with one document per group and version.

kubectl uses them to validate, to explain and to compute patches. Documents share parts, so
callers must not modify a document.
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


def document_v2(kinds: Sequence[Kind]) -> Document:
    return {
        "swagger": "2.0",
        "info": _info(),
        "paths": _paths(kinds, Dialect.SWAGGER),
        "definitions": schemas.definitions(kinds, Dialect.SWAGGER),
        "securityDefinitions": {"BearerToken": _TOKEN},
        "security": [{"BearerToken": []}],
    }


def index_v3(kinds: Sequence[Kind]) -> Document:
    """Return the URLs of the documents. A URL has a hash of its document, so that clients can cache it."""
    paths = {}
    for group in ["", *discovery.groups_in_order(kinds)]:
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
        "paths": _paths(found, Dialect.OPENAPI),
        "components": {
            "schemas": schemas.definitions(found, Dialect.OPENAPI),
            "securitySchemes": {"BearerToken": _TOKEN},
        },
        "security": [{"BearerToken": []}],
    }


def _info() -> Document:
    return {"title": "Windlass", "version": discovery.version()["gitVersion"]}


def _paths(kinds: Iterable[Kind], dialect: Dialect) -> Document:
    paths = [path for kind in kinds for path in operations.paths(kind)]
    return {path.path: _path(path, dialect) for path in sorted(paths, key=lambda path: path.path)}


def _path(path: Path, dialect: Dialect) -> Document:
    document: Document = {each.method: _operation(each, path, dialect) for each in path.operations}
    parameters = [
        {"name": name, "in": "path", "required": True} | _typed(_TEXT, dialect) for name in path.parameters
    ]
    return document | {"parameters": parameters} if parameters else document


def _typed(schema: Document, dialect: Dialect) -> Document:
    """Return the fields with the type of a parameter. OpenAPI 3 has them under `schema`, Swagger in the parameter."""
    return schema if dialect is Dialect.SWAGGER else {"schema": schema}


def _operation(operation: Operation, path: Path, dialect: Dialect) -> Document:
    kind = {"group": operation.group, "version": operation.version, "kind": operation.kind}
    document: Document = {
        "operationId": operation.id,
        "tags": [path.tag],
        "x-kubernetes-action": operation.action,
        "x-kubernetes-group-version-kind": kind,
        "parameters": [
            {"name": name, "in": "query"} | _typed(_QUERY_SCHEMAS.get(name, _TEXT), dialect)
            for name in operation.query
        ],
    }
    failure = schemas.reference(schemas.definition_name("V1Status"), dialect)
    if dialect is Dialect.SWAGGER:
        _add_body_v2(document, operation)
        document["produces"] = list(operation.media_types)
        success: Document = {"schema": _response_schema(operation.responses[:1], dialect)}
        default: Document = {"schema": failure}
    else:
        _add_body_v3(document, operation)
        schema = _response_schema(operation.responses, dialect)
        success = {"content": {name: {"schema": schema} for name in operation.media_types}}
        default = {"content": {"application/json": {"schema": failure}}}
    document["responses"] = {str(code): {"description": "OK"} | success for code in operation.successes} | {
        "401": {"description": "Unauthorized"},
        "default": {"description": "the request was rejected"} | default,
    }
    return document


def _add_body_v2(document: Document, operation: Operation) -> None:
    body = operation.body
    if body is not None:
        document["consumes"] = list(body.media_types)
        schema = schemas.reference(body.definition, Dialect.SWAGGER)
        parameter = {"name": "body", "in": "body", "required": body.required, "schema": schema}
        document["parameters"].append(parameter)


def _add_body_v3(document: Document, operation: Operation) -> None:
    body = operation.body
    if body is not None:
        schema = schemas.reference(body.definition, Dialect.OPENAPI)
        content = {
            media_type: {"schema": _JSON_PATCH if media_type == operations.JSON_PATCH else schema}
            for media_type in body.media_types
        }
        document["requestBody"] = {"required": body.required, "content": content}


def _response_schema(definitions: Sequence[str], dialect: Dialect) -> Document:
    if not definitions:
        return _TEXT
    references = [schemas.reference(definition, dialect) for definition in definitions]
    return references[0] if len(references) == 1 else {"anyOf": references}
