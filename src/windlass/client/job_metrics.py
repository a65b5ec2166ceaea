"""The usage of a job's tasks and the values in their logs over time, collected in memory while somebody looks."""

import asyncio
import contextlib
import math
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from datetime import datetime

import msgspec

from windlass.client import history, lifecycle, tasks, usage
from windlass.client.connection import Connection
from windlass.client.errors import ClientError
from windlass.client.history import JobHistory
from windlass.client.logs import earlier, reader
from windlass.client.logs.container_log import LogOptions, ignore_note
from windlass.client.logs.lines import Line
from windlass.client.tasks import TaskSelector
from windlass.client.usage import Usage
from windlass.kubeapi.errors import ApiError
from windlass.model.framework import Framework
from windlass.wire import progress

POLL_SECONDS = 5.0
RETRY_SECONDS = 10.0
MAX_TASKS = 64
"""Number of tasks up to which each has its own usage. For more, it is the mean of each role."""
MAX_LOGS = 8
"""Number of tasks whose logs are read for values: the first of each role, then further ones of the first role."""
MAX_KEPT = 2_000
"""Number of points that a series keeps."""
MAX_SERIES = 200
PROGRESS = "progress"

Point = tuple[int, float]
"""Milliseconds since 1970, and the value."""


class Series:
    """Points in order of time. If there are too many, neighbours are merged, and later ones are merged as they come."""

    def __init__(self) -> None:
        self.points: list[Point] = []
        self._merged = 1
        """Number of added points that become one."""
        self._pending: list[Point] = []

    def add(self, time: int, value: float) -> None:
        if not math.isfinite(value):
            return
        self._pending.append((time, value))
        if len(self._pending) >= self._merged:
            self.points.append(_mean(self._pending))
            self._pending = []
        if len(self.points) >= MAX_KEPT:
            self.points = downsampled(self.points, MAX_KEPT // 2)
            self._merged *= 2

    def latest(self, maximum: int) -> list[Point]:
        """Return at most `maximum` points, the last one exactly."""
        points = [*self.points, *self._pending]
        return points if len(points) <= maximum else [*downsampled(points[:-1], maximum - 1), points[-1]]


def downsampled(points: Sequence[Point], maximum: int) -> list[Point]:
    """Return at most `maximum` points, each the mean of as many neighbours."""
    size = -(-len(points) // maximum) if maximum else 0
    return [_mean(points[at : at + size]) for at in range(0, len(points), size)] if size > 1 else list(points)


def _mean(points: Sequence[Point]) -> Point:
    return points[-1][0], sum(value for _, value in points) / len(points)


class JobMetrics:
    """Collects the metrics of one job while `run` runs. `now` returns seconds since 1970."""

    def __init__(self, connection: Connection, name: str, now: Callable[[], float]) -> None:
        self._connection = connection
        self._name = name
        self._now = now
        self.usage: dict[tuple[str, str], Series] = {}
        """By task, or role, and metric: cpu (cores), memory (bytes), gpu (GPUs)."""
        self.values: dict[tuple[str, str], Series] = {}
        """By task and name."""
        self.problem = ""
        """Why there is no usage."""
        self.tasks = 0
        """Number of tasks of the job."""
        self.first_poll = asyncio.Event()

    async def run(self) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._poll_usage())
                group.create_task(self._read_values())
        finally:
            self.first_poll.set()

    # Usage

    async def _poll_usage(self) -> None:
        while True:
            try:
                found = await history.find(self._connection, self._name)
                self.tasks = sum(found.view.roles.values())
                if found.is_deleted or lifecycle.is_completed(found.framework):
                    self.problem = "the job has ended: usage is collected only while it runs"
                    self.first_poll.set()
                    return
                selector = tasks.pod_selector(found.framework)
                self._add_usage(found.framework, await usage.read(self._connection, selector))
                self.problem = ""
            except (ApiError, ClientError) as error:
                self.problem = str(self._connection.to_client_error(error))
            self.first_poll.set()
            await asyncio.sleep(POLL_SECONDS)

    def _add_usage(self, framework: Framework, used: Mapping[str, Usage]) -> None:
        statuses = tasks.statuses(framework)
        is_large = len(statuses) > MAX_TASKS
        by_label: dict[str, list[Usage]] = {}
        for task, status in statuses:
            if (each := used.get(status.attempt_status.pod_name)) is not None:
                by_label.setdefault(task.role if is_large else str(task), []).append(each)
        now = int(self._now() * 1000)
        for label, found in by_label.items():
            self._add(self.usage, label, "cpu", now, sum(each.cpu for each in found) / len(found))
            self._add(self.usage, label, "memory", now, sum(each.memory for each in found) / len(found))
            gpus = [each.gpus for each in found if each.gpus is not None]
            if gpus:
                self._add(self.usage, label, "gpu", now, sum(gpus) / len(gpus))

    # Values

    async def _read_values(self) -> None:
        """Read the logs of a few tasks. After an error, they are read again from their beginning."""
        while True:
            with contextlib.suppress(ApiError, ClientError):
                found = await history.find(self._connection, self._name)
                self.values.clear()
                async with contextlib.aclosing(self._batches(found)) as batches:
                    async for batch in batches:
                        for line in batch:
                            self._add_line(line)
                if found.is_deleted or lifecycle.is_completed(found.framework):
                    return
            await asyncio.sleep(RETRY_SECONDS)

    def _batches(self, found: JobHistory) -> AsyncGenerator[list[Line], None]:
        selector, framework = _selector(found.framework), found.framework
        options = LogOptions(follow=True, has_timestamps=True)
        if not found.is_deleted and not lifecycle.is_completed(framework):
            return reader.read_batches(self._connection, framework, selector, options)
        number = framework.status.attempt_status.id if framework.status is not None else 0
        options = msgspec.structs.replace(options, follow=False)
        return earlier.read_batches(self._connection, found, number, selector, options, ignore_note)

    def _add_line(self, line: Line) -> None:
        if not line.data.startswith(b"windlass progress ") and not progress.is_result(line.data):
            return
        text = line.text
        time = _milliseconds(line.time)
        found = progress.parse_line(text)
        if found is not None:
            if found.fraction is not None:
                self._add(self.values, line.task, PROGRESS, time, found.fraction)
            for name, value in found.values.items():
                with contextlib.suppress(ValueError):
                    self._add(self.values, line.task, name, time, float(value))
        for name, result in progress.parse_result(text).items():
            if isinstance(result, int | float) and not isinstance(result, bool):
                self._add(self.values, line.task, name, time, float(result))

    def _add(
        self, found: dict[tuple[str, str], Series], task: str, name: str, time: int, value: float
    ) -> None:
        if (task, name) not in found and len(found) >= MAX_SERIES:
            return
        found.setdefault((task, name), Series()).add(time, value)


def _selector(framework: Framework) -> TaskSelector:
    roles = [role for role in framework.spec.task_roles if role.task_number]
    chosen = [TaskSelector(role.name, 0) for role in roles][:MAX_LOGS]
    if roles:
        others = range(1, min(roles[0].task_number, MAX_LOGS))
        chosen += [TaskSelector(roles[0].name, index) for index in others][: MAX_LOGS - len(chosen)]
    return TaskSelector(chosen[0].role, 0, tuple(chosen[1:])) if chosen else TaskSelector()


def _milliseconds(time: str) -> int:
    try:
        return int(datetime.fromisoformat(time).timestamp() * 1000)
    except ValueError:
        return 0
