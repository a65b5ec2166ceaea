"""Create, reuse, adopt or delete the prerequisite objects of a job, and set their owner.

Volumes, their claims and the NFS server are never deleted here.
"""

import asyncio
import contextlib
from collections.abc import Callable, Sequence

import msgspec

from windlass.client import lifecycle, owned_objects, watch
from windlass.client.connection import Connection
from windlass.client.errors import ClientError, ObjectNotFoundError, RejectedError
from windlass.client.lifecycle import FIELD_MANAGER
from windlass.client.owned_objects import Kind
from windlass.kubeapi import requests
from windlass.kubeapi.errors import (
    AlreadyExistsError,
    ApiError,
    ConflictError,
    ForbiddenError,
    NotFoundError,
    ResponseError,
)
from windlass.model import names
from windlass.model.base import Json
from windlass.model.companions import Companion
from windlass.model.framework import Framework

_KINDS = {kind.name: kind for kind in (*owned_objects.DELETED_KINDS, *owned_objects.STORAGE_KINDS)}
_RBAC_KINDS = {kind.name for kind in owned_objects.RBAC_KINDS}
_UPDATED_KINDS = frozenset({"ConfigMap", "Deployment"})
"""Kinds of kept objects that are updated from the job file. Claims, volumes and Services are not changed."""
_ATTEMPTS = 5


class Object(msgspec.Struct, frozen=True):
    """An object on the API server."""

    body: Json
    is_new: bool = True
    """Whether the object was created, rather than found or updated."""

    @property
    def name(self) -> str:
        return str(self.body["metadata"]["name"])

    @property
    def uid(self) -> str:
        return str(self.body["metadata"]["uid"])

    def is_usable_by(self, owner: str) -> bool:
        """Return whether no Framework other than `owner` (a UID) owns the object, and it is not being deleted."""
        metadata = self.body["metadata"]
        references = metadata.get("ownerReferences") or ()
        owners = {each.get("uid") for each in references if each.get("kind") == names.KIND}
        return not metadata.get("deletionTimestamp") and owners <= {owner}

    @property
    def kind(self) -> Kind:
        return _KINDS[self.body["kind"]]

    def __str__(self) -> str:
        return f"{self.kind.name} {self.name}"


Record = Callable[[Object], None]
"""Called for each created object, also after cancellation."""


async def create_or_reuse(connection: Connection, body: Json, job: str, record: Record) -> Object:
    """Create an object that outlives the job, or reuse the one of an earlier submission.

    A reused ConfigMap or Deployment is updated. Raises ClientError and ResponseError.
    """
    try:
        return await _create(connection, body, record)
    except AlreadyExistsError:
        found = await _get_own(connection, body, job)
        if body["kind"] not in _UPDATED_KINDS:
            return found
        try:
            return await _patch(connection, _patch_body(body, found))
        except (NotFoundError, ConflictError) as error:
            raise _rejection(connection, body, error) from error


async def recreate(connection: Connection, body: Json, job: str, record: Record) -> Object:
    """Create an object that belongs to this job alone. Delete the one of an earlier job first.

    Raises ClientError and ResponseError.
    """
    for _ in range(_ATTEMPTS):
        try:
            return await _create(connection, body, record)
        except AlreadyExistsError:
            with contextlib.suppress(NotFoundError):
                await _delete(connection, await _get_own(connection, body, job), waits=True)
    raise _conflict_error(body)


async def create_or_adopt(
    connection: Connection, body: Json, job: str, record: Record, *, owner: str = "", is_kept: bool = False
) -> Object:
    """Create an object, or update an existing one that no Framework other than `owner` (a UID) owns.

    Any other existing object is deleted first. `is_kept` removes the owner reference. Raises ClientError and
    ResponseError.
    """
    for _ in range(_ATTEMPTS):
        try:
            return await _create(connection, body, record)
        except AlreadyExistsError:
            with contextlib.suppress(NotFoundError, ConflictError):
                found = await _get_own(connection, body, job)
                if found.is_usable_by(owner):
                    return await _patch(connection, _patch_body(body, found, is_kept=is_kept))
                await _delete(connection, found, waits=True)
    raise _conflict_error(body)


async def delete_all(connection: Connection, created: Sequence[Object]) -> None:
    """Delete objects and ignore errors."""
    for each in reversed(created):
        with contextlib.suppress(ClientError, ApiError):
            await _delete(connection, each, waits=False)


async def set_owner(connection: Connection, owned: Sequence[Object], owner: Framework) -> None:
    """Set the owner, so that the objects are deleted with the Framework. Raises ResponseError."""
    reference = {
        "apiVersion": owner.api_version,
        "kind": names.KIND,
        "name": owner.name,
        "uid": owner.uid,
        "controller": False,
        "blockOwnerDeletion": False,
    }
    for each in owned:
        change = {"metadata": {"uid": each.uid, "ownerReferences": [reference]}}
        await lifecycle.merge_patch(connection, each.kind.resource, each.name, change)


async def _create(connection: Connection, body: Json, record: Record) -> Object:
    """Create an object. A cancellation waits for the response. Raises AlreadyExistsError and ClientError."""
    creation = asyncio.create_task(_send_creation(connection, body, record))
    try:
        return await asyncio.shield(creation)
    except asyncio.CancelledError:
        await asyncio.gather(creation, return_exceptions=True)
        raise


async def _send_creation(connection: Connection, body: Json, record: Record) -> Object:
    kind = _KINDS[body["kind"]]
    namespace = connection.namespace if kind.resource.is_namespaced else ""
    request = requests.create(kind.resource, namespace, msgspec.json.encode(body), FIELD_MANAGER)
    try:
        created = _object(body, await connection.send(request))
    except AlreadyExistsError:
        raise
    except NotFoundError as error:
        raise _missing_error(connection, body, error) from error
    except ResponseError as error:
        raise _rejection(connection, body, error) from error
    record(created)
    return created


async def _get_own(connection: Connection, body: Json, job: str) -> Object:
    """Return the existing object. Raises NotFoundError, and RejectedError if it does not belong to this job."""
    resource, metadata = _KINDS[body["kind"]].resource, body["metadata"]
    namespace = connection.namespace if resource.is_namespaced else ""
    answer = await connection.send(requests.get(resource, namespace, metadata["name"]))
    found = _object(body, answer, is_new=False)
    if (found.body["metadata"].get("labels") or {}).get(names.JOB_LABEL) != job:
        where = f" of the namespace {namespace}" if namespace else ""
        raise RejectedError(
            f"{_kind_and_name(body)}{where} does not belong to the job {job}, which needs this name: rename one of them"
        )
    return found


async def _patch(connection: Connection, body: Json) -> Object:
    """Send a merge patch. Raises NotFoundError, ConflictError and RejectedError."""
    resource, name = _KINDS[body["kind"]].resource, body["metadata"]["name"]
    try:
        return _object(body, await lifecycle.merge_patch(connection, resource, name, body), is_new=False)
    except (NotFoundError, ConflictError):
        raise
    except ResponseError as error:
        raise _rejection(connection, body, error) from error


def _patch_body(body: Json, found: Object, *, is_kept: bool = False) -> Json:
    """Return a patch that sets the planned state and removes obsolete data, and obsolete fields of a pod template."""
    metadata: Json = {**body["metadata"], "uid": found.uid}
    if is_kept:
        metadata["ownerReferences"] = None
    data = {**body.get("data", {}), **body.get("stringData", {})}
    obsolete = dict.fromkeys(set(found.body.get("data") or {}) - set(data))
    files = {"data": {**obsolete, **body.get("data", {})}} if obsolete else {}
    change = {**body, "metadata": metadata, **files}
    if body["kind"] != "Deployment":
        return change
    template = body["spec"]["template"]
    pod = _with_nulls(template["spec"], found.body["spec"]["template"]["spec"])
    return {**change, "spec": {**body["spec"], "template": {**template, "spec": pod}}}


def _with_nulls(planned: Json, found: Json) -> Json:
    """Return a merge patch that sets the planned fields and removes all others. The server sets its defaults again."""
    nested = {
        name: _with_nulls(value, found[name])
        for name, value in planned.items()
        if isinstance(value, dict) and isinstance(found.get(name), dict)
    }
    return {**dict.fromkeys(found), **planned, **nested}


async def _delete(connection: Connection, found: Object, *, waits: bool) -> None:
    """Delete an object: workloads together with their pods, and pods without a grace period."""
    kind = found.kind
    request = requests.delete(
        kind.resource,
        connection.namespace,
        found.name,
        uid=found.uid,
        grace_seconds=0 if kind.name == "Pod" else None,
        propagation=owned_objects.FOREGROUND if kind.runs_pods and kind.name != "Pod" else "",
    )
    with contextlib.suppress(NotFoundError, ConflictError):
        await connection.send(request)
    if waits:
        await watch.wait_until_deleted(connection, kind.resource, found.name, found.uid)


def _object(body: Json, answer: bytes, *, is_new: bool = True) -> Object:
    """Decode a response, and add apiVersion and kind, which responses may omit."""
    found: Json = msgspec.json.decode(answer)
    return Object({**found, "apiVersion": body["apiVersion"], "kind": body["kind"]}, is_new)


def _rejection(connection: Connection, body: Json, error: ResponseError) -> RejectedError:
    message = f"{connection.where} rejected {_kind_and_name(body)}: {error.failure.message}"
    if not isinstance(error, ForbiddenError) or body["kind"] not in _RBAC_KINDS:
        return RejectedError(message)
    rights = "permission to create service accounts, roles and role bindings"
    is_for_jupyter = body["metadata"]["labels"].get(names.COMPANION_LABEL) == Companion.JUPYTER
    account = "Use an existing service account (jupyter: {serviceAccount: …}), or ask"
    return RejectedError(
        f"{message.removesuffix('.')}. {account if is_for_jupyter else 'Ask'} for {rights} in the namespace "
        f"{connection.namespace}."
    )


def _conflict_error(body: Json) -> ClientError:
    return ClientError(f"another client keeps writing {_kind_and_name(body)}. Submit again.")


def _missing_error(connection: Connection, body: Json, error: NotFoundError) -> ClientError:
    """Return the error for a missing namespace or kind."""
    message = error.failure.message
    if connection.namespace in message:
        return ObjectNotFoundError(
            f"{connection.where} rejected {_kind_and_name(body)}: {message}. "
            "Submitting does not create namespaces: choose an existing one, or create it first."
        )
    return RejectedError(f"{connection.where} has no kind {body['kind']}, which the job needs: {message}")


def _kind_and_name(body: Json) -> str:
    return f"{body['kind']} {body['metadata']['name']}"
