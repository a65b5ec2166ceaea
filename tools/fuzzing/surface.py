"""The kinds that the server serves, from discovery, and the meaning of paths."""

import json
from typing import Any
from urllib.parse import quote, unquote

import msgspec

from fuzzing.wire import Line, Request


class Resource(msgspec.Struct, frozen=True):
    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool
    verbs: tuple[str, ...]
    subresources: tuple[str, ...]

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def root(self) -> str:
        return f"/apis/{self.api_version}" if self.group else f"/api/{self.version}"

    def path(self, namespace: str = "", name: str = "") -> str:
        parts = [*(["namespaces", namespace] if self.namespaced and namespace else []), self.plural, name]
        quoted = (quote(part, safe="", errors="surrogatepass") for part in parts if part)
        return "/".join([self.root, *quoted])


class Place(msgspec.Struct, frozen=True):
    """The resource, namespace and name of a path."""

    resource: Resource
    namespace: str = ""
    name: str = ""
    subresource: str = ""

    @property
    def path(self) -> str:
        """Return the path of the object or of the list."""
        return self.resource.path(self.namespace, self.name)


class Surface(msgspec.Struct, frozen=True):
    resources: tuple[Resource, ...]
    """Resources whose objects are stored."""
    reviews: tuple[Resource, ...] = ()
    """Resources that only answer, e.g. access reviews."""

    def of(self, api_version: str, kind: str) -> Resource | None:
        found = (one for one in self.resources if (one.api_version, one.kind) == (api_version, kind))
        return next(found, None)

    def place_of(self, path: str) -> Place | None:
        parts = [unquote(part) for part in path.strip("/").split("/")]
        match parts:
            case ["api", version, *rest]:
                group = ""
            case ["apis", group, version, *rest]:
                pass
            case _:
                return None
        match rest:
            case ["namespaces", namespace, plural, *below] if plural not in ("status", "finalize"):
                return self._place(group, version, plural, namespace, below)
            case [plural, *below]:
                return self._place(group, version, plural, "", below)
        return None

    def _place(self, group: str, version: str, plural: str, namespace: str, below: list[str]) -> Place | None:
        requested = (group, version, plural, bool(namespace))
        for one in self.resources:
            is_everywhere = one.namespaced and not namespace and not below
            if (one.group, one.version, one.plural, one.namespaced and not is_everywhere) == requested:
                name, subresource, *rest = [*below, "", ""]
                return Place(one, namespace, name, subresource) if not any(rest) else None
        return None


def discover(line: Line) -> Surface:
    groups = _get(line, "/apis")["groups"]
    versions = [version["groupVersion"] for group in groups for version in group["versions"]]
    found = [one for api_version in ["v1", *versions] for one in _resources(line, api_version)]
    stored = tuple(one for one in found if "get" in one.verbs)
    return Surface(stored, tuple(one for one in found if one not in stored))


def _resources(line: Line, api_version: str) -> list[Resource]:
    group, _, version = api_version.rpartition("/")
    root = f"/apis/{api_version}" if group else f"/api/{version}"
    listed = _get(line, root)["resources"]
    below = [one["name"].split("/") for one in listed if "/" in one["name"]]
    return [
        Resource(
            group=group,
            version=version,
            plural=one["name"],
            kind=one["kind"],
            namespaced=one["namespaced"],
            verbs=tuple(one["verbs"]),
            subresources=tuple(name for plural, name in below if plural == one["name"]),
        )
        for one in listed
        if "/" not in one["name"]
    ]


def _get(line: Line, path: str) -> dict[str, Any]:
    answer = line.ask(Request("GET", path))
    if answer.code != 200:
        return {"groups": [], "resources": []}
    found: dict[str, Any] = json.loads(answer.body)
    return found
