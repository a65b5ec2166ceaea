"""When probes are due and what their results lead to."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.localcluster.kubelet.probes import schedule
from windlass.localcluster.kubelet.probes.schedule import Outcome, ProbeKind

START = datetime(2026, 1, 2, 12, 0, tzinfo=UTC)
RESULTS = {"+": Outcome.SUCCESS, "-": Outcome.FAILURE, "?": Outcome.ERROR}


def after(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def pod_of(policy: str = "Always", **metadata: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "p", "namespace": "ns", "uid": "u", **metadata},
        "spec": {
            "restartPolicy": policy,
            "terminationGracePeriodSeconds": 30,
            "initContainers": [{"name": "s", "restartPolicy": "Always"}],
            "containers": [{"name": "a"}],
        },
    }


@pytest.mark.parametrize(
    ("results", "is_ready"),
    [
        ("", False),
        ("+", False),
        ("++", True),
        ("+-+", False),
        ("++-", True),
        ("++--", True),
        ("++---", False),
        ("++--+", True),
        ("++--+-", True),
        ("++--?-", False),
        ("+?+", True),
    ],
)
def test_readiness(results: str, is_ready: bool) -> None:
    state = schedule.begin({"readinessProbe": {"successThreshold": 2, "failureThreshold": 3}}, START)
    for result in results:
        probe = state.next_due()
        assert probe is not None
        state = state.with_result(ProbeKind.READINESS, RESULTS[result], probe.due_at)
    assert state.is_ready is is_ready
    assert state.has_started
    assert state.failed is None


@pytest.mark.parametrize(
    ("results", "is_killed"),
    [("", False), ("--", False), ("--+--", False), ("---", True), ("+---", True), ("--?-", True)],
)
@pytest.mark.parametrize("kind", [ProbeKind.LIVENESS, ProbeKind.STARTUP])
def test_failure_threshold_kills_the_container(kind: ProbeKind, results: str, is_killed: bool) -> None:
    state = schedule.begin({f"{kind.lower()}Probe": {}}, START)
    for number, result in enumerate(results):
        state = state.with_result(kind, RESULTS[result], after(10 * number))
    if kind is ProbeKind.STARTUP and "+" in results:
        return  # a startup probe is not performed again once it has succeeded
    assert (state.failed is not None) is is_killed
    assert (state.next_due() is None) is is_killed


def test_due_times_follow_delay_and_period() -> None:
    state = schedule.begin({"livenessProbe": {"initialDelaySeconds": 5, "periodSeconds": 3}}, START)
    times = []
    for _ in range(3):
        probe = state.next_due()
        assert probe is not None
        times.append(probe.due_at)
        state = state.with_result(ProbeKind.LIVENESS, Outcome.SUCCESS, probe.due_at + timedelta(seconds=1))
    assert times == [after(5), after(8), after(11)]
    # One that took longer than its period is not made up for.
    late = state.with_result(ProbeKind.LIVENESS, Outcome.SUCCESS, after(100)).next_due()
    assert late is not None
    assert late.due_at == after(103)


def test_other_probes_wait_for_the_startup_probe() -> None:
    container = {
        "startupProbe": {"periodSeconds": 2},
        "livenessProbe": {"initialDelaySeconds": 30},
        "readinessProbe": {},
    }
    state = schedule.begin(container, START)
    due = state.next_due()
    assert due is not None
    assert due.kind is ProbeKind.STARTUP
    assert not state.has_started
    state = state.with_result(ProbeKind.STARTUP, Outcome.SUCCESS, after(4))
    assert state.has_started
    assert not state.is_ready
    due = state.next_due()
    assert due is not None
    assert (due.kind, due.due_at) == (ProbeKind.READINESS, after(4))
    assert state.liveness is not None
    assert state.liveness.due_at == after(30)


def test_terminating_pod_has_only_readiness_probes() -> None:
    state = schedule.begin({"livenessProbe": {}, "readinessProbe": {"initialDelaySeconds": 50}}, START)
    due = state.next_due(is_pod_terminating=True)
    assert due is not None
    assert due.kind is ProbeKind.READINESS
    assert schedule.begin({"startupProbe": {}}, START).next_due(is_pod_terminating=True) is None


def test_container_without_probes_is_ready() -> None:
    state = schedule.begin({}, START)
    assert (state.has_started, state.is_ready, state.next_due()) == (True, True, None)


@pytest.mark.parametrize(
    ("kind", "policy", "name", "extra", "metadata", "expected"),
    [
        ("liveness", "Always", "a", {}, {}, (30, "Container a failed liveness probe, will be restarted")),
        ("startup", "OnFailure", "a", {}, {}, (30, "Container a failed startup probe, will be restarted")),
        ("liveness", "Never", "a", {}, {}, (30, "Container a failed liveness probe")),
        ("liveness", "Always", "s", {}, {}, (30, "Init container s failed liveness probe")),
        (
            "liveness",
            "Never",
            "a",
            {"terminationGracePeriodSeconds": 7},
            {},
            (7, "Container a failed liveness probe"),
        ),
        (
            "liveness",
            "Never",
            "a",
            {"terminationGracePeriodSeconds": 7},
            {"deletionGracePeriodSeconds": 4},
            (4, "Container a failed liveness probe"),
        ),
    ],
)
def test_kill(
    kind: str,
    policy: str,
    name: str,
    extra: dict[str, int],
    metadata: dict[str, int],
    expected: tuple[int, str],
) -> None:
    state = schedule.begin({f"{kind}Probe": {"failureThreshold": 1, **extra}}, START)
    pod = pod_of(policy, **metadata)
    assert schedule.decide_kill(pod, name, state) is None
    state = state.with_result(ProbeKind(kind.capitalize()), Outcome.FAILURE, START)
    found = schedule.decide_kill(pod, name, state)
    assert found is not None
    assert (found.grace_seconds, found.message) == expected


@pytest.mark.parametrize(("metadata", "grace"), [({}, 30), ({"deletionGracePeriodSeconds": 4}, 4)])
def test_kill_of_last_container_ignores_grace_period_of_probe(metadata: dict[str, int], grace: int) -> None:
    found = schedule.decide_kill_of_last_container(pod_of("Never", **metadata), "a")
    assert (found.grace_seconds, found.message) == (grace, "Stopping container a")


@pytest.mark.parametrize(
    ("outcome", "expected"),
    [
        (Outcome.FAILURE, "Liveness probe failed: x"),
        (Outcome.ERROR, "Liveness probe errored and resulted in unknown state: x"),
        (Outcome.SUCCESS, None),
    ],
)
def test_event_message(outcome: Outcome, expected: str | None) -> None:
    assert schedule.event_message(ProbeKind.LIVENESS, outcome, "x") == expected


@pytest.mark.parametrize(
    ("code", "outcome"),
    [(200, "success"), (399, "success"), (400, "failure"), (503, "failure"), (199, "failure")],
)
def test_http_result(code: int, outcome: str) -> None:
    found, output = schedule.http_result(code)
    assert found == outcome
    assert output == ("" if outcome == "success" else f"HTTP probe failed with statuscode: {code}")


@given(st.lists(st.tuples(st.sampled_from("+-?"), st.integers(0, 25)), max_size=40))
def test_due_times_never_go_back(history: list[tuple[str, int]]) -> None:
    state = schedule.begin(
        {"startupProbe": {"failureThreshold": 9}, "livenessProbe": {}, "readinessProbe": {}}, START
    )
    now, has_started = START, False
    for result, delay in history:
        probe = state.next_due()
        if probe is None:
            assert state.failed is not None
            return
        now = max(now, probe.due_at) + timedelta(seconds=delay)
        state = state.with_result(probe.kind, RESULTS[result], now)
        has_started = has_started or state.has_started
        assert state.has_started is has_started
        assert not state.is_ready or state.has_started
