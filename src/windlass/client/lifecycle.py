"""stop, suspend and resume: one field of a job's spec, and what there is to say when it is so already."""

import msgspec

from windlass.client import lookup
from windlass.client.connection import Connection
from windlass.client.errors import CompletedError
from windlass.kubeapi import requests
from windlass.kubeapi.resources import Resource, frameworks
from windlass.model.base import Json
from windlass.model.framework import ExecutionType, Framework
from windlass.model.states import State
from windlass.wire import codec

FIELD_MANAGER = "windlass"


class Change(msgspec.Struct, frozen=True):
    framework: Framework
    """As it is now."""
    message: str
    """What was done, or why nothing was."""
    has_happened: bool = True


async def stop(connection: Connection, name: str) -> Change:
    """Ends it for good; its pods have their grace period."""
    framework = await lookup.find(connection, name)
    if is_completed(framework):
        return Change(framework, f"{name} has completed already", has_happened=False)
    if framework.spec.execution_type is ExecutionType.STOP:
        return Change(framework, f"{name} is being stopped already", has_happened=False)
    changed = await patch_spec(connection, framework, {"executionType": ExecutionType.STOP})
    return Change(changed, f"{name} is asked to stop; its pods have their grace period")


async def suspend(connection: Connection, name: str) -> Change:
    """Ends the attempt, and keeps the job without pods until it is resumed."""
    framework = await lookup.find(connection, name)
    require_active(framework, "suspended")
    if framework.spec.suspend:
        return Change(framework, f"{name} is suspended already", has_happened=False)
    changed = await patch_spec(connection, framework, {"suspend": True})
    return Change(changed, f"{name} is suspended: its pods go, and `windlass resume {name}` starts it anew")


async def resume(connection: Connection, name: str) -> Change:
    framework = await lookup.find(connection, name)
    require_active(framework, "resumed")
    if not framework.spec.suspend:
        held = framework.spec.execution_type is ExecutionType.CREATE
        but = ": its executionType is Create, and Start would start it" if held else ""
        return Change(framework, f"{name} is not suspended{but}", has_happened=False)
    changed = await patch_spec(connection, framework, {"suspend": False})
    return Change(changed, f"{name} is resumed: a new attempt begins")


async def patch_spec(connection: Connection, framework: Framework, spec: Json) -> Framework:
    """Of this very Framework, and of no other that has its name by now."""
    change = {"metadata": {"uid": framework.uid}, "spec": spec}
    return codec.decode_framework(
        await merge_patch(connection, frameworks(framework.group), framework.name, change)
    )


async def merge_patch(connection: Connection, resource: Resource, name: str, change: Json) -> bytes:
    """Any object of the namespace, as it is then. Raises what `Connection.send` raises."""
    body = msgspec.json.encode(change)
    return await connection.send(
        requests.merge_patch(resource, connection.namespace, name, body, field_manager=FIELD_MANAGER)
    )


def is_completed(framework: Framework) -> bool:
    return framework.status is not None and framework.status.state is State.COMPLETED


def require_active(framework: Framework, wanted: str) -> None:
    """Raises CompletedError for one that has come to its end, or is about to."""
    name = framework.name
    if is_completed(framework):
        raise CompletedError(
            f"{name} has completed, and cannot be {wanted} any more. "
            "`windlass submit --rerun FILE` runs it again."
        )
    if framework.is_deleting:
        raise CompletedError(f"{name} is being deleted, and cannot be {wanted} any more")
    if framework.spec.execution_type is ExecutionType.STOP:
        raise CompletedError(f"{name} is being stopped, and cannot be {wanted} any more")
