"""Stop, suspend and resume jobs by changing one field of the spec."""

import msgspec

from windlass.client import lookup, views
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
    """The Framework after the change."""
    message: str
    """Message about the change, or why there was none."""


async def stop(connection: Connection, name: str) -> Change:
    """Stop the job permanently. Its pods are deleted with their grace period."""
    framework = await lookup.find(connection, name)
    if is_completed(framework):
        return Change(framework, f"{name} has already completed")
    if framework.spec.execution_type is ExecutionType.STOP:
        return Change(framework, f"{name} is already being stopped")
    changed = await patch_spec(connection, framework, {"executionType": ExecutionType.STOP})
    return Change(changed, f"stopping {name}: its pods are deleted with their grace period")


async def suspend(connection: Connection, name: str) -> Change:
    """End the attempt and keep the job without pods until it is resumed."""
    framework = await lookup.find(connection, name)
    require_active(framework, "suspended")
    if framework.spec.suspend:
        return Change(framework, f"{name} is already suspended")
    changed = await patch_spec(connection, framework, {"suspend": True})
    return Change(
        changed, f"suspended {name}: its pods are deleted. Resume it with `windlass resume {name}`."
    )


async def resume(connection: Connection, name: str) -> Change:
    framework = await lookup.find(connection, name)
    require_active(framework, "resumed")
    if not framework.spec.suspend:
        is_held = framework.spec.execution_type is ExecutionType.CREATE
        hint = ": its executionType is Create. Set it to Start to start the job." if is_held else ""
        return Change(framework, f"{name} is not suspended{hint}")
    changed = await patch_spec(connection, framework, {"suspend": False})
    return Change(changed, f"resumed {name}: a new attempt starts")


async def patch_spec(connection: Connection, framework: Framework, spec: Json) -> Framework:
    """Patch the spec of exactly this Framework, not of a later one with the same name."""
    change = {"metadata": {"uid": framework.uid}, "spec": spec}
    return codec.decode_framework(
        await merge_patch(connection, frameworks(framework.group), framework.name, change)
    )


async def merge_patch(connection: Connection, resource: Resource, name: str, change: Json) -> bytes:
    """Patch an object and return its new state. Raises the errors of `Connection.send`."""
    body = msgspec.json.encode(change)
    return await connection.send(
        requests.merge_patch(resource, connection.namespace, name, body, field_manager=FIELD_MANAGER)
    )


def is_completed(framework: Framework) -> bool:
    return framework.status is not None and framework.status.state is State.COMPLETED


def require_active(framework: Framework, change: str) -> None:
    """Raise CompletedError if the job has completed, or is being deleted or stopped. `change` is e.g. "suspended"."""
    name = framework.name
    if is_completed(framework):
        raise CompletedError(
            f"{views.job_view(framework).message}; it cannot be {change}. Run it again with "
            "`windlass submit --rerun FILE`."
        )
    if framework.is_deleting:
        raise CompletedError(f"{name} is being deleted and cannot be {change}")
    if framework.spec.execution_type is ExecutionType.STOP:
        raise CompletedError(f"{name} is being stopped and cannot be {change}")
