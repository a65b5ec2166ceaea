"""The HTTP endpoints of the controller."""

import asyncio
import contextlib

import aiohttp
import builders
import pytest
from prometheus_client.parser import text_string_to_metric_families

from windlass.controller.observe import endpoints, metrics
from windlass.simulate.virtual_time import Timeline, VirtualClock

Answer = tuple[int, str, str]


class Controller:
    """The state that the endpoints report."""

    def __init__(self, alive: str = "", ready: str = "") -> None:
        self.alive = alive
        self.ready = ready

    def answer(self, *asked: tuple[str, str]) -> list[Answer]:
        """Method and path → code, content type, text."""
        return asyncio.run(self._answer(asked))

    async def _answer(self, asked: tuple[tuple[str, str], ...]) -> list[Answer]:
        answers: list[Answer] = []
        async with self.serving() as port, aiohttp.ClientSession(f"http://127.0.0.1:{port}") as session:
            for method, path in asked:
                async with session.request(method, path) as response:
                    answers.append((response.status, response.headers["Content-Type"], await response.text()))
        return answers

    def serving(
        self, host: str = "127.0.0.1", port: int | None = 0
    ) -> contextlib.AbstractAsyncContextManager[int | None]:
        return endpoints.serving(
            host,
            port,
            metrics=lambda: b"windlass_leader 1\n",
            content_type=metrics.CONTENT_TYPE,
            check_liveness=lambda: self.alive,
            check_readiness=lambda: self.ready,
        )


TEXT = "text/plain; charset=utf-8"


@pytest.mark.parametrize(
    ("controller", "method", "path", "expected"),
    [
        (Controller(), "GET", "/healthz", (200, TEXT, "ok\n")),
        (Controller(), "GET", "/readyz", (200, TEXT, "ok\n")),
        (Controller(), "HEAD", "/readyz", (200, TEXT, "")),
        (Controller(ready="not listed"), "GET", "/readyz", (503, TEXT, "not listed\n")),
        (Controller(ready="not listed"), "GET", "/healthz", (200, TEXT, "ok\n")),
        (Controller(alive="stuck"), "GET", "/healthz", (503, TEXT, "stuck\n")),
        (Controller(), "GET", "/metrics", (200, metrics.CONTENT_TYPE, "windlass_leader 1\n")),
        (Controller(), "GET", "/", (404, TEXT, "404: Not Found")),
        (Controller(), "POST", "/metrics", (405, TEXT, "405: Method Not Allowed")),
    ],
)
def test_health_checks_answer(controller: Controller, method: str, path: str, expected: Answer) -> None:
    assert controller.answer((method, path)) == [expected]


def test_metrics_are_served_as_prometheus_reads_them() -> None:
    async def read() -> tuple[str, str]:
        measured = metrics.Metrics(
            VirtualClock(Timeline(builders.NOW)),
            frameworks=lambda: [builders.framework("job")],
            queue_depth=lambda: 3,
            is_leader=lambda: True,
        )
        serving = endpoints.serving(
            "127.0.0.1",
            0,
            metrics=measured.exposition,
            content_type=metrics.CONTENT_TYPE,
            check_liveness=lambda: "",
            check_readiness=lambda: "",
        )
        async with serving as port, aiohttp.request("GET", f"http://127.0.0.1:{port}/metrics") as response:
            return response.headers["Content-Type"], await response.text()

    content_type, text = asyncio.run(read())
    assert content_type == "text/plain; version=0.0.4; charset=utf-8"
    found = {family.name: family for family in text_string_to_metric_families(text)}
    assert found["windlass_queue_depth"].samples[0].value == 3
    assert found["process_resident_memory_bytes"].samples[0].value > 0


def test_port_in_use_raises_a_clear_message() -> None:
    async def collide() -> tuple[int | None, str]:
        controller = Controller()
        async with controller.serving() as taken:
            with pytest.raises(endpoints.ListenError) as raised:
                await controller.serving(port=taken).__aenter__()
            return taken, str(raised.value)

    port, message = asyncio.run(collide())
    assert message.startswith(f"cannot serve /metrics, /healthz and /readyz on 127.0.0.1, port {port}: ")
    assert "address already in use" in message.lower()
    assert "\n" not in message


def test_port_is_released() -> None:
    async def reuse() -> None:
        controller = Controller()
        async with controller.serving() as port:
            pass
        async with controller.serving(port=port) as again:
            assert again == port

    asyncio.run(reuse())


def test_connected_client_does_not_delay_shutdown() -> None:
    async def stay() -> None:
        async with aiohttp.ClientSession() as session, Controller().serving() as port:
            answer = await session.get(f"http://127.0.0.1:{port}/healthz")
            assert await answer.text() == "ok\n"

    asyncio.run(asyncio.wait_for(stay(), 60))


def test_endpoints_can_be_disabled() -> None:
    async def serve() -> int | None:
        async with Controller().serving(port=None) as port:
            return port

    assert asyncio.run(serve()) is None
