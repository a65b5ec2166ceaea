"""JSON that lies deeper than a decoder goes, read without going down.

An API server stores objects of up to ten thousand levels, and a decoder gives up at about one thousand. One such
object must not hide the others, nor itself: what stands near its top can still be had.
"""

import re
from collections.abc import Iterator

_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|[\[\]{}]', re.DOTALL)
_OPENING = (b"{", b"[")
_CLOSING = (b"}", b"]")


def limit_depth(data: bytes, deepest: int) -> bytes:
    """The same with null in place of every object and list that lies below so many levels."""
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
    """The object or list that an object has under the key, as it stands there; nothing if it has none."""
    return next(_below(data, key, level=2), b"")


def elements(data: bytes, key: str) -> list[bytes]:
    """The objects and lists in the list that an object has under the key."""
    return list(_below(data, key, level=3))


def _below(data: bytes, key: str, level: int) -> Iterator[bytes]:
    """What lies on that level under the key of the outermost object."""
    wanted = f'"{key}"'.encode()
    name = b""
    begun = 0
    for mark, begin, end, found in _tokens(data):
        if found == 1 and mark not in _OPENING + _CLOSING:
            name = mark
        elif name == wanted and found == level:
            if mark in _OPENING:
                begun = begin
            elif mark in _CLOSING:
                yield data[begun:end]


def _tokens(data: bytes) -> Iterator[tuple[bytes, int, int, int]]:
    """Strings and brackets: what, from where to where, and on which level. A bracket lies on the level it opens."""
    level = 0
    for token in _TOKEN.finditer(data):
        mark = token[0]
        if mark in _OPENING:
            level += 1
        yield mark, token.start(), token.end(), level
        if mark in _CLOSING:
            level -= 1
