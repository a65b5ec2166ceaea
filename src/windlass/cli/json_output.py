"""JSON output of commands: characters that could control a terminal are escaped."""

import re

import msgspec

from windlass.model import untrusted_text

# JSON escapes the other control characters (C0) anyway.
_UNSAFE = re.compile(f"[\x7f-\x9f{untrusted_text.HIDDEN}]")
_encode = msgspec.json.Encoder().encode


def encode(value: object) -> bytes:
    """Return a value as JSON on one line, without a line end."""
    data = _encode(value)
    if data.isascii() and b"\x7f" not in data:
        return data
    # JSON of a server may contain bytes that are not UTF-8. They stay unchanged.
    text = _UNSAFE.sub(_escape, data.decode("utf-8", "surrogateescape"))
    return text.encode("utf-8", "surrogateescape")


def indented(value: object) -> bytes:
    """Return a value as indented JSON, without a line end."""
    return msgspec.json.format(encode(value))


def with_fields(body: msgspec.Raw, **fields: str) -> msgspec.Raw:
    """Return a non-empty JSON object with additional fields at its end."""
    return msgspec.Raw(bytes(body).rstrip()[:-1] + b"," + _encode(fields)[1:])


def _escape(found: re.Match[str]) -> str:
    units = found[0].encode("utf-16-be").hex()
    return re.sub("....", r"\\u\g<0>", units)
