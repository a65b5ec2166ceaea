"""A job goes with all that belongs to it: in the foreground, so that it is gone only when its pods are."""

import contextlib

from windlass.client import finding, waiting, watching
from windlass.client.connection import Connection
from windlass.kubeapi import requests
from windlass.kubeapi.errors import ConflictError, NotFoundError
from windlass.kubeapi.resources import frameworks
from windlass.model import names
from windlass.model.framework import Framework
from windlass.wire.codec import Unreadable

FOREGROUND = "Foreground"


async def delete(
    connection: Connection, name: str, *, waits: bool = True, timeout: float | None = None
) -> None:
    """Raises TimedOutError and what `finding.find` raises."""
    found = await begin_all(connection, name)
    for each in found if waits else ():
        await until_gone(connection, each, timeout)


async def begin_all(connection: Connection, name: str) -> tuple[Framework | Unreadable, ...]:
    """Of both groups, where both have one of that name: those that are going now. Raises NotThereError."""
    found = await finding.look_up(connection, name)
    if not found:
        raise await finding.not_there(connection, name)
    for each in found:
        await begin(connection, each)
    return found


async def begin(connection: Connection, found: Framework | Unreadable) -> None:
    """Of this very Framework: one that has its name by now stays."""
    request = requests.delete(
        frameworks(names.group_of(found.api_version)),
        connection.namespace,
        found.metadata.name,
        uid=found.metadata.uid,
        propagation=FOREGROUND,
    )
    try:
        await connection.send(request)
    except (NotFoundError, ConflictError):
        return  # it is gone already


async def until_gone(
    connection: Connection, found: Framework | Unreadable, timeout: float | None = None
) -> None:
    """Raises TimedOutError."""
    name = found.metadata.name

    async def look() -> None:
        async with contextlib.aclosing(watching.changes(connection, found)) as changes:
            async for _ in changes:
                pass

    await waiting.within(
        timeout,
        look(),
        lambda: (
            f"{name} is not gone after {timeout:g} s: something of it is still there. "
            f"`windlass describe {name} -n {connection.namespace}` shows its pods."
        ),
    )
