"""`Client`: every method of `AsyncClient` without `await`, for scripts and notebooks.

The methods are taken from there, with their types and their documentation: nothing is written twice. They run on an
event loop in a thread of its own, so that they may be called from any thread, and while another loop runs in the
caller's.
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
    """A method of AsyncClient that gives one result."""

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
    """A method of AsyncClient that gives one result after the other."""

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
    """The jobs of one namespace of one cluster, found as kubectl finds it: by the kubeconfig and its context.

    May be used from several threads, and in a notebook. What cannot be done is a `windlass.ClientError` with one
    message.

        with Client() as client:
            client.submit("job.yaml")
            done = client.wait("digits")
    """

    def __init__(self, kubeconfig: str | Path = "", context: str = "", namespace: str = "") -> None:
        self.asynchronous = AsyncClient(kubeconfig, context, namespace)
        """What does the work."""
        self._loop = _LoopThread()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """May be called again."""
        self._loop.end_with(self.asynchronous.close)

    def result_of(self, work: Coroutine[Any, Any, T]) -> T:
        """What it gives; it may use `asynchronous`."""
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
    """An event loop in a thread of its own, from its first use to its end."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._is_over = False

    def result_of(self, work: Coroutine[Any, Any, T]) -> T:
        """Whoever gives up waiting, such as by Ctrl-C, ends the work too."""
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
                raise ClientError("the client is closed: make another one")
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=self._loop.run_forever, name="windlass", daemon=True)
                self._thread.start()
            return self._loop


async def _wound_up(last: Coroutine[Any, Any, None]) -> None:
    """What others still wait for ends before the connection does, and no thread stays."""
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
