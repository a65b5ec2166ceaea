"""What a request is about: its path, and what its query asks for. Pure."""

import functools
from urllib.parse import unquote

import msgspec

# Paths below a namespace that belong to the namespace itself, and are no kind of object in it.
_OF_NAMESPACES = ("status", "finalize")


class RequestInfo(msgspec.Struct, frozen=True):
    """`/apis/GROUP/VERSION/namespaces/NAMESPACE/PLURAL/NAME/SUBRESOURCE`, with "" for what is not there."""

    group: str
    version: str
    plural: str
    namespace: str = ""
    name: str = ""
    subresource: str = ""


def parse(path: str) -> RequestInfo | None:
    """The info of a path as it was sent, or None if it is no path of an object or a list."""
    return _parse_again(path) if len(path) <= _MAX_CACHED_LENGTH else _parse(path)


def _parse(path: str) -> RequestInfo | None:
    parts = [unquote(part) for part in path.strip("/").split("/")]
    match parts:
        case ["api", version, *rest] if rest:
            return _below("", version, rest)
        case ["apis", group, version, *rest] if rest:
            return _below(group, version, rest)
    return None


# Most requests are about the same few lists.
_parse_again = functools.lru_cache(maxsize=1024)(_parse)
_MAX_CACHED_LENGTH = 256


def _below(group: str, version: str, parts: list[str]) -> RequestInfo | None:
    match parts:
        case ["namespaces"] | ["namespaces", _]:
            return RequestInfo(group, version, "namespaces", name=parts[1] if len(parts) > 1 else "")
        case ["namespaces", name, subresource] if subresource in _OF_NAMESPACES:
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
