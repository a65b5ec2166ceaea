"""The parsed path of a request (RequestInfo in kube-apiserver)."""

import functools
from urllib.parse import unquote

import msgspec

# Subresources of a namespace: other paths below a namespace name a resource in it.
_NAMESPACE_SUBRESOURCES = ("status", "finalize")


class RequestInfo(msgspec.Struct, frozen=True):
    """`/apis/GROUP/VERSION/namespaces/NAMESPACE/PLURAL/NAME/SUBRESOURCE`, with "" for absent parts."""

    group: str
    version: str
    plural: str
    namespace: str = ""
    name: str = ""
    subresource: str = ""

    def fits_scope(self, *, namespaced: bool) -> bool:
        """Return whether the path has a namespace where the kind requires one, and none otherwise."""
        if namespaced:
            return bool(self.namespace) or not self.name
        return not self.namespace


def parse(path: str) -> RequestInfo | None:
    """Parse a raw path. Returns None for a path that is not about an object or a list."""
    return _parse_again(path) if len(path) <= _MAX_CACHED_LENGTH else _parse(path)


def _parse(path: str) -> RequestInfo | None:
    parts = [unquote(part) for part in path.strip("/").split("/")]
    match parts:
        case ["api", version, *rest] if rest:
            return _below("", version, rest)
        case ["apis", group, version, *rest] if rest:
            return _below(group, version, rest)
    return None


# Most requests repeat a few paths.
_parse_again = functools.lru_cache(maxsize=1024)(_parse)
_MAX_CACHED_LENGTH = 256


def _below(group: str, version: str, parts: list[str]) -> RequestInfo | None:
    match parts:
        case ["namespaces"] | ["namespaces", _]:
            return RequestInfo(group, version, "namespaces", name=parts[1] if len(parts) > 1 else "")
        case ["namespaces", name, subresource] if subresource in _NAMESPACE_SUBRESOURCES:
            return RequestInfo(group, version, "namespaces", name=name, subresource=subresource)
        case ["namespaces", namespace, plural, *rest]:
            return _named(RequestInfo(group, version, plural, namespace), rest)
        case [plural, *rest]:
            return _named(RequestInfo(group, version, plural), rest)
    return None


def _named(info: RequestInfo, parts: list[str]) -> RequestInfo | None:
    match parts:
        case []:
            return info
        case [name]:
            return msgspec.structs.replace(info, name=name)
        case [name, subresource]:
            return msgspec.structs.replace(info, name=name, subresource=subresource)
    return None
