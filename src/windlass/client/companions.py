"""What a file holds beside its jobs, such as ConfigMaps and Services: created before them, in the order of the file.

What is there already is brought up to date, as `kubectl apply` would: a file can be submitted again.
"""

from collections.abc import AsyncIterator, Sequence

import msgspec

from windlass.client.connection import Connection
from windlass.client.errors import RefusedError
from windlass.kubeapi import requests
from windlass.kubeapi.errors import AlreadyExistsError, AnsweredError, NotFoundError
from windlass.kubeapi.requests import Request, Verb
from windlass.kubeapi.resources import Resource
from windlass.model.base import Json

FIELD_MANAGER = "windlass"


class _Found(msgspec.Struct, frozen=True):
    name: str
    kind: str
    namespaced: bool


class _Discovery(msgspec.Struct, frozen=True):
    resources: tuple[_Found, ...] = ()


_decode = msgspec.json.Decoder(_Discovery).decode


async def create_all(connection: Connection, objects: Sequence[Json]) -> AsyncIterator[str]:
    """What was done, one line for each. Raises RefusedError."""
    known: dict[tuple[str, str], Resource] = {}
    for body in objects:
        api_version, kind = body["apiVersion"], body["kind"]
        if (api_version, kind) not in known:
            known[api_version, kind] = await _resource(connection, api_version, kind)
        yield await _create(connection, known[api_version, kind], body)


async def is_served(connection: Connection, api_version: str) -> bool:
    return bool(await _resources(connection, api_version))


async def _create(connection: Connection, resource: Resource, body: Json) -> str:
    metadata = body["metadata"]
    what = f"{body['kind']} {metadata['name']}"
    namespace = (metadata.get("namespace") or connection.namespace) if resource.is_namespaced else ""
    data = msgspec.json.encode(body)
    try:
        try:
            await connection.send(requests.create(resource, namespace, data, FIELD_MANAGER))
        except AlreadyExistsError:
            patch = requests.merge_patch(
                resource, namespace, metadata["name"], data, field_manager=FIELD_MANAGER
            )
            await connection.send(patch)
            return f"{what} was there, and is brought up to date"
    except AnsweredError as error:
        raise RefusedError(f"{connection.where} does not take the {what}: {error.failure.message}") from error
    return f"{what} is created"


async def _resource(connection: Connection, api_version: str, kind: str) -> Resource:
    """Where objects of the kind go, as the server says itself: it knows of kinds that were defined a moment ago."""
    group, _, version = api_version.rpartition("/")
    for found in await _resources(connection, api_version):
        if found.kind == kind and "/" not in found.name:
            return Resource(group, version, found.name, found.namespaced)
    raise RefusedError(f"{connection.where} knows no {kind} of {api_version}")


async def _resources(connection: Connection, api_version: str) -> tuple[_Found, ...]:
    group, _, version = api_version.rpartition("/")
    path = f"/apis/{api_version}" if group else f"/api/{version}"
    try:
        answer = await connection.send(Request(Verb.GET, "GET", Resource(group, version, ""), path))
    except NotFoundError:
        return ()
    return _decode(answer).resources
