"""Viewers: everything that is cached belongs to one identity, and is read with its credentials."""

import asyncio
import contextlib
import hashlib
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from enum import StrEnum
from typing import Any, TypeVar

import msgspec

from windlass.client import access_review, connection, history, progress
from windlass.client.connection import Connection
from windlass.client.job_metrics import JobMetrics
from windlass.client.job_watch import JobWatch, Key
from windlass.client.views import JobState
from windlass.web import problems, rows
from windlass.web.schema import JobRow, Permissions, Progress

PERMISSION_SECONDS = 30.0
"""How long the answer of an access review is used. The API server checks every request anyway."""
RECHECK_SECONDS = 15.0
"""How long watches and streams continue after a review, so that those of withdrawn permissions end."""
IDLE_SECONDS = 60.0
"""How long watches continue after their last use."""
METRICS_SECONDS = 120.0
"""How long metrics are collected, and kept, after the last request for them."""
PROGRESS_SECONDS = 10.0
MAX_STREAMS = 60
"""Number of open streams, downloads and searches of a viewer."""
MAX_SEARCHES = 4
"""Number of searches of a viewer at a time. Further ones wait."""
MAX_WATCHES = 20
"""Number of watched namespaces of a viewer."""
MAX_METRICS = 20
"""Number of jobs of a viewer whose metrics are collected."""
MAX_ANSWERS = 1_000
MAX_THREADS = 2
"""Number of files of all viewers that are checked, and simulated, at a time."""
MAX_LOGINS = 10
"""Number of unknown tokens that the API server checks at a time."""
MAX_PROGRESS_JOBS = 50
MAX_PROGRESS_REQUESTS = 5
_REPORTING_ROLES = ("chief", "master", "worker")
"""Roles whose first task reports the progress of a job."""
_ALL = ""

T = TypeVar("T")


class Work(StrEnum):
    """Work that takes long and is not a request."""

    CHECK = "check"
    SIMULATE = "simulate"


Threads = dict[Work, asyncio.Semaphore]


class Viewer:
    """One identity. `now` is a monotonic clock."""

    def __init__(self, user: str, opened: Connection, now: Callable[[], float], threads: Threads) -> None:
        self.user = user
        self.connection = opened
        self.used_at = now()
        self._now = now
        self.searches = asyncio.Semaphore(MAX_SEARCHES)
        self._threads = threads
        self._turns = {kind: asyncio.Lock() for kind in Work}
        self._streams = 0
        self._answers: dict[tuple[object, ...], tuple[float, Any]] = {}
        self._watches: dict[str, _RunningWatch] = {}
        self._changing_watches = asyncio.Lock()
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
            self._answers.pop(key, None)
            while len(self._answers) >= MAX_ANSWERS:
                del self._answers[next(iter(self._answers))]
            self._answers[key] = found
        value: T = found[1]
        return value

    async def may(self, verb: str, namespace: str = "") -> bool:
        """Return whether the viewer may do this to jobs of a namespace, or of all namespaces."""
        return await self.cached(
            ("may", verb, namespace),
            lambda: access_review.may_use_jobs(self.connection, verb, namespace),
        )

    async def may_read_logs(self, namespace: str) -> bool:
        return await self.cached(
            ("logs", namespace),
            lambda: access_review.may_read_logs(self.connection, namespace),
            RECHECK_SECONDS,
        )

    async def permissions(self, namespace: str) -> Permissions:
        patch, delete, create, logs = await asyncio.gather(
            self.may("patch", namespace),
            self.may("delete", namespace),
            self.may("create", namespace),
            self.may_read_logs(namespace),
        )
        return Permissions(
            stop=patch, suspend=patch, resume=patch, delete=delete, run_again=create, logs=logs
        )

    @contextlib.contextmanager
    def stream(self) -> Iterator[None]:
        """Count an open stream, download or search. Raises ProblemError if there are too many."""
        if self._streams >= MAX_STREAMS:
            raise problems.ProblemError(
                429, "too-many-streams", f"{MAX_STREAMS} streams are open already. Close other tabs."
            )
        self._streams += 1
        try:
            yield
        finally:
            self._streams -= 1
            self.used_at = self._now()

    async def in_thread(self, kind: Work, work: Callable[[], T]) -> T:
        """Run work in a thread: one of its kind for this viewer. A thread whose request was cancelled counts until it
        ends."""
        turn = self._turns[kind]
        await turn.acquire()
        try:
            await self._threads[kind].acquire()
        except BaseException:
            turn.release()
            raise
        running = asyncio.ensure_future(asyncio.to_thread(work))

        def release(done: "asyncio.Future[T]") -> None:
            self._threads[kind].release()
            turn.release()
            if not done.cancelled():
                done.exception()

        running.add_done_callback(release)
        return await asyncio.shield(running)

    async def jobs(self, namespace: str) -> JobWatch[JobRow]:
        """Return the jobs of a namespace, or of all namespaces for `*`, when they are listed. Raises ApiError.

        A watch of a viewer who may not list the jobs any more ends. A new one then fails as the API server decides.
        """
        scope = _ALL if namespace == "*" else namespace
        may_list = scope not in self._watches or await self.cached(
            ("list", scope), lambda: access_review.may_list_jobs(self.connection, scope), RECHECK_SECONDS
        )
        async with self._changing_watches:
            running = self._watches.get(scope)
            if running is not None and (running.work.done() or not may_list):
                await self._watches.pop(scope).end()
                running = None
            if running is None:
                await self._make_room_for_watch()
                watch = JobWatch(self.at(scope), rows.of_job, in_all_namespaces=scope == _ALL)
                running = self._watches[scope] = _RunningWatch(watch, self._read_progress(watch))
            running.used_at = self._now()
        await running.watch.ready()
        return running.watch

    async def _make_room_for_watch(self) -> None:
        """End the watch that was unused for the longest time if there are too many. Raises ProblemError."""
        if len(self._watches) < MAX_WATCHES:
            return
        unused = [scope for scope, each in self._watches.items() if not each.watch.has_readers]
        if not unused:
            raise problems.ProblemError(
                429, "too-many-streams", f"{MAX_WATCHES} namespaces are open already. Close other tabs."
            )
        await self._watches.pop(min(unused, key=lambda scope: self._watches[scope].used_at)).end()

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
            self._forget_progress(watch, {(row.namespace, row.name) for row in running})
            latest = running[-MAX_PROGRESS_JOBS:]
            changed = await asyncio.gather(*map(read, latest))
            watch.notify(set().union(*changed))
            await asyncio.sleep(PROGRESS_SECONDS)

    def _forget_progress(self, watch: JobWatch[JobRow], running: set[Key]) -> None:
        """Forget the progress of jobs that do not run, and that no other watch contains."""
        others = [each.watch for each in self._watches.values() if each.watch is not watch]
        for key in self._progress.keys() - running:
            if not any(
                (row := each.get(key)) is not None and row.state == JobState.RUNNING for each in others
            ):
                del self._progress[key]

    async def metrics(self, namespace: str, name: str) -> JobMetrics:
        """Return the metrics of a job, which are collected from now on while they are asked for. Raises ClientError."""
        key = namespace, name
        may_get = key not in self._metrics or await self.cached(
            ("get", namespace), lambda: self._may_get_jobs(namespace), RECHECK_SECONDS
        )
        if not may_get and key in self._metrics:
            await self._metrics.pop(key).end()
        if key not in self._metrics:
            connection_there = self.at(namespace)
            await history.find(connection_there, name)
            if key not in self._metrics:  # another request may have started them meanwhile
                self._metrics[key] = _RunningMetrics(JobMetrics(connection_there, name, time.time))
        running = self._metrics[key]
        running.used_at = self._now()
        while len(self._metrics) > MAX_METRICS:
            oldest = min(self._metrics, key=lambda each: self._metrics[each].used_at)
            await self._metrics.pop(oldest).end()
        return running.metrics

    async def _may_get_jobs(self, namespace: str) -> bool:
        return await access_review.may_use_jobs(self.connection, "get", namespace)

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
        return bool(self._watches) or self._streams > 0 or self._now() < self.used_at + IDLE_SECONDS

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
        self._threads = {kind: asyncio.Semaphore(MAX_THREADS) for kind in Work}
        self._logins = asyncio.Semaphore(MAX_LOGINS)
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
        async with self._logins, contextlib.AsyncExitStack() as stack:
            opened = self._base
            if token is not None:
                access = self._base.access.with_token(token)
                opened = await stack.enter_async_context(connection.connected_with(access))
            user = await access_review.user_name(opened)
            if token is not None and (own := _own_namespace(user)):
                opened = opened.at(own)
            viewer = Viewer(user, opened, self._now, self._threads)
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

    async def drop(self, viewer: Viewer) -> None:
        """Close a viewer whose credentials the cluster rejects, with all that was read with them."""
        for identity in [key for key, each in self._viewers.items() if each is viewer]:
            await self._close(identity)

    async def close(self) -> None:
        for identity in list(self._viewers):
            await self._close(identity)

    async def _close(self, identity: str) -> None:
        del self._viewers[identity]
        await self._exits.pop(identity).aclose()


def _own_namespace(user: str) -> str:
    """Return the namespace of a service account; empty for other users."""
    parts = user.split(":")
    return parts[2] if parts[:2] == ["system", "serviceaccount"] and len(parts) == 4 else ""
