"""One job as it changes. The watch is begun anew when it is cut; only what does not pass ends it."""

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, Callable

from windlass.client.connection import Connection
from windlass.kubeapi.errors import (
    ApiError,
    ForbiddenError,
    NotFoundError,
    UnauthorizedError,
)
from windlass.kubeapi.following import Changed, Deleted, Follower, Listed, News
from windlass.kubeapi.resources import frameworks
from windlass.model import names
from windlass.model.framework import Framework
from windlass.wire import codec
from windlass.wire.codec import Unreadable

LONGEST_TROUBLE_SECONDS = 120.0
"""An API server may be away for so long, as when it is upgraded: whoever waits for hours should not notice."""

Seen = asyncio.Queue[Framework | None | ApiError]
_HOPELESS = (UnauthorizedError, ForbiddenError, NotFoundError)


async def changes(
    connection: Connection, wanted: Framework | Unreadable, clock: Callable[[], float] = time.monotonic
) -> AsyncGenerator[Framework | None, None]:
    """The Framework now, and again whenever it has changed; None at last, when it is gone.

    One that has the same name later is another one. Raises ApiError.
    """
    seen: Seen = asyncio.Queue()
    follower = Follower(
        connection.transport,
        frameworks(names.group_of(wanted.api_version)),
        namespace=connection.namespace,
        field_selector=f"metadata.name={wanted.metadata.name}",
        receive=lambda news: _receive(news, wanted.metadata.uid, seen),
        troubled=_patience(seen, clock),
    )
    work = asyncio.create_task(follower.run())
    try:
        while (found := await seen.get()) is not None:
            if isinstance(found, ApiError):
                raise found
            yield found
        yield None
    finally:
        work.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await work


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


def _put(found: Framework | Unreadable | None, seen: Seen) -> None:
    """What cannot be read may be put right again."""
    if not isinstance(found, Unreadable):
        seen.put_nowait(found)


def _patience(seen: Seen, clock: Callable[[], float]) -> Callable[[ApiError], None]:
    """Told of every failure, and of none while all goes well: a gap between two means that it did."""
    began, last = clock(), clock()

    def troubled(error: ApiError) -> None:
        nonlocal began, last
        now = clock()
        if now - last > LONGEST_TROUBLE_SECONDS / 2:
            began = now
        last = now
        if isinstance(error, _HOPELESS) or now - began > LONGEST_TROUBLE_SECONDS:
            seen.put_nowait(error)

    return troubled
