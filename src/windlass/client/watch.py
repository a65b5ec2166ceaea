"""Watch objects, in particular one Framework. An interrupted watch is resumed; only permanent errors end it."""

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
from windlass.kubeapi.reflector import Changed, Deleted, Listed, Reflector, ResourceEvent
from windlass.kubeapi.resources import Resource, frameworks
from windlass.model import names
from windlass.model.framework import Framework
from windlass.wire import codec
from windlass.wire.codec import InvalidFramework

MAX_OUTAGE_SECONDS = 120.0
"""How long the API server may be unavailable, e.g. during an upgrade, before a watch fails."""
QUIET_SECONDS = 100.0
"""Failures that are further apart than this belong to different outages."""

_PERMANENT = (UnauthorizedError, ForbiddenError, NotFoundError)


def _is_permanent(error: ApiError) -> bool:
    return isinstance(error, _PERMANENT)


async def watch_objects(
    connection: Connection,
    resource: Resource,
    *,
    label_selector: str = "",
    field_selector: str = "",
    is_permanent: Callable[[ApiError], bool] = _is_permanent,
) -> AsyncGenerator[ResourceEvent, None]:
    """Yield the existing objects and all later changes. Raises ApiError if retrying cannot help."""
    queue: asyncio.Queue[ResourceEvent | Exception] = asyncio.Queue()

    def on_error(error: ApiError) -> None:
        if is_permanent(error):
            queue.put_nowait(error)

    def ended(work: "asyncio.Task[NoReturn]") -> None:
        """Forward an unexpected error: the follower never returns otherwise."""
        if not work.cancelled() and isinstance(error := work.exception(), Exception):
            queue.put_nowait(error)

    follower = Reflector(
        connection.transport,
        resource,
        namespace=connection.namespace,
        label_selector=label_selector,
        field_selector=field_selector,
        receive=queue.put_nowait,
        on_error=on_error,
    )
    work = asyncio.create_task(follower.run())
    work.add_done_callback(ended)
    try:
        while not isinstance(found := await queue.get(), Exception):
            yield found
        raise found
    finally:
        work.cancel()
        # A cancellation during this wait still propagates.
        await asyncio.gather(work, return_exceptions=True)


async def watch_framework(
    connection: Connection, wanted: Framework | InvalidFramework, clock: Callable[[], float] = time.monotonic
) -> AsyncGenerator[Framework | None, None]:
    """Yield the Framework now and after each change, and None after its deletion.

    A later Framework of the same name is ignored. Raises ApiError.
    """
    resource = frameworks(names.group_of(wanted.api_version))
    name, uid = wanted.metadata.name, wanted.metadata.uid
    async with contextlib.aclosing(_watch_one(connection, resource, name, clock)) as found:
        async for change in found:
            for framework in _framework_in(change, uid):
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
    """Wait until the object is deleted. A later object of the same name is ignored. Raises ApiError."""
    async with contextlib.aclosing(_watch_one(connection, resource, name, clock)) as found:
        async for change in found:
            if _is_deleted(change, uid):
                return


def _watch_one(
    connection: Connection, resource: Resource, name: str, clock: Callable[[], float]
) -> AsyncGenerator[ResourceEvent, None]:
    return watch_objects(
        connection,
        resource,
        field_selector=f"metadata.name={name}",
        is_permanent=_permanent_after_outage(clock),
    )


def _framework_in(change: ResourceEvent, uid: str) -> Iterator[Framework | None]:
    """Yield the Framework in a watch event, or None if it was deleted. An unreadable Framework may be fixed later."""
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
    if not isinstance(found, InvalidFramework):
        yield found


def _is_deleted(change: ResourceEvent, uid: str) -> bool:
    match change:
        case Listed(items=items):
            return all(metadata.decode_identity(item).metadata.uid != uid for item in items)
        case Changed(object=body):
            return metadata.decode_identity(body).metadata.uid != uid
        case Deleted(object=body):
            return metadata.decode_identity(body).metadata.uid == uid


def _permanent_after_outage(clock: Callable[[], float]) -> Callable[[ApiError], bool]:
    """Return a predicate that is also true after a long outage, in which no request could be sent."""
    began, last = clock(), clock()

    def is_permanent(error: ApiError) -> bool:
        nonlocal began, last
        now = clock()
        is_new = now - last > QUIET_SECONDS or not isinstance(error, NotSentError)
        began, last = now if is_new else began, now
        return _is_permanent(error) or now - began > MAX_OUTAGE_SECONDS

    return is_permanent
