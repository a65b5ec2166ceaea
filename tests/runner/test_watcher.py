"""Output of containers: of exactly the run that was observed, from a stream in pieces or from its log file."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from windlass.cli.terminal.output import Output, Style
from windlass.client import pods
from windlass.client.pods import Run
from windlass.client.submit.plan import PlannedJob, SubmitPlan
from windlass.kubeapi import access, errors
from windlass.kubeapi.requests import Request
from windlass.kubeapi.transport import Transport
from windlass.localcluster.cluster import PODS
from windlass.localcluster.kubelet.pods.directory import PodDirectory
from windlass.localcluster.sandbox.process.log_writer import LogWriter
from windlass.model import names
from windlass.runner import watcher
from windlass.runner.output_files import OutputFiles
from windlass.runner.report import LogLines, Reported
from windlass.runner.watcher import SeenPods, Watcher


def status(restarts: int = 0, state: str = "running", last: str = "waiting") -> dict[str, Any]:
    fields: dict[str, Any] = {"running": {}, "terminated": {"exitCode": 1}, "waiting": {}}
    return {
        "name": "main",
        "restartCount": restarts,
        "state": {state: fields[state]},
        "lastState": {last: fields[last]},
    }


def pod(uid: str, container: dict[str, Any] | None = None) -> dict[str, Any]:
    return {
        "metadata": {"name": "digits-ps-0", "namespace": "here", "uid": uid},
        "status": {"containerStatuses": [container or status()]},
    }


class InPieces(Transport):
    """A transport that responds to a log request with these pieces, and to others with the current pod."""

    def __init__(self, pieces: Sequence[bytes], current: dict[str, Any] | None) -> None:
        super().__init__(access.unix("/nonexistent/socket"))
        self.asked: list[Request] = []
        self._pieces = pieces
        self._current = current

    @contextlib.asynccontextmanager
    async def stream(
        self, request: Request, longest: float | None = None
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        self.asked.append(request)
        yield self._answer()

    async def _answer(self) -> AsyncIterator[bytes]:
        for piece in self._pieces:
            yield piece

    async def send(self, request: Request, timeout: float = 30.0) -> bytes:
        if self._current is None:
            raise errors.from_response(404, {}, b"{}")
        return msgspec.json.encode(self._current)


class Recorder(Output):
    def __init__(self, stream: Any) -> None:
        super().__init__(stream, Style())
        self.items: list[Reported] = []
        self.waits: list[int] = []
        """The number of items before each wait."""
        self.wait_for_reader = self._record_wait

    def report(self, item: Reported) -> None:
        self.items.append(item)

    async def _record_wait(self) -> None:
        self.waits.append(len(self.items))

    @property
    def blocks(self) -> list[bytes]:
        return [item.data for item in self.items if isinstance(item, LogLines)]


NO_FILES = OutputFiles(None, "job")


def read(transport: InPieces, data: Path) -> Recorder:
    """Read the output of the first run of the container of the pod `mine`."""
    with (data / "out").open("wb") as stream:
        recorder = Recorder(stream)

        async def main() -> None:
            async with transport:
                reader = Watcher(SubmitPlan(()), transport, recorder, data, NO_FILES, reads_logs=True)
                mine = pods.decode(msgspec.json.encode(pod("mine")))
                await reader._read_log(mine, Run("mine", "main", 0))

        asyncio.run(main())
        recorder.finish()
    return recorder


BLOCKS = {
    "whole": ([b"a\nb\n"], [b"a\nb\n"]),
    "pieces": ([b"a", b"b\n\nc"], [b"ab\n\n", b"c"]),
    "not-utf-8": ([b"\xc3", b"\xa4\xff\n"], [b"\xc3\xa4\xff\n"]),
    "long": ([b"x" * 70_000, b"\ny"], [b"x" * 70_000, b"\n", b"y"]),
    "long-with-wide-characters": (
        [b"x" * 65_535 + "ä".encode(), "ä\n".encode()],
        [b"x" * 65_535 + "ä".encode(), "ä\n".encode()],
    ),
    "empty": ([b""], []),
}


@pytest.mark.parametrize(("pieces", "expected"), BLOCKS.values(), ids=BLOCKS)
def test_output_is_reported_in_blocks_of_lines(
    tmp_path: Path, pieces: list[bytes], expected: list[bytes]
) -> None:
    transport = InPieces(pieces, pod("mine"))
    assert read(transport, tmp_path).blocks == expected
    (asked,) = transport.asked
    assert asked.path == "/api/v1/namespaces/here/pods/digits-ps-0/log"
    assert dict(asked.query) == {"container": "main", "follow": "true"}


def test_progress_is_reported_after_its_line(tmp_path: Path) -> None:
    lines = [b"windlass progress 1/3 loss=0.5\n", b"no windlass progress 7/8\n", b"windlass progress x\n"]
    text = b"".join([*lines, b"windlass progress 2/3\nmore\n"])
    found = read(InPieces([text], pod("mine")), tmp_path).items
    reported = [item.data if isinstance(item, LogLines) else item.step for item in found]  # type: ignore[union-attr]
    assert reported == [lines[0], 1, b"".join([*lines[1:], b"windlass progress 2/3\n"]), 2, b"more\n"]


OTHERS = {
    "deleted": None,
    "replaced by the next attempt": pod("other"),
    "restarted container": pod("mine", status(1)),
}


@pytest.mark.parametrize("current", OTHERS.values(), ids=OTHERS)
def test_log_of_another_run_is_not_reported(tmp_path: Path, current: dict[str, Any] | None) -> None:
    """The response may be the log of another pod of the same name. The log file of the ended run is read instead."""
    folder = PodDirectory(tmp_path / PODS / "mine").logs("main")
    folder.mkdir(parents=True)
    log = LogWriter(str(folder / "0.log"), max_bytes=100)
    for number in range(10):
        log.write("stdout", b"line %d\n" % number)
    log.close()
    found = read(InPieces([b"of another run\n"], current), tmp_path)
    assert b"".join(found.blocks) == b"".join(b"line %d\n" % number for number in range(10))


def test_log_deleted_with_its_pod_is_reported(tmp_path: Path) -> None:
    (line,) = read(InPieces([b"of another pod\n"], pod("other")), tmp_path).items
    assert "cannot read the output of container main: the log was deleted with its pod" in str(line)


RUNS = {
    "waiting": (status(state="waiting"), []),
    "running": (status(), [0]),
    "ended": (status(state="terminated"), [0]),
    "ended and waiting for its restart": (status(2, "waiting", "terminated"), [2]),
    "restarted": (status(3, "running", "terminated"), [2, 3]),
}


@pytest.mark.parametrize(("container", "expected"), RUNS.values(), ids=RUNS)
def test_runs_that_may_have_a_log(container: dict[str, Any], expected: list[int]) -> None:
    """A short run may be observed only after its end."""
    found = pods.decode(msgspec.json.encode(pod("mine", container)))
    assert [run.restart_count for run in found.started_runs] == expected


def test_block_size_limits_the_memory_of_large_chunks(tmp_path: Path) -> None:
    found = read(InPieces([b"word\n" * 100_000], pod("mine")), tmp_path)
    assert b"".join(found.blocks) == b"word\n" * 100_000
    assert max(map(len, found.blocks)) <= watcher.MAX_BLOCK_BYTES + len(b"word\n")


def test_every_block_of_output_waits_for_the_reader(tmp_path: Path) -> None:
    found = read(InPieces([b"word\n" * 100_000], pod("mine")), tmp_path)
    assert found.waits == [*range(len(found.blocks))]


def task_pod(uid: str, version: int) -> pods.Pod:
    metadata = {"name": "digits-ps-0", "namespace": "here", "uid": uid, "resourceVersion": str(version)}
    return pods.decode(msgspec.json.encode({"metadata": metadata}))


def raw(*listed: pods.Pod) -> list[msgspec.Raw]:
    return [msgspec.Raw(msgspec.json.encode({"metadata": {"uid": pod.uid}})) for pod in listed]


@pytest.mark.parametrize(
    ("deliver", "is_missing"),
    [
        (lambda seen: seen.add(task_pod("kept", 6)), True),
        (lambda seen: seen.add(task_pod("kept", 7)), False),
        (lambda seen: seen.remove(task_pod("kept", 8)), False),
        (lambda seen: (seen.add(task_pod("kept", 6)), seen.replace(raw())), False),
    ],
    ids=["older", "same-version", "deleted-since", "listed-without-it"],
)
def test_end_of_a_run_waits_for_the_last_states_of_pods(deliver: Any, is_missing: bool) -> None:
    assert is_waiting_for(deliver, existing=[task_pod("kept", 7)], ended=[]) == is_missing


@pytest.mark.parametrize(
    ("deliver", "is_missing"),
    [
        (lambda _: None, True),
        (lambda seen: seen.replace(raw()), True),
        (lambda seen: seen.add(task_pod("gone", 3)), True),
        (lambda seen: seen.remove(task_pod("gone", 4)), False),
        (lambda seen: (seen.replace(raw()), seen.replace(raw())), False),
    ],
    ids=["nothing-delivered", "first-list", "not-deleted", "deleted", "missed-before-a-second-list"],
)
def test_end_of_a_run_waits_for_the_deletion_of_pods(deliver: Any, is_missing: bool) -> None:
    assert is_waiting_for(deliver, existing=[], ended=["gone"]) == is_missing


def is_waiting_for(deliver: Any, existing: list[pods.Pod], ended: list[str]) -> bool:
    """Return whether the wait for these pods continues after the delivery."""

    async def main() -> bool:
        seen = SeenPods()
        wait = asyncio.create_task(seen.wait_for(existing, ended))
        await asyncio.sleep(0)
        deliver(seen)
        for _ in range(3):  # the wait, its wake-up and its end
            await asyncio.sleep(0)
        is_waiting = not wait.done()
        wait.cancel()
        return is_waiting

    return asyncio.run(main())


class OneJob(InPieces):
    """A transport that lists one pod, whose container wrote `END`, and no events."""

    def __init__(self, listed: dict[str, Any]) -> None:
        super().__init__([b"END\n"], listed)

    async def send(self, request: Request, timeout: float = 30.0) -> bytes:
        if request.path.endswith("/pods"):
            return msgspec.json.encode({"metadata": {}, "items": [self._current]})
        if request.path.endswith("/events"):
            return b'{"metadata": {}, "items": []}'
        return await super().send(request, timeout)


def test_output_of_a_pod_that_the_watch_delivers_late_is_reported(tmp_path: Path) -> None:
    late = pod("mine", status(state="terminated"))
    late["metadata"] |= {"resourceVersion": "7", "labels": {names.FRAMEWORK_NAME: "digits"}}
    metadata = {"namespace": "here", "name": "digits"}
    framework = {"apiVersion": f"{names.GROUPS[0]}/v1", "metadata": metadata, "spec": {}}
    job = PlannedJob(framework)

    async def main(recorder: Recorder) -> None:
        async with OneJob(late) as transport:
            run = Watcher(SubmitPlan((job,)), transport, recorder, tmp_path, NO_FILES, reads_logs=True)
            drain = asyncio.create_task(run.drain())
            await asyncio.sleep(0.01)
            assert not drain.done()
            run._on_pod(msgspec.Raw(msgspec.json.encode(late)))
            await drain

    with (tmp_path / "out").open("wb") as stream:
        recorder = Recorder(stream)
        asyncio.run(main(recorder))
        recorder.finish()
    assert recorder.blocks == [b"END\n"]
