"""Methods of Python 2 that templates for its renderers call on mappings and strings."""

import base64
import binascii
from collections.abc import Callable, Mapping
from typing import Any

_MAPPING_METHODS = {
    "has_key": "__contains__",
    **{f"{prefix}{name}": name for prefix in ("iter", "view") for name in ("items", "keys", "values")},
}
"""Methods of Python 3 by the names of Python 2."""
_TEXT_ENCODINGS = frozenset({"ascii", "iso-8859-1", "latin-1", "latin1", "utf-8", "utf8"})
_BINARY_ENCODINGS: Mapping[tuple[str, str], Callable[[bytes], bytes]] = {
    ("encode", "base64"): base64.encodebytes,
    ("decode", "base64"): base64.decodebytes,
    ("encode", "hex"): binascii.hexlify,
    ("decode", "hex"): binascii.unhexlify,
}


def method(value: Any, name: str) -> Callable[..., Any] | None:
    """Return a method that Python 3 does not have, or that returns bytes there; None for any other."""
    if isinstance(value, dict) and name in _MAPPING_METHODS:
        return getattr(value, _MAPPING_METHODS[name])  # type: ignore[no-any-return]
    if not isinstance(value, str) or name not in ("decode", "encode"):
        return None

    def recoded(encoding: str = "utf-8", errors: str = "strict") -> str:
        return _recoded(value, name, encoding, errors)

    return recoded


def _recoded(text: str, name: str, encoding: str, errors: str) -> str:
    """Encode or decode a text. Python 2 does not distinguish texts and bytes, so the result is always a text."""
    encoding = encoding.lower().replace("_", "-")
    if (name, encoding) in _BINARY_ENCODINGS:
        return _BINARY_ENCODINGS[name, encoding](text.encode()).decode()
    if encoding in _TEXT_ENCODINGS:
        return text.encode(encoding, errors).decode(encoding)
    raise ValueError(f"found the encoding {encoding!r}, expected utf-8, ascii, latin-1, base64 or hex")
