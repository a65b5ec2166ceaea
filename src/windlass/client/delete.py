"""Delete a job and the objects it owns, with foreground propagation: pods are deleted before the job.

A job consists of the Framework of its name, or else the Job of its name, and of the objects with its label. Storage,
the NFS server of the job and, on request, its companions are kept.
"""

import contextlib

import msgspec

from windlass.client import lookup, owned_objects, wait, watch
from windlass.client.connection import Connection
from windlass.client.errors import NotInstalledError, ObjectNotFoundError
from windlass.client.owned_objects import FOREGROUND, OwnedObject
from windlass.k8s import formats
from windlass.kubeapi import requests
from windlass.kubeapi.errors import ConflictError, ForbiddenError, NotFoundError
from windlass.kubeapi.resources import frameworks
from windlass.model import names
from windlass.model.framework import Framework
from windlass.render.framework import pods
from windlass.wire import diagnostics
from windlass.wire.codec import InvalidFramework


class Deletion(msgspec.Struct, frozen=True):
    """A job whose deletion was requested."""

    name: str
    frameworks: tuple[Framework | InvalidFramework, ...]
    """At most one of each API group."""
    objects: tuple[OwnedObject, ...] = ()
    """The other objects of the job."""
    kept_storage: tuple[OwnedObject, ...] = ()
    """Storage and the NFS server of the job."""
    kept_companions: tuple[str, ...] = ()
    """Names of the companions that were kept on request."""
    unlistable: tuple[str, ...] = ()
    """Plural names of the kinds that the user may not list, other than RBAC_KINDS."""


async def request_deletion(connection: Connection, name: str, *, keep_companions: bool = False) -> Deletion:
    """Request the deletion of the job's objects that the user may list, except those to keep. Raises
    ObjectNotFoundError, RejectedError and the errors of `Connection.send`."""
    existing: tuple[Framework | InvalidFramework, ...] = ()
    denied: ForbiddenError | None = None
    try:
        existing = await lookup.find_all(connection, name)
    except ForbiddenError as error:
        denied = error
    if not formats.is_object_name(name):
        raise await lookup.not_found_error(connection, name)
    owned = await owned_objects.find(connection, name)
    plain_job = None if existing else await owned_objects.find_job(connection, name)
    kept_objects = _companion_objects(owned.deletable, name) if keep_companions else ()
    companions = tuple(dict.fromkeys(each.companion for each in kept_objects if each.companion))
    candidates = dict.fromkeys((plain_job, *owned.deletable))
    objects = tuple(each for each in candidates if each is not None and each not in kept_objects)
    if not existing and not objects:
        raise denied or await _not_found_error(connection, name, owned.kept, companions)
    await owned_objects.remove_owner_references(connection, kept_objects)
    for each in existing:
        await delete_framework(connection, each)
    await owned_objects.delete_objects(connection, objects)
    return Deletion(name, existing, objects, owned.kept, companions, owned.unlistable)


def _companion_objects(objects: tuple[OwnedObject, ...], job: str) -> tuple[OwnedObject, ...]:
    """Return the objects of companions, with the Secret of the job that their pods read when they restart."""
    companions = tuple(each for each in objects if each.companion)
    secrets = (each for each in objects if (each.kind.name, each.name) == ("Secret", pods.secret_name(job)))
    return (*companions, *secrets) if companions else ()


async def _not_found_error(
    connection: Connection, name: str, kept: tuple[OwnedObject, ...], companions: tuple[str, ...]
) -> ObjectNotFoundError:
    """Return the error for a missing job. The message names kept objects; without these, it suggests similar names,
    including those of plain Jobs."""
    missing = f"there is no job {diagnostics.quoted(name)} in the namespace {connection.namespace}"
    if companions:
        return ObjectNotFoundError(
            f"{missing}. {kept_companions_message(companions, name, connection.namespace)}"
        )
    if kept:
        return ObjectNotFoundError(f"{missing}. {kept_storage_message(kept, connection.namespace)}")
    jobs = await owned_objects.list_job_names(connection)
    error = await lookup.not_found_error(connection, name, jobs)
    if isinstance(error, NotInstalledError):
        return ObjectNotFoundError(
            f"there is no Job {diagnostics.quoted(name)} in the namespace {connection.namespace}, and {error}"
        )
    return error


def kept_storage_message(kept: tuple[OwnedObject, ...], namespace: str) -> str:
    objects = ", ".join(map(str, kept))
    arguments = " ".join(each.for_kubectl for each in kept)
    return f"Its files are kept ({objects}). Delete them with: kubectl delete -n {namespace} {arguments}"


def kept_companions_message(companions: tuple[str, ...], job: str, namespace: str) -> str:
    listed = ", ".join(companions)
    return f"Its companions are kept ({listed}). Delete them with: windlass delete {job} -n {namespace}"


async def delete_framework(connection: Connection, framework: Framework | InvalidFramework) -> None:
    """Request the deletion of exactly this Framework, not of a later one of the same name."""
    request = requests.delete(
        frameworks(names.group_of(framework.api_version)),
        connection.namespace,
        framework.metadata.name,
        uid=framework.metadata.uid,
        propagation=FOREGROUND,
    )
    try:
        await connection.send(request)
    except (NotFoundError, ConflictError):
        return  # already deleted


async def wait_for_deletion(connection: Connection, deletion: Deletion, timeout: float | None = None) -> None:
    """Wait for the Frameworks and for objects with pods; others are deleted immediately. Raises TimedOutError."""

    async def wait_for_each() -> None:
        for framework in deletion.frameworks:
            await wait_for_framework_deletion(connection, framework)
        for each in deletion.objects:
            if each.kind.runs_pods:
                await watch.wait_until_deleted(connection, each.kind.resource, each.name, each.uid)

    await wait.with_timeout(timeout, wait_for_each(), lambda: _timeout_message(connection, deletion, timeout))


async def wait_for_framework_deletion(
    connection: Connection, framework: Framework | InvalidFramework, timeout: float | None = None
) -> None:
    """Wait until the Framework is deleted. Raises TimedOutError."""
    deletion = Deletion(framework.metadata.name, (framework,))

    async def wait_for_end_of_watch() -> None:
        async with contextlib.aclosing(watch.watch_framework(connection, framework)) as changes:
            async for _ in changes:
                pass

    await wait.with_timeout(
        timeout, wait_for_end_of_watch(), lambda: _timeout_message(connection, deletion, timeout)
    )


def _timeout_message(connection: Connection, deletion: Deletion, timeout: float | None) -> str:
    where = f"-n {connection.namespace}"
    command = (
        f"windlass describe {deletion.name} {where}"
        if deletion.frameworks
        else f"kubectl get pods {where} -l {names.JOB_LABEL}={deletion.name}"
    )
    return f"{deletion.name} is not deleted after {timeout:g} s. Show its pods with `{command}`."
