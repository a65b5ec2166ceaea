"""Kubernetes events: their fields, their number, and that recording never blocks."""

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine
from datetime import datetime
from typing import Any

import builders
import msgspec
import pytest

from windlass.controller.observe import events
from windlass.controller.observe.events import Occurrences, Outcome, Recorder
from windlass.decide.types import Reason, ReasonKind
from windlass.kubeapi.errors import NoValidResponseError, ResponseError, TooManyRequestsError
from windlass.kubeapi.requests import Request
from windlass.model.base import Json
from windlass.model.failures import ApiFailure
from windlass.model.framework import ALWAYS_RETRY, CompletedPods, Framework, RetryPolicySpec
from windlass.simulate.scenario import Scenario, Submission
from windlass.simulate.simulation import Simulation

JOB = builders.framework("job", namespace="team", uid="uid-1", resource_version="17")
STARTED = Reason(ReasonKind.ATTEMPT_STARTED, "Started attempt 0")


def task_failed(index: int) -> Reason:
    return Reason(ReasonKind.TASK_FAILED, f"Task worker-{index} failed", "worker", index, is_warning=True)


# The manifest


def test_event_has_object_reason_time_and_reporter() -> None:
    assert events.manifest(JOB, STARTED, builders.at(1.5), "17f", "windlass-0") == {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "job.17f", "namespace": "team"},
        "involvedObject": {
            "apiVersion": "frameworkcontroller.microsoft.com/v1",
            "kind": "Framework",
            "namespace": "team",
            "name": "job",
            "uid": "uid-1",
            "resourceVersion": "17",
        },
        "type": "Normal",
        "reason": "AttemptStarted",
        "message": "Started attempt 0",
        "source": {"component": "windlass"},
        "reportingComponent": "windlass",
        "reportingInstance": "windlass-0",
        "firstTimestamp": "2026-01-01T00:00:01Z",
        "lastTimestamp": "2026-01-01T00:00:01Z",
        "count": 1,
    }


def test_event_of_a_task_has_its_annotations() -> None:
    found = events.manifest(JOB, task_failed(3), builders.NOW, "17f", "windlass-0")
    assert found["type"] == "Warning"
    assert found["metadata"]["annotations"] == {"FC_TASKROLE_NAME": "worker", "FC_TASK_INDEX": "3"}


def test_event_has_count_and_first_time() -> None:
    told = Occurrences(builders.at(10), 4)
    found = events.manifest(JOB, STARTED, builders.at(60), "17f", "windlass-0", told)
    assert (found["firstTimestamp"], found["lastTimestamp"], found["count"]) == (
        "2026-01-01T00:00:10Z",
        "2026-01-01T00:01:00Z",
        4,
    )


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("a" * 1024, "a" * 1024),
        ("a" * 1025, "a" * 1021 + "…"),
        # A character of several bytes is kept whole or not at all.
        ("é" * 512, "é" * 512),
        ("é" * 513, "é" * 510 + "…"),
        ("a" + "€" * 400, "a" + "€" * 340 + "…"),
        ("lone \udc80", "lone ?"),
    ],
)
def test_long_message_is_cut_at_a_character(message: str, expected: str) -> None:
    reason = Reason(ReasonKind.ATTEMPT_ENDING, message)
    found = events.manifest(JOB, reason, builders.NOW, "17f", "windlass-0")["message"]
    assert found == expected
    assert len(found.encode()) <= 1024


@pytest.mark.parametrize(
    ("framework", "expected"),
    [
        ("job", "job.0123456789abcdef"),
        ("x" * 253, "x" * 236 + ".0123456789abcdef"),
        ("x" * 235 + "-" + "y" * 17, "x" * 235 + ".0123456789abcdef"),
    ],
)
def test_event_name_fits_the_limit(framework: str, expected: str) -> None:
    job = builders.framework(framework)
    found = events.manifest(job, STARTED, builders.NOW, "0123456789abcdef", "windlass-0")["metadata"]["name"]
    assert found == expected
    assert len(found) <= 253


# The recorder


class Server:
    """Keeps what it is sent, or fails, or waits until it may answer; a clock besides, set by hand."""

    def __init__(self) -> None:
        self.events: list[Json] = []
        self.requests: list[Request] = []
        self.error: Exception | None = None
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.under_way = 0
        self.most_under_way = 0
        self.seconds = 0.0
        self.outcomes: Counter[Outcome] = Counter()
        self.names = 0
        self.recorder = Recorder(
            self.send, self, instance="windlass-0", count_outcome=self._count, new_suffix=self._unique
        )

    async def send(self, request: Request, timeout: float = 30.0) -> bytes:
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        try:
            await self.may_answer.wait()
            self.requests.append(request)
            if self.error is not None:
                raise self.error
            self.events.append(msgspec.json.decode(request.body))
        finally:
            self.under_way -= 1
        return request.body

    def now(self) -> datetime:
        return builders.at(self.seconds)

    def monotonic(self) -> float:
        return self.seconds

    def record(self, *reasons: Reason, framework: Framework = JOB) -> None:
        self.recorder.record(framework, reasons)

    def messages(self) -> list[str]:
        return [event["message"] for event in self.events]

    def _count(self, outcome: Outcome) -> None:
        self.outcomes[outcome] += 1

    def _unique(self) -> str:
        self.names += 1
        return str(self.names)


WELL = Reason(ReasonKind.ATTEMPT_ENDING, "The attempt ends")
BADLY = Reason(ReasonKind.ATTEMPT_ENDING, "The attempt ends", is_warning=True)
OVER = Reason(ReasonKind.FRAMEWORK_COMPLETED, "All is over")

Story = Callable[[Server], Coroutine[Any, Any, None]]


def play(story: Story) -> Server:
    server = Server()
    asyncio.run(story(server))
    return server


async def while_running(server: Server, *reasons: Reason, framework: Framework = JOB) -> None:
    """Until all of it is posted."""
    running = asyncio.create_task(server.recorder.run())
    server.record(*reasons, framework=framework)
    await server.recorder.flush(60)
    assert not running.done()
    running.cancel()
    await asyncio.wait([running])


def test_event_is_posted_into_the_namespace() -> None:
    server = play(lambda server: while_running(server, STARTED, task_failed(0)))
    assert [(str(request), request.query) for request in server.requests] == [
        ("POST /api/v1/namespaces/team/events", (("fieldManager", "windlass"),))
    ] * 2
    assert sorted(server.messages()) == ["Started attempt 0", "Task worker-0 failed"]
    assert sorted(event["metadata"]["name"] for event in server.events) == ["job.1", "job.2"]
    assert server.outcomes == {Outcome.SENT: 2}


@pytest.mark.parametrize(
    ("reasons", "told"),
    [
        pytest.param([WELL, OVER], ["All is over"], id="it ends well, and all is over"),
        pytest.param([WELL], [], id="it ends well, and its pods are deleted first"),
        pytest.param([BADLY, OVER], ["The attempt ends", "All is over"], id="it says what went wrong"),
    ],
)
def test_completion_is_reported_once(reasons: list[Reason], told: list[str]) -> None:
    assert sorted(play(lambda server: while_running(server, *reasons)).messages()) == sorted(told)


def test_successful_attempt_is_reported_if_the_framework_is_always_retried() -> None:
    spec = msgspec.structs.replace(JOB.spec, retry_policy=RetryPolicySpec(max_retry_count=ALWAYS_RETRY))
    retried = msgspec.structs.replace(JOB, spec=spec)
    assert play(lambda server: while_running(server, WELL, framework=retried)).messages() == [
        "The attempt ends"
    ]


def test_recorder_continues_after_idle_time() -> None:
    async def story(server: Server) -> None:
        running = asyncio.create_task(server.recorder.run())
        for reason in (STARTED, task_failed(0)):
            server.record(reason)
            while reason.message not in server.messages():
                await asyncio.sleep(0)
        running.cancel()
        await asyncio.wait([running])

    assert play(story).outcomes == {Outcome.SENT: 2}


def test_parallel_posts_are_limited() -> None:
    async def story(server: Server) -> None:
        server.may_answer.clear()
        running = asyncio.create_task(server.recorder.run())
        server.record(*map(task_failed, range(20)))
        while server.under_way < events.MAX_PARALLEL_POSTS:
            await asyncio.sleep(0)
        server.may_answer.set()
        await server.recorder.flush(60)
        running.cancel()
        await asyncio.wait([running])

    server = play(story)
    # While it is flushed, as many again.
    assert server.most_under_way <= 2 * events.MAX_PARALLEL_POSTS
    assert server.outcomes == {Outcome.SENT: 20}


@pytest.mark.parametrize(
    "error",
    [
        ResponseError(ApiFailure(403, "Forbidden", "no")),
        TooManyRequestsError(ApiFailure(429, "TooManyRequests", "later"), 5.0),
        NoValidResponseError("timed out"),
        RuntimeError("a bug"),
    ],
)
def test_failed_post_is_not_retried(error: Exception) -> None:
    async def story(server: Server) -> None:
        server.error = error
        await while_running(server, STARTED)
        server.error = None
        await while_running(server, task_failed(0))

    server = play(story)
    assert server.messages() == ["Task worker-0 failed"]
    assert len(server.requests) == 2
    assert server.outcomes == {Outcome.FAILED: 1, Outcome.SENT: 1}


def test_recording_never_raises() -> None:
    broken = msgspec.structs.replace(STARTED, message=None)
    server = play(lambda server: while_running(server, broken))
    assert server.requests == []


def test_flush_stops_after_its_timeout() -> None:
    async def story(server: Server) -> None:
        server.may_answer.clear()
        server.record(*map(task_failed, range(20)))
        await server.recorder.flush(0.001)
        assert server.under_way == 0
        await server.recorder.flush(60)

    assert play(story).outcomes == {
        Outcome.FAILED: events.MAX_PARALLEL_POSTS,
        Outcome.DROPPED: 20 - events.MAX_PARALLEL_POSTS,
    }


def test_flush_waits_for_running_posts() -> None:
    async def story(server: Server) -> None:
        server.may_answer.clear()
        running = asyncio.create_task(server.recorder.run())
        server.record(STARTED)
        while not server.under_way:
            await asyncio.sleep(0)
        flushing = asyncio.create_task(server.recorder.flush(60))
        await asyncio.sleep(0)
        server.may_answer.set()
        await flushing
        assert server.messages() == [STARTED.message]
        running.cancel()
        await asyncio.wait([running])

    play(story)


def test_oldest_pending_event_is_dropped() -> None:
    async def story(server: Server) -> None:
        for number in range(events.MAX_PENDING + 3):
            server.record(STARTED, framework=builders.framework(f"job-{number}"))
        await server.recorder.flush(60)

    server = play(story)
    assert server.outcomes == {Outcome.DROPPED: 3, Outcome.SENT: events.MAX_PENDING}
    assert server.events[0]["involvedObject"]["name"] == "job-3"


# Repetitions and budgets

OTHER = builders.framework("job", namespace="team", uid="uid-2")


@pytest.mark.parametrize(
    ("happens", "expected"),
    [
        pytest.param([(0, JOB, STARTED), (599, JOB, STARTED)], [1], id="told a moment ago"),
        pytest.param([(0, JOB, STARTED), (600, JOB, STARTED)], [1, 1], id="told a while ago"),
        pytest.param(
            [(0, JOB, STARTED), (5, JOB, STARTED), (9, JOB, STARTED), (700, JOB, STARTED)],
            [1, 3],
            id="the next one makes up for those that were not told",
        ),
        pytest.param([(0, JOB, STARTED), (0, OTHER, STARTED)], [1, 1], id="another Framework of its name"),
        pytest.param([(0, JOB, task_failed(0)), (0, JOB, task_failed(1))], [1, 1], id="another message"),
    ],
)
def test_repeated_event_is_posted_once(
    happens: list[tuple[float, Framework, Reason]], expected: list[int]
) -> None:
    async def story(server: Server) -> None:
        for seconds, framework, reason in happens:
            server.seconds = seconds
            server.record(reason, framework=framework)
        await server.recorder.flush(60)

    server = play(story)
    assert [event["count"] for event in server.events] == expected
    assert server.outcomes[Outcome.REPEATED] == len(happens) - len(expected)


def test_event_for_repetitions_has_the_first_time() -> None:
    async def story(server: Server) -> None:
        for seconds in (0, 5, 9, 700):
            server.seconds = seconds
            server.record(STARTED)
        await server.recorder.flush(60)

    last = play(story).events[-1]
    assert (last["firstTimestamp"], last["lastTimestamp"]) == ("2026-01-01T00:00:05Z", "2026-01-01T00:11:40Z")


TASKS = events.BURST - events.RESERVED_FOR_FRAMEWORK


def starts(first: int, last: int) -> list[Reason]:
    return [Reason(ReasonKind.ATTEMPT_STARTED, f"Attempt {number}") for number in range(first, last)]


@pytest.mark.parametrize(
    ("happens", "expected"),
    [
        pytest.param([(0, [task_failed(index) for index in range(50)])], TASKS, id="a gang falls"),
        pytest.param(
            [(0, [*map(task_failed, range(50)), *starts(0, 3)])],
            TASKS + 3,
            id="and the Framework has its say",
        ),
        pytest.param([(0, starts(0, 50))], events.BURST, id="a Framework that runs in circles"),
        pytest.param([(0, starts(0, 50)), (120, starts(50, 90))], events.BURST + 2, id="slowly refilled"),
        pytest.param(
            [(0, starts(0, 50)), (10**6, starts(50, 90))], 2 * events.BURST, id="not beyond its size"
        ),
        pytest.param(
            [(0, [*starts(0, 50), Reason(ReasonKind.FRAMEWORK_COMPLETED, "It has completed")])],
            events.BURST + 1,
            id="the last word is always told",
        ),
    ],
)
def test_events_per_framework_are_limited(happens: list[tuple[float, list[Reason]]], expected: int) -> None:
    async def story(server: Server) -> None:
        for seconds, reasons in happens:
            server.seconds = seconds
            server.record(*reasons)
        await server.recorder.flush(60)

    server = play(story)
    assert len(server.events) == expected
    assert server.outcomes[Outcome.DROPPED] == sum(len(reasons) for _, reasons in happens) - expected


def test_dropped_event_is_not_counted_as_posted() -> None:
    async def story(server: Server) -> None:
        server.record(*starts(0, events.BURST + 1))
        server.seconds = 120
        server.record(starts(0, events.BURST + 1)[-1])
        await server.recorder.flush(60)

    assert play(story).messages()[-1] == f"Attempt {events.BURST}"


def test_memory_is_bounded() -> None:
    async def story(server: Server) -> None:
        for number in range(events.MAX_REMEMBERED + 100):
            server.record(STARTED, framework=builders.framework("job", uid=f"uid-{number}"))
        assert len(server.recorder._pending) == events.MAX_PENDING
        assert len(server.recorder._repetitions._posted) == events.MAX_REMEMBERED
        assert len(server.recorder._budgets._remaining) == events.MAX_REMEMBERED

    play(story)


@pytest.mark.parametrize("completed_pods", list(CompletedPods))
@pytest.mark.parametrize("tasks", [1, 2, 50])
def test_success_has_two_events(tasks: int, completed_pods: CompletedPods) -> None:
    job = builders.framework("job", builders.role("worker", tasks), completed_pods=completed_pods)
    played = Simulation(Scenario(seed=1, submissions=(Submission(10, job),), is_lockstep=True)).run()
    reasons = [reason for controller in played.controllers for _, reason in controller.api.reasons]
    # Where pods are removed, the end of the attempt is announced before that, and alone.
    breaths = [reasons] if completed_pods is CompletedPods.KEEP else [[reason] for reason in reasons]

    async def story(server: Server) -> None:
        for breath in breaths:
            await while_running(server, *breath)

    server = play(story)
    assert [event["reason"] for event in server.events] == ["AttemptStarted", "FrameworkCompleted"]
    assert {event["type"] for event in server.events} == {"Normal"}
