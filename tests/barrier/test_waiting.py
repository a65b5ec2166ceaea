"""Statement 47: when a barrier passes, continues to wait, or times out."""

import itertools
import threading
from typing import Any

import barrier_api as apis
import gang_objects
import msgspec
import pytest
from barrier_api import Answer, Api, Step, Watch, event, refusal
from barrier_runs import OPTIONS, OURS, Run, added

from windlass.barrier.options import Options
from windlass.barrier.waiting import BarrierResult, TimedOutError
from windlass.model.gang import GangSpec

# By the Gang


def test_existing_gang_is_returned() -> None:
    with apis.serving(watch_gangs=[Watch([added(OURS)], "more")]) as api:
        run = Run(api)
        assert run.wait() == BarrierResult(OURS)
        (asked,) = api.asked
    assert asked.path == "/apis/windlass.dev/v1/namespaces/research/gangs"
    assert asked.query == {
        "watch": "true",
        "timeoutSeconds": "600",
        "fieldSelector": f"metadata.name={gang_objects.GANG}",
    }
    assert asked.headers["Authorization"] == "Bearer secret"
    assert (run.messages, run.clock.slept) == ([], [])


STALE = {
    "another-attempt": added(OURS, attempt_instance_uid="1_other"),
    "an-earlier-attempt-without-us": added(
        gang_objects.gang({"ps": ["10.9.9.9"]}), attempt_instance_uid="0_earlier"
    ),
    "ours-without-us": added(gang_objects.gang({"ps": ["10.0.0.4"], "worker": ["10.0.0.5"]})),
    "no-roles": added(GangSpec(attempt_instance_uid=gang_objects.ATTEMPT)),
    "bookmark": event("BOOKMARK", {"kind": "Gang", "metadata": {"resourceVersion": "9"}}),
    "deleted": event("DELETED", gang_objects.stored(gang_objects.gang({"worker": ["10.9.9.9", "10.9.9.8"]}))),
    "empty-line": b"",
}


@pytest.mark.parametrize("first", STALE.values(), ids=STALE.keys())
def test_outdated_gangs_are_ignored(first: Any) -> None:
    """The valid Gang follows on the same watch."""
    lines = [first, event("MODIFIED", gang_objects.stored(OURS))]
    with apis.serving(watch_gangs=[Watch(lines, "more")]) as api:
        run = Run(api)
        assert run.wait() == BarrierResult(OURS)
        assert api.questions == ["watch windlass.dev"]
    assert run.messages == []


@pytest.mark.parametrize(
    "options",
    [
        msgspec.structs.replace(OPTIONS, attempt=""),
        msgspec.structs.replace(OPTIONS, pod_uid=""),
        msgspec.structs.replace(OPTIONS, attempt="", pod_uid=""),
    ],
)
def test_unknown_identity_accepts_any_gang(options: Options) -> None:
    with apis.serving(watch_gangs=[Watch([added(OURS)], "more")]) as api:
        assert Run(api, options).wait() == BarrierResult(OURS)


def test_waiting_takes_one_request() -> None:
    """Counted at the server, before and after outdated events."""
    with apis.serving(watch_gangs=[Watch((), "more")]) as api:
        run = Run(api)
        found: list[BarrierResult] = []
        thread = threading.Thread(target=lambda: found.append(run.wait()))
        thread.start()
        api.wait_until_asked(1)
        for line in STALE.values():
            api.push(line)
        api.push(added(OURS))
        thread.join(60)
        assert found == [BarrierResult(OURS)]
        assert api.questions == ["watch windlass.dev"]


def test_watch_ended_by_the_server_is_restarted() -> None:
    """One request per watch, and no message."""
    ends: list[Step] = [Watch(), Watch([STALE["bookmark"]], "break"), Watch([STALE["ours-without-us"]])]
    with apis.serving(watch_gangs=[*ends, Watch([added(OURS)])]) as api:
        run = Run(api)
        assert run.wait() == BarrierResult(OURS)
        assert api.questions == ["watch windlass.dev"] * 4
    assert run.messages == []
    assert len(run.clock.slept) == 3
    asked = [float(each.query["timeoutSeconds"]) for each in api.asked]
    assert all(earlier >= later for earlier, later in itertools.pairwise(asked))


def test_repeatedly_ended_watches_back_off() -> None:
    """A hundred barriers with ten requests per second would be a thousand requests per second."""
    with apis.serving(watch_gangs=[Watch()]) as api:
        run = Run(api)
        with pytest.raises(TimedOutError):
            run.wait()
        assert len(api.asked) <= 600
    assert run.clock.now - 1000 == pytest.approx(OPTIONS.timeout, abs=1)
    assert run.messages == []


BROKEN: dict[str, Step] = {
    "500": refusal(500, "etcd is away"),
    "503-of-a-proxy": Answer(503, b"<html>\n<body>\nService Unavailable\n</body>\n</html>\n"),
    "429": refusal(429, "too many requests"),
    "401": refusal(401, "who are you?"),
    "break-in-a-line": Watch([b'{"type":"ADDED","obj'], "break"),
    "not-json": Watch([b"<html>no</html>"]),
    "not-an-event": Watch([{"kind": "Gang"}]),
    "not-a-gang": Watch([event("ADDED", {"spec": {"roles": "none"}})]),
    "a-number": Watch([7]),
    "not-utf-8": Watch([b'{"type":"ADDED","object":{"spec":{"frameworkName":"\xff"}}}']),
    "error-event": Watch([event("ERROR", {"kind": "Status", "code": 500, "message": "no"})]),
}


@pytest.mark.parametrize("broken", BROKEN.values(), ids=BROKEN.keys())
def test_errors_are_reported_and_retried(broken: Step) -> None:
    """Three errors of any kind are one line, then the Gang is found."""
    with apis.serving(watch_gangs=[broken] * 3 + [Watch([added(OURS)])]) as api:
        run = Run(api)
        assert run.wait() == BarrierResult(OURS)
        assert api.questions == ["watch windlass.dev"] * 4
    (message,) = run.messages
    assert "\n" not in message
    assert message.endswith(f"retrying for {OPTIONS.timeout} s")
    assert len(message) < 400


def test_unreachable_server_is_retried() -> None:
    """First no server, then one with errors, then a working one: one line."""
    with apis.serving() as gone:
        port = gone.port
    run = Run(gone)
    back: list[Api] = []

    def sleep(seconds: float, slept: Any = run.clock.sleep) -> None:
        slept(seconds)
        if len(run.clock.slept) == 3:
            back.append(Api({"watch windlass.dev": [refusal(500), Watch([added(OURS)])]}, port))

    run.waiting._sleep = sleep
    try:
        assert run.wait() == BarrierResult(OURS)
    finally:
        for api in back:
            api.close()
    assert len(run.clock.slept) == 4
    (message,) = run.messages
    assert f"127.0.0.1:{port} does not respond" in message


def test_two_errors_are_reported_separately() -> None:
    steps: list[Step] = [refusal(500), Watch(), refusal(500), Watch([added(OURS)])]
    with apis.serving(watch_gangs=steps) as api:
        run = Run(api)
        run.wait()
    assert len(run.messages) == 2


def test_unreachable_server_times_out() -> None:
    """The interval grows, and the timeout is kept."""
    with apis.serving() as gone:
        pass
    run = Run(gone)
    with pytest.raises(TimedOutError):
        run.wait()
    assert run.clock.now - 1000 == pytest.approx(OPTIONS.timeout, abs=1)
    assert len(run.clock.slept) < 300
    assert max(run.clock.slept) <= 5
    assert len(run.messages) == 1


def test_missing_gang_times_out() -> None:
    """Statement 47."""
    with apis.serving(watch_gangs=[Watch([STALE["ours-without-us"]])]) as api:
        run = Run(api)
        with pytest.raises(TimedOutError):
            run.wait()
    assert run.clock.now - 1000 == pytest.approx(OPTIONS.timeout, abs=1)
