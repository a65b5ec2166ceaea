"""A server that answers as a script says, for what a good API server does not do; and how a test runs a loop."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, NamedTuple, TypeVar

from aiohttp import web

T = TypeVar("T")
Answer = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]
PATIENCE_SECONDS = 120.0


def run(work: Coroutine[Any, Any, T]) -> T:
    """In a loop of its own. What never comes is an error, not a hanging run."""

    async def patiently() -> T:
        return await asyncio.wait_for(work, PATIENCE_SECONDS)

    return asyncio.run(patiently())


class Received(NamedTuple):
    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes


class Script:
    """Gives one answer after the other. A request after the last one blocks, and `over` is set."""

    def __init__(self, *answers: Answer) -> None:
        self._answers = list(answers)
        self.received: list[Received] = []
        self.over = asyncio.Event()
        self.url = ""

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        body = await request.read()
        self.received.append(
            Received(request.method, request.path, dict(request.query), dict(request.headers), body)
        )
        if self._answers:
            return await self._answers.pop(0)(request)
        self.over.set()
        return await hold(request)

    def tokens(self) -> list[str]:
        return [each.headers.get("Authorization", "") for each in self.received]


@asynccontextmanager
async def serving(script: Script, context: ssl.SSLContext | None = None) -> AsyncIterator[Script]:
    runner = web.ServerRunner(
        web.Server(script.answer, handler_cancellation=True, access_log=None), shutdown_timeout=0.1
    )
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
    scheme = "http" if context is None else "https"
    script.url = f"{scheme}://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield script
    finally:
        await runner.cleanup()


async def hold(request: web.BaseRequest) -> web.StreamResponse:
    """Never answers."""
    await asyncio.Event().wait()
    raise AssertionError


def text(body: str, code: int = 200, content_type: str = "application/json", **headers: str) -> Answer:
    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        spelt = {name.replace("_", "-"): value for name, value in headers.items()}
        return web.Response(text=body, status=code, content_type=content_type, headers=spelt)

    return answer


def status_body(code: int, reason: str, **details: Any) -> dict[str, Any]:
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "message": f"it is {reason}",
        "reason": reason,
        "code": code,
        "details": details,
    }


def refusal(code: int, reason: str, **headers: str) -> Answer:
    return text(json.dumps(status_body(code, reason)), code, **headers)


def an_object(name: str, version: int) -> dict[str, Any]:
    return {"metadata": {"name": name, "resourceVersion": str(version)}}


def page(version: int, *names: str, more: str = "") -> Answer:
    metadata = {"resourceVersion": str(version), "continue": more}
    return text(json.dumps({"metadata": metadata, "items": [an_object(name, version) for name in names]}))


def event(kind: str, name: str, version: int) -> bytes:
    return json.dumps({"type": kind, "object": an_object(name, version)}).encode() + b"\n"


def error_event(code: int, reason: str) -> bytes:
    return json.dumps({"type": "ERROR", "object": status_body(code, reason)}).encode() + b"\n"


def stream(*pieces: bytes, is_cut: bool = False) -> Answer:
    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        for piece in pieces:
            await response.write(piece)
        if is_cut and request.transport is not None:
            # The chunk that would end the body is missing.
            request.transport.close()
        return response

    return answer
