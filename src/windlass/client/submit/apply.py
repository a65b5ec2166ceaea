"""Create the objects of a submission plan on a cluster: manifests, prerequisites, Frameworks and code.

Progress is reported as values; see `progress`.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

import msgspec

from windlass.client import delete, lifecycle, lookup
from windlass.client.connection import Connection
from windlass.client.errors import ClientError, ObjectExistsError, ObjectNotFoundError, RejectedError
from windlass.client.lifecycle import FIELD_MANAGER
from windlass.client.prerequisites import apply as prerequisites_apply
from windlass.client.prerequisites.objects import Object
from windlass.client.submit.kinds import Kinds
from windlass.client.submit.plan import PlannedJob, SubmitPlan
from windlass.client.submit.progress import Progress, password_generated
from windlass.kubeapi import requests
from windlass.kubeapi.errors import (
    AlreadyExistsError,
    ApiError,
    ConflictError,
    ForbiddenError,
    NotFoundError,
    ResponseError,
    UnauthorizedError,
)
from windlass.kubeapi.resources import CONFIG_MAPS, NAMESPACES, Resource, frameworks
from windlass.model import names
from windlass.model.base import Json
from windlass.model.framework import ExecutionType, Framework
from windlass.model.pods import ConfigMapView
from windlass.wire import codec

REPLACING_SECONDS = 300.0
"""Time limit for the deletion of a finished job that is replaced."""

_ATTEMPTS = 5

Report = Callable[[Progress], None]


class ManifestRejectedError(RejectedError):
    """The API server rejected an object of the file or its namespace, or does not serve its kind."""


class AppliedJob(msgspec.Struct, frozen=True):
    job: PlannedJob
    framework: Framework | None = None
    """The created Framework. None if only companions were started."""
    servers: tuple[Object, ...] = ()
    """Deployments of the companions."""


async def apply(connection: Connection, plan: SubmitPlan, report: Report) -> AsyncIterator[AppliedJob]:
    """Create everything, and yield each job after its creation. Raises ClientError."""
    await apply_manifests(connection, plan, report)
    async for applied in apply_jobs(connection, plan, report):
        yield applied


async def apply_manifests(
    connection: Connection, plan: SubmitPlan, report: Report, *, creates_namespaces: bool = False
) -> None:
    """Create or update the objects of the file other than jobs, in the order of the file.

    `creates_namespaces`: first create the namespaces that the plan uses, for a new cluster. Raises ClientError.
    """
    with connection.converting_errors():
        for name in plan.namespaces if creates_namespaces else ():
            await _create_namespace(connection, name)
        kinds = Kinds(connection.send)
        for body in plan.manifests:
            api_version, kind = body["apiVersion"], body["kind"]
            resource = await kinds.resource(api_version, kind)
            if resource is None:
                raise ManifestRejectedError(f"{plan.target_description} has no kind {kind} in {api_version}")
            try:
                change = await _apply_manifest(connection, resource, body)
            except ResponseError as error:
                rejected = f"{kind} {body['metadata']['name']}"
                message = f"{plan.target_description} rejected {rejected}: {error.failure.message}"
                raise ManifestRejectedError(message) from error
            report(Progress("", f"{change} {kind} {body['metadata']['name']}"))
        for notebook, password in plan.passwords.items():
            report(password_generated(notebook, password))


async def apply_jobs(
    connection: Connection, plan: SubmitPlan, report: Report, *, is_ephemeral: bool = False
) -> AsyncIterator[AppliedJob]:
    """Create each job after its prerequisites, or start only its companions, and yield the result.

    `is_ephemeral`: the cluster ends with the run. Raises ClientError.
    """
    with connection.converting_errors():
        for job in plan.jobs:
            job_connection = connection.at(job.namespace)
            if not plan.companions_only:
                yield await _apply_job(job_connection, job, report, is_ephemeral=is_ephemeral)
            elif job.companions:
                yield await _start_companions(job_connection, job, report, is_ephemeral=is_ephemeral)


async def _create_namespace(connection: Connection, name: str) -> None:
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    try:
        await connection.send(requests.create(NAMESPACES, "", msgspec.json.encode(body), FIELD_MANAGER))
    except AlreadyExistsError:
        pass
    except ResponseError as error:
        raise ManifestRejectedError(f'cannot create namespace "{name}": {error.failure.message}') from error


async def _apply_manifest(connection: Connection, resource: Resource, body: Json) -> str:
    """Create or update an object. Return "created" or "updated"."""
    metadata = body["metadata"]
    namespace = (metadata.get("namespace") or connection.namespace) if resource.is_namespaced else ""
    data = msgspec.json.encode(body)
    try:
        await connection.send(requests.create(resource, namespace, data, FIELD_MANAGER))
    except AlreadyExistsError:
        patch = requests.merge_patch(resource, namespace, metadata["name"], data, field_manager=FIELD_MANAGER)
        await connection.send(patch)
        return "updated"
    return "created"


# Jobs


async def _apply_job(
    connection: Connection, job: PlannedJob, report: Report, *, is_ephemeral: bool
) -> AppliedJob:
    """Create the Framework after its prerequisites, so that no Framework exists if one of them fails."""
    for old in job.replaced:
        report(Progress(job.name, "replacing the finished job"))
        await delete.delete_framework(connection, old)
        await delete.wait_for_framework_deletion(connection, old, REPLACING_SECONDS)
    if job.prerequisites is None:
        return AppliedJob(job, await _create_with_code(connection, job, report))
    async with prerequisites_apply.applied(
        connection, job.prerequisites, report, is_ephemeral=is_ephemeral
    ) as applied:
        created = await _create_with_code(connection, job.with_share(applied.share), report)
    await applied.set_owner(created)
    return AppliedJob(job, created, applied.servers)


async def _start_companions(
    connection: Connection, job: PlannedJob, report: Report, *, is_ephemeral: bool
) -> AppliedJob:
    """Start the companions without the job. If the job exists, it owns those that are not kept."""
    if job.prerequisites is None:
        return AppliedJob(job)
    owner = await _existing_job(connection, job.name)
    async with prerequisites_apply.applied(
        connection,
        job.prerequisites,
        report,
        is_ephemeral=is_ephemeral,
        owner=owner.uid if owner is not None else "",
    ) as applied:
        if owner is not None:
            await applied.set_owner(owner)
    return AppliedJob(job, servers=applied.servers)


async def _existing_job(connection: Connection, name: str) -> Framework | None:
    for found in await lookup.find_all(connection, name):
        if isinstance(found, Framework) and found.metadata.deletion_timestamp is None:
            return found
    return None


async def _create_with_code(connection: Connection, job: PlannedJob, report: Report) -> Framework:
    """Create the Framework. If its code cannot be stored or it cannot be started, the Framework is deleted again."""
    created = await _create_framework(connection, job)
    if job.archive is None:
        return created
    try:
        await _store_code(connection, job, created)
        report(Progress(job.name, f"code: {job.archive}"))
        return await lifecycle.patch_spec(connection, created, {"executionType": ExecutionType.START})
    except ResponseError as error:
        await _undo_creation(connection, created)
        raise RejectedError(
            f"cannot store the code of {job.name} on {connection.where}, and the job was deleted again: "
            f"{error.failure.message}"
        ) from error
    except (ClientError, asyncio.CancelledError):
        await asyncio.shield(_undo_creation(connection, created))
        raise


async def _create_framework(connection: Connection, job: PlannedJob) -> Framework:
    body = msgspec.json.encode(job.created_framework)
    request = requests.create(frameworks(job.group), job.namespace, body, FIELD_MANAGER)
    try:
        return codec.decode_framework(await connection.send(request))
    except AlreadyExistsError as error:
        raise ObjectExistsError(
            f"another client has just submitted a job {job.name} to the namespace {job.namespace}"
        ) from error
    except NotFoundError as error:
        raise ObjectNotFoundError(
            f"{job.target.description} rejected the job {job.name}: {error.failure.message}. "
            "Submitting does not create namespaces: choose an existing one, or create it first."
        ) from error
    except (ForbiddenError, UnauthorizedError):
        raise
    except ResponseError as error:
        raise ManifestRejectedError(
            f"{job.target.description} rejected the job {job.name}: {error.failure.message}"
        ) from error


async def _undo_creation(connection: Connection, created: Framework) -> None:
    """Delete the Framework. Errors are ignored: the caller raises the error that is the reason for the deletion."""
    with contextlib.suppress(ClientError, ApiError):
        await delete.delete_framework(connection, created)


async def _store_code(connection: Connection, job: PlannedJob, created: Framework) -> None:
    for config_map in job.config_maps(created.uid):
        await _store_config_map(connection, job, config_map)


async def _store_config_map(connection: Connection, job: PlannedJob, config_map: Json) -> None:
    name, body = config_map["metadata"]["name"], msgspec.json.encode(config_map)
    request = requests.create(CONFIG_MAPS, job.namespace, body, FIELD_MANAGER)
    for _ in range(_ATTEMPTS):
        try:
            await connection.send(request)
            return
        except AlreadyExistsError:
            await _remove_old_code(connection, job, name)
    raise ClientError(f"another client keeps writing ConfigMap {name}. Submit again.")


async def _remove_old_code(connection: Connection, job: PlannedJob, name: str) -> None:
    """Delete the code of an earlier Framework of this name that the garbage collector has not deleted yet."""
    try:
        answer = await connection.send(requests.get(CONFIG_MAPS, job.namespace, name))
        found: ConfigMapView = codec.decode_config_map(answer)
        owners = found.metadata.owner_references
        if not any(owner.kind == names.KIND and owner.name == job.name for owner in owners):
            raise RejectedError(
                f"ConfigMap {name} in the namespace {job.namespace} was not created by Windlass, and the code of "
                f"{job.name} needs its name: rename one of them"
            )
        await connection.send(requests.delete(CONFIG_MAPS, job.namespace, name, uid=found.uid))
    except (NotFoundError, ConflictError):
        return  # another client has deleted or replaced it
