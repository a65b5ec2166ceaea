"""Builds requests to the API server as values."""

import functools
from collections.abc import Callable
from enum import StrEnum

import msgspec

from windlass.k8s.protobuf import encoding
from windlass.k8s.protobuf import messages as protobuf
from windlass.kubeapi.resources import PODS, Resource
from windlass.model.base import Json

PROTOBUF = protobuf.MEDIA_TYPE
JSON = "application/json"
JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
METADATA_ONLY = f"{JSON};as=PartialObjectMetadata;g=meta.k8s.io;v=v1,{JSON}"
"""Accept header for a response with metadata only. A server without support for it sends the whole object."""
_LIST_METADATA_ONLY = f"{JSON};as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,{JSON}"

Query = tuple[tuple[str, str], ...]
_encoder = msgspec.json.Encoder()


class Verb(StrEnum):
    """The verbs of requests, as RBAC names them."""

    GET = "get"
    LIST = "list"
    WATCH = "watch"
    CREATE = "create"
    UPDATE = "update"
    PATCH = "patch"
    DELETE = "delete"
    DELETE_COLLECTION = "deletecollection"


_METHODS = {
    Verb.GET: "GET",
    Verb.LIST: "GET",
    Verb.WATCH: "GET",
    Verb.CREATE: "POST",
    Verb.UPDATE: "PUT",
    Verb.PATCH: "PATCH",
    Verb.DELETE: "DELETE",
    Verb.DELETE_COLLECTION: "DELETE",
}
_VERBS_RETURNING_LISTS = (Verb.LIST, Verb.DELETE_COLLECTION)
_VERBS_OF_ONE_OBJECT = (Verb.GET, Verb.UPDATE, Verb.PATCH, Verb.DELETE)


class Request(msgspec.Struct, frozen=True):
    verb: Verb
    method: str
    resource: Resource
    path: str
    query: Query = ()
    body: bytes = b""
    content_type: str = ""
    accept: str = JSON
    namespace: str = ""
    subresource: str = ""
    accepts_protobuf: bool = False
    """Whether the response, or the events of a watch, may be protobuf. `responses` and `codec` decode both."""
    encode_protobuf: Callable[[], bytes | None] | None = None
    """Returns the body as protobuf, which is sent if the server supports it; None if it has to be sent as JSON."""

    def with_accept(self, accept: str) -> "Request":
        if accept == METADATA_ONLY and self.verb in _VERBS_RETURNING_LISTS:
            accept = _LIST_METADATA_ONLY
        return msgspec.structs.replace(self, accept=accept)

    def with_protobuf(self) -> "Request":
        """Return the request for a response in protobuf, if the server supports it, and in JSON otherwise."""
        return msgspec.structs.replace(self, accepts_protobuf=True)

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


def get(resource: Resource, namespace: str, name: str, subresource: str = "", query: Query = ()) -> Request:
    return _request(Verb.GET, resource, namespace, name, subresource, query)


def log(namespace: str, pod: str, **parameters: str) -> Request:
    """Return a request for the log of a container. The parameters are those of the API; empty ones are omitted."""
    return get(PODS, namespace, pod, "log", _non_empty(**parameters)).with_accept("*/*")


def list_page(
    resource: Resource,
    namespace: str = "",
    label_selector: str = "",
    limit: int = 500,
    continue_token: str = "",
    field_selector: str = "",
) -> Request:
    """Return a request for a page of a consistent list of the current objects. Limit 0 means no limit."""
    query = _non_empty(
        labelSelector=label_selector,
        fieldSelector=field_selector,
        limit=str(limit) if limit else "",
        **{"continue": continue_token},
    )
    return _request(Verb.LIST, resource, namespace, query=query)


def watch(
    resource: Resource,
    namespace: str = "",
    label_selector: str = "",
    resource_version: str = "",
    timeout_seconds: int = 300,
    field_selector: str = "",
) -> Request:
    query = _non_empty(
        watch="true",
        allowWatchBookmarks="true",
        labelSelector=label_selector,
        fieldSelector=field_selector,
        resourceVersion=resource_version,
        timeoutSeconds=str(timeout_seconds),
    )
    return _request(Verb.WATCH, resource, namespace, query=query)


def create(resource: Resource, namespace: str, body: bytes, field_manager: str = "") -> Request:
    query = _non_empty(fieldManager=field_manager)
    return _request(Verb.CREATE, resource, namespace, query=query, body=body, content_type=JSON)


def create_object(
    resource: Resource,
    namespace: str,
    manifest: Json,
    field_manager: str = "",
    memo: encoding.Memo | None = None,
) -> Request:
    """Return a request to create an object of a built-in kind. Body and response may be protobuf.

    Requests that share `memo` encode the common parts of their manifests once, see `encoding`.
    """
    request = create(resource, namespace, _encoder.encode(manifest), field_manager).with_protobuf()
    return msgspec.structs.replace(request, encode_protobuf=lambda: encoding.encode(manifest, memo))


def _write(
    verb: Verb,
    content_type: str,
    resource: Resource,
    namespace: str,
    name: str,
    body: bytes,
    subresource: str = "",
    field_manager: str = "",
) -> Request:
    query = _non_empty(fieldManager=field_manager)
    return _request(verb, resource, namespace, name, subresource, query, body, content_type)


replace = functools.partial(_write, Verb.UPDATE, JSON)
json_patch = functools.partial(_write, Verb.PATCH, JSON_PATCH)
merge_patch = functools.partial(_write, Verb.PATCH, MERGE_PATCH)


def delete(
    resource: Resource,
    namespace: str,
    name: str,
    *,
    uid: str = "",
    resource_version: str = "",
    grace_seconds: int | None = None,
    propagation: str = "",
) -> Request:
    """Return a request to delete an object. The UID and version, if given, are preconditions."""
    preconditions = dict(_non_empty(uid=uid, resourceVersion=resource_version))
    options = _delete_options(preconditions, grace_seconds, propagation)
    return _with_options(_request(Verb.DELETE, resource, namespace, name), options)


def delete_collection(
    resource: Resource,
    namespace: str,
    label_selector: str,
    *,
    propagation: str = "",
    limit: int = 0,
    continue_token: str = "",
    not_older_than: str = "",
) -> Request:
    """Return a request to delete all selected objects, or at most `limit` of them after the continue token.

    With `not_older_than`, a resourceVersion, the server may select objects from its cache instead of its store.
    """
    query = _non_empty(
        labelSelector=label_selector,
        limit=str(limit) if limit else "",
        resourceVersion=not_older_than,
        **{"continue": continue_token},
    )
    options = _delete_options({}, None, propagation)
    return _with_options(_request(Verb.DELETE_COLLECTION, resource, namespace, query=query), options)


def _request(
    verb: Verb,
    resource: Resource,
    namespace: str,
    name: str = "",
    subresource: str = "",
    query: Query = (),
    body: bytes = b"",
    content_type: str = "",
) -> Request:
    if verb in _VERBS_OF_ONE_OBJECT and not name:
        # Without a name, the path is that of the collection, and a delete request would delete all objects.
        raise ValueError(f"cannot {verb} {resource.full_name}: the name of the object is required")
    return Request(
        verb=verb,
        method=_METHODS[verb],
        resource=resource,
        path=resource.path(namespace, name, subresource),
        query=query,
        body=body,
        content_type=content_type,
        namespace=namespace,
        subresource=subresource,
    )


def _non_empty(**parameters: str) -> Query:
    return tuple((name, value) for name, value in parameters.items() if value)


def _with_options(request: Request, options: Json) -> Request:
    is_built_in = request.resource.group in protobuf.PACKAGES
    return msgspec.structs.replace(
        request,
        body=_encoder.encode(options),
        content_type=JSON,
        encode_protobuf=(lambda: encoding.encode(options)) if is_built_in else None,
    )


def _delete_options(preconditions: dict[str, str], grace_seconds: int | None, propagation: str) -> Json:
    options: Json = {"apiVersion": "v1", "kind": "DeleteOptions"}
    if preconditions:
        options["preconditions"] = preconditions
    if grace_seconds is not None:
        options["gracePeriodSeconds"] = grace_seconds
    if propagation:
        options["propagationPolicy"] = propagation
    return options
