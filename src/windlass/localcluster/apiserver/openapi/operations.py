"""The operations on each path of a kind, independent of the OpenAPI dialect."""

import re
from collections.abc import Iterator

import msgspec

from windlass.localcluster.apiserver.kinds.kind import Kind
from windlass.localcluster.apiserver.openapi import discovery, schemas

_STATUS = schemas.definition_name("V1Status")
_DELETE_OPTIONS = schemas.definition_name("V1DeleteOptions")
_BODIES = ("application/json", "application/yaml")
_ANSWERS = ("application/json",)
JSON_PATCH = "application/json-patch+json"
_PATCHES = (JSON_PATCH, "application/merge-patch+json")
_STRATEGIC = "application/strategic-merge-patch+json"

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
_METHODS = {
    "get": "get",
    "list": "get",
    "create": "post",
    "update": "put",
    "patch": "patch",
    "delete": "delete",
    "deletecollection": "delete",
}
_SUCCESSES = {"create": (200, 201, 202), "update": (200, 201), "delete": (200, 202)}
# The words in operation IDs and x-kubernetes-action that differ from the verb.
_ID_WORDS = {"get": "read", "update": "replace", "deletecollection": "delete"}
_ACTIONS = {"create": "post", "update": "put"}

_STREAMS = {
    "exec": ("command", "container", "stderr", "stdin", "stdout", "tty"),
    "attach": ("container", "stderr", "stdin", "stdout", "tty"),
    "portforward": ("ports",),
}
_LOG_QUERY = (
    "container",
    "follow",
    "limitBytes",
    "previous",
    "sinceSeconds",
    "sinceTime",
    "tailLines",
    "timestamps",
)


class Body(msgspec.Struct, frozen=True):
    definition: str
    media_types: tuple[str, ...]
    required: bool = True


class Operation(msgspec.Struct, frozen=True, kw_only=True):
    method: str
    id: str
    action: str
    group: str
    version: str
    kind: str
    query: tuple[str, ...] = ()
    body: Body | None = None
    # The definitions of successful responses; empty for plain text.
    responses: tuple[str, ...] = ()
    media_types: tuple[str, ...] = _ANSWERS
    successes: tuple[int, ...] = (200,)


class Path(msgspec.Struct, frozen=True):
    path: str
    tag: str
    operations: tuple[Operation, ...]

    @property
    def parameters(self) -> list[str]:
        """The parameters in the path: `namespace` and `name`."""
        return re.findall(r"{(\w+)}", self.path)


def paths(kind: Kind) -> Iterator[Path]:
    """Yield all paths of a kind."""
    root = f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"
    first, *rest = _group_words(kind)
    tag = "".join([first, *(word.capitalize() for word in rest)]) + f"_{kind.version}"
    verbs = discovery.verbs(kind)
    everywhere = f"{root}/{kind.plural}"
    if kind.namespaced:
        yield Path(everywhere, tag, (_operation(kind, "list", everywhere=True),))
    collection = f"{root}/namespaces/{{namespace}}/{kind.plural}" if kind.namespaced else everywhere
    on_collection = [verb for verb in verbs if verb in ("list", "create", "deletecollection")]
    yield Path(collection, tag, tuple(_operation(kind, verb) for verb in on_collection))
    on_object = [verb for verb in verbs if verb in ("get", "update", "patch", "delete")]
    yield Path(f"{collection}/{{name}}", tag, tuple(_operation(kind, verb) for verb in on_object))
    for name in discovery.subresources_in_order(kind):
        yield Path(f"{collection}/{{name}}/{name}", tag, tuple(_subresource_operations(kind, name)))


def _operation(kind: Kind, verb: str, everywhere: bool = False) -> Operation:
    own = schemas.kind_definition_name(kind)
    responses = {
        "list": (schemas.list_definition_name(kind),),
        # The response is the object if finalizers keep it.
        "delete": (_STATUS, own),
        "deletecollection": (_STATUS, schemas.list_definition_name(kind)),
    }
    id_end = ("Collection" if verb == "deletecollection" else "") + _id_kind(kind, everywhere)
    target = discovery.Subresource((), kind.group, kind.version, kind.kind)
    return _operation_on(kind, target, verb, id_end, own, responses.get(verb, (own,)))


def _operation_on(
    kind: Kind,
    target: discovery.Subresource,
    verb: str,
    id_end: str,
    definition: str,
    responses: tuple[str, ...],
) -> Operation:
    return Operation(
        method=_METHODS[verb],
        id=_ID_WORDS.get(verb, verb) + _id_group(kind) + id_end,
        action=_ACTIONS.get(verb, verb),
        group=target.group,
        version=target.version,
        kind=target.kind,
        query=_QUERIES[verb],
        body=_body(kind, verb, definition),
        responses=responses,
        successes=_SUCCESSES.get(verb, (200,)),
    )


def _subresource_operations(kind: Kind, name: str) -> Iterator[Operation]:
    found = discovery.subresource(kind, name)
    is_own_kind = (found.group, found.version, found.kind) == (kind.group, kind.version, kind.kind)
    definition = (
        schemas.kind_definition_name(kind) if is_own_kind else schemas.definition_name(f"V1{found.kind}")
    )
    id_end = _id_kind(kind) + name.capitalize()
    for verb in found.verbs:
        # The response to a create on a subresource is a Status.
        responses = (_STATUS if verb == "create" else definition,)
        operation = _operation_on(kind, found, verb, id_end, definition, responses)
        if name == "log":
            yield _textual(operation, query=_LOG_QUERY, media_types=("text/plain",))
        elif name in _STREAMS:
            identity = f"connect{_id_group(kind)}{operation.method.capitalize()}{id_end}"
            connecting = {"id": identity, "action": "connect", "media_types": ("*/*",)}
            yield _textual(operation, query=_STREAMS[name], **connecting)
        else:
            yield operation


def _textual(operation: Operation, **changes: object) -> Operation:
    return msgspec.structs.replace(operation, body=None, responses=(), successes=(200,), **changes)


def _body(kind: Kind, verb: str, definition: str) -> Body | None:
    match verb:
        case "create" | "update":
            return Body(definition, _BODIES)
        case "patch":
            # Custom resources have no strategic merge patch.
            return Body(schemas.PATCH, _PATCHES if kind.is_custom else (*_PATCHES, _STRATEGIC))
        case "delete" | "deletecollection":
            return Body(_DELETE_OPTIONS, _BODIES, required=False)
        case _:
            return None


def _group_words(kind: Kind) -> list[str]:
    return re.split(r"[.-]", kind.group.removesuffix(".k8s.io") or "core")


def _id_group(kind: Kind) -> str:
    return "".join(word.capitalize() for word in [*_group_words(kind), kind.version])


def _id_kind(kind: Kind, everywhere: bool = False) -> str:
    if everywhere:
        return f"{kind.kind}ForAllNamespaces"
    return f"Namespaced{kind.kind}" if kind.namespaced else kind.kind
