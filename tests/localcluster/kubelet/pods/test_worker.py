"""The sync loop of a pod worker."""

import asyncio
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from windlass.localcluster.kubelet.fault_injection import FaultInjector
from windlass.localcluster.kubelet.lifecycle import statuses
from windlass.localcluster.kubelet.pods.worker import PodWorker
from windlass.localcluster.sandbox import messages
from windlass.model.base import Json

POD: Json = {
    "metadata": {"name": "p", "namespace": "default", "uid": "u"},
    "spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "x"}]},
}
DELETED: Json = {
    **POD,
    "metadata": {
        **POD["metadata"],
        "deletionTimestamp": "2026-01-02T12:00:00Z",
        "deletionGracePeriodSeconds": 30,
    },
}


def test_other_tasks_run_between_the_starts_of_containers(monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"c{number}" for number in range(20)]
    pod: dict[str, Any] = {
        "metadata": {"name": "p", "namespace": "default", "uid": "u"},
        "spec": {"containers": [{"name": name} for name in names]},
    }
    started: list[str] = []
    seen: list[int] = []

    async def start(_: PodWorker, name: str) -> None:
        started.append(name)

    monkeypatch.setattr(PodWorker, "_start", start)
    monkeypatch.setattr(PodWorker, "_publish", lambda _: None)

    async def observe() -> None:
        while len(started) < len(names):
            seen.append(len(started))
            await asyncio.sleep(0)

    async def run() -> None:
        worker = PodWorker(
            pod,
            Mock(),
            status_manager=Mock(),
            events=Mock(),
            faults=Mock(start_delay=lambda _: 0.0),
            log_watcher=Mock(),
            on_store_error=Mock(),
        )
        observer = asyncio.create_task(observe())
        worker_run = asyncio.create_task(worker.run())
        await observer
        worker_run.cancel()
        await asyncio.gather(worker_run, return_exceptions=True)

    asyncio.run(run())
    assert started == names
    assert set(seen) >= {*range(len(names))}


class FakeSupervisor:
    """Records requests.

    `on_start` is called with the id of a run when its start is requested, `on_signal` after a signal.
    """

    def __init__(self) -> None:
        self.on_start: Callable[[str], object] = lambda _: None
        self.on_signal: Callable[[], object] = lambda: None
        self.starts: list[str] = []
        self.signals: list[int] = []
        self.has_ended = asyncio.Event()

    def start(self, plan: Any) -> None:
        self.starts.append(plan.id)
        self.on_start(plan.id)

    def signal(self, _: str, number: int) -> None:
        self.signals.append(number)
        self.on_signal()

    async def end(self) -> None:
        self.has_ended.set()

    def disconnect(self) -> None:
        pass


class Harness:
    """A worker whose sandbox is not real. `published` are the statuses that it has written."""

    def __init__(self, folder: Path) -> None:
        self.supervisor = FakeSupervisor()
        self.published: list[Json] = []
        self.while_creating: Callable[[], object] = lambda: None
        self.events = Mock()
        sandbox = Mock(pod_name="default/p", create=self._create_sandbox)
        sandbox.folder.path = folder
        sandbox.allocate_addresses.return_value = SimpleNamespace(pod=("10.0.0.2",), host=("10.0.0.1",))
        sandbox.plan = lambda _pod, _name, run_id, _count: SimpleNamespace(id=run_id)
        sandbox.unapplied_security_fields.return_value = []
        sandbox.image_id.return_value = sandbox.termination_message.return_value = ""
        self.worker = PodWorker(
            POD,
            sandbox,
            status_manager=Mock(publish=self._publish),
            events=self.events,
            faults=FaultInjector(),
            log_watcher=Mock(),
            on_store_error=Mock(),
        )

    async def _create_sandbox(self, _: Json) -> None:
        self.while_creating()

    async def connect(self) -> None:
        self.worker.containers.supervisor = self.supervisor  # type: ignore[assignment]

    def _publish(self, pod: Json, *arguments: Any, **options: Any) -> Json:
        self.published.append(statuses.pod_status(pod, *arguments, **options))
        published = {**pod, "status": self.published[-1]}
        if published != pod:
            self.worker.set_pod(published)
        return published

    def report(self, *reports: Any) -> None:
        for report in reports:
            self.worker.containers._on_report(report)

    def delete_pod(self) -> None:
        self.worker.set_pod({**self.worker.pod, "metadata": DELETED["metadata"]})

    def last_end(self) -> tuple[str, Any]:
        status = self.published[-1]
        return status["phase"], status["containerStatuses"][0]["state"]["terminated"]["exitCode"]


def run_worker(
    folder: Path, monkeypatch: pytest.MonkeyPatch, test: Callable[[Harness], Awaitable[object]]
) -> None:
    async def run() -> None:
        harness = Harness(folder)
        monkeypatch.setattr(harness.worker.containers, "connect", harness.connect)
        task = asyncio.create_task(harness.worker.run())
        try:
            async with asyncio.timeout(60):
                await test(harness)
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    asyncio.run(run())


def test_container_that_ends_while_the_worker_yields_is_not_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reports arrive before the next step of the sync loop that the start has caused."""

    async def test(harness: Harness) -> None:
        def end_soon(run_id: str) -> None:
            reports = (messages.Started(run_id, 1.0), messages.Ended(run_id, 2.0, 255))
            asyncio.get_running_loop().call_soon(harness.report, *reports)

        harness.supervisor.on_start = end_soon
        await harness.supervisor.has_ended.wait()
        assert len(harness.supervisor.starts) == 1
        assert harness.last_end() == ("Failed", 255)

    run_worker(tmp_path, monkeypatch, test)


def test_deleted_pod_is_not_failed_while_its_container_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(harness: Harness) -> None:
        loop = asyncio.get_running_loop()
        harness.supervisor.on_start = lambda _: loop.call_soon(harness.delete_pod)
        while not (harness.worker.pod["metadata"].get("deletionTimestamp") and harness.supervisor.starts):
            await asyncio.sleep(0)
        (run_id,) = harness.supervisor.starts
        harness.report(messages.Started(run_id, 1.0))
        while not harness.supervisor.signals:
            await asyncio.sleep(0)
        assert {status["phase"] for status in harness.published} == {"Pending", "Running"}
        assert harness.supervisor.signals == [signal.SIGTERM]
        harness.report(messages.Ended(run_id, 2.0, 0, signal.SIGTERM))
        await harness.supervisor.has_ended.wait()
        assert harness.last_end() == ("Failed", 143)

    run_worker(tmp_path, monkeypatch, test)


def test_container_is_not_started_if_the_pod_is_deleted_while_its_sandbox_is_created(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(harness: Harness) -> None:
        harness.while_creating = harness.delete_pod
        await harness.supervisor.has_ended.wait()
        assert harness.supervisor.starts == []
        assert harness.published[-1]["phase"] == "Failed"

    run_worker(tmp_path, monkeypatch, test)


@pytest.mark.parametrize("has_started", [False, True])
def test_exceeded_deadline_is_reported_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_started: bool
) -> None:
    async def test(harness: Harness) -> None:
        def exceed() -> None:
            pod = harness.worker.pod
            harness.worker.set_pod({**pod, "spec": {**pod["spec"], "activeDeadlineSeconds": 0}})

        def start(run_id: str) -> None:
            loop = asyncio.get_running_loop()
            loop.call_soon(harness.report, messages.Started(run_id, 1.0))
            loop.call_soon(exceed)

        def end() -> None:
            (run_id,) = harness.supervisor.starts
            harness.report(messages.Ended(run_id, 2.0, 0, signal.SIGTERM))

        if has_started:
            harness.supervisor.on_start, harness.supervisor.on_signal = start, end
        else:
            harness.while_creating = exceed
        await harness.supervisor.has_ended.wait()
        assert len(harness.supervisor.starts) == has_started
        assert harness.published[-1]["reason"] == "DeadlineExceeded"
        (reported,) = harness.events.ending.call_args_list
        assert reported.args[1].reason == "DeadlineExceeded"

    run_worker(tmp_path, monkeypatch, test)
