"""`Client`: every method of `AsyncClient` without `await`, for scripts and notebooks.

The methods have the types and docstrings of `AsyncClient`. They run on an event loop in a separate thread, so that they
can be called from any thread, also while another loop runs in it.
"""

import asyncio
import functools
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar, overload

from windlass.client.errors import ClientError
from windlass.client.sdk import AsyncClient

P = ParamSpec("P")
T = TypeVar("T")


class Call(Generic[P, T]):
    """A method of AsyncClient that returns one result."""

    def __init__(self, method: Callable[Concatenate[AsyncClient, P], Coroutine[Any, Any, T]]) -> None:
        self._method = method
        self.__doc__ = method.__doc__

    @overload
    def __get__(self, client: None, owner: type["Client"]) -> Self: ...
    @overload
    def __get__(self, client: "Client", owner: type["Client"]) -> Callable[P, T]: ...
    def __get__(self, client: "Client | None", owner: type["Client"]) -> "Self | Callable[P, T]":
        if client is None:
            return self

        @functools.wraps(self._method)
        def call(*given: P.args, **named: P.kwargs) -> T:
            return client.result_of(self._method(client.asynchronous, *given, **named))

        return call


class Stream(Generic[P, T]):
    """A method of AsyncClient that yields results."""

    def __init__(self, method: Callable[Concatenate[AsyncClient, P], AsyncGenerator[T, None]]) -> None:
        self._method = method
        self.__doc__ = method.__doc__

    @overload
    def __get__(self, client: None, owner: type["Client"]) -> Self: ...
    @overload
    def __get__(self, client: "Client", owner: type["Client"]) -> Callable[P, Iterator[T]]: ...
    def __get__(self, client: "Client | None", owner: type["Client"]) -> "Self | Callable[P, Iterator[T]]":
        if client is None:
            return self

        @functools.wraps(self._method)
        def call(*given: P.args, **named: P.kwargs) -> Iterator[T]:
            return client.results_of(self._method(client.asynchronous, *given, **named))

        return call


class Client:
    """Client for the jobs of one namespace of a cluster, which is selected by kubeconfig and context as with kubectl.

    It can be used from several threads and in notebooks. Methods raise `windlass.ClientError`.

        with Client() as client:
            client.submit("job.yaml")
            done = client.wait("digits")
    """

    def __init__(self, kubeconfig: str | Path = "", context: str = "", namespace: str = "") -> None:
        self.asynchronous = AsyncClient(kubeconfig, context, namespace)
        """The client that all methods call."""
        self._loop = _LoopThread()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection. Further calls have no effect."""
        self._loop.end_with(self.asynchronous.close)

    def result_of(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine, which may use `asynchronous`, and return its result."""
        return self._loop.result_of(work)

    def results_of(self, work: AsyncGenerator[T, None]) -> Iterator[T]:
        return self._loop.results_of(work)

    submit = Call(AsyncClient.submit)
    start_companions = Call(AsyncClient.start_companions)
    scale = Call(AsyncClient.scale)
    suspend = Call(AsyncClient.suspend)
    resume = Call(AsyncClient.resume)
    stop = Call(AsyncClient.stop)
    delete = Call(AsyncClient.delete)
    upload = Call(AsyncClient.upload)
    get = Call(AsyncClient.get)
    list = Call(AsyncClient.list)
    companions = Call(AsyncClient.companions)
    env = Call(AsyncClient.env)
    wait = Call(AsyncClient.wait)
    watch = Stream(AsyncClient.watch)
    logs = Stream(AsyncClient.logs)
    events = Call(AsyncClient.events)
    why = Call(AsyncClient.why)


class _LoopThread:
    """An event loop in a separate thread, which starts on first use."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._is_over = False

    def result_of(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine and return its result. An interrupt, e.g. Ctrl-C, cancels the coroutine."""
        running = asyncio.run_coroutine_threadsafe(work, self._begun(work))
        try:
            return running.result()
        except BaseException:
            running.cancel()
            raise

    def results_of(self, work: AsyncGenerator[T, None]) -> Iterator[T]:
        try:
            while True:
                try:
                    yield self.result_of(_next(work))
                except StopAsyncIteration:
                    return
        finally:
            if not self._is_over:
                self.result_of(work.aclose())

    def end_with(self, last: Callable[[], Coroutine[Any, Any, None]]) -> None:
        with self._lock:
            is_running = self._loop is not None and not self._is_over
        if is_running:
            self.result_of(_wound_up(last()))
        with self._lock:
            loop, thread, self._is_over = self._loop, self._thread, True
            self._loop = self._thread = None
        if loop is not None and thread is not None:
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
            loop.close()

    def _begun(self, work: Coroutine[Any, Any, Any]) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._is_over:
                work.close()
                raise ClientError("the client is closed: create a new one")
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=self._loop.run_forever, name="windlass", daemon=True)
                self._thread.start()
            return self._loop


async def _wound_up(last: Coroutine[Any, Any, None]) -> None:
    """Cancel remaining tasks before the connection is closed, and shut down the threads of the loop."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
    await last
    loop = asyncio.get_running_loop()
    await loop.shutdown_asyncgens()
    await loop.shutdown_default_executor()


async def _next(work: AsyncGenerator[T, None]) -> T:
    return await anext(work)
