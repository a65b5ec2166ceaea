"""Watch objects, in particular one Framework. An interrupted watch is resumed, unless the error is permanent."""

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import NoReturn, Protocol, TypeVar

import msgspec

from windlass.client.connection import Connection
from windlass.k8s import metadata
from windlass.kubeapi.errors import ApiError, ForbiddenError, NotFoundError, NotSentError, UnauthorizedError
from windlass.kubeapi.reflector import Deleted, Listed, Reflector, ResourceEvent
from windlass.kubeapi.resources import Resource, frameworks
from windlass.model import names
from windlass.model.framework import Framework
from windlass.wire import codec
from windlass.wire.codec import InvalidFramework

MAX_OUTAGE_SECONDS = 120.0
"""How long the API server may be unavailable, e.g. during an upgrade, before `watch_framework` or
`wait_until_deleted` fails."""
QUIET_SECONDS = 100.0
"""Failures that are further apart than this belong to different outages."""


class _HasIdentity(Protocol):
    @property
    def metadata(self) -> metadata.ObjectIdentity: ...


T = TypeVar("T", bound=_HasIdentity)


def is_permanent_error(error: ApiError) -> bool:
    return isinstance(error, UnauthorizedError | ForbiddenError | NotFoundError)


async def watch_objects(
    connection: Connection,
    resource: Resource,
    *,
    label_selector: str = "",
    field_selector: str = "",
    in_all_namespaces: bool = False,
    is_permanent: Callable[[ApiError], bool] = is_permanent_error,
) -> AsyncGenerator[ResourceEvent, None]:
    """Yield the existing objects and all later changes. Raises ApiError if retrying cannot help."""
    queue: asyncio.Queue[ResourceEvent | Exception] = asyncio.Queue()

    def on_error(error: ApiError) -> None:
        if is_permanent(error):
            queue.put_nowait(error)

    def on_end(work: "asyncio.Task[NoReturn]") -> None:
        """Forward an unexpected error. The reflector ends only with an error or a cancellation."""
        if not work.cancelled() and isinstance(error := work.exception(), Exception):
            queue.put_nowait(error)

    reflector = Reflector(
        connection.transport,
        resource,
        namespace="" if in_all_namespaces else connection.namespace,
        label_selector=label_selector,
        field_selector=field_selector,
        receive=queue.put_nowait,
        on_error=on_error,
    )
    work = asyncio.create_task(reflector.run())
    work.add_done_callback(on_end)
    try:
        while not isinstance(event := await queue.get(), Exception):
            yield event
        raise event
    finally:
        work.cancel()
        # A cancellation during this wait still propagates.
        await asyncio.gather(work, return_exceptions=True)


async def watch_several(
    connection: Connection,
    resources: Sequence[Resource],
    *,
    label_selector: str = "",
    in_all_namespaces: bool = False,
) -> AsyncGenerator[None, None]:
    """Yield at the start and whenever an object of one of the kinds has changed.

    Kinds that are not served or may not be watched are left out, unless all are. Raises ApiError if retrying cannot
    help.
    """
    changed = asyncio.Event()

    async def watch_one(resource: Resource) -> None:
        events = watch_objects(
            connection, resource, label_selector=label_selector, in_all_namespaces=in_all_namespaces
        )
        async with contextlib.aclosing(events) as changes:
            async for _ in changes:
                changed.set()

    watching = {asyncio.create_task(watch_one(each)) for each in resources}
    try:
        while True:
            yield
            waiting = asyncio.create_task(changed.wait())
            try:
                while not waiting.done():
                    await asyncio.wait({*watching, waiting}, return_when=asyncio.FIRST_COMPLETED)
                    for ended in {task for task in watching if task.done()}:
                        watching.discard(ended)
                        error = ended.exception()
                        is_left_out = isinstance(error, NotFoundError | ForbiddenError) and bool(watching)
                        if error is not None and not is_left_out:
                            raise error
            finally:
                waiting.cancel()
            changed.clear()
    finally:
        for task in watching:
            task.cancel()
        await asyncio.gather(*watching, return_exceptions=True)


async def watch_object(
    connection: Connection,
    resource: Resource,
    name: str,
    uid: str,
    decode: Callable[[msgspec.Raw], T],
    is_permanent: Callable[[ApiError], bool] = is_permanent_error,
) -> AsyncGenerator[T | None, None]:
    """Yield the object with this UID now and after each change, and None after its deletion.

    A later object of the same name is ignored. Raises ApiError if retrying cannot help.
    """
    events = watch_objects(
        connection, resource, field_selector=f"metadata.name={name}", is_permanent=is_permanent
    )
    async with contextlib.aclosing(events) as changes:
        async for change in changes:
            bodies = change.items if isinstance(change, Listed) else (change.object,)
            found = next((each for each in map(decode, bodies) if each.metadata.uid == uid), None)
            if isinstance(change, Deleted):
                if found is None:
                    continue
                found = None
            yield found
            if found is None:
                return


async def watch_framework(
    connection: Connection, framework: Framework | InvalidFramework
) -> AsyncGenerator[Framework | None, None]:
    """Yield the Framework as `watch_object` does, but not while it is invalid: it may be fixed later."""
    resource = frameworks(names.group_of(framework.api_version))
    name, uid = framework.metadata.name, framework.metadata.uid
    states = watch_object(connection, resource, name, uid, codec.read_framework, _permanent_after_outage())
    async with contextlib.aclosing(states) as changes:
        async for changed in changes:
            if not isinstance(changed, InvalidFramework):
                yield changed


async def wait_until_deleted(connection: Connection, resource: Resource, name: str, uid: str) -> None:
    """Wait until the object is deleted. A later object of the same name is ignored. Raises ApiError."""
    states = watch_object(
        connection, resource, name, uid, metadata.decode_identity, _permanent_after_outage()
    )
    async with contextlib.aclosing(states) as changes:
        async for _ in changes:
            pass


def _permanent_after_outage() -> Callable[[ApiError], bool]:
    """Return a predicate for permanent errors. It is also true if no request could be sent for MAX_OUTAGE_SECONDS."""
    outage_start = last = time.monotonic()

    def is_permanent(error: ApiError) -> bool:
        nonlocal outage_start, last
        now = time.monotonic()
        is_new = now - last > QUIET_SECONDS or not isinstance(error, NotSentError)
        outage_start, last = now if is_new else outage_start, now
        return is_permanent_error(error) or now - outage_start > MAX_OUTAGE_SECONDS

    return is_permanent
