"""The ends of the logs of failed containers: read only where a namespace allows it, and never waited for."""

import asyncio
from collections.abc import Awaitable, Callable

import builders
import msgspec
import pytest
from tests.wire.test_attempt_records import record

from windlass.controller.engine.lease_guard import unrestricted
from windlass.controller.leader import container_logs
from windlass.controller.leader.container_logs import ContainerLogs
from windlass.decide import initial_status
from windlass.decide.types import Reason, ReasonKind
from windlass.k8s.metadata import ObjectMeta
from windlass.kubeapi import errors
from windlass.kubeapi.requests import Request, Verb
from windlass.model import names
from windlass.model.base import Json
from windlass.model.completion import (
    CompletionCode,
    ContainerCompletionStatus,
    PodCompletionStatus,
    task_completion,
)
from windlass.model.framework import Framework
from windlass.model.history import AttemptRecord, record_metadata

FRAMEWORK = builders.framework("digits", builders.role("worker", 3))


class Server:
    """A namespace with an annotation, the logs of its pods, and one record."""

    def __init__(self, annotation: str = "true") -> None:
        self.annotation = annotation
        self.sent: list[Request] = []
        self.errors: dict[str, Exception] = {}
        """By the end of the path."""
        self.text = b"step 1\nboom\n"
        self.answer_logs = asyncio.Event()
        self.answer_logs.set()
        self.patches: list[Json] = []
        self.current_uid = ""
        """UID of the pod that has the name of a failed one."""
        self.seconds = 0.0

    async def send(self, request: Request, _timeout: float) -> bytes:
        self.sent.append(request)
        kind = "patch" if request.verb is Verb.PATCH else request.subresource or "namespace"
        if kind == "log":
            await self.answer_logs.wait()
        if kind in self.errors:
            raise self.errors[kind]
        if kind == "log":
            return self.text
        if kind == "patch":
            self.patches.append(msgspec.json.decode(request.body))
            return msgspec.json.encode({"metadata": {"name": "r", "annotations": {"resized": "yes"}}})
        annotations = {names.READ_LOGS_ANNOTATION: self.annotation} if self.annotation else {}
        return msgspec.json.encode({"metadata": {"name": "team-a", "annotations": annotations}})

    def count(self, subresource: str) -> int:
        return sum(request.subresource == subresource for request in self.sent)


def failure(code: int) -> errors.ApiError:
    body = {"kind": "Status", "reason": "x", "message": "no", "code": code}
    return errors.from_response(code, {}, msgspec.json.encode(body))


def running() -> Framework:
    return FRAMEWORK.with_status(initial_status.framework_status(FRAMEWORK, builders.NOW))


def failed(index: int, *containers: tuple[str, int]) -> Reason:
    """Return the reason of a task whose containers exited with these codes."""
    status = running().status
    assert status is not None
    task = status.attempt_status.roles[0].task_statuses[index]
    ended = tuple(ContainerCompletionStatus(name=name, code=code) for name, code in containers)
    completion = task_completion(
        CompletionCode.POD_FAILED_WITHOUT_FAILED_CONTAINER, "", PodCompletionStatus(containers=ended)
    )
    attempt = msgspec.structs.replace(
        task.attempt_status, pod_uid=f"uid-{index}", completion_status=completion
    )
    return Reason(ReasonKind.TASK_FAILED, "", "worker", index, is_warning=True, failed_attempt=attempt)


def made_record() -> AttemptRecord:
    made = record()
    return msgspec.structs.replace(made, metadata=record_metadata(FRAMEWORK, 0))


def run(server: Server, work: Callable[[ContainerLogs], Awaitable[object]]) -> list[ObjectMeta]:
    resized: list[ObjectMeta] = []

    async def main() -> None:
        logs = ContainerLogs(
            server.send,
            unrestricted(),
            find_pod_uid=lambda *_: server.current_uid,
            on_resized=resized.append,
            timeout=1.0,
            monotonic=lambda: server.seconds,
        )
        running = asyncio.create_task(logs.run())
        await work(logs)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    asyncio.run(main())
    return resized


async def idle() -> None:
    """Let all tasks run until they wait: the server answers at once."""
    for _ in range(50):
        await asyncio.sleep(0)


def texts(found: AttemptRecord) -> list[tuple[int, str, str]]:
    return [(each.index, each.container, each.text) for each in found.spec.container_logs]


def test_record_has_the_logs_of_the_failed_containers_only() -> None:
    server = Server()

    async def work(logs: ContainerLogs) -> None:
        logs.on_failures(running(), [failed(1, ("main", 3), ("sidecar", 0))])
        logs.on_failures(running(), [failed(1, ("main", 3))])
        await idle()
        found = logs.add_to(made_record())
        assert texts(found) == [(1, "main", "step 1\nboom\n")]
        assert found.log_of("worker", 1, 0, "main") == "step 1\nboom\n"
        logs.on_written(found)
        await idle()

    run(server, work)
    assert server.count("log") == 1, "each log is read once"
    request = server.sent[-1]
    assert dict(request.query)["uid"] == "uid-1", "the pod of the next attempt has the same name"
    assert not server.patches


@pytest.mark.parametrize(("current_uid", "count"), [("uid-1", 1), ("", 1), ("of-the-next-attempt", 0)])
def test_log_of_the_pod_of_the_next_attempt_is_dropped(current_uid: str, count: int) -> None:
    """It has the same name, and Kubernetes ignores the UID in the request."""
    server = Server()

    async def work(logs: ContainerLogs) -> None:
        server.answer_logs.clear()
        logs.on_failures(running(), [failed(1, ("main", 3))])
        await idle()
        server.current_uid = current_uid
        server.answer_logs.set()
        await idle()
        assert len(texts(logs.add_to(made_record()))) == count

    run(server, work)


@pytest.mark.parametrize("annotation", ["", "false", "yes"])
def test_logs_are_not_requested_unless_the_namespace_allows_it(annotation: str) -> None:
    server = Server(annotation)

    async def work(logs: ContainerLogs) -> None:
        logs.on_failures(running(), [failed(index, ("main", 3)) for index in range(3)])
        await idle()
        assert logs.add_to(made_record()) == made_record()

    run(server, work)
    assert server.count("log") == 0
    assert len(server.sent) == 1, "the namespace is read once"


def test_annotation_is_read_again_after_a_while() -> None:
    server = Server("")

    async def work(logs: ContainerLogs) -> None:
        logs.on_failures(running(), [failed(0, ("main", 3))])
        await idle()
        server.annotation = "true"
        server.seconds = container_logs.NAMESPACE_SEC
        logs.on_failures(running(), [failed(1, ("main", 3))])
        await idle()
        assert texts(logs.add_to(made_record())) == [(1, "main", "step 1\nboom\n")]

    run(server, work)


def test_record_is_not_delayed_and_later_lines_are_added_in_one_request() -> None:
    server = Server()

    async def work(logs: ContainerLogs) -> None:
        server.answer_logs.clear()
        logs.on_failures(running(), [failed(index, ("main", 3)) for index in range(2)])
        await idle()
        found = logs.add_to(made_record())
        assert texts(found) == []
        logs.on_written(found)
        assert not server.patches
        server.answer_logs.set()
        await idle()

    (resized,) = run(server, work)
    (patch,) = server.patches
    assert sorted(each["index"] for each in patch["spec"]["containerLogs"]) == [0, 1]
    size = int(patch["metadata"]["annotations"][names.RECORD_BYTES_ANNOTATION])
    assert size > 2 * len("step 1\nboom\n")
    assert resized.annotations == {"resized": "yes"}, "retention knows the new size"


@pytest.mark.parametrize("kind", ["log", "namespace", "patch"])
@pytest.mark.parametrize("error", [failure(403), failure(404), failure(500), errors.NotSentError("timeout")])
def test_errors_are_logged_once_and_the_record_stays_as_it_is(
    kind: str, error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    server = Server()
    server.errors[kind] = error

    async def work(logs: ContainerLogs) -> None:
        server.answer_logs.clear()
        logs.on_failures(running(), [failed(index, ("main", 3)) for index in range(3)])
        await idle()
        logs.on_written(logs.add_to(made_record()))
        server.answer_logs.set()
        await idle()

    assert run(server, work) == []
    assert not server.patches
    assert len([each for each in caplog.records if each.levelname == "WARNING"]) == 1


def test_missing_permission_stops_the_requests_for_a_while() -> None:
    server = Server()
    server.errors["log"] = failure(403)

    async def work(logs: ContainerLogs) -> None:
        for index in range(3):
            logs.on_failures(running(), [failed(index, ("main", 3))])
            await idle()

    run(server, work)
    assert server.count("log") == 1


def test_number_of_logs_per_attempt_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(container_logs, "MAX_CONTAINERS", 2)
    server = Server()

    async def work(logs: ContainerLogs) -> None:
        logs.on_failures(running(), [failed(index, ("main", 3)) for index in range(3)])
        await idle()

    run(server, work)
    assert server.count("log") == 2


def test_number_of_attempts_in_memory_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(container_logs, "MAX_ATTEMPTS", 1)
    server = Server()
    other = builders.framework("other", builders.role("worker", 3))
    metadata = msgspec.structs.replace(other.metadata, uid="another")
    other = msgspec.structs.replace(other, metadata=metadata, status=running().status)

    async def work(logs: ContainerLogs) -> None:
        for each in (running(), other):
            logs.on_failures(each, [failed(0, ("main", 3))])
        await idle()
        assert not logs.add_to(made_record()).spec.container_logs

    run(server, work)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"short\n", "short\n"),
        (b"", ""),
        (b"x" * 40 + b"\nlast line\n", "last line\n"),
        (b"x" * 40, "x" * 20),
        (b"\xff\n", "\N{REPLACEMENT CHARACTER}\n"),
    ],
    ids=["short", "empty", "whole lines", "one long line", "not UTF-8"],
)
def test_end_of_a_log_is_limited(text: bytes, expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(container_logs, "MAX_BYTES", 20)
    server = Server()
    server.text = text

    async def work(logs: ContainerLogs) -> None:
        logs.on_failures(running(), [failed(0, ("main", 3))])
        await idle()
        found = [text for _, _, text in texts(logs.add_to(made_record()))]
        assert found == ([expected] if expected else [])

    run(server, work)


def test_pod_that_the_controller_deleted_is_not_read() -> None:
    """None of its containers has failed."""
    server = Server()

    async def work(logs: ContainerLogs) -> None:
        logs.on_failures(running(), [Reason(ReasonKind.TASK_FAILED, "50 more tasks failed"), failed(0)])
        logs.on_failures(running(), [Reason(ReasonKind.TASK_RETRIED, "", "worker", 0)])
        await idle()

    run(server, work)
    assert not server.sent
