"""HTTP GET of a probe or hook over an open connection.

A general HTTP client cannot be used, because the caller opens the connection in the network of the pod. Like the
kubelet, this module does not verify certificates. It does not follow redirects.
"""

import asyncio
import re
import ssl
from urllib.parse import quote

import msgspec

from windlass.localcluster.apiserver.openapi import discovery
from windlass.model.base import Json

_MAX_BODY = 10 * 1024
_MAX_HEADERS = 1000
_STATUS = re.compile(rb"HTTP/\d\.\d (\d{3})(?: .*)?")
# Characters of a path and query that are not escaped, besides those that `quote` never escapes.
_SAFE = "/:?#[]@!$&'()*+,;=%~"
_INVALID_IN_HEADER = re.compile("[\x00-\x08\x0a-\x1f\x7f]")


class NoResponseError(Exception):
    """The request cannot be sent, or its response is missing or not valid HTTP."""


class Request(msgspec.Struct, frozen=True):
    scheme: str
    host: str
    port: int
    target: str
    headers: tuple[tuple[str, str], ...]

    def error_message(self, problem: str) -> str:
        return f'Get "{self.scheme}://{address(self.host, self.port)}{self.target}": {problem}'

    def encode(self) -> bytes:
        for name, value in self.headers:
            if _INVALID_IN_HEADER.search(value):
                raise NoResponseError(f'net/http: invalid header field value for "{name}"')
        lines = [f"GET {self.target} HTTP/1.1", *(f"{name}: {value}" for name, value in self.headers), "", ""]
        return "\r\n".join(lines).encode()


def address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def new_request(action: Json, host: str, port: int) -> Request:
    """Return the request for the `httpGet` of a probe or hook."""
    written = str(action.get("path") or "/").partition("#")[0]
    target = quote(written if written.startswith("/") else f"/{written}", safe=_SAFE)
    scheme = str(action.get("scheme") or "HTTP").lower()
    return Request(scheme, host, port, target, _headers(action, address(host, port)))


def _headers(action: Json, host: str) -> tuple[tuple[str, str], ...]:
    """Return the headers. A custom header replaces the default of the same name, and removes it if the value is empty.

    An empty Host and any Connection header are ignored.
    """
    given = [(str(one["name"]), str(one.get("value") or "")) for one in action.get("httpHeaders") or ()]
    names = {name.lower() for name, _ in given}
    release, _, _ = discovery.KUBERNETES_VERSION.rpartition(".")
    usual = {"User-Agent": f"kube-probe/{release}", "Accept": "*/*"}
    host_header = next((value for name, value in given if name.lower() == "host" and value), host)
    return (
        ("Host", host_header),
        *((name, value) for name, value in usual.items() if name.lower() not in names),
        *((name, value) for name, value in given if name.lower() not in ("host", "connection") and value),
        ("Connection", "close"),
    )


async def exchange(request: Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> int:
    """Send the request, and return the status code of the response. Raises NoResponseError or OSError."""
    try:
        if request.scheme == "https":
            await writer.start_tls(_unverified_context(), server_hostname=request.host)
        writer.write(request.encode())
        await writer.drain()
        code = await _status_code(reader)
        # An informational response precedes the final one.
        while code // 100 == 1:
            await _skip_headers(reader)
            code = await _status_code(reader)
    except ssl.SSLError as error:
        raise NoResponseError(f"tls: {(error.reason or str(error)).lower().replace('_', ' ')}") from error
    return code


async def discard_body(reader: asyncio.StreamReader) -> None:
    """Read the headers and the beginning of the body, so that the server can finish its response."""
    length = await _skip_headers(reader)
    left = _MAX_BODY if length is None else min(length, _MAX_BODY)
    while left > 0:
        part = await reader.read(left)
        if not part:
            return
        left -= len(part)


async def _status_code(reader: asyncio.StreamReader) -> int:
    line = await _line(reader)
    if not line:
        raise NoResponseError("EOF")
    matched = _STATUS.fullmatch(line.rstrip(b"\r\n"))
    if matched is None:
        shown = line.rstrip(b"\r\n")[:100].decode(errors="replace")
        broken = "net/http: HTTP/1.x transport connection broken"
        raise NoResponseError(f"{broken}: malformed HTTP response {msgspec.json.encode(shown).decode()}")
    return int(matched[1])


async def _skip_headers(reader: asyncio.StreamReader) -> int | None:
    """Read the headers, and return the length of the body if they contain it."""
    length = None
    for _ in range(_MAX_HEADERS):
        line = (await _line(reader)).strip()
        if not line:
            break
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length" and value.strip().isdigit():
            length = int(value)
    return length


async def _line(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.readline()
    except ValueError as error:
        raise NoResponseError("net/http: server response headers exceeded the limit") from error


def _unverified_context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context
