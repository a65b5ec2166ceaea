"""Viewers: everything that is cached belongs to one identity, and is read with its credentials."""

import asyncio
import contextlib
import hashlib
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

import msgspec

from windlass.client import access_review, connection, history, progress
from windlass.client.connection import Connection
from windlass.client.job_metrics import JobMetrics
from windlass.client.job_watch import JobWatch, Key
from windlass.client.views import JobState
from windlass.web import rows
from windlass.web.schema import JobRow, Permissions, Progress

PERMISSION_SECONDS = 30.0
"""How long the answer of an access review is used. The API server checks every request anyway."""
IDLE_SECONDS = 60.0
"""How long watches continue after their last use."""
METRICS_SECONDS = 120.0
"""How long metrics are collected, and kept, after the last request for them."""
PROGRESS_SECONDS = 10.0
MAX_PROGRESS_JOBS = 50
MAX_PROGRESS_REQUESTS = 5
_REPORTING_ROLES = ("chief", "master", "worker")
"""Roles whose first task reports the progress of a job."""
_ALL = ""

T = TypeVar("T")


class Viewer:
    """One identity. `now` is a monotonic clock."""

    def __init__(self, user: str, opened: Connection, now: Callable[[], float]) -> None:
        self.user = user
        self.connection = opened
        self.used_at = now()
        self._now = now
        self._answers: dict[tuple[object, ...], tuple[float, Any]] = {}
        self._watches: dict[str, _RunningWatch] = {}
        self._metrics: dict[Key, _RunningMetrics] = {}
        self._progress: dict[Key, Progress] = {}

    def at(self, namespace: str) -> Connection:
        return self.connection.at(namespace)

    async def cached(
        self, key: tuple[object, ...], read: Callable[[], Awaitable[T]], seconds: float = PERMISSION_SECONDS
    ) -> T:
        """Return a value that was read at most `seconds` ago."""
        found = self._answers.get(key)
        if found is None or self._now() >= found[0] + seconds:
            found = self._now(), await read()
            self._answers[key] = found
        value: T = found[1]
        return value

    async def may(self, verb: str, namespace: str = "") -> bool:
        """Return whether the viewer may do this to jobs of a namespace, or of all namespaces."""
        return await self.cached(
            ("may", verb, namespace),
            lambda: access_review.may_use_jobs(self.connection, verb, namespace),
        )

    async def permissions(self, namespace: str) -> Permissions:
        patch, delete, create, logs = await asyncio.gather(
            self.may("patch", namespace),
            self.may("delete", namespace),
            self.may("create", namespace),
            self.cached(("logs", namespace), lambda: access_review.may_read_logs(self.connection, namespace)),
        )
        return Permissions(
            stop=patch, suspend=patch, resume=patch, delete=delete, run_again=create, logs=logs
        )

    async def jobs(self, namespace: str) -> JobWatch[JobRow]:
        """Return the jobs of a namespace, or of all namespaces for `*`, when they are listed. Raises ApiError."""
        scope = _ALL if namespace == "*" else namespace
        running = self._watches.get(scope)
        if running is None or running.work.done():
            watch = JobWatch(self.at(scope), rows.of_job, in_all_namespaces=scope == _ALL)
            running = self._watches[scope] = _RunningWatch(watch, self._read_progress(watch))
        running.used_at = self._now()
        await running.watch.ready()
        return running.watch

    def with_progress(self, row: JobRow) -> JobRow:
        found = self._progress.get((row.namespace, row.name))
        if found is None or row.state != JobState.RUNNING:
            return row
        return msgspec.structs.replace(row, progress=found)

    async def _read_progress(self, watch: JobWatch[JobRow]) -> None:
        """Read the progress of the latest running jobs again and again."""
        await watch.ready()
        slots = asyncio.Semaphore(MAX_PROGRESS_REQUESTS)

        async def read(row: JobRow) -> set[Key]:
            key = row.namespace, row.name
            running = [role.name for role in row.roles if role.running]
            role = next((each for each in _REPORTING_ROLES if each in running), next(iter(running), ""))
            async with slots:
                read = progress.read_latest(self.at(row.namespace), row.name, role) if role else None
                found = await read if read is not None else None
            shown = Progress(value=found.fraction, text=progress.describe(found)) if found else None
            if shown is None or shown == self._progress.get(key):
                return set()
            self._progress[key] = shown
            return {key}

        while True:
            found = [row for key in watch.all_keys() if (row := watch.get(key)) is not None]
            running = sorted(
                (row for row in found if row.state == JobState.RUNNING), key=lambda row: row.created or ""
            )
            for row in found:
                if row.state != JobState.RUNNING:
                    self._progress.pop((row.namespace, row.name), None)
            latest = running[-MAX_PROGRESS_JOBS:]
            changed = await asyncio.gather(*map(read, latest))
            watch.notify(set().union(*changed))
            await asyncio.sleep(PROGRESS_SECONDS)

    async def metrics(self, namespace: str, name: str) -> JobMetrics:
        """Return the metrics of a job, which are collected from now on while they are asked for. Raises ClientError."""
        key = namespace, name
        if key not in self._metrics:
            connection_there = self.at(namespace)
            await history.find(connection_there, name)
            metrics = JobMetrics(connection_there, name, time.time)
            self._metrics.setdefault(key, _RunningMetrics(metrics))
        running = self._metrics[key]
        running.used_at = self._now()
        return running.metrics

    async def end_idle(self) -> None:
        """End watches that nobody reads, and metrics that nobody asks for."""
        for key, running in list(self._metrics.items()):
            if self._now() >= running.used_at + METRICS_SECONDS:
                del self._metrics[key]
                await running.end()
        for scope, each in list(self._watches.items()):
            if each.watch.has_readers:
                each.used_at = self._now()
            elif self._now() >= each.used_at + IDLE_SECONDS:
                del self._watches[scope]
                await each.end()
        cutoff = self._now() - IDLE_SECONDS
        self._answers = {key: found for key, found in self._answers.items() if found[0] > cutoff}

    @property
    def is_used(self) -> bool:
        return bool(self._watches) or self._now() < self.used_at + IDLE_SECONDS

    async def close(self) -> None:
        for each in (*self._watches.values(), *self._metrics.values()):
            await each.end()
        self._watches.clear()
        self._metrics.clear()


class _Running:
    """Work in the background. Its error, if any, is reported by the object that works."""

    def __init__(self, work: Coroutine[Any, Any, None]) -> None:
        self.work = asyncio.create_task(work)
        self.work.add_done_callback(lambda work: work.cancelled() or work.exception())
        self.used_at = 0.0

    async def end(self) -> None:
        self.work.cancel()
        await asyncio.gather(self.work, return_exceptions=True)


class _RunningWatch(_Running):
    def __init__(self, watch: JobWatch[JobRow], reading: Coroutine[Any, Any, None]) -> None:
        super().__init__(watch.run())
        self.watch = watch
        self._progress = _Running(reading)

    async def end(self) -> None:
        await self._progress.end()
        await super().end()


class _RunningMetrics(_Running):
    def __init__(self, metrics: JobMetrics) -> None:
        super().__init__(metrics.run())
        self.metrics = metrics


class Viewers:
    """The viewers of one cluster. `base` has the address of the cluster and the credentials of this process."""

    def __init__(self, base: Connection, now: Callable[[], float]) -> None:
        self._base = base
        self._now = now
        self._viewers: dict[str, Viewer] = {}
        self._exits: dict[str, contextlib.AsyncExitStack] = {}

    async def of_process(self) -> str:
        """Return the identity of the credentials of this process."""
        await self._open("process", None)
        return "process"

    async def of_token(self, token: str) -> str:
        """Return the identity of a token that the API server accepts. Raises UnauthorizedError and ClientError."""
        # The token itself is only in the connection.
        identity = hashlib.sha256(token.encode()).hexdigest()
        await self._open(identity, token)
        return identity

    def find(self, identity: str) -> Viewer | None:
        found = self._viewers.get(identity)
        if found is not None:
            found.used_at = self._now()
        return found

    async def _open(self, identity: str, token: str | None) -> None:
        if identity in self._viewers:
            return
        async with contextlib.AsyncExitStack() as stack:
            opened = self._base
            if token is not None:
                access = self._base.access.with_token(token)
                opened = await stack.enter_async_context(connection.connected_with(access))
            viewer = Viewer(await access_review.user_name(opened), opened, self._now)
            stack.push_async_callback(viewer.close)
            if identity not in self._viewers:  # another request may have opened it meanwhile
                self._viewers[identity] = viewer
                self._exits[identity] = stack.pop_all()

    async def end_idle(self, identities: set[str]) -> None:
        """Close viewers that are not used and are not among these identities, which have sessions."""
        for identity, viewer in list(self._viewers.items()):
            await viewer.end_idle()
            if identity not in identities and not viewer.is_used:
                await self._close(identity)

    async def close(self) -> None:
        for identity in list(self._viewers):
            await self._close(identity)

    async def _close(self, identity: str) -> None:
        del self._viewers[identity]
        await self._exits.pop(identity).aclose()
