"""A job goes with all that belongs to it: in the foreground, so that it is gone only when its pods are.

It is a Framework, or where there is none, Jobs and what else carries its label. Files stay, and the server of them, and
its companions where somebody wants that.
"""

import contextlib

import msgspec

from windlass.client import lookup, owned_objects, wait, watch
from windlass.client.connection import Connection
from windlass.client.errors import NotInstalledError, NotThereError
from windlass.client.owned_objects import FOREGROUND, OwnedObject
from windlass.k8s import formats
from windlass.kubeapi import requests
from windlass.kubeapi.errors import ConflictError, ForbiddenError, NotFoundError
from windlass.kubeapi.resources import frameworks
from windlass.model import names
from windlass.model.framework import Framework
from windlass.render.framework import pods
from windlass.wire import diagnostics
from windlass.wire.codec import Unreadable


class Deletion(msgspec.Struct, frozen=True):
    """A job that was asked to go."""

    name: str
    frameworks: tuple[Framework | Unreadable, ...]
    """One of each group, where both have one of that name."""
    others: tuple[OwnedObject, ...] = ()
    staying: tuple[OwnedObject, ...] = ()
    companions: tuple[str, ...] = ()
    """Those that were to stay, and do."""
    hidden: tuple[str, ...] = ()
    """As `belongings.Found` has them."""


async def delete(
    connection: Connection,
    name: str,
    *,
    waits: bool = True,
    timeout: float | None = None,
    keeps_companions: bool = False,
) -> None:
    """Raises TimedOutError and what `request_deletion` raises."""
    going = await request_deletion(connection, name, keeps_companions=keeps_companions)
    if waits:
        await wait_for_deletion(connection, going, timeout)


async def request_deletion(connection: Connection, name: str, *, keeps_companions: bool = False) -> Deletion:
    """Whoever has rights on some of the kinds only deletes of those. Raises NotThereError and RefusedError."""
    found: tuple[Framework | Unreadable, ...] = ()
    denied: ForbiddenError | None = None
    try:
        found = await lookup.find_all(connection, name)
    except ForbiddenError as error:
        denied = error
    if not formats.is_object_name(name):
        raise await lookup.not_found_error(connection, name)
    beside = await owned_objects.find(connection, name)
    alone = None if found else await owned_objects.find_job(connection, name)
    kept = _companions_among(beside.going, name) if keeps_companions else ()
    companions = tuple(dict.fromkeys(each.companion for each in kept if each.companion))
    listed = (*((alone,) if alone is not None else ()), *beside.going)
    others = tuple(each for each in dict.fromkeys(listed) if each not in kept)
    if not found and not others:
        raise denied or await _not_there(connection, name, beside.staying, companions)
    await owned_objects.remove_owner_references(connection, kept)
    for each in found:
        await delete_framework(connection, each)
    await owned_objects.delete_objects(connection, others)
    return Deletion(name, found, others, beside.staying, companions, beside.hidden)


def _companions_among(found: tuple[OwnedObject, ...], job: str) -> tuple[OwnedObject, ...]:
    """With the Secret of the job, which their pods read when they start again."""
    kept = tuple(each for each in found if each.companion)
    secrets = (each for each in found if (each.kind.name, each.name) == ("Secret", pods.secret_name(job)))
    return (*kept, *secrets) if kept else ()


async def _not_there(
    connection: Connection, name: str, staying: tuple[OwnedObject, ...], companions: tuple[str, ...]
) -> NotThereError:
    """On a cluster that knows no Frameworks there may still be Jobs, of which one was probably meant."""
    if companions:
        return NotThereError(
            f"there is no job {diagnostics.quoted(name)} in the namespace {connection.namespace} any more. "
            f"{kept_companions_message(companions, name, connection.namespace)}"
        )
    if staying:
        return NotThereError(
            f"there is no job {diagnostics.quoted(name)} in the namespace {connection.namespace} any more. "
            f"{kept_storage_message(staying, connection.namespace)}"
        )
    jobs = await owned_objects.list_job_names(connection)
    missing = await lookup.not_found_error(connection, name, jobs)
    if isinstance(missing, NotInstalledError):
        return NotThereError(
            f"there is no Job {diagnostics.quoted(name)} in the namespace {connection.namespace}. And {missing}"
        )
    return missing


def kept_storage_message(staying: tuple[OwnedObject, ...], namespace: str) -> str:
    """With the command that removes it."""
    what = ", ".join(map(str, staying))
    remedy = " ".join(each.for_kubectl for each in staying)
    return f"Its files stay ({what}); this removes them for good: kubectl delete -n {namespace} {remedy}"


def kept_companions_message(companions: tuple[str, ...], job: str, namespace: str) -> str:
    """With the command that removes them."""
    return f"Its companions stay ({', '.join(companions)}); this removes them: windlass delete {job} -n {namespace}"


async def delete_framework(connection: Connection, found: Framework | Unreadable) -> None:
    """Of this very Framework: one that has its name by now stays."""
    request = requests.delete(
        frameworks(names.group_of(found.api_version)),
        connection.namespace,
        found.metadata.name,
        uid=found.metadata.uid,
        propagation=FOREGROUND,
    )
    try:
        await connection.send(request)
    except (NotFoundError, ConflictError):
        return  # it is gone already


async def wait_for_deletion(connection: Connection, going: Deletion, timeout: float | None = None) -> None:
    """Raises TimedOutError. What runs no pods goes at once, and is not waited for."""

    async def look() -> None:
        for framework in going.frameworks:
            await wait_for_framework_deletion(connection, framework)
        for each in going.others:
            if each.kind.runs_pods:
                await watch.wait_until_deleted(connection, each.kind.resource, each.name, each.uid)

    await wait.with_timeout(timeout, look(), lambda: _too_late(connection, going, timeout))


async def wait_for_framework_deletion(
    connection: Connection, found: Framework | Unreadable, timeout: float | None = None
) -> None:
    """Raises TimedOutError."""
    going = Deletion(found.metadata.name, (found,))

    async def look() -> None:
        async with contextlib.aclosing(watch.watch_framework(connection, found)) as changes:
            async for _ in changes:
                pass

    await wait.with_timeout(timeout, look(), lambda: _too_late(connection, going, timeout))


def _too_late(connection: Connection, going: Deletion, timeout: float | None) -> str:
    where = f"-n {connection.namespace}"
    command = (
        f"windlass describe {going.name} {where}"
        if going.frameworks
        else f"kubectl get pods {where} -l {names.JOB_LABEL}={going.name}"
    )
    return (
        f"{going.name} is not gone after {timeout:g} s: something of it is still there. "
        f"`{command}` shows its pods."
    )
