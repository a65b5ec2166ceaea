"""What a file holds beside its jobs, such as ConfigMaps and Services: created before them, in the order of the file.

What is there already is brought up to date, as `kubectl apply` would: a file can be submitted again.
"""

from collections.abc import AsyncIterator, Mapping, Sequence

import msgspec

from windlass.client.companions import resolution
from windlass.client.connection import Connection
from windlass.client.errors import RefusedError
from windlass.client.lifecycle import FIELD_MANAGER
from windlass.client.submit.kinds import Kinds
from windlass.kubeapi import requests
from windlass.kubeapi.errors import AlreadyExistsError, AnsweredError
from windlass.kubeapi.resources import Resource
from windlass.model.base import Json


async def create_all(
    connection: Connection, objects: Sequence[Json], shown: Mapping[str, str]
) -> AsyncIterator[str]:
    """What was done, one line for each. `shown` are passwords that were made up, by their notebooks.

    Raises RefusedError.
    """
    known = Kinds(connection.send)
    for body in objects:
        api_version, kind = body["apiVersion"], body["kind"]
        resource = await known.resource(api_version, kind)
        if resource is None:
            raise RefusedError(f"{connection.where} knows no {kind} of {api_version}")
        yield await _create(connection, resource, body)
    for notebook, password in shown.items():
        yield f"{notebook}: {resolution.shown_once('the password', password)}"


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
