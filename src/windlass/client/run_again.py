"""Run a job again beside the first one: create a copy that is named NAME-2, NAME-3, …

The copy has its own code. Secrets, storage and an NFS server of the original job are not copied: it uses the same.
"""

import asyncio
import contextlib
from collections.abc import Mapping
from typing import Any

import msgspec

from windlass.client import delete, history, lifecycle, lookup, plain_jobs
from windlass.client.connection import Connection
from windlass.client.errors import ClientError
from windlass.kubeapi import requests
from windlass.kubeapi.errors import AlreadyExistsError, ApiError
from windlass.kubeapi.resources import CONFIG_MAPS, frameworks
from windlass.model import names
from windlass.model.base import Json, manifest
from windlass.model.framework import ExecutionType, Framework
from windlass.render import code
from windlass.wire import codec

ORIGINAL_ANNOTATION = "windlass.dev/copy-of"
"""On a copy: the name of the job that was run first."""
MAX_TRIES = 20
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


async def run_again(connection: Connection, name: str) -> Framework:
    """Create the copy, and return it. Raises ClientError, and the errors of `Connection.send`."""
    framework = await lookup.find(connection, name)
    body = await lookup.read_manifest(connection, framework)
    original = framework.metadata.annotations.get(ORIGINAL_ANNOTATION, name)
    taken = await _taken_names(connection)
    number = 2
    for _ in range(MAX_TRIES):
        while f"{original}-{number}" in taken:
            number += 1
        copy_name = f"{original}-{number}"
        with contextlib.suppress(AlreadyExistsError):
            return await _create(connection, framework, copy_of(body, original, copy_name))
        taken.add(copy_name)
    raise ClientError(f"other clients keep creating copies of {original}. Try again.")


async def _taken_names(connection: Connection) -> set[str]:
    existing = await lookup.list_frameworks(connection)
    plain = await plain_jobs.find_all(connection)
    records = await history.list_records(connection)
    return {each.metadata.name for each in (*existing, *plain)} | {
        each.spec.framework_name for each in records
    }


def copy_of(body: Json, original: str, name: str) -> Json:
    """Return the manifest of the copy, which refers to its own ConfigMaps with code."""
    metadata = body["metadata"]
    kept = {key: value for key, value in (metadata.get("annotations") or {}).items() if key != _LAST_APPLIED}
    old_prefix, new_prefix = code.config_map_name(metadata["name"]), code.config_map_name(name)
    spec = {**body["spec"], "executionType": ExecutionType.START.value}
    spec.pop("suspend", None)
    return {
        **body,
        "metadata": {**metadata, "name": name, "annotations": {**kept, ORIGINAL_ANNOTATION: original}},
        "spec": _with_renamed_code(spec, old_prefix, new_prefix),
    }


def _with_renamed_code(value: Any, old: str, new: str, *, is_config_map: bool = False) -> Any:
    """Rename the ConfigMaps with code in the volumes of pods."""
    if isinstance(value, Mapping):
        renamed = {
            key: _with_renamed_code(each, old, new, is_config_map=key == "configMap")
            for key, each in value.items()
        }
        found = value.get("name")
        if is_config_map and isinstance(found, str) and _is_part(found, old):
            renamed["name"] = new + found.removeprefix(old)
        return renamed
    if isinstance(value, list):
        return [_with_renamed_code(each, old, new) for each in value]
    return value


def _is_part(name: str, prefix: str) -> bool:
    """Return whether this is the name of a ConfigMap with code: the prefix, or the prefix and a number."""
    rest = name.removeprefix(prefix)
    return name.startswith(prefix) and (not rest or (rest[0] == "-" and rest[1:].isdecimal()))


def _code_of(value: Any, prefix: str) -> set[str]:
    """Return the names of the ConfigMaps with code that a manifest refers to."""
    if isinstance(value, Mapping):
        source = value.get("configMap")
        found = source.get("name") if isinstance(source, Mapping) else None
        own = {found} if isinstance(found, str) and _is_part(found, prefix) else set()
        return own.union(*(_code_of(each, prefix) for each in value.values()))
    if isinstance(value, list):
        return set().union(*(_code_of(each, prefix) for each in value))
    return set()


async def _create(connection: Connection, original: Framework, body: Json) -> Framework:
    """Create the Framework and its ConfigMaps. It starts when they exist."""
    name = body["metadata"]["name"]
    prefix = code.config_map_name(name)
    parts = sorted(_code_of(body["spec"], prefix))
    first_type = ExecutionType.CREATE if parts else ExecutionType.START
    held = {**body, "spec": {**body["spec"], "executionType": first_type.value}}
    resource = frameworks(original.group)
    request = requests.create(
        resource, connection.namespace, msgspec.json.encode(held), lifecycle.FIELD_MANAGER
    )
    created = codec.decode_framework(await connection.send(request))
    if not parts:
        return created
    try:
        for part in parts:
            await _copy_config_map(connection, original, part.removeprefix(prefix), created)
        return await lifecycle.patch_spec(connection, created, {"executionType": ExecutionType.START})
    except (ApiError, ClientError, asyncio.CancelledError):
        with contextlib.suppress(ApiError, ClientError):
            await asyncio.shield(delete.delete_framework(connection, created))
        raise


async def _copy_config_map(
    connection: Connection, original: Framework, part: str, created: Framework
) -> None:
    name = code.config_map_name(original.name) + part
    answer = await connection.send(requests.get(CONFIG_MAPS, connection.namespace, name))
    found = msgspec.json.decode(answer)
    owner = {
        "apiVersion": created.api_version,
        "kind": names.KIND,
        "name": created.name,
        "uid": created.uid,
        "controller": False,
        "blockOwnerDeletion": False,
    }
    metadata = {
        "name": code.config_map_name(created.name) + part,
        "namespace": connection.namespace,
        "ownerReferences": [owner],
    }
    data = {key: found[key] for key in ("data", "binaryData") if key in found}
    body = msgspec.json.encode(manifest("v1", "ConfigMap", metadata, **data))
    await connection.send(requests.create(CONFIG_MAPS, connection.namespace, body, lifecycle.FIELD_MANAGER))
