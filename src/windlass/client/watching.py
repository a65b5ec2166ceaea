"""One job as it changes. The watch is begun anew when it is cut; only what does not pass ends it."""

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, Callable
from typing import NoReturn

import msgspec

from windlass.client.connection import Connection
from windlass.kubeapi.errors import (
    ApiError,
    ForbiddenError,
    NotFoundError,
    NotSentError,
    UnauthorizedError,
)
from windlass.kubeapi.following import Changed, Deleted, Follower, Listed, News
from windlass.kubeapi.resources import Resource, frameworks
from windlass.model import names
from windlass.model.framework import Framework
from windlass.wire import codec
from windlass.wire.codec import Unreadable

LONGEST_TROUBLE_SECONDS = 120.0
"""An API server may be away for so long, as when it is upgraded: whoever waits for hours should not notice."""
QUIET_SECONDS = 100.0
"""Longer than a failure follows on another while nothing goes: between two that are further apart, all went well."""

Seen = asyncio.Queue[Framework | None | Exception]
_HOPELESS = (UnauthorizedError, ForbiddenError, NotFoundError)


async def changes(
    connection: Connection, wanted: Framework | Unreadable, clock: Callable[[], float] = time.monotonic
) -> AsyncGenerator[Framework | None, None]:
    """The Framework now, and again whenever it has changed; None at last, when it is gone.

    One that has the same name later is another one. Raises ApiError.
    """
    resource = frameworks(names.group_of(wanted.api_version))
    name, uid = wanted.metadata.name, wanted.metadata.uid
    followed = _followed(connection, resource, name, lambda news, seen: _receive(news, uid, seen), clock)
    async with contextlib.aclosing(followed) as found:
        async for each in found:
            yield each


async def until_gone(
    connection: Connection,
    resource: Resource,
    name: str,
    uid: str,
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """An object of any kind; one that has the same name later is another one. Raises ApiError."""
    followed = _followed(connection, resource, name, lambda news, seen: _bury(news, uid, seen), clock)
    async with contextlib.aclosing(followed) as found:
        async for _ in found:
            pass


async def _followed(
    connection: Connection,
    resource: Resource,
    name: str,
    receive: Callable[[News, Seen], None],
    clock: Callable[[], float],
) -> AsyncGenerator[Framework | None, None]:
    """What `receive` puts there, up to a None."""
    seen: Seen = asyncio.Queue()
    follower = Follower(
        connection.transport,
        resource,
        namespace=connection.namespace,
        field_selector=f"metadata.name={name}",
        receive=lambda news: receive(news, seen),
        troubled=_patience(seen, clock),
    )
    work = asyncio.create_task(follower.run())
    work.add_done_callback(lambda done: _ended(done, seen))
    try:
        while (found := await seen.get()) is not None:
            if isinstance(found, Exception):
                raise found
            yield found
        yield None
    finally:
        work.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await work


def _ended(work: "asyncio.Task[NoReturn]", seen: Seen) -> None:
    """It goes on for ever: whoever waits for its news must not wait for one that has failed."""
    if not work.cancelled() and isinstance(error := work.exception(), Exception):
        seen.put_nowait(error)


def _receive(news: News, uid: str, seen: Seen) -> None:
    match news:
        case Listed(items=items):
            listed = [codec.read_framework(item) for item in items]
            mine = [found for found in listed if found.metadata.uid == uid]
            _put(mine[0] if mine else None, seen)
        case Changed(object=body):
            found = codec.read_framework(body)
            _put(found if found.metadata.uid == uid else None, seen)
        case Deleted(object=body):
            if codec.read_framework(body).metadata.uid == uid:
                seen.put_nowait(None)


class _Metadata(msgspec.Struct, frozen=True):
    uid: str = ""


class _Object(msgspec.Struct, frozen=True):
    metadata: _Metadata


_decode = msgspec.json.Decoder(_Object).decode


def _bury(news: News, uid: str, seen: Seen) -> None:
    match news:
        case Listed(items=items):
            is_gone = all(_decode(item).metadata.uid != uid for item in items)
        case Changed(object=body):
            is_gone = _decode(body).metadata.uid != uid
        case Deleted(object=body):
            is_gone = _decode(body).metadata.uid == uid
    if is_gone:
        seen.put_nowait(None)


def _put(found: Framework | Unreadable | None, seen: Seen) -> None:
    """What cannot be read may be put right again."""
    if not isinstance(found, Unreadable):
        seen.put_nowait(found)


def _patience(seen: Seen, clock: Callable[[], float]) -> Callable[[ApiError], None]:
    """Whoever cannot be reached for long is given up. A watch that is cut says that there was somebody to cut it."""
    began, last = clock(), clock()

    def troubled(error: ApiError) -> None:
        nonlocal began, last
        now = clock()
        is_new = now - last > QUIET_SECONDS or not isinstance(error, NotSentError)
        began, last = now if is_new else began, now
        if isinstance(error, _HOPELESS) or now - began > LONGEST_TROUBLE_SECONDS:
            seen.put_nowait(error)

    return troubled
