"""List, then watch, and go on for ever: whoever follows a resource learns of every change, whatever happens on the way.

What a change means is not known here. A failure is told, waited for, and overcome.
"""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import NoReturn

import msgspec

from windlass.kubeapi import answers, errors, requests, watch_lines
from windlass.kubeapi.errors import (
    AnsweredError,
    ApiError,
    ExpiredError,
    ForbiddenError,
    NotSentError,
    TooManyRequestsError,
    UnansweredError,
    UnauthorizedError,
)
from windlass.kubeapi.resources import Resource
from windlass.kubeapi.transport import Transport

PAGE_SIZE = 500
LIST_SECONDS = 60.0
"""How long one page may take. It may hold hundreds of megabytes when it is asked for as a whole."""
FIRST_DELAY_SECONDS = 0.2
LONGEST_DELAY_SECONDS = 30.0
LONGEST_WISH_SECONDS = 300.0
"""A Retry-After of more than this is not believed."""
FAILURES_BEFORE_A_LIST = 5
WATCH_SECONDS = (240.0, 480.0)
"""A watch ends after a time between these, so that those of many clients do not end together."""
GRACE_SECONDS = 30.0
"""How much later than agreed a watch may end."""


class Listed(msgspec.Struct, frozen=True):
    """All that there is, read consistently. Whatever is not among it is gone."""

    items: Sequence[msgspec.Raw]
    resource_version: str


class Changed(msgspec.Struct, frozen=True):
    object: msgspec.Raw


class Deleted(msgspec.Struct, frozen=True):
    object: msgspec.Raw
    """As it was at last, with the version of its removal."""


News = Listed | Changed | Deleted


def backoff_seconds(failures: int, randomness: float, wished: float | None) -> float:
    """How long to wait after so many failures in a row; `randomness` lies between 0 and 1."""
    doubled = FIRST_DELAY_SECONDS * 2.0 ** min(failures - 1, 30)
    delay = min(LONGEST_DELAY_SECONDS, doubled) * (0.5 + 0.5 * randomness)
    return max(delay, min(wished or 0.0, LONGEST_WISH_SECONDS))


def _ignore(error: ApiError) -> None:
    pass


class Follower:
    """Follows the objects of one resource. `receive` is called in the order of the changes, and must not wait."""

    def __init__(
        self,
        transport: Transport,
        resource: Resource,
        *,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        receive: Callable[[News], None],
        on_error: Callable[[ApiError], None] = _ignore,
        page_size: int = PAGE_SIZE,
        randomness: Callable[[], float] = random.random,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.listed = asyncio.Event()
        """Set from the first list on."""
        self._transport = transport
        self._resource = resource
        self._namespace = namespace
        self._label_selector = label_selector
        self._field_selector = field_selector
        self._receive = receive
        self._on_error = on_error
        self._page_size = page_size
        self._randomness = randomness
        self._sleep = sleep
        self._clock = clock
        self._version = ""
        """That from which a watch goes on; empty: a list is needed first."""
        self._failures = 0
        """In a row: since something was last received, or a watch was open for a while."""
        self._lists = 0
        """Since a watch last gave something. More than one means that lists alone do not help."""

    async def run(self) -> NoReturn:
        while True:
            try:
                if not self._version:
                    await self._list()
                await self._watch()
            except ApiError as error:
                await self._overcome(error)

    async def _overcome(self, error: ApiError) -> None:
        self._on_error(error)
        is_old_version = isinstance(error, ExpiredError) and self._version
        if not is_old_version:
            self._failures += 1
        if must_list_anew(error, self._failures):
            self._version = ""
        await self._back_off(error.retry_after if isinstance(error, AnsweredError) else None)

    async def _back_off(self, wished: float | None = None) -> None:
        setbacks = max(self._failures, self._lists - 1)
        if setbacks:
            await self._sleep(backoff_seconds(setbacks, self._randomness(), wished))

    async def _list(self) -> None:
        try:
            listed = await self._pages(self._page_size)
        except ExpiredError:
            # It took so long that the server forgot the rest. In one piece it cannot.
            listed = await self._pages(0)
        self._version = listed.resource_version
        self._failures = 0
        self._lists += 1
        self._receive(listed)
        self.listed.set()

    async def _pages(self, size: int) -> Listed:
        items: list[msgspec.Raw] = []
        token = ""
        while True:
            page = await self._page(size, token)
            items += page.objects
            token = page.metadata.continue_
            if not token:
                return Listed(items, page.metadata.resource_version)

    async def _page(self, size: int, token: str) -> answers.Page:
        request = requests.list_page(
            self._resource, self._namespace, self._label_selector, size, token, self._field_selector
        )
        body = await self._transport.send(request, LIST_SECONDS)
        try:
            page = answers.decode_page(body)
        except msgspec.DecodeError as error:
            raise UnansweredError(f"{request}: the answer is no list: {error}") from error
        if not page.metadata.resource_version:
            raise UnansweredError(f"{request}: the list has no resourceVersion")
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
        began = self._clock()
        try:
            has_received = await self._follow(request, seconds + GRACE_SECONDS)
        finally:
            if self._clock() >= began + LONGEST_DELAY_SECONDS:
                # Something on the way may cut whatever is silent for a minute. There is no reason to be slow then.
                self._failures = 0
        if not has_received:
            # There is at least a bookmark before a watch ends in good order. Do not ask on and on.
            self._failures += 1
            await self._back_off()

    async def _follow(self, request: requests.Request, longest: float) -> bool:
        """Until the watch ends; whether it gave anything."""
        splitter = watch_lines.LineSplitter()
        has_received = False
        async with self._transport.stream(request, longest) as chunks:
            async for chunk in chunks:
                for line in splitter.feed(chunk):
                    self._take(line, request)
                    has_received = True
        if splitter.is_in_mid_line:
            raise UnansweredError(f"{request}: cut in the middle of an event")
        return has_received

    def _take(self, line: bytes, request: requests.Request) -> None:
        try:
            event = watch_lines.parse(line)
            if event.type == watch_lines.ERROR:
                raise _error_in(event, request)
            version = watch_lines.version_of(event.object)
        except msgspec.DecodeError as error:
            raise UnansweredError(f"{request}: a line of the watch is no event: {error}") from error
        match event.type:
            case watch_lines.ADDED | watch_lines.MODIFIED:
                self._receive(Changed(event.object))
            case watch_lines.DELETED:
                self._receive(Deleted(event.object))
            case watch_lines.BOOKMARK:
                pass
            case unknown:
                raise UnansweredError(f"{request}: the watch gave an event of the unknown type {unknown!r}")
        self._version = version
        self._failures = self._lists = 0


def must_list_anew(error: ApiError, failures: int) -> bool:
    """Whether a watch cannot go on where it was, after so many failures in a row.

    An expired version never comes back, and a refusal may be of the version. Whatever else does not go away when it is
    tried again may have to do with it too, such as a version that lies in the future because the server's data were
    restored from a copy.
    """
    if isinstance(error, ExpiredError):
        return True
    is_about_us = isinstance(error, UnauthorizedError | ForbiddenError | TooManyRequestsError)
    if is_about_us or isinstance(error, NotSentError):
        return False
    is_refusal = isinstance(error, AnsweredError) and error.failure.code < 500
    return is_refusal or failures >= FAILURES_BEFORE_A_LIST


def _error_in(event: watch_lines.Event, request: requests.Request) -> ApiError:
    error = errors.from_status(bytes(event.object))
    return error or UnansweredError(f"{request}: the watch ended with an error that is no Status")
