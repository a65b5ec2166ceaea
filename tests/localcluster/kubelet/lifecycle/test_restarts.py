"""The next steps of a pod, as tables, and histories of random events that reach their end."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.localcluster.kubelet.lifecycle import back_off, records, restarts, specs, statuses, terminations
from windlass.localcluster.kubelet.lifecycle.records import Ending, PodRecord, Running, Waiting
from windlass.localcluster.kubelet.lifecycle.restarts import (
    Finished,
    StartContainer,
    Step,
    StopAll,
    WaitUntil,
)

NOW = datetime(2026, 1, 2, 12, 0, tzinfo=UTC)
FAR = timedelta(days=1)


def pod_of(policy: str = "Always", init: str = "", main: str = "a", **spec: Any) -> dict[str, Any]:
    """Init containers and others by letter; a capital letter is a sidecar."""
    inits = [
        {"name": name, "image": "x"} | ({"restartPolicy": "Always"} if name.isupper() else {})
        for name in init
    ]
    return {
        "metadata": {"name": "p", "namespace": "ns", "uid": "u1"},
        "spec": {
            "restartPolicy": policy,
            "initContainers": inits,
            "containers": [{"name": name, "image": "x"} for name in main],
            "terminationGracePeriodSeconds": 30,
        }
        | spec,
        "status": {"phase": "Pending", "qosClass": "BestEffort"},
    }


def record_of(pod: dict[str, Any], states: str, now: datetime = NOW) -> PodRecord:
    """`i0 a! b+`: i ended with 0, a failed, b runs; what is not named is untouched. All ended long ago."""
    record = records.new(pod)
    for word in states.split():
        name, state = word[0], word[1]
        run = Running(now - 3 * FAR, f"id-{name}")
        record = restarts.with_started(pod, record, name, run)
        if state != "+":
            end = records.end(run, now - 2 * FAR, exit_code=0 if state == "0" else 1)
            record = record.with_container(record.container(name).with_end(end))
    return record


def starts(*names: str) -> tuple[Step, ...]:
    return tuple(map(StartContainer, names))


OVER = (Finished(),)


@pytest.mark.parametrize(
    ("policy", "init", "main", "states", "steps"),
    [
        ("Always", "", "ab", "", starts("a", "b")),
        ("Always", "", "ab", "a+ b+", ()),
        ("Always", "", "a", "a0", starts("a")),
        ("Always", "", "a", "a!", starts("a")),
        ("OnFailure", "", "ab", "a0 b!", starts("b")),
        ("OnFailure", "", "ab", "a0 b0", OVER),
        ("Never", "", "ab", "a! b+", ()),
        ("Never", "", "ab", "a! b0", OVER),
        ("Never", "ij", "a", "", starts("i")),
        ("Never", "ij", "a", "i+", ()),
        ("Never", "ij", "a", "i0", starts("j")),
        ("Never", "ij", "a", "i!", OVER),
        ("OnFailure", "ij", "a", "i0 j!", starts("j")),
        ("Always", "ij", "a", "i0 j0", starts("a")),
        ("Always", "ij", "a", "i0 j0 a!", starts("a")),
        ("Never", "Si", "a", "", starts("S")),
        ("Never", "Si", "a", "S+", starts("i")),
        ("Never", "Si", "a", "S! i+", starts("S")),
        ("Never", "Si", "a", "S! i0", starts("S", "a")),
        ("Never", "iS", "a", "i0 S!", starts("S")),
        ("Never", "iS", "a", "i0 S+", starts("a")),
        ("Never", "iS", "a", "i0 S! a+", starts("S")),
        ("Never", "iS", "a", "i0 S! a0", OVER),
        ("Never", "RS", "ab", "R+ S+ a0 b0", (StopAll(30, (("S",), ("R",))),)),
        ("Never", "Si", "a", "S+ i!", (StopAll(30, (("S",),)),)),
    ],
)
def test_next_steps(policy: str, init: str, main: str, states: str, steps: tuple[Step, ...]) -> None:
    pod = pod_of(policy, init, main)
    assert restarts.next_steps(pod, record_of(pod, states), NOW) == steps


@pytest.mark.parametrize(
    ("policy", "init", "main", "states", "name", "is_last"),
    [
        ("Never", "", "a", "a+", "a", True),
        ("Never", "", "ab", "a+ b+", "a", False),
        ("Never", "", "ab", "a+ b0", "a", True),
        ("Never", "", "ab", "a+ b!", "a", True),
        ("Never", "", "ab", "a+", "a", False),
        ("Never", "S", "a", "S+ a+", "a", True),
        ("Never", "S", "a", "S+ a+", "S", False),
        ("OnFailure", "", "a", "a+", "a", False),
        ("Always", "", "a", "a+", "a", False),
    ],
)
def test_is_last_container(policy: str, init: str, main: str, states: str, name: str, is_last: bool) -> None:
    pod = pod_of(policy, init, main)
    assert restarts.is_last_container(pod, record_of(pod, states), name) == is_last


def test_containers_wait_for_the_start_of_a_sidecar() -> None:
    pod = pod_of("Never", "S", "a")
    pod["spec"]["initContainers"][0]["startupProbe"] = {}
    record = record_of(pod, "S+")
    assert restarts.next_steps(pod, record, NOW) == ()
    started = records.ContainerRecord("S", current=Running(NOW, "x"), has_started=True)
    assert restarts.next_steps(pod, record.with_container(started), NOW) == starts("a")


@pytest.mark.parametrize(
    ("asked", "given_ending", "steps"),
    [
        (5, None, (StopAll(5, (("a",), ("S",))),)),
        (0, None, (StopAll(2, (("a",), ("S",))),)),
        (None, None, (StopAll(30, (("a",), ("S",))),)),
        (5, Ending(30, "Evicted", "low"), (StopAll(5, (("a",), ("S",))),)),
    ],
)
def test_deletion_stops_all_containers(
    asked: int | None, given_ending: Ending | None, steps: tuple[Step, ...]
) -> None:
    pod = pod_of("Always", "S", "a")
    pod["metadata"]["deletionTimestamp"] = "2026-01-02T12:00:30Z"
    if asked is not None:
        pod["metadata"]["deletionGracePeriodSeconds"] = asked
    record = record_of(pod, "S+ a+")
    record = record if given_ending is None else record.with_ending(given_ending)
    assert restarts.next_steps(pod, record, NOW) == steps
    assert restarts.next_steps(pod, record_of(pod, "S! a!"), NOW) == OVER
    assert restarts.next_steps(pod, records.new(pod), NOW) == OVER


def test_deadline_counts_from_start_of_the_pod() -> None:
    pod = pod_of(activeDeadlineSeconds=60)
    pod["status"]["startTime"] = "2026-01-02T12:00:00Z"
    record = record_of(pod, "a+")
    assert restarts.next_steps(pod, record, NOW) == (WaitUntil(NOW + timedelta(seconds=60)),)
    late = NOW + timedelta(seconds=60)
    words = "Pod was active on the node longer than the specified deadline"
    assert restarts.next_steps(pod, record, late) == (StopAll(30, (("a",),)),)
    ending = terminations.ending_of(pod, record, late)
    assert ending == Ending(30, "DeadlineExceeded", words)
    # A clock that jumps back changes nothing once the end has begun.
    assert restarts.next_steps(pod, record.with_ending(ending), NOW) == (StopAll(30, (("a",),)),)


def test_final_phase_is_never_left() -> None:
    pod = pod_of("Always")
    pod["status"]["phase"] = "Failed"
    assert restarts.next_steps(pod, records.new(pod), NOW) == OVER


def test_back_off_doubles() -> None:
    pod, record, now = pod_of(), records.new(pod_of()), NOW
    waits = []
    for _ in range(8):
        record = restarts.with_started(pod, record, "a", Running(now, "x"))
        now += timedelta(seconds=1)
        end = records.end(Running(now, "x"), now, exit_code=1)
        record = record.with_container(record.container("a").with_end(end))
        step = restarts.next_steps(pod, record, now)[0]
        waits.append((step.time - now).total_seconds() if isinstance(step, WaitUntil) else 0)
        now = step.time if isinstance(step, WaitUntil) else now
        assert restarts.next_steps(pod, record, now) == starts("a")
    assert waits == [0, 10, 20, 40, 80, 160, 300, 300]
    assert record.container("a").restart_count == 7


@pytest.mark.parametrize(("ran", "waits"), [(timedelta(minutes=10), True), (timedelta(minutes=11), False)])
def test_long_run_resets_back_off(ran: timedelta, waits: bool) -> None:
    pod = pod_of()
    run = Running(NOW - ran, "x")
    ended = records.ContainerRecord("a", 5, records.end(run, NOW, exit_code=1), back_off_seconds=160)
    assert (back_off.restart_time(ended, NOW) is not None) is waits
    again = restarts.with_started(pod, PodRecord((ended,)), "a", Running(NOW, "y")).container("a")
    assert again.back_off_seconds == (300 if waits else 10)


def test_back_off_doubles_up_to_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(back_off, "_LIMIT", timedelta(seconds=1))
    pod = pod_of()
    run = Running(NOW, "x")
    record = PodRecord((records.ContainerRecord("a", 1, records.end(run, NOW), back_off_seconds=0.5),))
    assert restarts.next_steps(pod, record, NOW) == (WaitUntil(NOW + timedelta(seconds=0.5)),)
    again = restarts.with_started(pod, record, "a", run)
    assert again.container("a").back_off_seconds == 1
    assert back_off.waiting_message(pod, record.container("a")) == (
        "back-off 500ms restarting failed container=a pod=p_ns(u1)"
    )


def test_clock_set_back_does_not_delay_restart() -> None:
    end = records.end(Running(NOW, "x"), NOW, exit_code=1)
    record = PodRecord((records.ContainerRecord("a", 1, end, back_off_seconds=300),))
    assert restarts.next_steps(pod_of(), record, NOW - timedelta(hours=5)) == starts("a")


def test_failed_start_is_retried_with_restart_policy_never() -> None:
    pod = pod_of("Never")
    failed = records.ContainerRecord("a", current=Waiting("CreateContainerConfigError", "m", NOW))
    later = NOW + timedelta(seconds=10)
    assert restarts.next_steps(pod, PodRecord((failed,)), NOW) == (WaitUntil(later),)
    assert restarts.next_steps(pod, PodRecord((failed,)), later) == starts("a")


class Machine:
    """Carries steps out, and lets containers end as hypothesis wants."""

    def __init__(self, pod: dict[str, Any]) -> None:
        self.pod = pod
        self.record = msgspec.structs.replace(records.new(pod), start_time=NOW)
        self.now = NOW
        self.phases: list[str] = []

    def step(self) -> tuple[Step, ...]:
        steps = restarts.next_steps(self.pod, self.record, self.now)
        for step in steps:
            if isinstance(step, StartContainer):
                assert not self.record.container(step.name).is_running
                run = Running(self.now, f"{step.name}-{self.now.timestamp()}")
                self.record = restarts.with_started(self.pod, self.record, step.name, run)
        self.pod["status"] = statuses.pod_status(self.pod, self.record, self.now)
        self.phases.append(specs.phase(self.pod))
        return steps

    def end(self, name: str, code: int) -> None:
        container = self.record.container(name)
        if isinstance(container.current, Running):
            end = records.end(container.current, self.now, exit_code=code)
            self.record = self.record.with_container(container.with_end(end))

    def stop(self, step: StopAll) -> None:
        for name in step.waves[0]:
            self.end(name, 143)


PODS = st.builds(
    pod_of,
    st.sampled_from(["Always", "OnFailure", "Never"]),
    st.sampled_from(["", "i", "ij", "S", "Si", "iS", "SiR"]),
    st.sampled_from(["a", "ab"]),
)
EVENTS = st.lists(
    st.tuples(st.sampled_from("ijSRab"), st.sampled_from([0, 0, 1, 137]), st.integers(0, 700)), max_size=30
)


@given(PODS, EVENTS, st.booleans())
def test_every_history_reaches_the_end(
    pod: dict[str, Any], events: list[tuple[str, int, int]], is_late: bool
) -> None:
    pod = {**pod, "metadata": dict(pod["metadata"]), "spec": dict(pod["spec"])}
    machine = Machine(pod)
    names = {each["name"] for each in (*specs.init_containers(pod), *specs.containers(pod))}
    for name, code, seconds in events:
        machine.step()
        if name in names:
            machine.end(name, code)
        machine.now += timedelta(seconds=seconds)
        has_main_run = any(each.has_run for each in machine.record.containers)
        once = [each for each in machine.record.init_containers if each.name.islower()]
        assert not has_main_run or all(each.has_succeeded for each in once)
    if is_late:
        pod["spec"]["activeDeadlineSeconds"] = 1
        machine.now += FAR
    else:
        pod["metadata"]["deletionTimestamp"] = "2026-01-02T12:00:00Z"
    for _ in range(len(names) + 1):
        steps = machine.step()
        if steps == OVER:
            break
        assert isinstance(steps[0], StopAll)
        machine.stop(steps[0])
    assert machine.step() == OVER
    final = [phase for phase in machine.phases if phase in specs.FINAL_PHASES]
    assert final, machine.phases
    assert machine.phases[-len(final) :] == [final[0]] * len(final)


@given(PODS, st.lists(st.sampled_from([0, 1]), max_size=10))
def test_pod_ends_when_all_containers_succeeded(pod: dict[str, Any], codes: list[int]) -> None:
    """The pod is not deleted: each run ends by itself, the last one with success."""
    machine = Machine({**pod, "spec": {**pod["spec"], "restartPolicy": "OnFailure"}})
    left = list(codes)
    for _ in range(100):
        steps = machine.step()
        if steps == OVER:
            break
        for step in steps:
            if isinstance(step, StopAll):
                machine.stop(step)
            if isinstance(step, WaitUntil):
                machine.now = max(machine.now, step.time)
        machine.now += timedelta(seconds=1)
        for container in machine.record.all_containers:
            if container.is_running and container.name.islower():
                machine.end(container.name, left.pop() if left else 0)
    assert machine.step() == OVER
    assert machine.phases[-1] == "Succeeded"
