"""Invalid Frameworks are reported once, without delaying others."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any

import msgspec
import pytest
from builders import at

from windlass.controller.engine.lease_guard import LeaseGuard, unrestricted
from windlass.controller.observe import invalid_frameworks
from windlass.controller.observe.invalid_frameworks import InvalidFrameworkReporter
from windlass.decide.types import Reason, ReasonKind
from windlass.kubeapi import errors
from windlass.kubeapi.requests import Request
from windlass.model.base import Json
from windlass.model.framework import Framework
from windlass.model.names import CONTROLLER_GROUP
from windlass.wire import codec
from windlass.wire.codec import InvalidFramework

PATIENCE_SECONDS = 60
TIMEOUT = 3.0


def unreadable(name: str, version: str = "5", conditions: Sequence[Json] = ()) -> InvalidFramework:
    whole = {
        "apiVersion": f"{CONTROLLER_GROUP}/v1",
        "kind": "Framework",
        "metadata": {
            "name": name,
            "namespace": "team",
            "uid": f"uid-{name}",
            "resourceVersion": version,
        },
        "spec": {"taskRoles": "none"},
        "status": {"conditions": list(conditions)},
    }
    found = codec.read_framework(msgspec.json.encode(whole))
    assert isinstance(found, InvalidFramework)
    return found


def failure(code: int) -> errors.ResponseError:
    return errors.from_response(code, {}, msgspec.json.encode({"kind": "Status", "code": code}))


class Bench:
    """A server, an announcer and a clock."""

    def __init__(self, guard: LeaseGuard | None = None) -> None:
        self.sent: list[Request] = []
        self.errors: dict[str, list[errors.ApiError]] = {}
        """By the name of the Framework, what goes wrong one after the other."""
        self.before_answer: Callable[[str], None] = lambda _: None
        self.announcements: list[tuple[Framework, Reason]] = []
        self.reporter = InvalidFrameworkReporter(
            self.send,
            guard or unrestricted(),
            self.on_reasons,
            self,
            timeout=TIMEOUT,
            field_manager="windlass-test",
        )

    async def send(self, request: Request, timeout: float) -> bytes:
        assert timeout == TIMEOUT
        self.sent.append(request)
        name = request.path.split("/")[-2]
        self.before_answer(name)
        if self.errors.get(name):
            raise self.errors[name].pop(0)
        return b"{}"

    def on_reasons(self, framework: Framework, reasons: Sequence[Reason]) -> None:
        self.announcements += [(framework, reason) for reason in reasons]

    def now(self) -> datetime:
        return at(7)

    def monotonic(self) -> float:
        raise AssertionError("the clock is not read")

    @property
    def told(self) -> list[str]:
        return [framework.name for framework, _ in self.announcements]

    def tries(self, name: str) -> int:
        return sum(f"/{name}/" in request.path for request in self.sent)

    async def until(self, is_so: Callable[[], bool]) -> None:
        while not is_so():
            await asyncio.sleep(0.001)


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(invalid_frameworks, "RETRY_SEC", 0.001)


def run(bench: Bench, story: Callable[[Bench], Awaitable[None]]) -> None:
    async def play() -> None:
        running = asyncio.create_task(bench.reporter.run())
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                await story(bench)
            assert not running.done()
        finally:
            running.cancel()
            with suppress(asyncio.CancelledError):
                await running

    asyncio.run(play())


def test_invalid_framework_gets_a_condition_and_an_event() -> None:
    bench = Bench()
    bad = unreadable("bad", conditions=[{"type": "Suspended", "status": "False"}])

    async def story(bench: Bench) -> None:
        bench.reporter.report(bad)
        await bench.until(lambda: bench.told == ["bad"])

    run(bench, story)
    (request,) = bench.sent
    assert str(request) == f"PATCH /apis/{CONTROLLER_GROUP}/v1/namespaces/team/frameworks/bad/status"
    assert request.content_type == "application/merge-patch+json"
    assert dict(request.query) == {"fieldManager": "windlass-test"}
    patch: Any = msgspec.json.decode(request.body)
    assert patch["metadata"] == {"resourceVersion": "5"}, "what was not read is not written over"
    kept, said = patch["status"].pop("conditions")
    assert patch["status"] == {}
    assert kept == {"type": "Suspended", "status": "False"}
    assert (said["type"], said["status"], said["message"]) == ("Invalid", "True", bad.error)
    assert said["lastTransitionTime"] == "2026-01-01T00:00:07Z"
    ((framework, reason),) = bench.announcements
    assert (reason.kind, reason.message, reason.is_warning) == (ReasonKind.INVALID, bad.error, True)
    assert (framework.api_version, framework.kind) == (bad.api_version, "Framework")
    assert (framework.namespace, framework.name, framework.uid) == ("team", "bad", "uid-bad")
    assert framework.metadata.resource_version == "5"


def test_unchanged_condition_is_not_written_again() -> None:
    """After a restart, say, or when the watch shows our own patch."""
    bench = Bench()
    said = {"type": "Invalid", "status": "True", "message": unreadable("bad").error}

    async def story(bench: Bench) -> None:
        bench.reporter.report(unreadable("bad", conditions=[said]))
        bench.reporter.report(unreadable("worse"))
        await bench.until(lambda: bench.told == ["worse"])

    run(bench, story)
    assert bench.tries("bad") == 0


@pytest.mark.parametrize(
    "error",
    [failure(500), failure(429), failure(403), errors.NoValidResponseError("cut"), errors.NotSentError("x")],
)
def test_failed_report_is_retried_after_others(
    error: errors.ApiError,
) -> None:
    bench = Bench()
    bench.errors["bad"] = [error] * 3

    async def story(bench: Bench) -> None:
        bench.reporter.report(unreadable("bad"))
        bench.reporter.report(unreadable("worse"))
        await bench.until(lambda: len(bench.told) == 2)

    run(bench, story)
    assert bench.told == ["worse", "bad"]
    assert bench.tries("bad") == 4


@pytest.mark.parametrize("code", [404, 409])
def test_deleted_or_changed_framework_is_not_retried(code: int) -> None:
    """If it is still there and still unreadable, the watch brings it again."""
    bench = Bench()
    bench.errors["bad"] = [failure(code)] * 100

    async def story(bench: Bench) -> None:
        bench.reporter.report(unreadable("bad"))
        bench.reporter.report(unreadable("worse"))
        await bench.until(lambda: bench.told == ["worse"])
        bench.reporter.report(unreadable("worst"))
        await bench.until(lambda: bench.told == ["worse", "worst"])

    run(bench, story)
    assert bench.tries("bad") == 1


def test_newer_of_two_versions_is_reported() -> None:
    bench = Bench()
    bench.errors["bad"] = [failure(500)]

    def change(name: str) -> None:
        if bench.tries("bad") == 1:
            bench.reporter.report(unreadable("bad", "6"))

    bench.before_answer = change

    async def story(bench: Bench) -> None:
        bench.reporter.report(unreadable("bad", "5"))
        await bench.until(lambda: bench.told == ["bad"])

    run(bench, story)
    versions = [msgspec.json.decode(request.body)["metadata"]["resourceVersion"] for request in bench.sent]
    assert versions == ["5", "6"]


class Lead:
    """Not long enough for a request until a test says so."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.looks = 0

    def remaining(self) -> float:
        self.looks += 1
        return self.seconds


def test_no_report_without_the_lease() -> None:
    lead = Lead()
    guard = LeaseGuard(lead.remaining)

    async def story(bench: Bench) -> None:
        bench.reporter.report(unreadable("bad"))
        await bench.until(lambda: lead.looks >= 3)
        assert bench.sent == []
        lead.seconds = TIMEOUT
        await bench.until(lambda: bench.told == ["bad"])

    run(Bench(guard), story)
