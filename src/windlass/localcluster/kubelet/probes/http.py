"""One GET as a kubelet sends it, over a connection that there is, and the status code of what comes back.

No client is needed for that, and none would let the connection begin in the network of a pod. Certificates are not
verified, and redirections are not followed.
"""

import asyncio
import re
import ssl
from urllib.parse import quote

import msgspec

from windlass.localcluster.apiserver.openapi import discovery
from windlass.model.base import Json

_MOST_BODY = 10 * 1024
_MOST_HEADERS = 1000
_STATUS = re.compile(rb"HTTP/\d\.\d (\d{3})(?: .*)?")
# What may stand in a path and a query as it is written.
_SAFE = "/:?#[]@!$&'()*+,;=%~"
_UNWRITABLE = re.compile("[\x00-\x08\x0a-\x1f\x7f]")


class NoAnswerError(Exception):
    """What came back, if anything, is no answer of HTTP."""


class Request(msgspec.Struct, frozen=True):
    scheme: str
    host: str
    port: int
    target: str
    headers: tuple[tuple[str, str], ...]

    def failure(self, problem: str) -> str:
        return f'Get "{self.scheme}://{address(self.host, self.port)}{self.target}": {problem}'

    def written(self) -> bytes:
        for name, value in self.headers:
            if _UNWRITABLE.search(value):
                raise NoAnswerError(f'net/http: invalid header field value for "{name}"')
        lines = [f"GET {self.target} HTTP/1.1", *(f"{name}: {value}" for name, value in self.headers), "", ""]
        return "\r\n".join(lines).encode()


def address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def request(action: Json, host: str, port: int) -> Request:
    """For a probe's `httpGet`."""
    written = str(action.get("path") or "/").partition("#")[0]
    target = quote(written if written.startswith("/") else f"/{written}", safe=_SAFE)
    scheme = str(action.get("scheme") or "HTTP").lower()
    return Request(scheme, host, port, target, _headers(action, address(host, port)))


def _headers(action: Json, host: str) -> tuple[tuple[str, str], ...]:
    """Given ones replace ours; one of ours that is given empty is not sent."""
    given = [(str(one["name"]), str(one.get("value") or "")) for one in action.get("httpHeaders") or ()]
    names = {name.lower() for name, _ in given}
    release, _, _ = discovery.KUBERNETES_VERSION.rpartition(".")
    usual = {"User-Agent": f"kube-probe/{release}", "Accept": "*/*"}
    named = next((value for name, value in given if name.lower() == "host" and value), host)
    return (
        ("Host", named),
        *((name, value) for name, value in usual.items() if name.lower() not in names),
        *((name, value) for name, value in given if name.lower() not in ("host", "connection") and value),
        ("Connection", "close"),
    )


async def exchange(wanted: Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> int:
    """The status code of the answer; NoAnswerError or OSError when there is none."""
    try:
        if wanted.scheme == "https":
            await writer.start_tls(_trusting(), server_hostname=wanted.host)
        writer.write(wanted.written())
        await writer.drain()
        code = await _status_code(reader)
        # Such an answer announces another one.
        while code // 100 == 1:
            await _skip_headers(reader)
            code = await _status_code(reader)
    except ssl.SSLError as error:
        raise NoAnswerError(f"tls: {(error.reason or str(error)).lower().replace('_', ' ')}") from error
    return code


async def take_body(reader: asyncio.StreamReader) -> None:
    """So that the server can finish. It says nothing about health."""
    length = await _skip_headers(reader)
    left = _MOST_BODY if length is None else min(length, _MOST_BODY)
    while left > 0:
        part = await reader.read(left)
        if not part:
            return
        left -= len(part)


async def _status_code(reader: asyncio.StreamReader) -> int:
    line = await _line(reader)
    if not line:
        raise NoAnswerError("EOF")
    matched = _STATUS.fullmatch(line.rstrip(b"\r\n"))
    if matched is None:
        shown = line.rstrip(b"\r\n")[:100].decode(errors="replace")
        broken = "net/http: HTTP/1.x transport connection broken"
        raise NoAnswerError(f"{broken}: malformed HTTP response {msgspec.json.encode(shown).decode()}")
    return int(matched[1])


async def _skip_headers(reader: asyncio.StreamReader) -> int | None:
    """How long the body is, when the headers say so."""
    length = None
    for _ in range(_MOST_HEADERS):
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
        raise NoAnswerError("net/http: server response headers exceeded the limit") from error


def _trusting() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context
