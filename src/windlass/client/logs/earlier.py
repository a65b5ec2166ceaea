"""Read the logs of earlier attempts: from pods that exist, from the embedded cluster by the UID of a deleted pod, or
the last lines of failed containers that the status has kept."""

import contextlib
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence

import msgspec

from windlass.client import history, tasks
from windlass.client.connection import Connection
from windlass.client.errors import InvalidJobError, ObjectNotFoundError
from windlass.client.history import AttemptOfTasks, JobHistory
from windlass.client.logs import container_log, reader
from windlass.client.logs.container_log import LogOptions, Note, Source, ignore_note
from windlass.client.logs.lines import Line
from windlass.client.pods import Container, Pod, PodSpec, Task
from windlass.client.tasks import TaskSelector
from windlass.k8s.metadata import ObjectMeta
from windlass.model import names
from windlass.model.framework import Framework
from windlass.model.history import AttemptRecord
from windlass.model.status import EndedTaskAttempt, TaskAttemptStatus

ALL_ATTEMPTS = -1
"""Stands for all attempts of the job."""


async def read_batches(
    connection: Connection,
    job: JobHistory,
    attempt: int,
    selector: TaskSelector,
    options: LogOptions,
    note: Note,
) -> AsyncGenerator[list[Line], None]:
    """Yield the log lines of one attempt of the job, or of all attempts in their order. The lines of retried tasks are
    included. Raises ObjectNotFoundError, and the errors of `Connection.send`."""
    tasks.require_tasks(job.framework, selector)
    selected = [each for each in job.task_attempts if attempt in (ALL_ATTEMPTS, each.number)]
    if not selected:
        known = ", ".join(str(each.number) for each in job.task_attempts)
        raise ObjectNotFoundError(
            f"there is no attempt {attempt} of {job.framework.name}: recorded attempts: {known or 'none'}"
        )
    is_embedded = await connection.is_embedded()
    existing = [] if job.is_deleted else await tasks.list_pods(connection, job.framework, selector)
    is_any_shown = False
    pods = {pod.uid: pod for pod in existing}
    for each in selected:
        ended = [task for task in each.tasks if selector.matches(Task(task.role, task.index))]
        of_tasks = msgspec.structs.replace(each, tasks=tuple(ended))
        batches = _read_attempt(connection, of_tasks, pods, options, note, is_embedded=is_embedded)
        async with contextlib.aclosing(batches):
            async for batch in batches:
                is_any_shown = True
                yield batch
    if not is_any_shown:
        note(f"there are no logs of {selector if selector.role else job.framework.name}")


async def read_by_name(
    connection: Connection, name: str, task: str, attempt: int | str, options: LogOptions
) -> AsyncGenerator[Line, None]:
    """Yield the lines of `read_batches` one by one. `attempt` is a number or "all".

    Raises InvalidJobError for an invalid name, task or attempt.
    """
    try:
        job, selector = tasks.parse_selector(name, task)
        number = ALL_ATTEMPTS if attempt == "all" else int(attempt)
    except ValueError as error:
        raise InvalidJobError(str(error)) from error
    found = await history.find(connection, job)
    batches = read_batches(connection, found, number, selector, options, ignore_note)
    async with contextlib.aclosing(batches):
        async for batch in batches:
            for line in batch:
                yield line


async def _read_attempt(
    connection: Connection,
    attempt: AttemptOfTasks,
    pods: Mapping[str, Pod],
    options: LogOptions,
    note: Note,
    *,
    is_embedded: bool,
) -> AsyncGenerator[list[Line], None]:
    sources: list[Source] = []
    lost: list[EndedTaskAttempt] = []
    for each in attempt.tasks:
        found = sources_of(attempt.framework, each, pods, options, is_embedded=is_embedded)
        if found is None:
            lost.append(each)
        else:
            sources += found
    for begin in range(0, len(sources), reader.MAX_MERGED):
        merged = sources[begin : begin + reader.MAX_MERGED]
        batches = reader.merge_by_time(connection, merged, options, note, is_only=False)
        async with contextlib.aclosing(batches):
            async for batch in batches:
                yield batch
    if lost:
        note(
            f"the pods of attempt {attempt.number} of {attempt.framework.name} are deleted, and this cluster keeps no "
            "logs of deleted pods: only the last lines of failed containers are shown"
        )
        if lines := list(last_lines(lost, options, attempt.record)):
            yield lines


def sources_of(
    framework: Framework,
    ended: EndedTaskAttempt,
    pods: Mapping[str, Pod],
    options: LogOptions,
    *,
    is_embedded: bool,
) -> list[Source] | None:
    """Return the logs of an attempt of a task, none if it had no pod; None if its pod is deleted and the cluster keeps
    no logs of deleted pods. `pods` are the existing ones by UID."""
    if ended.attempt.pod_uid is None:
        return []
    pod = pods.get(ended.attempt.pod_uid)
    if pod is not None:
        return [each for each in container_log.sources_of(pod, options) if reader.has_log(each, options)]
    if not is_embedded:
        return None
    found = container_log.sources_of(
        deleted_pod(framework, Task(ended.role, ended.index), ended.attempt), options
    )
    return [msgspec.structs.replace(each, is_deleted=True) for each in found]


def deleted_pod(framework: Framework, task: Task, attempt: TaskAttemptStatus) -> Pod:
    """Return the pod of an ended attempt, as far as its logs need it."""
    role = framework.spec.role(task.role)
    spec = {} if role is None else role.task.pod.get("spec") or {}
    containers, init_containers = (
        tuple(Container(name=each.get("name", "")) for each in spec.get(key) or ())
        for key in ("containers", "initContainers")
    )
    metadata = ObjectMeta(
        name=attempt.pod_name,
        namespace=framework.namespace,
        uid=attempt.pod_uid or "",
        labels={
            names.FRAMEWORK_NAME: framework.name,
            names.TASKROLE_NAME: task.role,
            names.TASK_INDEX: str(task.index),
        },
        annotations={names.TASK_ATTEMPT_ID: str(attempt.id)},
    )
    return Pod(metadata, PodSpec(containers=containers, init_containers=init_containers))


def last_lines(
    ended: Sequence[EndedTaskAttempt], options: LogOptions, record: AttemptRecord | None
) -> Iterator[Line]:
    """Yield the last lines of failed containers: from the record if it has their logs, otherwise their termination
    messages."""
    for each in ended:
        completion = each.attempt.completion_status
        pod = None if completion is None else completion.pod
        task = names.host_name(each.role, each.index)
        for container in () if pod is None else pod.containers:
            key = each.role, each.index, each.attempt.id, container.name
            known = (record.log_of(*key) if record is not None else "") or container.message
            if known and options.container in ("", container.name):
                texts = known.rstrip("\n").split("\n")
                for text in texts if options.tail is None else texts[len(texts) - options.tail :]:
                    yield Line(task, container.name, each.attempt.id, text.encode(), "", True, task)
