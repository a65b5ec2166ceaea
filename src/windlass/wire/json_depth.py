"""Read JSON that is nested too deeply for the decoder.

An API server stores objects of up to 10,000 levels, and the decoder fails at about 1,000. These functions read the
upper levels, so that such an object can be reported, and other objects of the list can still be read.
"""

import re
from collections.abc import Iterator

_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|[\[\]{}]', re.DOTALL)
_OPENING = (b"{", b"[")
_CLOSING = (b"}", b"]")


def limit_depth(data: bytes, deepest: int) -> bytes:
    """Return the JSON with null in place of every object and list below `deepest` levels."""
    kept = []
    start = 0
    for mark, begin, end, level in _tokens(data):
        if level != deepest + 1:
            continue
        if mark in _OPENING:
            kept.append(data[start:begin])
        elif mark in _CLOSING:
            kept.append(b"null")
            start = end
    kept.append(data[start:])
    return b"".join(kept)


def member(data: bytes, key: str) -> bytes:
    """Return the object or list at a key of the outermost object; empty if there is none."""
    return next(_below(data, key, level=2), b"")


def elements(data: bytes, key: str) -> list[bytes]:
    """Return the objects and lists in the list at a key of the outermost object."""
    return list(_below(data, key, level=3))


def _below(data: bytes, key: str, level: int) -> Iterator[bytes]:
    """Yield the objects and lists at a level below a key of the outermost object."""
    wanted = f'"{key}"'.encode()
    name = b""
    begun = 0
    for mark, begin, end, token_level in _tokens(data):
        if token_level == 1 and mark not in _OPENING + _CLOSING:
            name = mark
        elif name == wanted and token_level == level:
            if mark in _OPENING:
                begun = begin
            elif mark in _CLOSING:
                yield data[begun:end]


def _tokens(data: bytes) -> Iterator[tuple[bytes, int, int, int]]:
    """Yield strings and brackets with their start, end and level.

    The level of a bracket is that of the items inside it.
    """
    level = 0
    for token in _TOKEN.finditer(data):
        mark = token[0]
        if mark in _OPENING:
            level += 1
        yield mark, token.start(), token.end(), level
        if mark in _CLOSING:
            level -= 1
