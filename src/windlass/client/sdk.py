"""The Python SDK: `AsyncClient`, whose methods call the functions of this package.

`Client`, the same without `await`, is in `blocking`.
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from windlass.client import delete, env, events, history, jobs, lifecycle, lookup, scale, tasks, views, wait
from windlass.client.companions import status as companion_status
from windlass.client.companions.status import CompanionView
from windlass.client.connection import Connection, connected
from windlass.client.errors import InvalidJobError
from windlass.client.events import Event
from windlass.client.explain import explanation
from windlass.client.explain.explanation import Explanation
from windlass.client.history import AttemptView
from windlass.client.logs import earlier, reader
from windlass.client.logs.container_log import LogOptions
from windlass.client.logs.lines import Line
from windlass.client.prerequisites.plan import PREFLIGHT_SECONDS
from windlass.client.report import writing
from windlass.client.submit import sources, submission
from windlass.client.submit.apply import AppliedJob
from windlass.client.submit.plan import SubmitOptions
from windlass.client.submit.sources import JobInput, Source
from windlass.client.upload import items as upload_items
from windlass.client.upload import pod_target, shares, transfer
from windlass.client.upload.transfer import Uploaded
from windlass.client.views import JobView
from windlass.client.wait import Until
from windlass.model.framework import Framework
from windlass.wire import progress
from windlass.wire.codec import InvalidFramework
from windlass.wire.progress import Value

Paths = str | Path | Sequence[str | Path]
ProgressCallback = Callable[[str], None]
"""Function that receives each progress message."""
RESULT_LINES = 200
"""Number of last lines in which the result line of a task is searched."""


def _ignore(_: str) -> None:
    return


class AsyncJob(JobView, frozen=True, kw_only=True, dict=True):
    """A job as an AsyncClient returned it. Its methods call the client."""

    @classmethod
    def of(cls, view: JobView, client: "AsyncClient") -> Self:
        job = cls(**{field: getattr(view, field) for field in view.__struct_fields__})
        # Not a field, so that it is neither compared nor encoded.
        job.__dict__["client"] = in_namespace(client, view.namespace)
        return job

    @property
    def _client(self) -> "AsyncClient":
        client: AsyncClient = self.__dict__["client"]
        return client

    async def wait(self, until: str = "completed", timeout: float | None = None) -> "AsyncJob":
        """Wait for the job, and return its new state: see `AsyncClient.wait`."""
        return await self._client.wait(self.name, until, timeout)

    def logs(
        self, task: str = "", *, follow: bool = False, tail: int | None = None
    ) -> AsyncGenerator[Line, None]:
        """Yield its log lines: see `AsyncClient.logs`."""
        return self._client.logs(self.name, task, follow=follow, tail=tail)

    async def why(self) -> Explanation:
        """Explain its state: see `AsyncClient.why`."""
        return await self._client.why(self.name)

    async def report(self, path: str | Path, *, logs: bool = False) -> None:
        """Write a report about it to a file: see `AsyncClient.report`."""
        await self._client.report(self.name, path, logs=logs)

    async def result(self, task: str = "") -> dict[str, Value]:
        """Return the values of its result line: see `AsyncClient.result`."""
        return await self._client.result(self.name, task)


class AsyncClient:
    """Client for the jobs of one namespace of a cluster, which is selected by kubeconfig and context as with kubectl.

    It connects when it is first used. Methods raise `windlass.ClientError`. The examples of the methods are written for
    `Client`; with this class, calls are awaited, and the results of `watch` and `logs` are iterated with `async for`.

        async with AsyncClient() as client:
            await client.submit("job.yaml")
            done = await client.wait("digits")
    """

    def __init__(self, kubeconfig: str | Path = "", context: str = "", namespace: str = "") -> None:
        self._cluster = (str(kubeconfig), context, namespace)
        self._exit_stack = contextlib.AsyncExitStack()
        self._connection: Connection | None = None
        self._others: dict[str, AsyncClient] = {}
        """Clients for other namespaces."""
        self._connect_lock = asyncio.Lock()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        await self._exit_stack.aclose()
        self._connection = None
        self._others.clear()

    # Changes

    async def submit(
        self,
        job: JobInput,
        *,
        rerun: bool = False,
        folder: str | Path | None = None,
        preflight: bool = True,
        on_progress: ProgressCallback = _ignore,
    ) -> AsyncJob:
        """Submit a job: a `Job`, the path of a job file or Framework, or a mapping with the contents of such a file.

        Relative paths, e.g. `code`, are resolved in `folder` (default: the folder of the file or, without a file, the
        current directory). With `rerun`, a finished job of the same name is replaced; a running one is not.
        Prerequisites are created first: data is loaded and, unless `preflight` is False, required files are checked.
        `on_progress` receives all progress messages, including a generated password of a companion, which is shown only
        once. Pass `print` to print them.

            >>> client.submit(Job(name="digits", command="python train.py", roles={"worker": Role(tasks=2)})).name
            'digits'
        """
        source = await asyncio.to_thread(sources.read, job, folder)
        if len(source.contents.submissions) > 1:
            raise InvalidJobError("the file has several jobs: submit each of them separately")
        options = SubmitOptions(is_rerun=rerun, preflight_seconds=PREFLIGHT_SECONDS if preflight else None)
        async with self._connected() as connection:
            applied = await _submit(connection, source, options, on_progress)
        return self._job(*(each.framework for each in applied if each.framework is not None))

    async def start_companions(
        self, job: JobInput, *, folder: str | Path | None = None, on_progress: ProgressCallback = _ignore
    ) -> tuple[CompanionView, ...]:
        """Start the TensorBoard, Jupyter or hub of a job, whether or not the job exists. The companions keep running
        when the job is submitted.

        `on_progress` receives a generated password, which is shown only once.

            >>> job = {"name": "digits", "image": "python:3.12", "command": "python train.py", "tensorboard": {}}
            >>> job |= {"roles": {"worker": {}}, "volumes": {"out": {"pvc": "results", "at": "/output"}}}
            >>> [each.open_command for each in client.start_companions(job)]
            ['windlass tensorboard digits']
        """
        source = await asyncio.to_thread(sources.read, job, folder)
        async with self._connected() as connection:
            started = await _submit(connection, source, SubmitOptions(companions_only=True), on_progress)
            return tuple(
                [
                    view
                    for each in started
                    for view in await companion_status.read(connection.at(each.job.namespace), each.job.name)
                ]
            )

    async def scale(self, name: str, /, **roles: int) -> AsyncJob:
        """Change the number of tasks of roles. The completion policy is adjusted in the same request.

        >>> client.scale("digits", worker=4).roles
        {'worker': 4}
        """
        async with self._connected() as connection:
            return self._job((await scale.scale(connection, name, roles)).framework)

    async def suspend(self, name: str) -> AsyncJob:
        """Suspend a job: delete its pods, keep the job.

        >>> client.suspend("digits").name
        'digits'
        """
        async with self._connected() as connection:
            return self._job((await lifecycle.suspend(connection, name)).framework)

    async def resume(self, name: str) -> AsyncJob:
        """Resume a suspended job with a new attempt.

        >>> client.resume("digits").name
        'digits'
        """
        async with self._connected() as connection:
            return self._job((await lifecycle.resume(connection, name)).framework)

    async def stop(self, name: str) -> AsyncJob:
        """Stop a job permanently. Its pods are deleted with their grace period.

        >>> client.stop("digits").name
        'digits'
        >>> client.wait("digits").state
        <JobState.STOPPED: 'Stopped'>
        """
        async with self._connected() as connection:
            return self._job((await lifecycle.stop(connection, name)).framework)

    async def delete(
        self, name: str, *, wait: bool = True, timeout: float | None = None, keep_companions: bool = False
    ) -> None:
        """Delete a job and its objects, except its storage and its NFS server.

        Unless `wait` is False, return when they are deleted. With `keep_companions`, its companions are kept.

            >>> client.delete("digits")
        """
        async with self._connected() as connection:
            deletion = await delete.request_deletion(connection, name, keep_companions=keep_companions)
            if wait:
                await delete.wait_for_deletion(connection, deletion, timeout)

    async def upload(
        self, project: str, *, share: str, code: Paths = (), data: Paths = (), timeout: float | None = 300
    ) -> Uploaded:
        """Upload files or the contents of folders to a share: code to src/PROJECT, data to data/PROJECT.

        `share` has the syntax of `windlass upload`. Files with the same checksum are skipped; interrupted uploads are
        resumed.

            >>> import tempfile
            >>> with tempfile.TemporaryDirectory() as share:
            ...     client.upload("digits", code=tempfile.__file__, share=share).sent
            1
        """
        try:
            target = shares.parse(share)
        except ValueError as error:
            raise InvalidJobError(str(error)) from error
        if name_error := shares.project_name_error(project):
            raise InvalidJobError(name_error)
        paths = transfer.project_sources(project, _paths(code), _paths(data))
        items = await asyncio.to_thread(upload_items.gather, paths)
        if isinstance(target, shares.LocalShare):
            return await transfer.to_folder(target, items)
        async with self._connected() as connection:
            return await pod_target.upload(connection, target, items, job=project, timeout=timeout)

    # Queries

    async def get(self, name: str) -> AsyncJob:
        """Return a job.

        >>> client.get("digits").total
        2
        """
        async with self._connected() as connection:
            return self._job(await jobs.find(connection, name))

    async def list(self, *, all_namespaces: bool = False) -> tuple[AsyncJob, ...]:
        """Return all jobs of the namespace, or of all namespaces.

        >>> [job.name for job in client.list()]
        ['digits']
        """
        async with self._connected() as connection:
            found = await jobs.list_jobs(connection, in_all_namespaces=all_namespaces)
        return tuple(map(self._job, found))

    async def companions(self, name: str) -> tuple[CompanionView, ...]:
        """Return the TensorBoard, Jupyter and hub of a job with their URLs, even if the job was deleted.

        >>> [each.companion.value for each in client.companions("digits")]
        ['tensorboard']
        """
        async with self._connected() as connection:
            found = await companion_status.read(connection, name)
            if not found:
                await lookup.find(connection, name)
            return found

    async def env(self, name: str, task: str = "worker-0") -> dict[str, str]:
        """Return the environment variables that describe a task and its peers, as `windlass env` prints them.

        >>> client.env("digits", "worker-1")["FC_TASK_INDEX"]
        '1'
        """
        try:
            job, parsed_task = tasks.parse_task(f"{name}/{task}")
        except ValueError as error:
            raise InvalidJobError(str(error)) from error
        async with self._connected() as connection:
            return await env.read(connection, job, parsed_task)

    async def wait(self, name: str, until: str = "completed", timeout: float | None = None) -> AsyncJob:
        """Return the job as soon as it is "completed", "running" or "deleted".

        "running" means that every task has run in its current attempt, or that the job has succeeded.

        A completed job that failed does not raise an exception: see `has_succeeded`, `code` and `reason`. Raises
        TimedOutError after `timeout` seconds, ObjectNotFoundError if there is no such job, and ObjectDeletedError if it
        is deleted first. With "running", a job that ends without success before all of its tasks have run raises
        CompletedError, whose `code` is the completion code.

            >>> client.wait("digits", until="running").running
            2
        """
        if until not in list(Until):
            raise InvalidJobError(f"until: found {until!r}, expected completed, running or deleted")
        async with self._connected() as connection:
            return AsyncJob.of(await wait.wait(connection, name, Until(until), timeout), self)

    async def watch(self, name: str) -> AsyncGenerator[AsyncJob, None]:
        """Yield the job now and after each change, until it is completed or deleted.

        >>> for job in client.watch("digits"):
        ...     if job.running == 2:
        ...         break
        """
        async with self._connected() as connection:
            framework = await jobs.find(connection, name)
            async with contextlib.aclosing(wait.watch_job(connection, framework)) as changes:
                async for view in changes:
                    if view is None:
                        return
                    yield AsyncJob.of(view, self)
                    if view.is_completed:
                        return

    async def logs(
        self,
        name: str,
        task: str = "",
        *,
        follow: bool = False,
        previous: bool = False,
        attempt: int | str | None = None,
        since: float | None = None,
        tail: int | None = None,
        container: str = "",
    ) -> AsyncGenerator[Line, None]:
        """Yield the log lines of all tasks, of one role, or of one task, e.g. "worker-0".

        The lines of several tasks are merged by time or, with `follow`, yielded as they arrive. `attempt` is the number
        of an attempt of the job, or "all": also of a deleted job that has records.

            >>> sorted({line.task for line in client.logs("digits")})
            ['worker-0', 'worker-1']
        """
        options = LogOptions(
            follow=follow, previous=previous, since_seconds=since, tail=tail, container=container
        )
        async with self._connected() as connection:
            lines = (
                reader.read_by_name(connection, name, task, options)
                if attempt is None
                else earlier.read_by_name(connection, name, task, attempt, options)
            )
            async with contextlib.aclosing(lines):
                async for line in lines:
                    yield line

    async def events(self, name: str) -> tuple[Event, ...]:
        """Return the events of a job and its pods, oldest first; of a deleted job, also those in its records.

        >>> isinstance(client.events("digits"), tuple)
        True
        """
        async with self._connected() as connection:
            found = await history.find(connection, name)
            return tuple(history.with_recorded(await events.read(connection, found.framework), found.records))

    async def history(self, name: str) -> tuple[AttemptView, ...]:
        """Return the attempts of a job, oldest first: the recorded ones, also of a deleted job, and the current one.

        >>> [attempt.attempt for attempt in client.history("digits")]
        [0]
        """
        async with self._connected() as connection:
            return (await history.find(connection, name)).attempts

    async def why(self, name: str) -> Explanation:
        """Explain the state of a job: which task failed first, how, and what the retry policy decided.

        >>> client.why("digits").state
        <JobState.RUNNING: 'Running'>
        """
        async with self._connected() as connection:
            return await explanation.read(connection, name)

    async def report(self, name: str, path: str | Path, *, logs: bool = False) -> None:
        """Write a report about a job, even if it was deleted, as `windlass report` does: JSON or Markdown to a file
        whose name ends with .json or .md, HTML to another one. With `logs`, it has the logs of all attempts.

            >>> import tempfile
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     client.report("digits", f"{folder}/report.html")
        """
        async with self._connected() as connection:
            with Path(path).open("wb") as file:
                report_format = writing.format_of(Path(path))
                await writing.write(connection, name, file.write, report_format, has_all_logs=logs)

    async def result(self, name: str, task: str = "") -> dict[str, Value]:
        """Return the values of the last result line of a job, e.g. of `result: accuracy=0.97 loss=0.1`, or of
        `result:` with a JSON object. Empty if there is none.

        Without `task`, it is the line of the first task that has one: chief-0, then worker-0, then the others.

            >>> client.result("digits")
            {}
        """
        async with self._connected() as connection:
            framework = await jobs.find(connection, name)
            order = {"chief-0": 0, "worker-0": 1}
            names = (
                [task] if task else sorted(tasks.task_names(framework), key=lambda each: order.get(each, 2))
            )
            options = LogOptions(tail=RESULT_LINES)
            for each in names:
                found: dict[str, Value] = {}
                async with contextlib.aclosing(reader.read_by_name(connection, name, each, options)) as lines:
                    async for line in lines:
                        found = progress.parse_result(line.text) or found
                if found:
                    return found
        return {}

    def _in_namespace(self, namespace: str) -> "AsyncClient":
        """Return a client for another namespace, which is closed with this one."""
        if self._connection is None or namespace in ("", self._connection.namespace):
            return self
        if namespace not in self._others:
            self._others[namespace] = AsyncClient(*self._cluster[:2], namespace)
            self._exit_stack.push_async_callback(self._others[namespace].close)
        return self._others[namespace]

    def _job(self, framework: Framework | InvalidFramework) -> AsyncJob:
        return AsyncJob.of(views.job_view(framework), self)

    @contextlib.asynccontextmanager
    async def _connected(self) -> AsyncIterator[Connection]:
        """Connect at the first use, and convert API errors of the block to ClientError."""
        async with self._connect_lock:
            if self._connection is None:
                self._connection = await self._exit_stack.enter_async_context(connected(*self._cluster))
        with self._connection.converting_errors():
            yield self._connection


def in_namespace(client: AsyncClient, namespace: str) -> AsyncClient:
    """Return a client for another namespace of the same cluster, which is closed with this one."""
    return client._in_namespace(namespace)  # noqa: SLF001 — the classes of this package share it


async def _submit(
    connection: Connection, source: Source, options: SubmitOptions, on_progress: ProgressCallback
) -> tuple[AppliedJob, ...]:
    return await submission.submit(connection, source, options, lambda progress: on_progress(str(progress)))


def _paths(paths: Paths) -> list[Path]:
    return [Path(paths)] if isinstance(paths, str | Path) else list(map(Path, paths))
