"""Objects as they change, one job above all. A watch is begun anew when it is cut; only what does not pass ends it."""

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, Callable, Iterator
from typing import NoReturn

from windlass.client.connection import Connection
from windlass.k8s import metadata
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

MAX_OUTAGE_SECONDS = 120.0
"""An API server may be away for so long, as when it is upgraded: whoever waits for hours should not notice."""
QUIET_SECONDS = 100.0
"""Longer than a failure follows on another while nothing goes: between two that are further apart, all went well."""

_HOPELESS = (UnauthorizedError, ForbiddenError, NotFoundError)


def _is_hopeless(error: ApiError) -> bool:
    return isinstance(error, _HOPELESS)


async def watch_objects(
    connection: Connection,
    resource: Resource,
    *,
    label_selector: str = "",
    field_selector: str = "",
    is_hopeless: Callable[[ApiError], bool] = _is_hopeless,
) -> AsyncGenerator[News, None]:
    """What there is and what changes, for ever. Raises ApiError where it is hopeless to ask again."""
    seen: asyncio.Queue[News | Exception] = asyncio.Queue()

    def on_error(error: ApiError) -> None:
        if is_hopeless(error):
            seen.put_nowait(error)

    def ended(work: "asyncio.Task[NoReturn]") -> None:
        """It goes on for ever: whoever waits for its news must not wait for one that has failed."""
        if not work.cancelled() and isinstance(error := work.exception(), Exception):
            seen.put_nowait(error)

    follower = Follower(
        connection.transport,
        resource,
        namespace=connection.namespace,
        label_selector=label_selector,
        field_selector=field_selector,
        receive=seen.put_nowait,
        on_error=on_error,
    )
    work = asyncio.create_task(follower.run())
    work.add_done_callback(ended)
    try:
        while not isinstance(found := await seen.get(), Exception):
            yield found
        raise found
    finally:
        work.cancel()
        # Whoever is cancelled while it waits here stays cancelled.
        await asyncio.gather(work, return_exceptions=True)


async def watch_framework(
    connection: Connection, wanted: Framework | Unreadable, clock: Callable[[], float] = time.monotonic
) -> AsyncGenerator[Framework | None, None]:
    """The Framework now, and again whenever it has changed; None at last, when it is gone.

    One that has the same name later is another one. Raises ApiError.
    """
    resource = frameworks(names.group_of(wanted.api_version))
    name, uid = wanted.metadata.name, wanted.metadata.uid
    async with contextlib.aclosing(_of_one(connection, resource, name, clock)) as found:
        async for change in found:
            for framework in _seen(change, uid):
                yield framework
                if framework is None:
                    return


async def wait_until_deleted(
    connection: Connection,
    resource: Resource,
    name: str,
    uid: str,
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """An object of any kind; one that has the same name later is another one. Raises ApiError."""
    async with contextlib.aclosing(_of_one(connection, resource, name, clock)) as found:
        async for change in found:
            if _is_gone(change, uid):
                return


def _of_one(
    connection: Connection, resource: Resource, name: str, clock: Callable[[], float]
) -> AsyncGenerator[News, None]:
    return watch_objects(
        connection, resource, field_selector=f"metadata.name={name}", is_hopeless=_without_patience(clock)
    )


def _seen(change: News, uid: str) -> Iterator[Framework | None]:
    """What cannot be read may be put right again."""
    match change:
        case Listed(items=items):
            listed = [codec.read_framework(item) for item in items]
            found = next((each for each in listed if each.metadata.uid == uid), None)
        case Changed(object=body):
            changed = codec.read_framework(body)
            found = changed if changed.metadata.uid == uid else None
        case Deleted(object=body):
            if codec.read_framework(body).metadata.uid != uid:
                return
            found = None
    if not isinstance(found, Unreadable):
        yield found


def _is_gone(change: News, uid: str) -> bool:
    match change:
        case Listed(items=items):
            return all(metadata.decode_identity(item).metadata.uid != uid for item in items)
        case Changed(object=body):
            return metadata.decode_identity(body).metadata.uid != uid
        case Deleted(object=body):
            return metadata.decode_identity(body).metadata.uid == uid


def _without_patience(clock: Callable[[], float]) -> Callable[[ApiError], bool]:
    """Whoever cannot be reached for long is given up. A watch that is cut says that there was somebody to cut it."""
    began, last = clock(), clock()

    def is_hopeless(error: ApiError) -> bool:
        nonlocal began, last
        now = clock()
        is_new = now - last > QUIET_SECONDS or not isinstance(error, NotSentError)
        began, last = now if is_new else began, now
        return _is_hopeless(error) or now - began > MAX_OUTAGE_SECONDS

    return is_hopeless
