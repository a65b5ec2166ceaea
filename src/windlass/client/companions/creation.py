"""Companions as they are made before a Framework: what an earlier submission has left of them is taken into account."""

import asyncio
import contextlib
from collections.abc import Callable, Collection, Sequence

import msgspec

from windlass.client import lookup, owned_objects
from windlass.client.companions import resolution
from windlass.client.companions import status as companion_status
from windlass.client.connection import Connection
from windlass.client.errors import NotThereError
from windlass.client.prerequisites.objects import Object
from windlass.client.prerequisites.plan import Preparation
from windlass.kubeapi import requests
from windlass.kubeapi.errors import ConflictError, ForbiddenError, NotFoundError
from windlass.kubeapi.resources import SECRETS, SERVICES, Resource
from windlass.model import names
from windlass.model.base import Json
from windlass.model.companions import Companion, password_source
from windlass.render.companions import servers
from windlass.render.companions.resolved import ALL_USERS, Settled
from windlass.render.manifest_parts import Part
from windlass.render.storage.nfs_shares import Share

Tell = Callable[[str], None]

_NOT_ALWAYS_WANTED = [
    kind
    for kind in owned_objects.DELETED_KINDS
    if kind.name in ("Secret", "ConfigMap") or kind in owned_objects.RBAC_KINDS
]


async def settled(connection: Connection, preparation: Preparation, owner: str, tell: Tell) -> Settled:
    """What was planned, with what the cluster has. `owner` is the uid of a Framework that is there.

    Raises NotThereError, and what `Connection.send` raises.
    """
    job, made = preparation.job, preparation.settled
    for companion, wanted in job.companions.items():
        if chosen := password_source(wanted).secret:
            await _insist_on(connection, chosen, companion)
    for companion in made.hashes:
        found = await _look(connection, SECRETS, servers.name_of(job.name, companion))
        if found is not None and found.goes_on(owner):
            # It takes a while, as it should.
            made = await asyncio.to_thread(resolution.kept, companion, made, preparation.given, found.body)
    if job.tensorboard is None:
        return made
    service = await _service(connection, job.name, job.tensorboard.name, tell)
    return msgspec.structs.replace(made, tensorboard_service=service)


def bodies(
    preparation: Preparation, companion: Companion, share: Share | None, settled: Settled
) -> list[Json]:
    """In the order in which they are made: a pod whose password is there starts at once."""
    pieces = preparation.pieces(share, settled)
    found = [piece.body for piece in pieces if piece.part is Part(str(companion))]
    return sorted(found, key=lambda body: bool(body["kind"] != "Secret"))


def report(
    preparation: Preparation,
    companion: Companion,
    made: Sequence[Object],
    settled: Settled,
    tell: Tell,
    show: Tell,
) -> None:
    """What there is to tell once it is there. A password that was made up is shown here and nowhere else."""
    is_new = all(each.is_new for each in made if each.body["kind"] == "Deployment")
    tell(f"{companion} is {'started' if is_new else 'there already, and is brought up to date'}")
    shown, planned = (each.shown.get(companion, {}) for each in (settled, preparation.settled))
    for user, password in shown.items():
        whose = "the password" if user == ALL_USERS else f"the password of {user}"
        show(f"{companion}: {resolution.shown_once(whose, password)}")
    if len(shown) < len(planned):
        rest = "its password is that of before" if not shown else "the others have their passwords of before"
        user = " USER" if companion is Companion.HUB else ""
        other = f"`windlass {companion} {preparation.job.name} --new-password{user}` makes another one"
        tell(f"{companion}: {rest}: {other}")


async def _service(connection: Connection, job: str, asked: str, tell: Tell) -> str:
    """The name of TensorBoard's: one that another job has, or anybody else, stays theirs."""
    own = servers.labels_of(job, Companion.TENSORBOARD)
    chosen, found = asked, await _look(connection, SERVICES, asked)
    labels = {} if found is None else found.body["metadata"].get("labels") or {}
    if found is not None and not own.items() <= labels.items():
        chosen = servers.name_of(job, Companion.TENSORBOARD)
    if chosen != asked:
        other = labels.get(names.JOB_LABEL, "")
        whose = f"that of the job {other}" if other else "not Windlass's"
        tell(f"tensorboard: the Service {asked} is {whose}: its own is called {chosen}")
    # One that had another name would lead to the same TensorBoard.
    selector = companion_status.selector(job, Companion.TENSORBOARD)
    await _remove_all_but(connection, SERVICES, selector, {chosen})
    return chosen


async def remove_the_rest(
    connection: Connection, job: str, companion: Companion, made: Sequence[Object]
) -> None:
    """What an earlier job file has asked for, and this one does not: passwords, and rights."""
    if all(each.is_new for each in made):
        return
    selector = companion_status.selector(job, companion)
    for kind in _NOT_ALWAYS_WANTED:
        wanted = {each.name for each in made if each.body["kind"] == kind.name}
        await _remove_all_but(connection, kind.resource, selector, wanted)


async def _remove_all_but(
    connection: Connection, resource: Resource, selector: str, wanted: Collection[str]
) -> None:
    """Whoever may not see them has made none."""
    try:
        listed = await lookup.list_objects(connection, resource, connection.namespace, selector)
    except (ForbiddenError, NotFoundError):
        return
    for each in listed:
        found: Json = msgspec.json.decode(each)["metadata"]
        if found["name"] in wanted:
            continue
        with contextlib.suppress(NotFoundError, ConflictError):  # it is gone already
            await connection.send(
                requests.delete(resource, connection.namespace, found["name"], uid=found["uid"])
            )


async def _insist_on(connection: Connection, secret: str, companion: Companion) -> None:
    try:
        found = await _look(connection, SECRETS, secret)
    except ForbiddenError:
        return  # nobody need be allowed to read it
    if found is None:
        raise NotThereError(
            f"{companion}.passwordFrom: there is no Secret {secret} in the namespace {connection.namespace}: create "
            "it, or leave passwordFrom out: then a password is made up and shown once"
        )


async def _look(connection: Connection, resource: Resource, name: str) -> Object | None:
    try:
        answer = await connection.send(requests.get(resource, connection.namespace, name))
    except NotFoundError:
        return None
    return Object(msgspec.json.decode(answer), is_new=False)
