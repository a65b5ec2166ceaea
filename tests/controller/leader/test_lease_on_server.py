"""Two electors, real time and a real server. Nothing is measured: a test waits for what must happen."""

import asyncio
import functools
import json
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from windlass.controller.engine.system_clock import SystemClock
from windlass.controller.leader.election import Timings
from windlass.controller.leader.lease import Elector, LostError
from windlass.kubeapi import access, requests
from windlass.kubeapi.access import Access
from windlass.kubeapi.errors import NotFoundError
from windlass.kubeapi.requests import Request
from windlass.kubeapi.resources import LEASES
from windlass.kubeapi.transport import Transport
from windlass.localcluster.server import ApiServer

_NAMESPACE = "default"
_NAME = "windlass-test"
_PATIENCE_SECONDS = 60
_SHORT = Timings(duration=3, renew_deadline=2, retry_period=0.3)
_NEVER_ENDING = Timings(duration=10_000, renew_deadline=5_000, retry_period=0.3)


class _Candidates:
    def __init__(self, transport: Transport) -> None:
        self.transport = transport
        self.answered: list[str] = []
        """The candidates that got an answer, in order."""

    def __call__(self, identity: str, timings: Timings) -> Elector:
        async def send(request: Request, timeout: float) -> bytes:
            try:
                return await self.transport.send(request, timeout)
            finally:
                self.answered.append(identity)

        return Elector(
            send,
            namespace=_NAMESPACE,
            name=_NAME,
            identity=identity,
            timings=timings,
            monotonic=SystemClock().monotonic,
            now=lambda: datetime.now(UTC),
            sleep=asyncio.sleep,
        )

    async def spec(self) -> Any:
        """Empty when there is no Lease."""
        try:
            body = await self.transport.send(requests.get(LEASES, _NAMESPACE, _NAME))
        except NotFoundError:
            return {}
        return json.loads(body)["spec"]


Server = Callable[[], AbstractAsyncContextManager[Access]]
Story = Callable[[_Candidates], Awaitable[None]]


@asynccontextmanager
async def _embedded() -> AsyncIterator[Access]:
    # Not pytest's folder: the path of a socket must be short.
    with tempfile.TemporaryDirectory() as folder:
        socket = Path(folder, "api")
        server = ApiServer(Path(folder))
        await server.start(socket_path=socket)
        try:
            yield access.unix(socket)
        finally:
            await server.stop()


@asynccontextmanager
async def _real(kubeconfig: Path) -> AsyncIterator[Access]:
    yield await access.load(str(kubeconfig))


@pytest.fixture(scope="module")
def kubeconfig() -> Iterator[Path]:
    import kubernetes_api  # the embedded server's tests run without it

    with kubernetes_api.serve() as api:
        yield api.kubeconfig


@pytest.fixture(
    params=[
        "embedded",
        pytest.param("real", marks=pytest.mark.kubernetes),
    ]
)
def server(request: pytest.FixtureRequest) -> Server:
    if request.param == "embedded":
        return _embedded
    return functools.partial(_real, request.getfixturevalue("kubeconfig"))


def _run(server: Server, story: Story) -> None:
    async def run() -> None:
        async with server() as way, Transport(way) as transport:
            try:
                async with asyncio.timeout(_PATIENCE_SECONDS):
                    await story(_Candidates(transport))
            finally:
                with suppress(NotFoundError):
                    await transport.send(requests.delete(LEASES, _NAMESPACE, _NAME))

    asyncio.run(run())


async def _until(is_so: Callable[[], bool]) -> None:
    while not is_so():
        await asyncio.sleep(0.02)


async def _stop(leading: "asyncio.Task[Any]") -> None:
    leading.cancel()
    # A machine that stands still for seconds ends a short term as well.
    with suppress(asyncio.CancelledError, LostError):
        await leading


def test_standby_takes_over_from_a_dead_leader(server: Server) -> None:
    async def story(candidate: _Candidates) -> None:
        first, second = candidate("a", _SHORT), candidate("b", _SHORT)
        await first.acquire()
        leading = asyncio.create_task(first.keep())
        waiting = asyncio.create_task(second.acquire())
        await _until(lambda: candidate.answered.count("a") >= 4 and "b" in candidate.answered)
        await _stop(leading)
        await waiting
        assert first.remaining() == 0
        assert (await candidate.spec())["holderIdentity"] == "b"

    _run(server, story)


def test_standby_takes_over_at_once_after_a_release(server: Server) -> None:
    async def story(candidate: _Candidates) -> None:
        first, second = candidate("a", _NEVER_ENDING), candidate("b", _NEVER_ENDING)
        await first.acquire()
        waiting = asyncio.create_task(second.acquire())
        await _until(lambda: "b" in candidate.answered)
        assert await first.release()
        await waiting
        spec = await candidate.spec()
        assert (spec["holderIdentity"], spec["leaseTransitions"]) == ("b", 1)
        with pytest.raises(LostError):
            await first.keep()

    _run(server, story)


def test_leader_detects_that_its_lease_was_taken(server: Server) -> None:
    async def story(candidate: _Candidates) -> None:
        leader = candidate("a", _NEVER_ENDING)
        await leader.acquire()
        taken = requests.merge_patch(LEASES, _NAMESPACE, _NAME, b'{"spec": {"holderIdentity": "mallory"}}')
        await candidate.transport.send(taken)
        with pytest.raises(LostError, match="the lease is held by mallory"):
            await leader.keep()

    _run(server, story)


def test_deleted_lease_is_created_again_by_its_holder(server: Server) -> None:
    async def story(candidate: _Candidates) -> None:
        leader = candidate("a", _NEVER_ENDING)
        await leader.acquire()
        await candidate.transport.send(requests.delete(LEASES, _NAMESPACE, _NAME))
        keeping = asyncio.create_task(leader.keep())
        while (await candidate.spec()).get("holderIdentity") != "a":
            await asyncio.sleep(0.05)
        await _stop(keeping)

    _run(server, story)
