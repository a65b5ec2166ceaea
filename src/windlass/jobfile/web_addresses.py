"""Parses URLs of files to download."""

import re

SCHEMES = ("https", "http", "ftp")

_ADDRESS = re.compile(
    rf"(?:{'|'.join(SCHEMES)})://(?:[^\s/?#@]*@)?(?:\[[0-9A-Fa-f:.]+\]|[^\s/?#@:\[\]]+)(?::(?P<port>[0-9]{{1,5}}))?"
    r"(?P<path>/[^\s?#]*)?(?:[?#]\S*)?",
    re.IGNORECASE,
)
_ESCAPED = re.compile(rb"%([0-9A-Fa-f]{2})")


def is_valid_url(text: str) -> bool:
    """Return whether a URL has a known scheme, a host, valid characters and, if it has a port, a valid one."""
    found = _ADDRESS.fullmatch(text)
    return found is not None and text.isprintable() and int(found["port"] or 1) in range(1, 65536)


def file_of(text: str) -> str:
    """Return the file name in a valid URL; empty if the URL has none."""
    found = _ADDRESS.fullmatch(text)
    path = (found["path"] or "") if found is not None else ""
    decoded = _ESCAPED.sub(lambda escaped: bytes.fromhex(escaped[1].decode()), path.encode())
    name = decoded.decode(errors="replace").rpartition("/")[2]
    return "" if name in (".", "..") else name
