"""Discovery, OpenAPI, version and health endpoints.

A discovery or OpenAPI document is computed from the registry when it is first requested, and again after a definition
has changed.
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
        self._computed_kinds: tuple[Kind, ...] = ()
        self._address = address
        self._revision = -1
        self._documents: dict[str, bytes] = {}

    def add_computed_kinds(self, kinds: tuple[Kind, ...]) -> None:
        """Add kinds whose objects are computed, not stored: discovery includes them, but the registry does not."""
        self._computed_kinds += kinds
        self._documents.clear()

    def handle(self, request: web.BaseRequest) -> web.Response:
        """Return the response. Raise ApiError for an unknown path or a method other than GET and HEAD."""
        parts = request.path.strip("/").split("/")
        if request.method not in ("GET", "HEAD"):
            raise api_errors.method_not_allowed()
        accept = request.headers.get("Accept", "")
        match parts:
            case [name] if name in _HEALTH:
                return web.Response(text="ok")
            case ["version"]:
                return responses.response(200, bodies.encode(discovery.version()))
            case ["openapi", "v2"]:
                return self._openapi_v2(accept)
            case ["openapi", "v3"]:
                return self._cached("v3", lambda: documents.index_v3(self._registry.kinds))
            case ["openapi", "v3", "api", version]:
                return self._openapi_v3("", version)
            case ["openapi", "v3", "apis", group, version]:
                return self._openapi_v3(group, version)
            case ["api"] | ["apis"]:
                return self._groups(parts[0], accept)
            case ["api", version]:
                return self._resources("", version)
            case ["apis", group]:
                return self._cached(f"group {group}", lambda: discovery.group(self._discovered_kinds, group))
            case ["apis", group, version]:
                return self._resources(group, version)
        raise api_errors.no_such_path()

    @property
    def _discovered_kinds(self) -> tuple[Kind, ...]:
        return (*self._registry.kinds, *self._computed_kinds)

    def _groups(self, root: str, accept: str) -> web.Response:
        version = discovery.aggregated_version(accept)
        if version is not None:
            return self._cached(
                f"aggregated {root} {version}",
                lambda: discovery.aggregated(self._discovered_kinds, root == "api", version),
                discovery.aggregated_content_type(version),
            )
        if root == "api":
            return responses.response(200, bodies.encode(discovery.core_versions(self._address())))
        return self._cached("groups", lambda: discovery.group_list(self._discovered_kinds))

    def _resources(self, group: str, version: str) -> web.Response:
        return self._cached(
            f"resources {group} {version}",
            lambda: discovery.resources(self._discovered_kinds, group, version),
        )

    def _openapi_v2(self, accept: str) -> web.Response:
        def document() -> dict[str, Any]:
            return documents.document_v2(self._registry.kinds)

        if any(media_type in accept for media_type in v2_protobuf.MEDIA_TYPES):
            return self._cached("v2 protobuf", document, v2_protobuf.CONTENT_TYPE, v2_protobuf.encode)
        return self._cached("v2", document)

    def _openapi_v3(self, group: str, version: str) -> web.Response:
        return self._cached(
            f"v3 {group} {version}", lambda: documents.document_v3(self._registry.kinds, group, version)
        )

    def _cached(
        self,
        name: str,
        document: Callable[[], dict[str, Any] | None],
        content_type: str = "",
        encode: Callable[[dict[str, Any]], bytes] = bodies.encode,
    ) -> web.Response:
        """Return a response with the document, or raise 404 if there is none."""
        if self._revision != self._registry.revision:
            self._documents.clear()
            self._revision = self._registry.revision
        if name not in self._documents:
            content = document()
            if content is None:
                raise api_errors.no_such_path()
            self._documents[name] = encode(content)
        body = self._documents[name]
        if content_type:
            return web.Response(body=body, headers={"Content-Type": content_type})
        return responses.response(200, body)
