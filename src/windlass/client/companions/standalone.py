"""The companions of jobs without the jobs: what stands beside these in the file, their storage, and no Framework.

A job that is there already has them as its own. One that is submitted later finds them, and they go on.
"""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence

import msgspec

from windlass.client import embedded, lookup
from windlass.client.connection import Connection
from windlass.client.errors import FaultyJobError
from windlass.client.prerequisites import apply as prerequisites_apply
from windlass.client.prerequisites import plan as prerequisites_plan
from windlass.client.prerequisites.objects import Object
from windlass.client.prerequisites.plan import Preparation
from windlass.client.submit import extra_manifests
from windlass.client.submit import submission as submit_submission
from windlass.client.submit.sources import Source
from windlass.model.base import Json
from windlass.model.companions import companion_from_labels
from windlass.model.framework import Framework

Tell = Callable[[str], None]


class Plan(msgspec.Struct, frozen=True):
    """What is planned of one file."""

    preparations: tuple[Preparation, ...]
    others: tuple[Json, ...] = ()
    """Created before."""
    shown: Mapping[str, str] = {}
    """Passwords of notebooks among these that were made up."""

    @property
    def objects(self) -> tuple[Json, ...]:
        """All that is created, in that order."""
        return (*self.others, *(body for each in self.preparations for body in each.objects))


class Started(msgspec.Struct, frozen=True):
    """The companions of one job."""

    job: str
    namespace: str
    servers: tuple[Object, ...]
    """Their Deployments."""


async def start(connection: Connection, source: Source, tell: Tell = lambda _: None) -> tuple[Started, ...]:
    """Raises ClientError."""
    planned = await plan(connection, source)
    return tuple([started async for started in carry_out(connection, (planned,), tell)])


async def plan(connection: Connection, source: Source) -> Plan:
    """Nothing is changed. Raises ClientError."""
    contents = source.contents
    made = []
    for submission in contents.submissions:
        job = submission.job
        if job is None or not job.companions:
            continue
        here = connection.at(submission.namespace)
        is_embedded = await embedded.is_embedded(here)
        submit_submission.insist_on_image(submission, here, is_embedded=is_embedded)
        made.append(
            prerequisites_plan.planned(
                job, here.namespace, source.folder, is_one_machine=is_embedded, companions_only=True
            )
        )
    if not made and not any(map(_is_companion, contents.others)):
        raise FaultyJobError(prerequisites_plan.no_companions())
    return Plan(tuple(each for each in made if each is not None), contents.others, contents.shown)


async def carry_out(connection: Connection, plans: Sequence[Plan], tell: Tell) -> AsyncIterator[Started]:
    """Those of one job after the other. Raises ClientError."""
    with connection.explaining():
        for planned in plans:
            async for line in extra_manifests.create_all(connection, planned.others, planned.shown):
                tell(line)
            for each in planned.preparations:
                yield await _start(connection.at(each.job.namespace), each, tell)


async def _start(connection: Connection, preparation: Preparation, tell: Tell) -> Started:
    name = preparation.job.name
    job = await _job_of(connection, name)
    ready = prerequisites_apply.prepared(
        connection,
        preparation,
        lambda line: tell(f"{name}: {line}"),
        owner=job.uid if job is not None else "",
    )
    async with ready as prepared:
        if job is not None:
            await prepared.give_to(job)
    return Started(name, connection.namespace, prepared.servers)


async def _job_of(connection: Connection, name: str) -> Framework | None:
    """The one whose companions they are, if it is there."""
    for found in await lookup.find_all(connection, name):
        if isinstance(found, Framework) and found.metadata.deletion_timestamp is None:
            return found
    return None


def _is_companion(body: Json) -> bool:
    return companion_from_labels(body["metadata"].get("labels")) is not None
