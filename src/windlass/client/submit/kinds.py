"""Look up the resource of a kind on the API server, including kinds that were just defined."""

from collections.abc import Awaitable, Callable

import msgspec

from windlass.kubeapi.errors import NotFoundError
from windlass.kubeapi.requests import Request, Verb
from windlass.kubeapi.resources import Resource

Send = Callable[[Request], Awaitable[bytes]]
"""Returns the body of the response. Raises ApiError."""


class _ApiResource(msgspec.Struct, frozen=True):
    name: str
    kind: str
    namespaced: bool


class _ApiResourceList(msgspec.Struct, frozen=True):
    resources: tuple[_ApiResource, ...] = ()


_decode = msgspec.json.Decoder(_ApiResourceList).decode


class Kinds:
    """Caches resources, and looks up unknown kinds again, because they may have been defined since."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._served: dict[str, dict[str, Resource]] = {}

    async def resource(self, api_version: str, kind: str) -> Resource | None:
        """Return the resource, or None if the server has no such kind. Raises ApiError."""
        if kind not in self._served.get(api_version, {}):
            self._served[api_version] = await _resources_by_kind(self._send, api_version)
        return self._served[api_version].get(kind)


async def is_served(send: Send, api_version: str) -> bool:
    """Return whether the server has kinds of this API version. Raises ApiError."""
    return bool(await _resources_by_kind(send, api_version))


async def _resources_by_kind(send: Send, api_version: str) -> dict[str, Resource]:
    group, _, version = api_version.rpartition("/")
    path = f"/apis/{api_version}" if group else f"/api/{version}"
    try:
        answer = await send(Request(Verb.GET, "GET", Resource(group, version, ""), path))
    except NotFoundError:
        return {}
    return {
        each.kind: Resource(group, version, each.name, each.namespaced)
        for each in _decode(answer).resources
        if "/" not in each.name
    }
