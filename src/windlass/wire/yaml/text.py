"""Decode the bytes of a file to text that is safe for the YAML parser."""

import re

import msgspec

from windlass.wire import diagnostics

MAX_BYTES = 16 * 1024 * 1024
"""Maximum size of a file. API servers do not store Frameworks of this size."""

_FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\ud800-\udfff\ufffe\uffff]")
"""The characters that YAML forbids. A set of the allowed characters would be slow, because it includes characters
beyond U+FFFF."""
_STRING_OR_TAB = re.compile(r"""\"(?:[^"\\]|\\.)*+"?|'[^']*+'?|\t""", re.DOTALL)
_ESCAPE = re.compile(r"\\(?:u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})|.)", re.DOTALL)
_UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")


class Position(msgspec.Struct, frozen=True):
    line: int
    column: int


class ParseError(Exception):
    """A file cannot be parsed. Its diagnostic contains the reason."""

    def __init__(self, at: diagnostics.Located, message: str, path: str = "") -> None:
        super().__init__(message)
        self.diagnostic = diagnostics.error(at, path, message, diagnostics.Rule.UNREADABLE)


def decode(data: bytes) -> str:
    """Return the text as YAML. Raise `ParseError` if it is too large or not UTF-8, or YAML forbids a character."""
    if len(data) > MAX_BYTES:
        raise ParseError(
            Position(1, 1),
            f"the file is larger than {MAX_BYTES // 2**20} MiB: split it",
        )
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ParseError(_position_of_byte(data, error.start), _not_utf8(data, error.start)) from error
    forbidden = _FORBIDDEN.search(text)
    if forbidden is not None:
        raise ParseError(
            position_of(text, forbidden.start()),
            f"found the control character U+{ord(forbidden[0]):04X}, expected printable text: is this a YAML file?",
        )
    return _json_as_yaml(text) if looks_like_json(text) else text


def position_of(text: str, offset: int) -> Position:
    before = text[:offset].splitlines(keepends=True)
    if not before or before[-1].endswith(("\n", "\r", "\x85", "\u2028", "\u2029")):
        return Position(len(before) + 1, 1)
    return Position(len(before), len(before[-1]) + 1)


def looks_like_json(text: str) -> bool:
    return text.lstrip()[:1] in ("{", "[")


def _position_of_byte(data: bytes, offset: int) -> Position:
    return position_of(data[:offset].decode("utf-8-sig", errors="replace"), offset)


def _not_utf8(data: bytes, offset: int) -> str:
    advice = "this looks like UTF-16" if data.startswith(_UTF16_MARKS) else "is this a YAML file?"
    return f"found the byte 0x{data[offset]:02x}, expected UTF-8 text: {advice}; save it as UTF-8"


def _json_as_yaml(text: str) -> str:
    """Replace the parts that JSON allows and YAML does not: tabs between tokens, and escaped surrogate pairs."""

    def as_yaml(found: re.Match[str]) -> str:
        match found[0][0]:
            case "\t":
                return " "
            case '"':
                return _ESCAPE.sub(_one_escape, found[0])
            case _:
                return found[0]

    return _STRING_OR_TAB.sub(as_yaml, text)


def _one_escape(escape: re.Match[str]) -> str:
    if escape[1] is None:
        return escape[0]
    high, low = int(escape[1], 16), int(escape[2], 16)
    return f"\\U{0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00):08x}"
