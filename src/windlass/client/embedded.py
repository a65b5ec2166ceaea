"""Whether a cluster is one of Windlass's own, whose pods are processes of one machine."""

import msgspec

from windlass.client.connection import Connection
from windlass.kubeapi.errors import AnsweredError
from windlass.kubeapi.requests import Request, Verb
from windlass.kubeapi.resources import Resource

_MARK = "+windlass"
"""In the version of one."""


class _Version(msgspec.Struct, frozen=True):
    git_version: str = msgspec.field(default="", name="gitVersion")


async def is_embedded(connection: Connection) -> bool:
    """Raises what `Connection.send` raises, but for refusals."""
    request = Request(Verb.GET, "GET", Resource("", "", ""), "/version")
    try:
        answer = await connection.send(request)
    except AnsweredError:
        return False  # nobody need be allowed to ask
    return _MARK in msgspec.json.decode(answer, type=_Version).git_version
