"""Steps in the creation of a job's companions. Passwords of an earlier submission are reused."""

import asyncio
import contextlib
from collections.abc import Callable, Collection, Sequence

import msgspec

from windlass.client import lookup, owned_objects
from windlass.client.companions import resolution
from windlass.client.companions import status as companion_status
from windlass.client.connection import Connection
from windlass.client.errors import ObjectNotFoundError
from windlass.client.prerequisites.objects import Object
from windlass.client.prerequisites.plan import Prerequisites
from windlass.client.submit.progress import Progress, password_generated
from windlass.kubeapi import requests
from windlass.kubeapi.errors import ConflictError, ForbiddenError, NotFoundError
from windlass.kubeapi.resources import SECRETS, SERVICES, Resource
from windlass.model import names
from windlass.model.base import Json
from windlass.model.companions import Companion, password_source
from windlass.render.companions import servers
from windlass.render.companions.servers import ResolvedCompanions
from windlass.render.manifest_parts import Part
from windlass.render.storage.nfs_shares import Share

Report = Callable[[Progress], None]

_OPTIONAL_KINDS = [
    kind
    for kind in owned_objects.DELETED_KINDS
    if kind.name in ("Secret", "ConfigMap") or kind in owned_objects.RBAC_KINDS
]
"""Kinds of objects that only some settings of a companion require."""


async def resolve_on_cluster(
    connection: Connection, prerequisites: Prerequisites, owner: str, report: Report
) -> ResolvedCompanions:
    """Combine the planned settings with those on the cluster. `owner` is the UID of the existing Framework, or empty.
    Services of TensorBoard with outdated names are deleted.

    Raises ObjectNotFoundError, and the errors of `Connection.send`.
    """
    job, resolved = prerequisites.job, prerequisites.resolved
    for companion, options in job.companions.items():
        if secret := password_source(options).secret:
            await _require_secret(connection, secret, companion)
    for companion in resolved.hashes:
        found = await _find(connection, SECRETS, servers.name_of(job.name, companion))
        if found is not None and found.is_usable_by(owner):
            # Hashing is slow on purpose.
            resolved = await asyncio.to_thread(
                resolution.with_existing_passwords,
                companion,
                resolved,
                prerequisites.chosen_passwords,
                found.body,
            )
    if job.tensorboard is None:
        return resolved
    service = await _tensorboard_service(connection, job.name, job.tensorboard.name, report)
    return msgspec.structs.replace(resolved, tensorboard_service=service)


def bodies(
    prerequisites: Prerequisites, companion: Companion, share: Share | None, resolved: ResolvedCompanions
) -> list[Json]:
    """Return the companion's objects in creation order: Secrets come first, so that pods do not wait for them."""
    objects = prerequisites.rendered_objects(share, resolved)
    found = [each.body for each in objects if each.part is Part(str(companion))]
    return sorted(found, key=lambda body: bool(body["kind"] != "Secret"))


def report_started(
    prerequisites: Prerequisites,
    companion: Companion,
    applied: Sequence[Object],
    resolved: ResolvedCompanions,
    report: Report,
) -> None:
    """Report that a companion was started or updated, and its generated passwords, which are shown only here."""
    job = prerequisites.job.name
    is_new = all(each.is_new for each in applied if each.body["kind"] == "Deployment")
    report(Progress(job, f"{'started' if is_new else 'updated'} {companion}"))
    generated, planned = (each.generated.get(companion, {}) for each in (resolved, prerequisites.resolved))
    for user, password in generated.items():
        report(password_generated(job, password, str(companion), user))
    if len(generated) < len(planned):
        unchanged = "the other passwords are unchanged" if generated else "the password is unchanged"
        user = " USER" if companion is Companion.HUB else ""
        change = f"change a password with `windlass {companion} {job} --new-password{user}`"
        report(Progress(job, f"{companion}: {unchanged}: {change}"))


async def _tensorboard_service(connection: Connection, job: str, name: str, report: Report) -> str:
    """Return the name of TensorBoard's Service: `name`, unless another job or user has a Service of that name. Delete
    TensorBoard's Services with other names."""
    own_labels = servers.labels_of(job, Companion.TENSORBOARD)
    chosen, found = name, await _find(connection, SERVICES, name)
    labels = {} if found is None else found.body["metadata"].get("labels") or {}
    if found is not None and not own_labels.items() <= labels.items():
        chosen = servers.name_of(job, Companion.TENSORBOARD)
    if chosen != name:
        other = labels.get(names.JOB_LABEL, "")
        origin = f"belongs to the job {other}" if other else "was not created by Windlass"
        report(Progress(job, f"tensorboard: Service {name} {origin}: using the name {chosen}"))
    # Delete a Service with an earlier name: it would lead to the same TensorBoard.
    selector = companion_status.selector(job, Companion.TENSORBOARD)
    await _delete_others(connection, SERVICES, selector, {chosen})
    return chosen


async def delete_unused(
    connection: Connection, job: str, companion: Companion, applied: Sequence[Object]
) -> None:
    """Delete Secrets, ConfigMaps and RBAC objects of the companion that an earlier job file required and this one does
    not."""
    if all(each.is_new for each in applied):
        return
    selector = companion_status.selector(job, companion)
    for kind in _OPTIONAL_KINDS:
        used = {each.name for each in applied if each.body["kind"] == kind.name}
        await _delete_others(connection, kind.resource, selector, used)


async def _delete_others(
    connection: Connection, resource: Resource, selector: str, used: Collection[str]
) -> None:
    """Delete the selected objects that are not used. A user who may not list them has usually not created any."""
    try:
        listed = await lookup.list_objects(connection, resource, connection.namespace, selector)
    except (ForbiddenError, NotFoundError):
        return
    for each in listed:
        metadata: Json = msgspec.json.decode(each)["metadata"]
        if metadata["name"] in used:
            continue
        with contextlib.suppress(NotFoundError, ConflictError):  # already deleted
            await connection.send(
                requests.delete(resource, connection.namespace, metadata["name"], uid=metadata["uid"])
            )


async def _require_secret(connection: Connection, secret: str, companion: Companion) -> None:
    try:
        found = await _find(connection, SECRETS, secret)
    except ForbiddenError:
        return  # the user does not need permission to read it
    if found is None:
        raise ObjectNotFoundError(
            f"{companion}.passwordFrom: Secret {secret} does not exist in the namespace {connection.namespace}: create "
            "it, or remove passwordFrom: then a password is generated and shown once"
        )


async def _find(connection: Connection, resource: Resource, name: str) -> Object | None:
    try:
        answer = await connection.send(requests.get(resource, connection.namespace, name))
    except NotFoundError:
        return None
    return Object(msgspec.json.decode(answer), is_new=False)
