"""`Client`: every method of `AsyncClient` without `await`, for scripts and notebooks.

The methods have the types and docstrings of `AsyncClient`. They run on an event loop in a separate thread, so that they
can be called from any thread, even from one in which another event loop runs.
"""

import asyncio
import contextlib
import functools
import threading
import weakref
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from windlass.client import sdk
from windlass.client.errors import ClientError
from windlass.client.explain.explanation import Explanation
from windlass.client.logs.lines import Line
from windlass.client.sdk import AsyncClient
from windlass.client.views import JobView
from windlass.wire.progress import Value

P = ParamSpec("P")
T = TypeVar("T")
_CLOSE_SECONDS = 5.0
"""How long the end of a program waits for the connection of a client that was not closed."""


def _blocking(
    method: Callable[Concatenate[AsyncClient, P], Coroutine[Any, Any, T]],
) -> "Callable[Concatenate[Client, P], T]":
    """Convert a method that returns one result."""

    @functools.wraps(method)
    def call(client: "Client", /, *args: P.args, **kwargs: P.kwargs) -> T:
        return client.result_of(method(client.asynchronous, *args, **kwargs))

    return call


def _blocking_job(
    method: Callable[Concatenate[AsyncClient, P], Coroutine[Any, Any, JobView]],
) -> "Callable[Concatenate[Client, P], ClientJob]":
    """Convert a method that returns one job."""

    @functools.wraps(method)
    def call(client: "Client", /, *args: P.args, **kwargs: P.kwargs) -> ClientJob:
        return ClientJob.of(client.result_of(method(client.asynchronous, *args, **kwargs)), client)

    return call


def _blocking_jobs(
    method: Callable[Concatenate[AsyncClient, P], Coroutine[Any, Any, tuple[JobView, ...]]],
) -> "Callable[Concatenate[Client, P], tuple[ClientJob, ...]]":
    """Convert a method that returns several jobs."""

    @functools.wraps(method)
    def call(client: "Client", /, *args: P.args, **kwargs: P.kwargs) -> tuple[ClientJob, ...]:
        found = client.result_of(method(client.asynchronous, *args, **kwargs))
        return tuple(ClientJob.of(view, client) for view in found)

    return call


def _blocking_job_iterator(
    method: Callable[Concatenate[AsyncClient, P], AsyncGenerator[JobView, None]],
) -> "Callable[Concatenate[Client, P], Iterator[ClientJob]]":
    """Convert a method that yields jobs."""

    @functools.wraps(method)
    def call(client: "Client", /, *args: P.args, **kwargs: P.kwargs) -> Iterator[ClientJob]:
        for view in client.results_of(method(client.asynchronous, *args, **kwargs)):
            yield ClientJob.of(view, client)

    return call


def _blocking_iterator(
    method: Callable[Concatenate[AsyncClient, P], AsyncGenerator[T, None]],
) -> "Callable[Concatenate[Client, P], Iterator[T]]":
    """Convert a method that yields results."""

    @functools.wraps(method)
    def call(client: "Client", /, *args: P.args, **kwargs: P.kwargs) -> Iterator[T]:
        return client.results_of(method(client.asynchronous, *args, **kwargs))

    return call


class ClientJob(JobView, frozen=True, kw_only=True, dict=True):
    """A job as a Client returned it. Its methods call the client."""

    @classmethod
    def of(cls, view: JobView, client: "Client") -> Self:
        job = cls(**{field: getattr(view, field) for field in view.__struct_fields__})
        # Not fields, so that they are neither compared nor encoded.
        job.__dict__.update(client=client, asynchronous=sdk.in_namespace(client.asynchronous, view.namespace))
        return job

    def wait(self, until: str = "completed", timeout: float | None = None) -> "ClientJob":
        """Wait for the job, and return its new state: see `Client.wait`."""
        return ClientJob.of(self._result(self._asynchronous.wait(self.name, until, timeout)), self._client)

    def logs(self, task: str = "", *, follow: bool = False, tail: int | None = None) -> Iterator[Line]:
        """Yield its log lines: see `Client.logs`."""
        return self._client.results_of(self._asynchronous.logs(self.name, task, follow=follow, tail=tail))

    def why(self) -> Explanation:
        """Explain its state: see `Client.why`."""
        return self._result(self._asynchronous.why(self.name))

    def report(self, path: str | Path, *, logs: bool = False) -> None:
        """Write a report about it to a file: see `Client.report`."""
        self._result(self._asynchronous.report(self.name, path, logs=logs))

    def result(self, task: str = "") -> dict[str, Value]:
        """Return the values of its result line: see `Client.result`."""
        return self._result(self._asynchronous.result(self.name, task))

    @property
    def _client(self) -> "Client":
        client: Client = self.__dict__["client"]
        return client

    @property
    def _asynchronous(self) -> AsyncClient:
        client: AsyncClient = self.__dict__["asynchronous"]
        return client

    def _result(self, work: Coroutine[Any, Any, T]) -> T:
        return self._client.result_of(work)


class Client:
    """Client for the jobs of one namespace of a cluster, which is selected by kubeconfig and context as with kubectl.

    It can be used from several threads and in notebooks. Methods raise `windlass.ClientError`; `wait` and `logs` also
    raise ValueError for invalid arguments.

        with Client() as client:
            client.submit("job.yaml")
            done = client.wait("digits")
    """

    def __init__(self, kubeconfig: str | Path = "", context: str = "", namespace: str = "") -> None:
        self.asynchronous = AsyncClient(kubeconfig, context, namespace)
        """The client that all methods call."""
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._is_closed = False
        self._forgotten: Any = None
        """Closes the connection of a client that is not closed before it is deleted, or before the program ends."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection. Closing it again has no effect."""
        if self._loop is not None:
            self.result_of(_shut_down(self.asynchronous.close()))
        with self._lock:
            loop, thread, self._is_closed = self._loop, self._thread, True
            self._loop = self._thread = None
        if self._forgotten is not None:
            self._forgotten.detach()
        if loop is not None and thread is not None:
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
            loop.close()

    def result_of(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine, which may use `asynchronous`, and return its result. An interrupt, e.g. Ctrl-C, cancels
        the coroutine."""
        running = asyncio.run_coroutine_threadsafe(work, self._running_loop(work))
        try:
            return running.result()
        except BaseException:
            running.cancel()
            raise

    def results_of(self, work: AsyncGenerator[T, None]) -> Iterator[T]:
        """Yield the results of an asynchronous generator, which may use `asynchronous`."""
        try:
            while True:
                try:
                    yield self.result_of(_next(work))
                except StopAsyncIteration:
                    return
        finally:
            if not self._is_closed:
                self.result_of(work.aclose())

    def _running_loop(self, work: Coroutine[Any, Any, Any]) -> asyncio.AbstractEventLoop:
        """Return the loop, which is started for the first coroutine. Raises ClientError after `close`."""
        with self._lock:
            if self._is_closed:
                work.close()
                raise ClientError("the client is closed: create a new one")
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=self._loop.run_forever, name="windlass", daemon=True)
                self._thread.start()
                self._forgotten = weakref.finalize(
                    self, _close_forgotten, self.asynchronous, self._loop, self._thread
                )
            return self._loop

    submit = _blocking_job(AsyncClient.submit)
    start_companions = _blocking(AsyncClient.start_companions)
    scale = _blocking_job(AsyncClient.scale)
    suspend = _blocking_job(AsyncClient.suspend)
    resume = _blocking_job(AsyncClient.resume)
    stop = _blocking_job(AsyncClient.stop)
    delete = _blocking(AsyncClient.delete)
    upload = _blocking(AsyncClient.upload)
    get = _blocking_job(AsyncClient.get)
    result = _blocking(AsyncClient.result)
    companions = _blocking(AsyncClient.companions)
    env = _blocking(AsyncClient.env)
    wait = _blocking_job(AsyncClient.wait)
    logs = _blocking_iterator(AsyncClient.logs)
    events = _blocking(AsyncClient.events)
    history = _blocking(AsyncClient.history)
    why = _blocking(AsyncClient.why)
    report = _blocking(AsyncClient.report)

    watch = _blocking_job_iterator(AsyncClient.watch)
    list = _blocking_jobs(AsyncClient.list)


def _close_forgotten(client: AsyncClient, loop: asyncio.AbstractEventLoop, thread: threading.Thread) -> None:
    """Close the connection of a client that was not closed. This may run in the thread of the loop, if the garbage
    collection of the client runs there."""

    async def close() -> None:
        await client.close()
        loop.call_soon(loop.stop)

    closing = asyncio.run_coroutine_threadsafe(close(), loop)
    if threading.current_thread() is not thread:
        with contextlib.suppress(Exception):
            closing.result(_CLOSE_SECONDS)
            thread.join(_CLOSE_SECONDS)
            loop.close()


async def _shut_down(close: Coroutine[Any, Any, None]) -> None:
    """Cancel the remaining tasks, close the connection, and shut down the generators and threads of the loop."""
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await close
    loop = asyncio.get_running_loop()
    await loop.shutdown_asyncgens()
    await loop.shutdown_default_executor()


async def _next(work: AsyncGenerator[T, None]) -> T:
    return await anext(work)
