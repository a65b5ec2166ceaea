"""Describe a cluster: its kind and its namespaces."""

from windlass.client import lookup
from windlass.client.connection import Connection
from windlass.k8s.metadata import decode_name
from windlass.kubeapi.errors import ForbiddenError
from windlass.kubeapi.resources import NAMESPACES


async def namespaces(connection: Connection) -> tuple[str, ...]:
    """Return the names of all namespaces; only that of the connection if the user may not list them."""
    try:
        listed = await lookup.list_objects(connection, NAMESPACES, "")
    except ForbiddenError:
        return (connection.namespace,)
    return tuple(decode_name(body).metadata.name for body in listed)
