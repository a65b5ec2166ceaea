"""The parsed path of a request (RequestInfo in kube-apiserver)."""

import functools
from urllib.parse import unquote

import msgspec

# The subresources of a namespace. Any other path segment after the name of a namespace is a resource in the namespace.
_NAMESPACE_SUBRESOURCES = (["status"], ["finalize"])


class RequestInfo(msgspec.Struct, frozen=True):
    """`/apis/GROUP/VERSION/namespaces/NAMESPACE/PLURAL/NAME/SUBRESOURCE`, with "" for absent parts."""

    group: str
    version: str
    plural: str
    namespace: str = ""
    name: str = ""
    subresource: str = ""

    def fits_scope(self, *, namespaced: bool) -> bool:
        """Return whether the path has a namespace if and only if the kind is namespaced.

        A list of a namespaced kind may span all namespaces.
        """
        if namespaced:
            return bool(self.namespace) or not self.name
        return not self.namespace


def parse(path: str) -> RequestInfo | None:
    """Parse a raw path. Returns None for a path that does not identify an object or a list."""
    return _parse_cached(path) if len(path) <= _MAX_CACHED_LENGTH else _parse(path)


def _parse(path: str) -> RequestInfo | None:
    match [unquote(part) for part in path.strip("/").split("/")]:
        case ["api", version, *rest]:
            return _parse_resource("", version, rest)
        case ["apis", group, version, *rest]:
            return _parse_resource(group, version, rest)
    return None


# Most requests repeat a few paths.
_parse_cached = functools.lru_cache(maxsize=1024)(_parse)
_MAX_CACHED_LENGTH = 256


def _parse_resource(group: str, version: str, parts: list[str]) -> RequestInfo | None:
    """Parse the path after the version. `rest` is the name and the subresource."""
    match parts:
        case ["namespaces", *rest] if len(rest) < 2 or rest[1:] in _NAMESPACE_SUBRESOURCES:
            return RequestInfo(group, version, "namespaces", "", *rest)
        case ["namespaces", namespace, plural, *rest] if len(rest) <= 2:
            return RequestInfo(group, version, plural, namespace, *rest)
        case [plural, *rest] if len(rest) <= 2:
            return RequestInfo(group, version, plural, "", *rest)
    return None
