"""Detect whether a cluster is an embedded cluster, whose pods are processes on one machine."""

import msgspec

from windlass.client.connection import Connection
from windlass.kubeapi.errors import AnsweredError
from windlass.kubeapi.requests import Request, Verb
from windlass.kubeapi.resources import Resource

_MARK = "+windlass"
"""Part of the version of an embedded cluster."""


class _Version(msgspec.Struct, frozen=True):
    git_version: str = msgspec.field(default="", name="gitVersion")


async def is_embedded(connection: Connection) -> bool:
    """Raises what `Connection.send` raises, except AnsweredError."""
    request = Request(Verb.GET, "GET", Resource("", "", ""), "/version")
    try:
        answer = await connection.send(request)
    except AnsweredError:
        return False  # the user may not have access to /version
    return _MARK in msgspec.json.decode(answer, type=_Version).git_version
