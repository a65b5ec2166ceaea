"""Lists and watches a resource until cancelled, like client-go's Reflector. API errors are reported and retried."""

import asyncio
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import NoReturn, Protocol

import msgspec

from windlass.kubeapi import errors, requests, responses
from windlass.kubeapi.errors import (
    ApiError,
    ExpiredError,
    ForbiddenError,
    NotSentError,
    NoValidResponseError,
    ResponseError,
    TooManyRequestsError,
    UnauthorizedError,
)
from windlass.kubeapi.resources import Resource

PAGE_SIZE = 500
LIST_SECONDS = 60.0
"""Timeout of one page. A page that contains the whole list may have hundreds of megabytes."""
INITIAL_DELAY_SECONDS = 0.2
MAX_DELAY_SECONDS = 30.0
MAX_RETRY_AFTER_SECONDS = 300.0
"""A larger Retry-After is reduced to this."""
FAILURES_BEFORE_RELIST = 5
BAD_REQUEST = 400
WATCH_SECONDS = (240.0, 480.0)
"""Range of watch timeouts: they vary so that the watches of many clients do not end together."""
GRACE_SECONDS = 30.0
"""Time that a watch may last beyond its timeout."""


class Listed(msgspec.Struct, frozen=True):
    """A consistent list of all selected objects. Any other object does not exist, does not match the selectors, or is
    omitted (see `Reflector`)."""

    items: Sequence[msgspec.Raw]
    resource_version: str


class Changed(msgspec.Struct, frozen=True):
    object: msgspec.Raw


class Deleted(msgspec.Struct, frozen=True):
    """An object was deleted, or no longer matches the selectors."""

    object: msgspec.Raw
    """The last state that matched, with the resourceVersion of the deletion or change."""


ResourceEvent = Listed | Changed | Deleted


def backoff_seconds(failures: int, randomness: float, retry_after: float | None) -> float:
    """Return how long to wait after consecutive failures; `randomness` is between 0 and 1."""
    doubled = INITIAL_DELAY_SECONDS * 2.0 ** min(failures - 1, 30)
    delay = min(MAX_DELAY_SECONDS, doubled) * (0.5 + 0.5 * randomness)
    return max(delay, min(retry_after or 0.0, MAX_RETRY_AFTER_SECONDS))


def _ignore(error: ApiError) -> None:
    pass


class Source(Protocol):
    """The part of `Transport` that a Reflector uses. The Simulation has its own implementation."""

    def send(self, request: requests.Request, timeout: float) -> Awaitable[bytes]: ...

    def stream(
        self, request: requests.Request, max_seconds: float
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]: ...


class Reflector:
    """Lists and watches one resource. `receive` is called in the order of the changes and must not block.

    With `accepts_protobuf`, the objects in the events may be protobuf. `first_field_selector` is for the first list
    only, and ignored if the server does not support it. Lists omit the objects for which `is_listed` returns False.
    """

    def __init__(
        self,
        source: Source,
        resource: Resource,
        *,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        first_field_selector: str = "",
        is_listed: Callable[[msgspec.Raw], bool] | None = None,
        receive: Callable[[ResourceEvent], None],
        on_error: Callable[[ApiError], None] = _ignore,
        accepts_protobuf: bool = False,
        page_size: int = PAGE_SIZE,
        randomness: Callable[[], float] = random.random,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.listed = asyncio.Event()
        """Set after the first list."""
        self._source = source
        self._resource = resource
        self._namespace = namespace
        self._label_selector = label_selector
        self._field_selector = field_selector
        self._first_field_selector = first_field_selector
        self._is_listed = is_listed
        self._receive = receive
        self._on_error = on_error
        self._accepts_protobuf = accepts_protobuf
        self._page_size = page_size
        self._randomness = randomness
        self._sleep = sleep
        self._clock = clock
        self._version = ""
        """The resourceVersion from which the watch continues; empty if a list is needed first."""
        self._failures = 0
        """Number of failures since the last list, watch event, or watch that was open for at least MAX_DELAY_SECONDS.

        An expired version is not counted. A watch that ends without an event is counted.
        """
        self._lists = 0
        """Number of lists since the last watch event."""

    async def run(self) -> NoReturn:
        while True:
            try:
                if not self._version:
                    await self._list()
                await self._watch()
            except ApiError as error:
                await self._recover(error)

    async def _recover(self, error: ApiError) -> None:
        self._on_error(error)
        is_version_expired = isinstance(error, ExpiredError) and self._version
        if not is_version_expired:
            self._failures += 1
        if must_relist(error, self._failures):
            self._version = ""
        await self._back_off(error.retry_after if isinstance(error, ResponseError) else None)

    async def _back_off(self, retry_after: float | None = None) -> None:
        failures = max(self._failures, self._lists - 1)
        if failures:
            await self._sleep(backoff_seconds(failures, self._randomness(), retry_after))

    async def _list(self) -> None:
        listed = await self._first_list() if self._first_field_selector else None
        try:
            if listed is None:
                listed = await self._pages(self._page_size)
        except ExpiredError:
            # The continue token has expired. A list in one page needs none.
            listed = await self._pages(0)
        self._version = listed.resource_version
        self._failures = 0
        self._lists += 1
        self._receive(listed)
        self.listed.set()

    async def _first_list(self) -> Listed | None:
        """Return the selected objects in one page, which servers have in memory; None if they cannot select them."""
        selector, self._first_field_selector = self._first_field_selector, ""
        try:
            return await self._pages(0, selector)
        except ResponseError as error:
            if error.failure.code != BAD_REQUEST:
                self._first_field_selector = selector
                raise
            return None

    async def _pages(self, size: int, field_selector: str = "") -> Listed:
        items: list[msgspec.Raw] = []
        token = ""
        while True:
            page = await self._page(size, token, field_selector)
            if self._is_listed is None:
                items += page.objects
            else:
                # A copy, because an item would keep its whole page in memory.
                items += [item.copy() for item in page.objects if self._is_listed(item)]
            token = page.metadata.continue_
            if not token:
                return Listed(items, page.metadata.resource_version)

    async def _page(self, size: int, token: str, field_selector: str = "") -> responses.Page:
        request = requests.list_page(
            self._resource,
            self._namespace,
            self._label_selector,
            size,
            token,
            field_selector or self._field_selector,
        )
        request = self._negotiated(request)
        body = await self._source.send(request, LIST_SECONDS)
        try:
            page = responses.decode_page(body)
        except msgspec.DecodeError as error:
            raise NoValidResponseError(f"{request}: the response is not a list: {error}") from error
        if not page.metadata.resource_version:
            raise NoValidResponseError(f"{request}: the list has no resourceVersion")
        return page

    async def _watch(self) -> None:
        shortest, longest = WATCH_SECONDS
        seconds = shortest + (longest - shortest) * self._randomness()
        request = requests.watch(
            self._resource,
            self._namespace,
            self._label_selector,
            self._version,
            timeout_seconds=int(seconds),
            field_selector=self._field_selector,
        )
        request = self._negotiated(request)
        started_at = self._clock()
        try:
            has_received = await self._follow(request, seconds + GRACE_SECONDS)
        finally:
            if self._clock() >= started_at + MAX_DELAY_SECONDS:
                # A proxy may close idle connections after a minute, which must not increase the backoff.
                self._failures = 0
        if not has_received:
            # A watch that ends regularly sends at least a bookmark. Avoid a hot loop.
            self._failures += 1
            await self._back_off()

    def _negotiated(self, request: requests.Request) -> requests.Request:
        return request.with_protobuf() if self._accepts_protobuf else request

    async def _follow(self, request: requests.Request, max_seconds: float) -> bool:
        """Receive events until the watch ends. Return whether any event was received."""
        splitter = responses.EventSplitter()
        has_received = False
        async with self._source.stream(request, max_seconds) as chunks:
            async for chunk in chunks:
                for event in splitter.feed(chunk):
                    self._receive_event(event, request)
                    has_received = True
        if splitter.has_partial_event:
            raise NoValidResponseError(f"{request}: the connection was closed within an event")
        return has_received

    def _receive_event(self, data: bytes, request: requests.Request) -> None:
        try:
            event = responses.decode_event(data)
            if event.type == responses.ERROR:
                raise errors.from_status(bytes(event.object)) or NoValidResponseError(
                    f"{request}: the watch ended with an error that is not a Status"
                )
            version = responses.version_of(event.object)
        except msgspec.DecodeError as error:
            raise NoValidResponseError(f"{request}: invalid watch event: {error}") from error
        match event.type:
            case responses.ADDED | responses.MODIFIED:
                self._receive(Changed(event.object))
            case responses.DELETED:
                self._receive(Deleted(event.object))
            case responses.BOOKMARK:
                pass
            case unknown:
                raise NoValidResponseError(f"{request}: unknown type of watch event {unknown!r}")
        self._version = version
        self._failures = self._lists = 0


def must_relist(error: ApiError, failures: int) -> bool:
    """Return whether to list the objects again, because the watch may not be able to continue from its resourceVersion.

    An expired version stays expired, and a rejection may be caused by the version, unless it is about the client.
    Other repeated failures of requests that were sent may be caused by the version too, e.g. if it is in the future
    because the server was restored from a backup.
    """
    if isinstance(error, ExpiredError):
        return True
    is_about_client = isinstance(error, UnauthorizedError | ForbiddenError | TooManyRequestsError)
    if is_about_client or isinstance(error, NotSentError):
        return False
    is_rejection = isinstance(error, ResponseError) and error.failure.code < 500
    return is_rejection or failures >= FAILURES_BEFORE_RELIST
