"""The fake kubelet with a scripted transport."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any, cast

from fake_kubelet.kubelet import FakeKubelet
from fake_kubelet.lifecycle import Life

from windlass.kubeapi.requests import Query, Request
from windlass.kubeapi.transport import Transport


class HeldTransport:
    """Lists one pod, answers every other request once `open` is set, and sends what is in `lines` on the watch."""

    def __init__(self, pod: dict[str, Any]) -> None:
        self.pod = pod
        self.open = asyncio.Event()
        self.lines: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.sent: list[Request] = []
        self.asked: list[Query] = []

    async def send(self, request: Request, timeout: float) -> bytes:
        if request.method == "GET":
            self.asked.append(request.query)
            return json.dumps({"metadata": {"resourceVersion": "1"}, "items": [self.pod]}).encode()
        await self.open.wait()
        self.sent.append(request)
        return b"{}"

    @contextlib.asynccontextmanager
    async def stream(self, request: Request, longest: float) -> AsyncIterator[AsyncIterator[bytes]]:
        yield self._events()

    async def _events(self) -> AsyncIterator[bytes]:
        while True:
            yield json.dumps(await self.lines.get()).encode() + b"\n"
            self.lines.task_done()


def test_pod_changed_while_waiting_for_a_connection_starts_once() -> None:
    asyncio.run(_change_while_it_waits())


async def _change_while_it_waits() -> None:
    pods = [_pod("busy"), _pod("waiting")]
    transport = HeldTransport(pods[0])
    kubelet = FakeKubelet(cast("Transport", transport), play=lambda _: Life(runs_for=0), connections=1)
    running = asyncio.create_task(kubelet.run())
    for version in range(2, 6):
        # The one connection is taken by the other pod, and this one's step waits for it.
        pods[1]["metadata"]["resourceVersion"] = str(version)
        transport.lines.put_nowait({"type": "MODIFIED", "object": pods[1]})
        await transport.lines.join()
        for _ in range(20):
            await asyncio.sleep(0)
    transport.open.set()
    while not _patches(transport, "Succeeded", of="waiting"):
        await asyncio.sleep(0)
    for _ in range(100):
        await asyncio.sleep(0)
    running.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running
    assert [_patches(transport, phase, of="waiting") for phase in ("Running", "Succeeded")] == [1, 1]


def test_only_pods_with_the_label_are_handled() -> None:
    asyncio.run(_look_at_what_is_asked_for())


async def _look_at_what_is_asked_for() -> None:
    transport = HeldTransport(_pod("one"))
    transport.open.set()
    kubelet = FakeKubelet(cast("Transport", transport), label="team/job", node="")
    running = asyncio.create_task(kubelet.run())
    while not _patches(transport, "Succeeded", of="one"):
        await asyncio.sleep(0)
    running.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running
    assert all(("labelSelector", "team/job") in query for query in transport.asked)
    assert not any(sent.path.endswith("/binding") for sent in transport.sent), (
        "without a node nothing is bound"
    )


def _patches(transport: HeldTransport, phase: str, of: str) -> int:
    bodies = [json.loads(sent.body) for sent in transport.sent if sent.path.endswith(f"/{of}/status")]
    return sum(body["status"]["phase"] == phase for body in bodies)


def _pod(name: str) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "default", "uid": name, "resourceVersion": "1"}
    return {"metadata": metadata, "spec": {"containers": [{"name": "c"}]}, "status": {"phase": "Pending"}}
