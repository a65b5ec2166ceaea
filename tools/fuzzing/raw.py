"""Send malformed HTTP: truncated heads, wrong lengths, invalid chunks, endless headers."""

from collections.abc import Callable
from random import Random

from fuzzing.session import Session
from fuzzing.wire import Line

_PATHS = (
    b"/api/v1/namespaces/default/configmaps",
    b"/version",
    b"/openapi/v2",
    b"*",
    b"http://[::1/",
    b"/\xff\xfe",
    b"",
)
_METHODS = (b"GET", b"POST", b"DELETE", b"CONNECT", b"PRI", b"get", b"G\0T", b"X" * 9000)
_VERSIONS = (b"HTTP/1.1", b"HTTP/1.0", b"HTTP/2.0", b"HTTP/0.9", b"HTTP/9", b"", b"ICY")
_BODY = b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"generateName":"raw-"},"data":{"a":"b"}}'
_HEADERS = (
    b"Transfer-Encoding: chunked",
    b"Transfer-Encoding: gzip, chunked",
    b"Transfer-Encoding: \x0bchunked",
    b"Content-Encoding: gzip",
    b"Content-Encoding: deflate",
    b"Content-Encoding: br",
    b"Expect: 100-continue",
    b"Expect: nonsense",
    b"Connection: close",
    b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: x",
    b"Connection: Upgrade\r\nUpgrade: SPDY/3.1",
    b"Upgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__",
    b"Host: other\r\nHost: another",
    b"Cookie: " + b"a=b; " * 500,
    b"X-Long: " + b"x" * 9000,
    b"X-Huge: " + b"x" * 200_000,
    b"\r\n".join(b"X-%d: y" % number for number in range(2000)),
    b": nameless",
    b"no colon",
    b" folded: line",
    b"X-Nul: a\0b",
    b"X-High: \xff\xc3\x28",
    b"Range: bytes=0-1",
    b"If-None-Match: *",
    b'Content-Type: multipart/form-data; boundary="\xff',
    b"Accept: application/json;as=Table;v=v1;g=meta.k8s.io\xe9",
    b"Authorization: Bearer \xff\xfe",
)
_LENGTHS = (
    b"",
    b"5",
    b"0",
    b"-1",
    b"1e3",
    b"+4",
    b"0x10",
    b"9" * 18,
    b"9" * 30,
    b"4, 4",
    b"4\r\nContent-Length: 5",
    b"\xd9\xa3",
)
_CHUNKS = (
    b"5\r\nhello\r\n0\r\n\r\n",
    b"zz\r\nhello\r\n0\r\n\r\n",
    b"-5\r\nhello\r\n0\r\n\r\n",
    b"FFFFFFFFFFFFFFFFFF\r\nhello",
    b"5;ext=" + b"x" * 9000 + b"\r\nhello\r\n0\r\n\r\n",
    b"5\nhello\n0\n\n",
    b"0\r\nTrailer: x\r\nTransfer-Encoding: chunked\r\n\r\n",
    b"%x\r\n%s\r\n0\r\n\r\n" % (len(_BODY), _BODY),
)


def run(session: Session, line: Line, dice: Random) -> None:
    while session.goes_on():
        session.throw(line, dice.choice(_FORMS)(dice))
        # The remainder of one must not be taken for the start of the next.
        line.close()


def _head(dice: Random) -> bytes:
    first = b" ".join((dice.choice(_METHODS[:3]), dice.choice(_PATHS[:3]), b"HTTP/1.1"))
    if dice.random() < 0.4:
        first = b" ".join((dice.choice(_METHODS), dice.choice(_PATHS), dice.choice(_VERSIONS)))
    lines = [first, b"Host: localhost", *dice.sample(_HEADERS, k=dice.choice((0, 1, 1, 2, 3)))]
    if dice.random() < 0.7:
        lines.append(b"Content-Length: " + dice.choice(_LENGTHS))
    return dice.choice((b"\r\n", b"\r\n", b"\r\n", b"\n", b"\r")).join(lines)


def _whole(dice: Random) -> bytes:
    return _head(dice) + b"\r\n\r\n" + dice.choice((b"", _BODY, *_CHUNKS))


def _cut(dice: Random) -> bytes:
    whole = _whole(dice)
    return whole[: dice.randrange(len(whole))]


def _flipped(dice: Random) -> bytes:
    whole = bytearray(_whole(dice)[:3000])
    for _ in range(dice.randint(1, 6)):
        whole[dice.randrange(len(whole))] = dice.randrange(256)
    return bytes(whole)


def _several(dice: Random) -> bytes:
    return b"".join(_whole(dice) for _ in range(3))


def _noise(dice: Random) -> bytes:
    return dice.randbytes(dice.choice((1, 10, 1000, 100_000)))


def _too_large(dice: Random) -> bytes:
    head = b"POST /api/v1/namespaces/default/configmaps HTTP/1.1\r\nHost: localhost\r\n"
    size = dice.choice((3 * 1024 * 1024 + 1, 8 * 1024 * 1024))
    if dice.random() < 0.5:
        return head + b"Content-Length: %d\r\n\r\n" % size + b" " * size
    return head + b"Transfer-Encoding: chunked\r\n\r\n" + b"%x\r\n%s\r\n0\r\n\r\n" % (size, b" " * size)


def _compressed(dice: Random) -> bytes:
    body = dice.choice((b"", b"\x1f\x8b", dice.randbytes(50), _BODY))
    lines = b"POST /api/v1/namespaces/default/configmaps HTTP/1.1\r\nHost: localhost\r\nContent-Encoding: "
    encoding = dice.choice((b"gzip", b"deflate", b"br", b"zstd", b"identity", b"x"))
    return lines + encoding + b"\r\nContent-Length: %d\r\n\r\n" % len(body) + body


_FORMS: tuple[Callable[[Random], bytes], ...] = (
    *(_whole, _whole, _whole, _cut, _flipped, _flipped, _several, _noise, _compressed),
    _too_large,
)
