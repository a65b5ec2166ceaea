"""From what a file holds to jobs on a cluster. First a plan, which needs only questions; then it is carried out.

A dry run stops between the two.
"""

import asyncio
import base64
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping, Sequence

import msgspec

from windlass.client import delete, embedded, lifecycle, lookup, views
from windlass.client.connection import Connection
from windlass.client.errors import AlreadyThereError, ClientError, FaultyJobError, NotThereError, RefusedError
from windlass.client.prerequisites import apply as prerequisites_apply
from windlass.client.prerequisites import plan as prerequisites_plan
from windlass.client.prerequisites.plan import PREFLIGHT_SECONDS, Preparation
from windlass.client.submit import code_archive, extra_manifests, kinds, sources
from windlass.client.submit.code_archive import Archive
from windlass.client.submit.sources import Source
from windlass.kubeapi import requests
from windlass.kubeapi.errors import AlreadyExistsError, AnsweredError, ApiError, NotFoundError
from windlass.kubeapi.resources import CONFIG_MAPS, frameworks
from windlass.model import names
from windlass.model.base import Json
from windlass.model.framework import ExecutionType, Framework
from windlass.model.pods import ConfigMapView
from windlass.render import manifest
from windlass.render.code import ARCHIVE, Code, Packed, config_map_name
from windlass.render.documents import Submission
from windlass.render.manifest import Manifest
from windlass.render.storage.nfs_shares import Share
from windlass.wire import codec
from windlass.wire.codec import Unreadable

REPLACING_SECONDS = 300.0
"""For so long a finished job may take to go before another one takes its name."""

_ATTEMPTS = 5

Tell = Callable[[str], None]


class PlannedJob(Manifest, frozen=True):
    """Its Framework is as it is created: one whose code travels is held until that is there."""

    archive: Archive | None = None
    replaced: tuple[Framework | Unreadable, ...] = ()
    """Finished ones of the same name, which go before."""
    preparation: Preparation | None = None
    """What has to be there before the Framework."""
    code: Code | None = None

    @property
    def has_placeholder(self) -> bool:
        """Its NFS server has no address yet: there is the name of its Service in place of it."""
        preparation = self.preparation
        return (
            preparation is not None and preparation.job.nfs_server is not None and preparation.share is None
        )

    def with_share(self, share: Share | None) -> "PlannedJob":
        """When it is known where its NFS server is."""
        preparation = self.preparation
        if preparation is None or share == preparation.share:
            return self
        submission, is_held = Submission(job=preparation.job), self.archive is not None
        rendered = _framework(submission, self.code, share, self.namespace, is_held=is_held)
        return msgspec.structs.replace(self, framework=rendered)

    def config_map(self, owner_uid: str = "") -> Json | None:
        """The code, as the cluster is given it. It goes when the Framework does."""
        if self.archive is None:
            return None
        owner = {
            "apiVersion": self.framework["apiVersion"],
            "kind": names.KIND,
            "name": self.name,
            "uid": owner_uid,
            "controller": False,
            "blockOwnerDeletion": False,
        }
        metadata = {"name": config_map_name(self.name), "namespace": self.namespace}
        return {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {**metadata, "ownerReferences": [owner]} if owner_uid else metadata,
            "binaryData": {ARCHIVE: base64.b64encode(self.archive.data).decode()},
        }


class Plan(msgspec.Struct, frozen=True):
    jobs: tuple[PlannedJob, ...]
    others: tuple[Json, ...] = ()
    """Created before the jobs."""
    shown: Mapping[str, str] = {}
    """Passwords of notebooks among these that were made up."""

    @property
    def objects(self) -> tuple[Json, ...]:
        """All that is created, in that order."""
        made: list[Json] = []
        for job in self.jobs:
            made += job.preparation.objects if job.preparation is not None else ()
            made += [each for each in (job.framework, job.config_map()) if each is not None]
        return (*self.others, *made)


async def submit(
    connection: Connection,
    source: Source,
    *,
    is_rerun: bool = False,
    preflight_seconds: float | None = PREFLIGHT_SECONDS,
    tell: Tell = lambda _: None,
) -> tuple[Framework, ...]:
    """Every job of it. `preflight_seconds` may be None: then nobody looks for its files. Raises ClientError."""
    planned = await plan(connection, source, is_rerun=is_rerun, preflight_seconds=preflight_seconds)
    return tuple([created async for created in carry_out(connection, planned, tell)])


# The plan


async def plan(
    connection: Connection,
    source: Source,
    *,
    is_rerun: bool = False,
    preflight_seconds: float | None = PREFLIGHT_SECONDS,
) -> Plan:
    """Nothing is changed. Raises ClientError for all that can be known to go wrong."""
    (planned,) = await plans(connection, (source,), is_rerun=is_rerun, preflight_seconds=preflight_seconds)
    return planned


async def plans(
    connection: Connection,
    given: Sequence[Source],
    *,
    is_rerun: bool = False,
    preflight_seconds: float | None = PREFLIGHT_SECONDS,
) -> tuple[Plan, ...]:
    """The same of several, which are to be submitted one after the other."""
    planned = tuple(
        [await _plan(connection, source, preflight_seconds, is_rerun=is_rerun) for source in given]
    )
    jobs = [job for each in planned for job in each.jobs]
    again = manifest.twice(jobs)
    if again is not None:
        raise FaultyJobError(
            f"there are two jobs {again.name} for the namespace {again.namespace}: give one of them another name"
        )
    for api_version in {job.framework["apiVersion"] for job in jobs}:
        if not await kinds.is_served(connection.send, api_version):
            raise lookup.not_installed_error(connection)
    return planned


async def _plan(
    connection: Connection, source: Source, preflight_seconds: float | None, *, is_rerun: bool
) -> Plan:
    jobs = []
    for submission in source.contents.submissions:
        here = connection.at(submission.namespace)
        found = await lookup.find_all(here, submission.name)
        for each in found:
            insist_on_room(each, here.namespace, is_rerun=is_rerun)
        planned = await _planned(here, submission, source, preflight_seconds)
        jobs.append(msgspec.structs.replace(planned, replaced=found))
    return Plan(tuple(jobs), source.contents.others, source.contents.shown)


async def _planned(
    connection: Connection, submission: Submission, source: Source, preflight_seconds: float | None
) -> PlannedJob:
    job = submission.job
    is_prepared_otherwise = job is not None and prerequisites_plan.depends_on_the_machine(job)
    depends_on_it = submission.image_is_missing or submission.code or is_prepared_otherwise
    is_embedded = bool(depends_on_it and await embedded.is_embedded(connection))
    insist_on_image(submission, connection, is_embedded=is_embedded)
    path = source.code_of(submission)
    archive = code_archive.pack(path) if path is not None and not is_embedded else None
    travels: Code | None = Packed(config_map_name(submission.name)) if archive is not None else None
    if path is not None and is_embedded:
        travels = sources.in_place(path)
    preparation = None
    if job is not None:
        preparation = prerequisites_plan.planned(
            job,
            connection.namespace,
            source.folder,
            is_one_machine=is_embedded,
            preflight_seconds=preflight_seconds,
        )
    share = preparation.share if preparation is not None else None
    framework = _framework(submission, travels, share, connection.namespace, is_held=archive is not None)
    return PlannedJob(framework, archive, preparation=preparation, code=travels)


def _framework(
    submission: Submission, travels: Code | None, share: Share | None, namespace: str, *, is_held: bool
) -> Json:
    framework = manifest.in_namespace(submission.framework(travels, share), namespace)
    if not is_held:
        return framework
    return {**framework, "spec": {**framework["spec"], "executionType": ExecutionType.CREATE.value}}


def insist_on_room(found: Framework | Unreadable, namespace: str, *, is_rerun: bool) -> None:
    """Raises AlreadyThereError when a job of that name may not be replaced."""
    view = views.job_view(found)
    is_going = found.metadata.deletion_timestamp is not None
    if is_rerun and (is_going or view.is_completed):
        return
    where = f"there is a job {view.name} in the namespace {namespace} already"
    if is_going:
        raise AlreadyThereError(
            f"{where}, and it is being deleted. `windlass wait --for deleted {view.name}` waits for that."
        )
    if view.is_completed:
        raise AlreadyThereError(
            f"{where}: it has finished ({view.state}). --rerun (in Python: rerun=True) runs it again; "
            "its status and its pods go then."
        )
    raise AlreadyThereError(
        f"{where}: it is {view.state}. Wait for its end (`windlass wait {view.name}`), stop it "
        f"(`windlass stop {view.name}`), or give the new one another name."
    )


def insist_on_image(submission: Submission, connection: Connection, *, is_embedded: bool) -> None:
    """Raises FaultyJobError."""
    if submission.image_is_missing and not is_embedded:
        raise FaultyJobError(
            f"the job {submission.name} has no image, and {connection.where} is no cluster of Windlass's own, "
            "which alone needs none: write one into the job file, such as `image: python:3.12`"
        )


# How it is carried out


async def carry_out(connection: Connection, planned: Plan, tell: Tell) -> AsyncIterator[Framework]:
    """Each job as it was created. Raises ClientError."""
    with connection.explaining():
        async for line in extra_manifests.create_all(connection, planned.others, planned.shown):
            tell(line)
        for job in planned.jobs:
            here = connection.at(job.namespace)
            for old in job.replaced:
                tell(f"{job.name}: the one that was there goes first")
                await delete.delete_framework(here, old)
                await delete.wait_for_framework_deletion(here, old, REPLACING_SECONDS)
            yield await _prepare_and_start(here, job, tell)


async def _prepare_and_start(connection: Connection, job: PlannedJob, tell: Tell) -> Framework:
    """The Framework comes last: where something of what it needs cannot be had, there is none."""
    if job.preparation is None:
        return await _start(connection, job, tell)
    ready = prerequisites_apply.prepared(
        connection, job.preparation, lambda line: tell(f"{job.name}: {line}")
    )
    async with ready as prepared:
        created = await _start(connection, job.with_share(prepared.share), tell)
    await prepared.give_to(created)
    return created


async def _start(connection: Connection, job: PlannedJob, tell: Tell) -> Framework:
    created = await _create(connection, job)
    return created if job.archive is None else await _start_with_code(connection, job, created, tell)


async def _create(connection: Connection, job: PlannedJob) -> Framework:
    body = msgspec.json.encode(job.framework)
    request = requests.create(frameworks(job.group), job.namespace, body, lifecycle.FIELD_MANAGER)
    try:
        return codec.decode_framework(await connection.send(request))
    except AlreadyExistsError as error:
        raise AlreadyThereError(
            f"somebody has submitted a job {job.name} in the namespace {job.namespace} just now"
        ) from error
    except NotFoundError as error:
        raise NotThereError(
            f"{connection.where} does not take the job {job.name}: {error.failure.message}. "
            "A namespace is not made by submitting to it: choose one that is there, or create it first."
        ) from error


async def _start_with_code(
    connection: Connection, job: PlannedJob, created: Framework, tell: Tell
) -> Framework:
    """A Framework whose code cannot be had never starts, and does not stay."""
    try:
        await _bring_code(connection, job, created)
        tell(f"{job.name}: code: {job.archive}")
        return await lifecycle.patch_spec(connection, created, {"executionType": ExecutionType.START})
    except AnsweredError as error:
        await _take_back(connection, created)
        raise RefusedError(
            f"the code of {job.name} cannot be brought to {connection.where}, and the job is taken back: "
            f"{error.failure.message}"
        ) from error
    except (ClientError, asyncio.CancelledError):
        await asyncio.shield(_take_back(connection, created))
        raise


async def _take_back(connection: Connection, created: Framework) -> None:
    """As well as it goes: what is told is why."""
    with contextlib.suppress(ClientError, ApiError):
        await delete.delete_framework(connection, created)


async def _bring_code(connection: Connection, job: PlannedJob, created: Framework) -> None:
    body = msgspec.json.encode(job.config_map(created.uid))
    request = requests.create(CONFIG_MAPS, job.namespace, body, lifecycle.FIELD_MANAGER)
    for _ in range(_ATTEMPTS):
        try:
            await connection.send(request)
            return
        except AlreadyExistsError:
            await _remove_old_code(connection, job)
    raise ClientError(f"somebody else keeps writing the ConfigMap {config_map_name(job.name)}. Submit again.")


async def _remove_old_code(connection: Connection, job: PlannedJob) -> None:
    """That of a Framework of this name that is gone: the garbage collector may be slower than we are."""
    name = config_map_name(job.name)
    try:
        answer = await connection.send(requests.get(CONFIG_MAPS, job.namespace, name))
        found: ConfigMapView = codec.decode_config_map(answer)
        owners = found.metadata.owner_references
        if not any(owner.kind == names.KIND and owner.name == job.name for owner in owners):
            raise RefusedError(
                f"the ConfigMap {name} of the namespace {job.namespace} is not Windlass's, and it has the name that "
                f"the code of {job.name} needs: rename one of them"
            )
        await connection.send(requests.delete(CONFIG_MAPS, job.namespace, name, uid=found.uid))
    except (NotFoundError, AlreadyExistsError):
        return
