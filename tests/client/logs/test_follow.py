"""Following the logs of jobs on an embedded API server with a controller. The tests write the logs."""

import asyncio
import contextlib
from concurrent.futures import Future
from typing import Any

import pytest
from operated import jobs
from scripted_cluster import Place
from scripted_logs import LOST

from conformance.waiting import wait_for
from windlass.client import lookup, tasks
from windlass.client.connection import Connection
from windlass.client.logs import follow, reader
from windlass.client.logs.container_log import LogOptions
from windlass.client.logs.lines import Line
from windlass.client.tasks import TaskSelector
from windlass.kubeapi import errors
from windlass.kubeapi.requests import Request


@pytest.fixture
def place(scripted_place: Place) -> Place:
    return scripted_place


class Following:
    """Follows logs in the background."""

    def __init__(self, place: Place, name: str, task: str = "", **wanted: Any) -> None:
        self.lines: list[Line] = []
        self.notes: list[str] = []
        self.place = place
        job, choice = tasks.parse_selector(name, task)
        self.work: Future[None] = asyncio.run_coroutine_threadsafe(
            self._follow(job, choice, LogOptions(follow=True, **wanted)), place.stage._loop
        )

    async def _follow(self, job: str, choice: TaskSelector, wanted: LogOptions) -> None:
        async with self.place.connected() as connection:
            framework = await lookup.find(connection, job)
            lines = reader.read(connection, framework, choice, wanted, self.notes.append)
            async with contextlib.aclosing(lines):
                async for line in lines:
                    self.lines.append(line)

    @property
    def texts(self) -> list[str]:
        return [f"{line.label} {line.text}" for line in self.lines]

    def wait_for(self, *expected: str) -> None:
        """Wait until exactly these lines have arrived, in this order."""

        def look() -> bool:
            if self.work.done():
                self.work.result()
            return len(self.lines) >= len(expected) or self.work.done()

        try:
            wait_for(f"{expected}", look)
        finally:
            assert self.texts == list(expected)

    def end(self) -> None:
        """Wait until following ends by itself."""
        self.work.result(timeout=120)

    def stop(self) -> None:
        self.work.cancel()
        with contextlib.suppress(BaseException):
            self.work.result(timeout=60)


@pytest.fixture
def started(place: Place) -> Place:
    """Submit two workers that run until the test ends them."""
    place.submit(jobs.framework("live", jobs.role(tasks=2, life=jobs.FOREVER, min_succeeded=2)))
    place.wait_for_running("live", 2)
    return place


def test_follow_until_completion(started: Place) -> None:
    started.write("live-worker-0", "one\n", at=1)
    following = Following(started, "live")
    following.wait_for("worker-0 one")
    started.write("live-worker-1", "two\n", at=2)
    following.wait_for("worker-0 one", "worker-1 two")
    started.write("live-worker-0", "three", at=3)
    started.finish("live-worker-0", "live-worker-1")
    following.end()
    assert following.texts == ["worker-0 one", "worker-1 two", "worker-0 three"]


@pytest.mark.parametrize("break_off", ["cut", "close"])
def test_lost_connection_is_resumed(started: Place, break_off: str) -> None:
    """No line is repeated or lost, even with equal timestamps."""
    following = Following(started, "live", "worker-0")
    for text in ("one\n", "two\n"):
        started.write("live-worker-0", text, at=1)
    following.wait_for("worker-0 one", "worker-0 two")
    for round_ in range(3):
        asked = started.on_scribe(lambda scribe: len(scribe.asked))
        started.on_scribe(lambda scribe: getattr(scribe, break_off)())
        started.write("live-worker-0", f"round {round_}\n", at=1)
        wait_for("another request", lambda asked=asked: len(started.scribe.asked) > asked)  # type: ignore[misc]
    following.wait_for("worker-0 one", "worker-0 two", *(f"worker-0 round {at}" for at in range(3)))
    following.stop()


def test_lines_deleted_before_they_were_read_are_reported(started: Place) -> None:
    """A node deletes old parts of a log while the connection is lost."""
    following = Following(started, "live", "worker-0")
    started.write("live-worker-0", "one\n", at=1)
    following.wait_for("worker-0 one")
    started.on_scribe(lambda scribe: scribe.rotate(f"{started.name}/live-worker-0"))
    started.write("live-worker-0", "three\n", at=3)
    following.wait_for("worker-0 one", "worker-0 three")
    assert "lines of worker-0 may be missing: the log was rotated" in following.notes
    following.stop()


def test_follow_continues_when_a_restarted_node_does_not_know_its_pods(started: Place) -> None:
    following = Following(started, "live", "worker-0")
    started.write("live-worker-0", "one\n", at=1)
    following.wait_for("worker-0 one")
    started.on_scribe(lambda scribe: setattr(scribe, "unknown_for", 2))
    started.on_scribe(lambda scribe: scribe.cut())
    wait_for("two answers with 404", lambda: started.scribe.unknown_for == 0)
    started.write("live-worker-0", "two\n", at=2)
    following.wait_for("worker-0 one", "worker-0 two")
    following.stop()
    assert not any("gone" in note for note in following.notes)


def fail_reads_of_pods(error: errors.ResponseError, monkeypatch: pytest.MonkeyPatch) -> list[Request]:
    """Let requests for single pods fail for as long as the test lasts, and return the failed requests."""
    send, failed = Connection.send, list[Request]()

    async def failing(self: Connection, request: Request) -> bytes:
        if request.method == "GET" and "/pods/" in request.path:
            failed.append(request)
            raise error
        return await send(self, request)

    monkeypatch.setattr(Connection, "send", failing)
    return failed


@pytest.mark.parametrize("unknown_for", [0, 1], ids=["status", "status-of-a-missing-log"])
def test_follow_continues_after_a_temporary_error_response(
    started: Place, monkeypatch: pytest.MonkeyPatch, unknown_for: int
) -> None:
    following = Following(started, "live", "worker-0")
    started.write("live-worker-0", "one\n", at=1)
    following.wait_for("worker-0 one")
    with monkeypatch.context() as patched:
        failed = fail_reads_of_pods(errors.from_response(503, {}, b""), patched)
        started.on_scribe(lambda scribe: setattr(scribe, "unknown_for", unknown_for))
        started.on_scribe(lambda scribe: scribe.close())
        wait_for("an error response", lambda: len(failed) > unknown_for)
    started.write("live-worker-0", "two\n", at=2)
    following.wait_for("worker-0 one", "worker-0 two")
    following.stop()
    assert not following.notes


def test_forbidden_status_of_a_missing_log_is_reported(
    started: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail_reads_of_pods(errors.from_response(403, {}, b""), monkeypatch)
    started.on_scribe(lambda scribe: setattr(scribe, "unknown_for", 1))
    following = Following(started, "live", "worker-0")
    started.finish("live-worker-0", "live-worker-1")
    following.end()
    assert following.notes == ["cannot read the log of worker-0: the response is empty"]


def test_unexpected_exception_ends_following(started: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*_: object) -> None:
        raise RuntimeError("unexpected")

    monkeypatch.setattr(follow, "_next_request", failing)
    following = Following(started, "live", "worker-0")
    started.write("live-worker-0", "one\n", at=1)
    following.wait_for("worker-0 one")
    started.on_scribe(lambda scribe: scribe.close())
    with pytest.raises(RuntimeError, match="unexpected"):
        following.end()


def test_log_of_a_replaced_pod_is_reported(place: Place) -> None:
    """The first response arrives when the pod of the next attempt has the same name."""
    retry = {"maxRetryCount": 1}
    place.submit(jobs.framework("again", jobs.role(life=jobs.FOREVER, retry=retry)))
    place.wait_for_running("again", 1)
    first = place.pods("again")["again-worker-0"]["metadata"]["uid"]
    place.on_scribe(lambda scribe: scribe.hold())
    asked = place.on_scribe(lambda scribe: len(scribe.asked))
    following = Following(place, "again")
    wait_for("a request", lambda: len(place.scribe.asked) > asked)
    place.finish("again-worker-0", code=1)
    wait_for("another pod", lambda: _is_another(place, "again-worker-0", first))
    place.forget_log("again-worker-0")
    place.write("again-worker-0", "second\n", at=2)
    place.on_scribe(lambda scribe: scribe.release())
    following.wait_for("worker-0 second")
    place.finish("again-worker-0")
    following.end()
    assert following.notes == ["the log of worker-0 was deleted before it was read completely"]


def test_container_removed_while_it_is_followed(started: Place) -> None:
    """The message of the node is not a log line, and no line is repeated."""
    following = Following(started, "live")
    started.write("live-worker-0", "one\n", at=1)
    following.wait_for("worker-0 one")
    asked = started.on_scribe(lambda scribe: len(scribe.asked))
    started.lose_log("live-worker-0")
    wait_for("another request", lambda: len(started.scribe.asked) > asked)
    started.lose_log("live-worker-1")
    started.finish("live-worker-0", "live-worker-1")
    following.end()
    assert following.texts == ["worker-0 one"]
    assert set(following.notes) == {f"cannot read the log of worker-1: {LOST.decode()}"}


def test_tail_limits_the_first_lines(started: Place) -> None:
    for at in range(5):
        started.write("live-worker-0", f"{at}\n", at=at)
    following = Following(started, "live", tail=2)
    following.wait_for("worker-0 3", "worker-0 4")
    started.on_scribe(lambda scribe: scribe.cut())
    started.write("live-worker-0", "5\n", at=5)
    following.wait_for("worker-0 3", "worker-0 4", "worker-0 5")
    following.stop()


def test_restarted_container_is_followed(started: Place) -> None:
    """The last lines of the previous run are included."""
    started.write("live-worker-0", "before\n", at=1)
    following = Following(started, "live")
    following.wait_for("worker-0 before")
    started.write("live-worker-0", "last words\n", at=2)
    started.restart_container("live-worker-0")
    started.write("live-worker-0", "after\n", at=3)
    following.wait_for("worker-0 before", "worker-0 last words", "worker-0 after")
    following.stop()


def test_later_pods_are_followed(place: Place) -> None:
    """They are created by a retry and by scaling."""
    retry = {"maxRetryCount": 1}
    place.submit(jobs.framework("grown", jobs.role(life=jobs.FOREVER, retry=retry, min_succeeded=2)))
    place.wait_for_running("grown", 1)
    place.write("grown-worker-0", "first try\n", at=1)
    following = Following(place, "grown")
    following.wait_for("worker-0 first try")
    first = place.pods("grown")["grown-worker-0"]["metadata"]["uid"]
    # The response arrives when a new pod has the same name.
    place.on_scribe(lambda scribe: scribe.hold())
    place.finish("grown-worker-0", code=1)
    wait_for("another pod", lambda: _is_another(place, "grown-worker-0", first))
    place.forget_log("grown-worker-0")
    place.write("grown-worker-0", "second try\n", at=2)
    place.on_scribe(lambda scribe: scribe.release())
    following.wait_for("worker-0 first try", "worker-0 second try")
    assert [line.attempt for line in following.lines] == [0, 1]
    place.write("grown-worker-1", "one more\n", at=3)
    place.scale("grown", 0, 2)
    following.wait_for("worker-0 first try", "worker-0 second try", "worker-1 one more")
    place.wait_for_running("grown", 2)
    place.finish("grown-worker-0", "grown-worker-1")
    following.end()
    assert len(following.lines) == 3


def _is_another(place: Place, pod: str, uid: str) -> bool:
    found = place.pods().get(pod)
    return found is not None and found["metadata"]["uid"] != uid


def test_follow_starts_before_the_first_pod(place: Place) -> None:
    place.submit(
        jobs.framework("held", jobs.role(life=jobs.FOREVER, min_succeeded=1), executionType="Create")
    )
    place.wait_for_state("held", "AttemptCreationPending")
    following = Following(place, "held", "worker-0")
    place.write("held-worker-0", "at last\n")
    place.change("held", {"executionType": "Start"})
    following.wait_for("worker-0 at last")
    place.wait_for_running("held", 1)
    place.finish("held-worker-0")
    following.end()


def test_follow_ends_when_the_job_is_deleted(started: Place) -> None:
    started.write("live-worker-0", "one\n")
    following = Following(started, "live")
    following.wait_for("worker-0 one")
    for pod in ("live-worker-0", "live-worker-1"):
        started.end_log(pod)
    started.delete("live")
    following.end()
    assert following.texts == ["worker-0 one"]
