"""Folders of users, heads of forwarded requests, and the delay after failed logins.

This file is also shipped to the hub, so it imports nothing of Windlass.
"""

import hashlib
import ipaddress
import re
import string
from collections import OrderedDict
from typing import NamedTuple
from urllib.parse import unquote

_UNESCAPED = frozenset(f"{string.ascii_letters}{string.digits}-_.@+")
_MAX_LENGTH = 200
# A path that begins with two slashes could be read as a host, and browsers read a backslash as a slash.
_REQUEST_LINE = re.compile(
    r"(?P<method>[A-Z]+) (?P<path>/(?![/\\])[^\x00-\x20\x7f?#\\]*)(\?[^\x00-\x20\x7f#]*)? HTTP/1\.[01]"
)
_HEADER_FIELD = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+):([^\x00-\x08\x0a-\x1f\x7f]*)")
_BODY_FIELDS = frozenset(("content-length", "transfer-encoding"))
_BODY_SIZE = re.compile(r"content-length:[0-9]{1,18}|transfer-encoding:chunked")
_CHUNK_LINE = re.compile(rb"([0-9A-Fa-f]{1,8})\r\n")
PROXY_FIELD = "X-Windlass-Proxy"
"""Header field with the secret of the proxy, which only the hub gets."""
_CONNECTION_FIELDS = frozenset(
    (
        "connection",
        "forwarded",
        "keep-alive",
        "proxy-connection",
        "upgrade",
        "x-real-ip",
        "x-scheme",
        PROXY_FIELD.lower(),
    )
)


def folder_of(user: str) -> str:
    """Return a valid folder name, which is different for each user."""
    name = "".join(character if character in _UNESCAPED else _escaped(character) for character in user)
    if len(name) > _MAX_LENGTH:
        digest = hashlib.sha256(user.encode()).hexdigest()
        name = f"{name[: _MAX_LENGTH - len(digest)]}{digest}"
    # The name must not be hidden, nor `..`.
    return f"{_escaped('.')}{name[1:]}" if name.startswith(".") else name


def _escaped(character: str) -> str:
    return "".join(f"%{byte:02X}" for byte in character.encode())


# Requests


class RequestHead(NamedTuple):
    """A valid head of an HTTP request."""

    line: str
    segments: tuple[str, ...]
    """The decoded parts of the path: an encoded slash does not separate parts."""
    fields: tuple[tuple[str, str], ...]
    """Names and values of the header fields."""
    is_websocket: bool
    """Whether the client asks for a WebSocket."""
    body_bytes: int | None
    """Size of the body; None for a body in chunks, each of which has its size."""


def parse_head(head: bytes) -> RequestHead:
    """Return the head of a request, which ends with an empty line. Raises ValueError.

    The proxy and the server behind it must interpret a head alike, so everything that is ambiguous is rejected: single
    CR or LF, folded lines, spaces in names, paths with `..`, targets other than a path, and bodies with two sizes.
    """
    line, *lines = head.decode("latin-1").removesuffix("\r\n\r\n").split("\r\n")
    request = _REQUEST_LINE.fullmatch(line)
    if request is None:
        raise ValueError("the first line must be METHOD /PATH HTTP/1.1")
    segments = path_segments(request["path"])
    if not {".", ".."}.isdisjoint(segments):
        raise ValueError("the path must not contain . or ..")
    matches = [_HEADER_FIELD.fullmatch(each) for each in lines]
    fields = tuple((match[1], match[2].strip()) for match in matches if match is not None)
    if len(fields) < len(lines):
        raise ValueError("a header field is invalid")
    values = {name.lower(): value for name, value in fields}
    options = [option.strip() for option in values.get("connection", "").lower().split(",")]
    is_websocket = "upgrade" in options and values.get("upgrade", "").lower() == "websocket"
    sizes = [(name.lower(), value) for name, value in fields if name.lower() in _BODY_FIELDS]
    if len(sizes) > 1 or any(not _BODY_SIZE.fullmatch(f"{name}:{value.lower()}") for name, value in sizes):
        raise ValueError("the size of the body is not clear")
    if is_websocket and (request["method"] != "GET" or sizes):
        raise ValueError("a request for a WebSocket must be a GET without a body")
    body_bytes = None if "transfer-encoding" in values else int(values.get("content-length", 0))
    return RequestHead(line, segments, fields, is_websocket, body_bytes)


def path_segments(path: str) -> tuple[str, ...]:
    """Return the decoded parts of a path without the slash at its end."""
    return tuple(unquote(part) for part in path.removesuffix("/").split("/"))


def chunk_bytes(line: bytes) -> int:
    """Return the size of a chunk from its first line. Raises ValueError, also for extensions."""
    found = _CHUNK_LINE.fullmatch(line)
    if found is None:
        raise ValueError("a chunk of the body is invalid")
    return int(found[1], 16)


def forwarded_head(head: RequestHead, peer: str, scheme: str, secret: str = "") -> bytes:
    """Return the head for the server, with the address of the client and the scheme of the public URL. `secret` proves
    to the hub that the request comes from the proxy.

    Fields about the client's connection are replaced, since a client could forge address and scheme. Unless the
    connection becomes a WebSocket, it is closed after the response: the next request may be for another server.
    """
    kept = [(name, value) for name, value in head.fields if not _is_about_connection(name.lower())]
    connection = [("Connection", "Upgrade"), ("Upgrade", "websocket")]
    hosts = [("X-Forwarded-Host", value) for name, value in head.fields if name.lower() == "host"][:1]
    own = [
        *(connection if head.is_websocket else [("Connection", "close")]),
        ("X-Forwarded-For", peer),
        ("X-Forwarded-Proto", scheme),
        *hosts,
        *([(PROXY_FIELD, secret)] if secret else []),
    ]
    lines = (head.line, *(f"{name}: {value}" for name, value in (*kept, *own)), "", "")
    return "\r\n".join(lines).encode("latin-1")


def _is_about_connection(name: str) -> bool:
    return name in _CONNECTION_FIELDS or name.startswith("x-forwarded-")


# Logins


MAX_NAME_LENGTH = 255
"""Maximum length of a user name in JupyterHub's database."""


class LoginLimit:
    """Limits the password guesses of each network for each account.

    After `FREE_ATTEMPTS` failures, the next attempt must wait: a second, then twice as long each time, up to
    `MAX_DELAY_SECONDS`. Names without an account are limited, too, so that the delay does not reveal accounts.
    """

    FREE_ATTEMPTS = 5
    MAX_DELAY_SECONDS = 60.0
    FORGET_AFTER_SECONDS = 900.0
    MAX_ENTRIES = 10_000
    """Limit for accounts, and one for other names, so that invented names do not displace accounts."""

    def __init__(self) -> None:
        self._failures: dict[bool, OrderedDict[bytes, tuple[int, float]]] = {
            is_account: OrderedDict() for is_account in (True, False)
        }
        """Number of failures and time of the last one, by `_key`, the oldest entry first."""

    def start(self, name: str, address: str, now: float, *, is_account: bool) -> float:
        """Begin an attempt: return 0, or the seconds to wait. It counts as failed until `succeeded` is called, since a
        client can make many attempts at once."""
        table, key = self._failures[is_account], _key(name, address)
        while table and now - next(iter(table.values()))[1] > self.FORGET_AFTER_SECONDS:
            table.popitem(last=False)
        failures, last = table.get(key, (0, now))
        delay = min(2.0 ** (failures - self.FREE_ATTEMPTS), self.MAX_DELAY_SECONDS)
        wait = last + delay - now if failures >= self.FREE_ATTEMPTS else 0.0
        if wait > 0:
            return wait
        table[key] = (failures + 1, now)
        table.move_to_end(key)
        if len(table) > self.MAX_ENTRIES:
            table.popitem(last=False)
        return 0.0

    def succeeded(self, account: str, address: str) -> None:
        self._failures[True].pop(_key(account, address), None)


def _key(name: str, address: str) -> bytes:
    """Return a key of fixed size for a name and a network."""
    return hashlib.sha256(f"{_network(address)}\0{name}".encode("utf-8", "surrogatepass")).digest()


def _network(address: str) -> str:
    """Return an IPv4 address, or the /64 network of an IPv6 address, all of which a client can use."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return address
    if found.version == 4:
        return address
    return str(found.ipv4_mapped or f"{int(found) >> 64:x}::/64")
