"""Discovery, OpenAPI, version and health endpoints.

The documents are computed from the registry on the first request, and again after a definition has changed.
"""

from collections.abc import Callable
from typing import Any

from aiohttp import web

from windlass.k8s import api_errors
from windlass.localcluster.apiserver import bodies, responses
from windlass.localcluster.apiserver.kinds.kind import Kind
from windlass.localcluster.apiserver.openapi import discovery, documents, v2_protobuf
from windlass.localcluster.apiserver.registry import Registry

_HEALTH = ("healthz", "livez", "readyz")


class MetaEndpoints:
    def __init__(self, registry: Registry, address: Callable[[], str]) -> None:
        self._registry = registry
        self._added: tuple[Kind, ...] = ()
        self._address = address
        self._revision = -1
        self._made: dict[str, bytes] = {}

    def add(self, kinds: tuple[Kind, ...]) -> None:
        """Add kinds to discovery that are not in the registry because their objects are not stored."""
        self._added = kinds
        self._made.clear()

    def handle(self, request: web.BaseRequest) -> web.Response:
        """Return the response, or raise 404 for any other path."""
        parts = request.path.strip("/").split("/")
        if request.method not in ("GET", "HEAD"):
            raise api_errors.method_not_allowed()
        accept = request.headers.get("Accept", "")
        match parts:
            case [name] if name in _HEALTH:
                return web.Response(text="ok")
            case ["version"]:
                return _json(bodies.encode(discovery.version()))
            case ["openapi", "v2"]:
                return self._openapi_v2(accept)
            case ["openapi", "v3", *_]:
                return self._openapi_v3(parts[2:])
            case ["api"] | ["apis"]:
                return self._groups(parts[0], accept)
            case ["api", version]:
                return self._resources("", version)
            case ["apis", group]:
                return self._named(f"group {group}", lambda: discovery.group(self._discovered, group))
            case ["apis", group, version]:
                return self._resources(group, version)
        raise api_errors.no_such_path()

    @property
    def _kinds(self) -> tuple[Kind, ...]:
        return self._registry.kinds

    @property
    def _discovered(self) -> tuple[Kind, ...]:
        return (*self._registry.kinds, *self._added)

    def _groups(self, root: str, accept: str) -> web.Response:
        version = discovery.aggregated_version(accept)
        if version is not None:
            body = self._cached(
                f"aggregated {root} {version}",
                lambda: bodies.encode(discovery.aggregated(self._discovered, root == "api", version)),
            )
            return _typed(body, discovery.aggregated_content_type(version))
        if root == "api":
            return _json(bodies.encode(discovery.core_versions(self._address())))
        return _json(self._cached("groups", lambda: bodies.encode(discovery.group_list(self._discovered))))

    def _resources(self, group: str, version: str) -> web.Response:
        return self._named(
            f"resources {group} {version}", lambda: discovery.resources(self._discovered, group, version)
        )

    def _openapi_v2(self, accept: str) -> web.Response:
        if any(media_type in accept for media_type in v2_protobuf.MEDIA_TYPES):
            body = self._cached("v2 protobuf", lambda: v2_protobuf.encode(documents.document_v2(self._kinds)))
            return _typed(body, v2_protobuf.CONTENT_TYPE)
        return _json(self._cached("v2", lambda: bodies.encode(documents.document_v2(self._kinds))))

    def _openapi_v3(self, parts: list[str]) -> web.Response:
        match parts:
            case []:
                return _json(self._cached("v3", lambda: bodies.encode(documents.index_v3(self._kinds))))
            case ["api", version]:
                group = ""
            case ["apis", group, version]:
                pass
            case _:
                raise api_errors.no_such_path()
        return self._named(
            f"v3 {group} {version}", lambda: documents.document_v3(self._kinds, group, version)
        )

    def _named(self, name: str, make: Callable[[], dict[str, Any] | None]) -> web.Response:
        return _json(self._cached(name, lambda: bodies.encode(_existing(make()))))

    def _cached(self, name: str, make: Callable[[], bytes]) -> bytes:
        if self._revision != self._registry.revision:
            self._made.clear()
            self._revision = self._registry.revision
        if name not in self._made:
            self._made[name] = make()
        return self._made[name]


def _existing(document: dict[str, Any] | None) -> dict[str, Any]:
    if document is None:
        raise api_errors.no_such_path()
    return document


def _json(body: bytes) -> web.Response:
    return responses.response(200, body)


def _typed(body: bytes, content_type: str) -> web.Response:
    return web.Response(body=body, headers={"Content-Type": content_type})
