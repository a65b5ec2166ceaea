"""Which jobs there are, in one namespace or in all of them."""

import msgspec

from windlass.client.connection import Connection
from windlass.client.errors import NotInstalledError
from windlass.k8s import metadata
from windlass.kubeapi import answers, requests
from windlass.kubeapi.errors import ForbiddenError, NotFoundError
from windlass.kubeapi.resources import Resource, frameworks
from windlass.model import names
from windlass.model.framework import Framework
from windlass.wire import codec
from windlass.wire.codec import Unreadable

GROUPS = (names.CONTROLLER_GROUP, names.LAUNCHER_GROUP)
"""In the order in which they are asked: job files become Frameworks of the first."""


async def frameworks_of(
    connection: Connection, *, in_all_namespaces: bool = False
) -> tuple[Framework | Unreadable, ...]:
    """By namespace and name. Raises NotInstalledError, and what `Connection.send` raises."""
    listed = await written_of(connection, in_all_namespaces=in_all_namespaces)
    return tuple(codec.read_framework(item) for item in listed)


async def written_of(connection: Connection, *, in_all_namespaces: bool = False) -> tuple[msgspec.Raw, ...]:
    """The same, as the API server has them."""
    namespace = "" if in_all_namespaces else connection.namespace
    found: list[msgspec.Raw] = []
    denied: ForbiddenError | None = None
    asked = []
    for group in GROUPS:
        try:
            found += await objects(connection, frameworks(group), namespace)
        except NotFoundError:
            continue
        except ForbiddenError as error:
            denied = error
            continue
        asked.append(group)
    if not asked:
        raise denied or not_installed(connection)
    return tuple(sorted(found, key=_place))


async def objects(
    connection: Connection, resource: Resource, namespace: str, label_selector: str = ""
) -> list[msgspec.Raw]:
    """All of a kind, page by page."""
    found: list[msgspec.Raw] = []
    token = ""
    while True:
        request = requests.list_page(resource, namespace, label_selector, continue_token=token)
        page = answers.decode_page(await connection.send(request))
        found += page.objects
        token = page.metadata.continue_
        if not token:
            return found


def not_installed(connection: Connection) -> NotInstalledError:
    return NotInstalledError(
        f"Windlass is not installed on {connection.where}: it knows no Frameworks. "
        "`windlass install --apply` puts it there."
    )


def _place(body: msgspec.Raw) -> tuple[str, str]:
    found = metadata.decode_name(body).metadata
    return found.namespace, found.name
