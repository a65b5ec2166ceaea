"""A scripted API server for barriers that records its requests."""

import contextlib
import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal
from urllib.parse import parse_qsl, urlsplit

import msgspec

from windlass.model.base import Json


class Answer(msgspec.Struct, frozen=True):
    code: int = 200
    body: Any = None
    """A response: bytes as they are, everything else as JSON."""


class Watch(msgspec.Struct, frozen=True):
    """The lines of a watch, and what follows: more pushed lines, the end, or a broken connection."""

    lines: Sequence[Any] = ()
    then: Literal["more", "end", "break"] = "end"


Step = Answer | Watch


class Asked(msgspec.Struct, frozen=True):
    what: str
    """A verb and a group, e.g. `watch windlass.dev`."""
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]


def event(kind: str, thing: Any) -> Json:
    return {"type": kind, "object": thing}


def refusal(code: int, message: str = "no") -> Answer:
    return Answer(code, {"kind": "Status", "apiVersion": "v1", "code": code, "message": message})


def _bytes(value: Any) -> bytes:
    return value if isinstance(value, bytes) else json.dumps(value).encode()


class Api:
    """The server. `steps` are the responses by request, in order; the last one repeats. Other requests get 404."""

    def __init__(self, steps: Mapping[str, Sequence[Step]], port: int = 0) -> None:
        self.asked: list[Asked] = []
        self._left = {what: list(each) for what, each in steps.items()}
        self._pushed: list[bytes] = []
        self._is_closed = False
        self._changed = threading.Condition()
        self._server = _server(self, port)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def questions(self) -> list[str]:
        return [each.what for each in self.asked]

    def push(self, *lines: Any) -> None:
        """Send events to open watches."""
        with self._changed:
            self._pushed += map(_bytes, lines)
            self._changed.notify_all()

    def wait_until_asked(self, times: int) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.asked) >= times, 60), self.questions

    def close(self) -> None:
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def next_step(self, asked: Asked) -> Step:
        with self._changed:
            self.asked.append(asked)
            self._changed.notify_all()
            left = self._left.get(asked.what, [refusal(404, f"{asked.path} not found")])
            return left.pop(0) if len(left) > 1 else left[0]

    def pushed(self) -> Iterator[bytes]:
        """Yield events until the server is closed."""
        seen = 0
        while True:
            with self._changed:
                while len(self._pushed) == seen and not self._is_closed:
                    self._changed.wait()
                if len(self._pushed) == seen:
                    return
                line = self._pushed[seen]
            seen += 1
            yield line


def _server(api: Api, port: int) -> ThreadingHTTPServer:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            query = dict(parse_qsl(parts.query))
            verb = "watch" if query.get("watch") == "true" else "get"
            group = parts.path.split("/")[2]  # or the version of the core group
            step = api.next_step(Asked(f"{verb} {group}", parts.path, query, dict(self.headers)))
            self.close_connection = True
            with contextlib.suppress(OSError):  # the client has disconnected
                self._answer(step) if isinstance(step, Answer) else self._stream(step)

        def _answer(self, step: Answer) -> None:
            body = b"" if step.body is None else _bytes(step.body)
            self.send_response(step.code)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def _stream(self, step: Watch) -> None:
            self.send_response(200)
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for line in step.lines:
                self._chunk(_bytes(line) + b"\n")
            if step.then == "more":
                for line in api.pushed():
                    self._chunk(line + b"\n")
            if step.then != "break":
                self._chunk(b"")

        def _chunk(self, data: bytes) -> None:
            self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
            self.wfile.flush()

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    server.daemon_threads = True
    return server


@contextlib.contextmanager
def serving(steps: Mapping[str, Sequence[Step]] | None = None, **more: Sequence[Step]) -> Iterator[Api]:
    """Run a server with steps by request: `get_launcher=[…]`, `watch_gangs=[…]`; see `WHATS`."""
    api = Api({WHATS[name]: each for name, each in {**(steps or {}), **more}.items()})
    try:
        yield api
    finally:
        api.close()


WHATS: Mapping[str, str] = {
    "get_config_map": "get v1",
    "watch_gangs": "watch windlass.dev",
    "get_launcher": "get launcher.microsoft.com",
    "watch_launcher": "watch launcher.microsoft.com",
    "get_framework": "get frameworkcontroller.microsoft.com",
    "watch_framework": "watch frameworkcontroller.microsoft.com",
}
