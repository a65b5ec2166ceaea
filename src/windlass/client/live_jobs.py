"""Read a job of another system, e.g. a TFJob, from a cluster."""

import msgspec

from windlass.client.connection import Connection
from windlass.client.errors import ClientError, ObjectNotFoundError
from windlass.convert import kinds
from windlass.convert.fields import Kind, Needed
from windlass.kubeapi import requests
from windlass.kubeapi.errors import ForbiddenError, NotFoundError
from windlass.kubeapi.resources import Resource
from windlass.model.base import Json

_METADATA = ("name", "namespace", "labels", "annotations")


def resource_of(kind: Kind | Needed) -> Resource:
    group, _, version = kind.api_version.partition("/")
    is_namespaced = kind.is_namespaced if isinstance(kind, Needed) else True
    return Resource(group, version, kind.plural, is_namespaced=is_namespaced)


async def read(connection: Connection, reference: str) -> Json:
    """Return the object that `reference` names, e.g. `tfjob/digits`, without the fields that the cluster sets. If its
    conversion needs other objects, e.g. the runtime of a TrainJob, return a List with all of them.

    Raises ClientError.
    """
    type_name, _, name = reference.partition("/")
    candidates = kinds.kinds_named(type_name)
    if not candidates or not name:
        known = ", ".join(sorted({each.kind.lower() for each in kinds.kinds()}))
        raise ClientError(f"found {reference}, expected TYPE/NAME with one of these types: {known}")
    denied: ForbiddenError | None = None
    with connection.converting_errors():
        for kind in candidates:
            try:
                answer = await connection.send(requests.get(resource_of(kind), connection.namespace, name))
            except NotFoundError:
                continue
            except ForbiddenError as error:
                denied = error
                continue
            body = _as_written(msgspec.json.decode(answer))
            needed = [await _needed(connection, each, reference) for each in kind.needs(body)]
            return {"apiVersion": "v1", "kind": "List", "items": [*needed, body]} if needed else body
        if denied is not None:
            raise denied
    raise ObjectNotFoundError(
        f"{connection.where} has no {candidates[0].kind} {name} in the namespace {connection.namespace}"
    )


async def _needed(connection: Connection, needed: Needed, reference: str) -> Json:
    namespace = connection.namespace if needed.is_namespaced else ""
    try:
        answer = await connection.send(requests.get(resource_of(needed), namespace, needed.name))
    except NotFoundError as error:
        raise ObjectNotFoundError(
            f"{reference} refers to the {needed.kind} {needed.name}, which {connection.where} does not have"
        ) from error
    return _as_written(msgspec.json.decode(answer))


def _as_written(body: Json) -> Json:
    metadata = {key: value for key, value in body["metadata"].items() if key in _METADATA}
    kept = {key: body[key] for key in ("apiVersion", "kind")}
    return {**kept, "metadata": metadata, "spec": body.get("spec") or {}}
