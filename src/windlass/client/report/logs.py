"""Read the logs for a report: of the failed attempts of tasks, or of all attempts, one after the other."""

import asyncio
import contextlib
import itertools
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping

import msgspec

from windlass.client import tasks
from windlass.client.connection import EMBEDDED, Connection
from windlass.client.history import AttemptOfTasks, JobHistory
from windlass.client.logs import earlier, reader
from windlass.client.logs.container_log import LogOptions, Source
from windlass.client.logs.lines import Line
from windlass.client.pods import Pod
from windlass.client.report import contents
from windlass.client.report.contents import Log, Report
from windlass.kubeapi.errors import ForbiddenError
from windlass.model import names, verdict
from windlass.model.status import EndedTaskAttempt

_CONCURRENT = 16
"""Number of logs that are requested at the same time. The lines of all but the first of them wait for the network."""
_LAST_LINES_NOTE = (
    "the pod is deleted and the cluster keeps no logs of deleted pods: these are its last lines"
)


class OpenLog(msgspec.Struct):
    """A log whose lines are being read."""

    log: Log
    """The log without its lines."""
    batches: AsyncGenerator[list[Line], None]
    """The lines after `first`."""
    notes: list[str]
    """Why the log is incomplete, which is known after the last batch."""
    first: list[Line] = []

    async def lines(self) -> AsyncIterator[list[Line]]:
        if self.first:
            yield self.first
            async for batch in self.batches:
                yield batch


async def read(
    connection: Connection, job: JobHistory, report: Report, *, of_all_attempts: bool
) -> AsyncIterator[OpenLog]:
    """Yield the logs of the failed attempts of tasks, or of all attempts, in the order of the attempts. Raises the
    errors of `Connection.send`."""
    pods = {}
    if not job.is_deleted:
        with contextlib.suppress(ForbiddenError):
            pods = {pod.uid: pod for pod in await tasks.list_pods(connection, job.framework)}
    opened = _open(
        connection, job, pods, is_embedded=EMBEDDED in report.cluster, of_all_attempts=of_all_attempts
    )
    while group := list(itertools.islice(opened, _CONCURRENT)):
        async with contextlib.AsyncExitStack() as exit_stack:
            for each in group:
                await exit_stack.enter_async_context(contextlib.aclosing(each.batches))
            firsts = await asyncio.gather(*(anext(each.batches, []) for each in group))
            for each, first in zip(group, firsts, strict=True):
                each.first = first
                yield each


def _open(
    connection: Connection,
    job: JobHistory,
    pods: Mapping[str, Pod],
    *,
    is_embedded: bool,
    of_all_attempts: bool,
) -> Iterator[OpenLog]:
    for attempt in job.task_attempts:
        for ended in attempt.tasks:
            if not (of_all_attempts or contents.is_failed(ended)):
                continue
            log = Log(
                task=names.host_name(ended.role, ended.index),
                job_attempt=attempt.number,
                attempt=ended.attempt.id,
                container="",
            )
            sources = _sources(attempt, ended, pods, is_embedded=is_embedded)
            for source in sources or ():
                notes: list[str] = []
                lines = reader.read_one(connection, source, LogOptions(), notes.append, is_only=False)
                yield OpenLog(msgspec.structs.replace(log, container=source.container), lines, notes)
            kept = list(earlier.last_lines([ended], LogOptions(), attempt.record)) if sources is None else []
            if kept:
                log = msgspec.structs.replace(log, container=kept[0].container)
                yield OpenLog(log, _one_batch(kept), [_LAST_LINES_NOTE])


def _sources(
    attempt: AttemptOfTasks, ended: EndedTaskAttempt, pods: Mapping[str, Pod], *, is_embedded: bool
) -> list[Source] | None:
    """Return the logs of all containers and of a failed init container; None if the cluster has deleted them."""
    completion = ended.attempt.completion_status
    failed = None if completion is None else verdict.failed_container(completion)
    sources: dict[str, Source] = {}
    for container in ("",) if failed is None else (failed.name, ""):
        options = LogOptions(container=container)
        found = earlier.sources_of(attempt.framework, ended, pods, options, is_embedded=is_embedded)
        if found is None:
            return None
        sources |= {each.container: each for each in found}
    return list(sources.values())


async def _one_batch(lines: list[Line]) -> AsyncGenerator[list[Line], None]:
    yield lines
