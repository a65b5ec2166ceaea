"""The OpenAPI documents: `/openapi/v2` in Swagger 2.0, and `/openapi/v3` with one document per group and version.

kubectl uses them to validate objects, to explain fields and to compute patches. Documents share parts, so callers must
not modify a document.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec

from windlass.localcluster.apiserver import bodies
from windlass.localcluster.apiserver.kinds.kind import Kind
from windlass.localcluster.apiserver.openapi import discovery, schemas
from windlass.localcluster.apiserver.openapi.schemas import Dialect

Document = dict[str, Any]

_STATUS = schemas.definition_name("V1Status")
_TEXT = {"type": "string"}
_TOKEN = {"type": "apiKey", "name": "authorization", "in": "header"}

_JSON_PATCH_SCHEMA: Document = {
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

# Query parameters that several verbs have, and the query parameters of each verb.
_SELECTION = (
    "continue",
    "fieldSelector",
    "labelSelector",
    "limit",
    "resourceVersion",
    "resourceVersionMatch",
)
_DELETION = ("dryRun", "gracePeriodSeconds", "propagationPolicy")
_WRITING = ("dryRun", "fieldManager", "fieldValidation")
_QUERIES = {
    "get": ("resourceVersion",),
    "list": ("allowWatchBookmarks", *_SELECTION, "timeoutSeconds", "watch"),
    "create": _WRITING,
    "update": _WRITING,
    "patch": _WRITING,
    "delete": _DELETION,
    "deletecollection": tuple(sorted((*_DELETION, *_SELECTION, "timeoutSeconds"))),
}
# Subresources that stream plain text or other data, and their query parameters.
_STREAM_QUERIES = {
    "attach": ("container", "stderr", "stdin", "stdout", "tty"),
    "exec": ("command", "container", "stderr", "stdin", "stdout", "tty"),
    "log": (
        *("container", "follow", "limitBytes", "previous", "sinceSeconds", "sinceTime", "tailLines"),
        "timestamps",
    ),
    "portforward": ("ports",),
}
_BOOLEANS = (
    *("allowWatchBookmarks", "follow", "previous", "stderr", "stdin", "stdout", "timestamps", "tty"),
    "watch",
)
_INTEGERS = (
    "gracePeriodSeconds",
    "limit",
    "limitBytes",
    "ports",
    "sinceSeconds",
    "tailLines",
    "timeoutSeconds",
)
_QUERY_SCHEMAS: dict[str, Document] = {
    **{name: {"type": "boolean"} for name in _BOOLEANS},
    **{name: {"type": "integer"} for name in _INTEGERS},
    "dryRun": {"type": "string", "enum": ["All"]},
    "fieldValidation": {"type": "string", "enum": ["Ignore", "Warn", "Strict"]},
    "propagationPolicy": {"type": "string", "enum": ["Background", "Foreground", "Orphan"]},
    "resourceVersionMatch": {"type": "string", "enum": ["Exact", "NotOlderThan"]},
}
_METHODS = {
    "get": "get",
    "list": "get",
    "create": "post",
    "update": "put",
    "patch": "patch",
    "delete": "delete",
    "deletecollection": "delete",
}
_SUCCESS_CODES = {"create": (200, 201, 202), "update": (200, 201), "delete": (200, 202)}
# The verbs in operation IDs and in x-kubernetes-action, where they differ from the verbs of requests.
_ID_VERBS = {"get": "read", "update": "replace", "deletecollection": "delete"}
_ACTIONS = {"create": "post", "update": "put"}


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
    """Return the URLs of the documents. A URL has a hash of its document, so that clients can cache the document."""
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
    paths = {}
    for kind in kinds:
        for path, operations in _operations_by_path(kind, dialect):
            names = re.findall(r"{(\w+)}", path)
            parameters = [_parameter(name, "path", dialect) | {"required": True} for name in names]
            paths[path] = operations | ({"parameters": parameters} if parameters else {})
    return dict(sorted(paths.items()))


def _parameter(name: str, location: str, dialect: Dialect) -> Document:
    schema = _QUERY_SCHEMAS.get(name, _TEXT)
    return {"name": name, "in": location} | (schema if dialect is Dialect.SWAGGER else {"schema": schema})


def _operations_by_path(kind: Kind, dialect: Dialect) -> Iterator[tuple[str, Document]]:
    root = f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"
    collection = f"{root}/{kind.plural}"
    if kind.namespaced:
        yield collection, _operations(kind, ["list"], f"{kind.kind}ForAllNamespaces", dialect)
        collection = f"{root}/namespaces/{{namespace}}/{kind.plural}"
    id_suffix = f"Namespaced{kind.kind}" if kind.namespaced else kind.kind
    on_collection = [verb for verb in discovery.verbs(kind) if verb in ("list", "create", "deletecollection")]
    yield collection, _operations(kind, on_collection, id_suffix, dialect)
    on_object = [verb for verb in discovery.verbs(kind) if verb in ("get", "update", "patch", "delete")]
    yield f"{collection}/{{name}}", _operations(kind, on_object, id_suffix, dialect)
    for name in discovery.subresources_in_order(kind):
        verbs = discovery.subresource(kind, name).verbs
        operations = _operations(kind, verbs, id_suffix + name.capitalize(), dialect, name)
        yield f"{collection}/{{name}}/{name}", operations


def _operations(
    kind: Kind, verbs: Iterable[str], id_suffix: str, dialect: Dialect, subresource: str = ""
) -> Document:
    """Return the operations of a path by method. Their IDs end with `id_suffix`."""
    group_words = re.split(r"[.-]", kind.group.removesuffix(".k8s.io") or "core")
    id_group = "".join(word.capitalize() for word in [*group_words, kind.version])
    tag = group_words[0] + "".join(word.capitalize() for word in group_words[1:]) + f"_{kind.version}"
    target = discovery.group_version_kind(discovery.subresource(kind, subresource))
    operations = {}
    for verb in verbs:
        method = _METHODS[verb]
        collection = "Collection" if verb == "deletecollection" else ""
        operation_id = f"{_ID_VERBS.get(verb, verb)}{id_group}{collection}{id_suffix}"
        document: Document = {
            "operationId": operation_id,
            "tags": [tag],
            "x-kubernetes-action": _ACTIONS.get(verb, verb),
            "x-kubernetes-group-version-kind": target,
            "parameters": [
                _parameter(name, "query", dialect)
                for name in _STREAM_QUERIES.get(subresource) or _QUERIES[verb]
            ],
        }
        if subresource not in _STREAM_QUERIES:
            _add_object_content(document, kind, verb, subresource, dialect)
        elif subresource == "log":
            _add_responses(document, (200,), [], "text/plain", dialect)
        else:
            document["operationId"] = f"connect{id_group}{method.capitalize()}{id_suffix}"
            document["x-kubernetes-action"] = "connect"
            _add_responses(document, (200,), [], "*/*", dialect)
        operations[method] = document
    return operations


def _add_object_content(
    document: Document, kind: Kind, verb: str, subresource: str, dialect: Dialect
) -> None:
    """Add the body and the responses of an operation on objects."""
    target = discovery.subresource(kind, subresource)
    is_own_kind = discovery.group_version_kind(target) == discovery.group_version_kind(kind)
    definition = (
        schemas.kind_definition_name(kind) if is_own_kind else schemas.definition_name(f"V1{target.kind}")
    )
    list_definition = schemas.list_definition_name(kind)
    responses = {
        "list": [list_definition],
        "create": [_STATUS if subresource in ("binding", "eviction") else definition],
        # The response is the object for some kinds, and whenever the object is not removed immediately.
        "delete": [_STATUS, definition],
        "deletecollection": [_STATUS, list_definition],
    }
    media_types = [bodies.JSON, bodies.YAML]
    match verb:
        case "create" | "update":
            _add_body(document, definition, media_types, True, dialect)
        case "patch":
            # Custom resources have no strategic merge patch.
            strategic = [] if kind.is_custom else [bodies.STRATEGIC_MERGE_PATCH]
            patch_types = [bodies.JSON_PATCH, bodies.MERGE_PATCH, *strategic]
            _add_body(document, schemas.PATCH, patch_types, True, dialect)
        case "delete" | "deletecollection":
            _add_body(document, schemas.definition_name("V1DeleteOptions"), media_types, False, dialect)
    codes = _SUCCESS_CODES.get(verb, (200,))
    _add_responses(document, codes, responses.get(verb, [definition]), bodies.JSON, dialect)


def _add_body(
    document: Document, definition: str, media_types: list[str], is_required: bool, dialect: Dialect
) -> None:
    schema = schemas.reference(definition, dialect)
    if dialect is Dialect.SWAGGER:
        document["consumes"] = media_types
        parameter = {"name": "body", "in": "body", "required": is_required, "schema": schema}
        document["parameters"].append(parameter)
        return
    content = {
        name: {"schema": _JSON_PATCH_SCHEMA if name == bodies.JSON_PATCH else schema} for name in media_types
    }
    document["requestBody"] = {"required": is_required, "content": content}


def _add_responses(
    document: Document, codes: tuple[int, ...], definitions: list[str], media_type: str, dialect: Dialect
) -> None:
    """Add the responses. `definitions` names the schemas of successful responses; it is empty for streams."""
    references = [schemas.reference(definition, dialect) for definition in definitions] or [_TEXT]
    failure: Document = {"schema": schemas.reference(_STATUS, dialect)}
    if dialect is Dialect.SWAGGER:
        document["produces"] = [media_type]
        success: Document = {"schema": references[0]}
    else:
        schema = references[0] if len(references) == 1 else {"anyOf": references}
        success = {"content": {media_type: {"schema": schema}}}
        failure = {"content": {bodies.JSON: failure}}
    document["responses"] = {str(code): {"description": "OK"} | success for code in codes} | {
        "401": {"description": "Unauthorized"},
        "default": {"description": "the request was rejected"} | failure,
    }
