"""Which Framework a name means. There are two groups; whoever has rights on the one in which it is needs no others."""

from windlass.client.connection import Connection
from windlass.client.errors import NotThereError
from windlass.kubeapi import requests
from windlass.kubeapi.errors import ForbiddenError, NotFoundError
from windlass.kubeapi.resources import frameworks
from windlass.model import names
from windlass.model.framework import Framework
from windlass.wire import codec

GROUPS = (names.CONTROLLER_GROUP, names.LAUNCHER_GROUP)
"""In the order in which they are asked: job files become Frameworks of the first."""


async def find(connection: Connection, name: str) -> Framework:
    """Raises NotThereError, and what `Connection.send` raises."""
    found = await find_if_any(connection, name)
    if found is None:
        raise NotThereError(
            f"there is no job {name} in the namespace {connection.namespace}: "
            f"`windlass list -n {connection.namespace}` shows what is there"
        )
    return found


async def find_if_any(connection: Connection, name: str) -> Framework | None:
    denied: ForbiddenError | None = None
    for group in GROUPS:
        try:
            answer = await connection.send(requests.get(frameworks(group), connection.namespace, name))
        except NotFoundError:
            continue
        except ForbiddenError as error:
            denied = error
            continue
        return codec.decode_framework(answer)
    if denied is not None:
        raise denied
    return None
