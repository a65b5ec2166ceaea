"""Read the logs of earlier attempts: from pods that exist, from the embedded cluster by the UID of a deleted pod, or
the last lines of failed containers that the status has kept."""

import contextlib
from collections.abc import AsyncGenerator, Iterator, Sequence

import msgspec

from windlass.client import history, tasks
from windlass.client.connection import Connection
from windlass.client.errors import InvalidJobError, ObjectNotFoundError
from windlass.client.history import JobHistory
from windlass.client.logs import container_log, reader
from windlass.client.logs.container_log import LogOptions, Note, Source, ignore_note
from windlass.client.logs.lines import Line
from windlass.client.pods import Container, Pod, PodSpec, Task
from windlass.client.tasks import TaskSelector
from windlass.k8s.metadata import ObjectMeta
from windlass.model import names
from windlass.model.framework import Framework
from windlass.model.status import EndedTaskAttempt

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
    selected = [each for each in attempts_of(job) if attempt in (ALL_ATTEMPTS, each[0])]
    if not selected:
        known = ", ".join(str(number) for number, _, _ in attempts_of(job))
        raise ObjectNotFoundError(
            f"there is no attempt {attempt} of {job.framework.name}: recorded attempts: {known or 'none'}"
        )
    is_embedded = await connection.is_embedded()
    existing = [] if job.is_deleted else await tasks.list_pods(connection, job.framework, selector)
    is_any_shown = False
    for number, framework, ended in selected:
        attempts = [each for each in ended if selector.matches(Task(each.role, each.index))]
        batches = _read_attempt(
            connection, number, framework, attempts, existing, options, note, is_embedded=is_embedded
        )
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


def attempts_of(job: JobHistory) -> list[tuple[int, Framework, tuple[EndedTaskAttempt, ...]]]:
    """Return the attempts of the job: the recorded ones, and the current one."""
    found = [(each.spec.attempt, each.framework, tuple(each.task_attempts())) for each in job.records]
    status = job.framework.status
    if status is not None and all(number != status.attempt_status.id for number, _, _ in found):
        current = tuple(
            EndedTaskAttempt(role=role.name, index=task.index, attempt=task.attempt_status)
            for role in status.attempt_status.roles
            for task in role.task_statuses
        )
        found.append((status.attempt_status.id, job.framework, (*status.earlier_attempts, *current)))
    return found


async def _read_attempt(
    connection: Connection,
    number: int,
    framework: Framework,
    ended: Sequence[EndedTaskAttempt],
    existing: Sequence[Pod],
    options: LogOptions,
    note: Note,
    *,
    is_embedded: bool,
) -> AsyncGenerator[list[Line], None]:
    pods = {pod.uid: pod for pod in existing}
    sources: list[Source] = []
    lost: list[EndedTaskAttempt] = []
    for each in ended:
        if each.attempt.pod_uid is None:
            continue
        pod = pods.get(each.attempt.pod_uid)
        if pod is not None:
            found = container_log.sources_of(pod, options)
            sources += [source for source in found if reader.has_log(source, options)]
        elif is_embedded:
            deleted = _deleted_pod(framework, each)
            sources += [
                msgspec.structs.replace(source, is_deleted=True)
                for source in container_log.sources_of(deleted, options)
            ]
        else:
            lost.append(each)
    for begin in range(0, len(sources), reader.MAX_MERGED):
        merged = sources[begin : begin + reader.MAX_MERGED]
        batches = reader.merge_by_time(connection, merged, options, note, is_only=False)
        async with contextlib.aclosing(batches):
            async for batch in batches:
                yield batch
    if lost:
        note(
            f"the pods of attempt {number} of {framework.name} are deleted, and this cluster keeps no logs of deleted "
            "pods: only the last lines of failed containers are shown"
        )
        if lines := list(_last_lines(lost, options)):
            yield lines


def _deleted_pod(framework: Framework, ended: EndedTaskAttempt) -> Pod:
    """Return the pod of an ended attempt, as far as its logs need it."""
    role = framework.spec.role(ended.role)
    spec = {} if role is None else role.task.pod.get("spec") or {}
    containers, init_containers = (
        tuple(Container(name=each.get("name", "")) for each in spec.get(key) or ())
        for key in ("containers", "initContainers")
    )
    metadata = ObjectMeta(
        name=ended.attempt.pod_name,
        namespace=framework.namespace,
        uid=ended.attempt.pod_uid or "",
        labels={
            names.FRAMEWORK_NAME: framework.name,
            names.TASKROLE_NAME: ended.role,
            names.TASK_INDEX: str(ended.index),
        },
        annotations={names.TASK_ATTEMPT_ID: str(ended.attempt.id)},
    )
    return Pod(metadata, PodSpec(containers=containers, init_containers=init_containers))


def _last_lines(ended: Sequence[EndedTaskAttempt], options: LogOptions) -> Iterator[Line]:
    for each in ended:
        completion = each.attempt.completion_status
        pod = None if completion is None else completion.pod
        task = names.host_name(each.role, each.index)
        for container in () if pod is None else pod.containers:
            if container.message and options.container in ("", container.name):
                texts = container.message.rstrip("\n").split("\n")
                for text in texts if options.tail is None else texts[len(texts) - options.tail :]:
                    yield Line(task, container.name, each.attempt.id, text.encode(), "", True, task)
