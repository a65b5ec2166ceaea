"""`Client`: every method of `AsyncClient` without `await`, for scripts and notebooks.

The methods have the types and docstrings of `AsyncClient`. They run on an event loop in a separate thread, so that they
can be called from any thread, even from one in which another event loop runs.
"""

import asyncio
import functools
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from windlass.client.errors import ClientError
from windlass.client.sdk import AsyncClient

P = ParamSpec("P")
T = TypeVar("T")


def _blocking(
    method: Callable[Concatenate[AsyncClient, P], Coroutine[Any, Any, T]],
) -> "Callable[Concatenate[Client, P], T]":
    """Convert a method that returns one result."""

    @functools.wraps(method)
    def call(client: "Client", /, *args: P.args, **kwargs: P.kwargs) -> T:
        return client.result_of(method(client.asynchronous, *args, **kwargs))

    return call


def _blocking_iterator(
    method: Callable[Concatenate[AsyncClient, P], AsyncGenerator[T, None]],
) -> "Callable[Concatenate[Client, P], Iterator[T]]":
    """Convert a method that yields results."""

    @functools.wraps(method)
    def call(client: "Client", /, *args: P.args, **kwargs: P.kwargs) -> Iterator[T]:
        return client.results_of(method(client.asynchronous, *args, **kwargs))

    return call


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
            return self._loop

    submit = _blocking(AsyncClient.submit)
    start_companions = _blocking(AsyncClient.start_companions)
    scale = _blocking(AsyncClient.scale)
    suspend = _blocking(AsyncClient.suspend)
    resume = _blocking(AsyncClient.resume)
    stop = _blocking(AsyncClient.stop)
    delete = _blocking(AsyncClient.delete)
    upload = _blocking(AsyncClient.upload)
    get = _blocking(AsyncClient.get)
    list = _blocking(AsyncClient.list)
    companions = _blocking(AsyncClient.companions)
    env = _blocking(AsyncClient.env)
    wait = _blocking(AsyncClient.wait)
    watch = _blocking_iterator(AsyncClient.watch)
    logs = _blocking_iterator(AsyncClient.logs)
    events = _blocking(AsyncClient.events)
    why = _blocking(AsyncClient.why)


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
