"""The status that a kubelet would write, container by container and condition by condition."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from windlass.localcluster.kubelet.lifecycle import records, restarts, statuses, terminations
from windlass.localcluster.kubelet.lifecycle.records import ContainerRecord, PodRecord, Running, Waiting

START = datetime(2026, 1, 2, 12, 0, 0, 999_000, tzinfo=UTC)
NOW = START + timedelta(seconds=100)
WRITTEN_START, WRITTEN_NOW = "2026-01-02T12:00:00Z", "2026-01-02T12:01:40Z"


def pod_of(policy: str = "Always", init: str = "", main: str = "a", **spec: Any) -> dict[str, Any]:
    """A capital letter is a sidecar."""
    inits = [
        {"name": name, "image": "x"} | ({"restartPolicy": "Always"} if name.isupper() else {})
        for name in init
    ]
    return {
        "metadata": {"name": "p", "namespace": "ns", "uid": "u1"},
        "spec": {"restartPolicy": policy, "containers": [{"name": name, "image": "x"} for name in main]}
        | ({"initContainers": inits} if inits else {})
        | spec,
        "status": {
            "phase": "Pending",
            "qosClass": "BestEffort",
            "conditions": [
                {
                    "type": "PodScheduled",
                    "status": "True",
                    "lastProbeTime": None,
                    "lastTransitionTime": "2025-12-31T00:00:00Z",
                }
            ],
        },
    }


def record_of(pod: dict[str, Any], states: str) -> PodRecord:
    """`i0 a! b+`: i ended with 0, a failed, b runs."""
    record = msgspec.structs.replace(records.new(pod), start_time=START, has_sandbox=True)
    for word in states.split():
        name, state = word[0], word[1]
        run = Running(START, f"id-{name}")
        record = restarts.with_started(pod, record, name, run)
        if state != "+":
            end = records.end(run, START + timedelta(seconds=2), exit_code=0 if state == "0" else 1)
            record = record.with_container(record.container(name).with_end(end))
    return record


def condition(status: dict[str, Any], kind: str) -> dict[str, Any]:
    found: dict[str, Any] = next(each for each in status["conditions"] if each["type"] == kind)
    return found


@pytest.mark.parametrize(
    ("policy", "init", "main", "states", "phase"),
    [
        ("Always", "", "ab", "", "Pending"),
        ("Always", "", "ab", "a+", "Pending"),
        ("Always", "", "ab", "a+ b+", "Running"),
        ("Always", "", "ab", "a+ b!", "Running"),
        ("Always", "", "ab", "a0 b!", "Running"),
        ("Always", "", "a", "a0", "Running"),
        ("OnFailure", "", "ab", "a0 b0", "Succeeded"),
        ("OnFailure", "", "ab", "a0 b!", "Running"),
        ("Never", "", "ab", "a! b+", "Running"),
        ("Never", "", "ab", "a0 b0", "Succeeded"),
        ("Never", "", "ab", "a0 b!", "Failed"),
        ("Never", "ij", "a", "", "Pending"),
        ("Never", "ij", "a", "i0 j+", "Pending"),
        ("Never", "ij", "a", "i0 j!", "Failed"),
        ("OnFailure", "ij", "a", "i0 j!", "Pending"),
        ("Never", "i", "a", "i0 a+", "Running"),
        ("Never", "S", "a", "S+", "Pending"),
        ("Never", "S", "a", "S+ a+", "Running"),
        ("Never", "S", "a", "S! a+", "Running"),
        ("Never", "S", "a", "S+ a0", "Running"),
        ("Never", "S", "a", "S! a0", "Succeeded"),
        ("Never", "Si", "a", "S+ i!", "Pending"),
    ],
)
def test_phase(policy: str, init: str, main: str, states: str, phase: str) -> None:
    pod = pod_of(policy, init, main)
    assert statuses.pod_status(pod, record_of(pod, states), NOW)["phase"] == phase


def test_complete_status_of_a_new_pod() -> None:
    pod = pod_of()
    assert statuses.pod_status(pod, records.new(pod), NOW) == {
        "phase": "Pending",
        "qosClass": "BestEffort",
        "startTime": WRITTEN_NOW,
        "conditions": [
            {
                "type": "PodReadyToStartContainers",
                "status": "False",
                "lastProbeTime": None,
                "lastTransitionTime": WRITTEN_NOW,
            },
            {
                "type": "Initialized",
                "status": "True",
                "lastProbeTime": None,
                "lastTransitionTime": WRITTEN_NOW,
            },
            {
                "type": "Ready",
                "status": "False",
                "reason": "ContainersNotReady",
                "message": "containers with unready status: [a]",
                "lastProbeTime": None,
                "lastTransitionTime": WRITTEN_NOW,
            },
            {
                "type": "ContainersReady",
                "status": "False",
                "reason": "ContainersNotReady",
                "message": "containers with unready status: [a]",
                "lastProbeTime": None,
                "lastTransitionTime": WRITTEN_NOW,
            },
            pod["status"]["conditions"][0],
        ],
        "containerStatuses": [
            {
                "name": "a",
                "state": {"waiting": {"reason": "ContainerCreating"}},
                "lastState": {},
                "ready": False,
                "started": False,
                "restartCount": 0,
                "image": "x",
                "imageID": "",
            }
        ],
    }


def test_status_of_a_running_pod() -> None:
    pod = pod_of(main="ba")
    record = msgspec.structs.replace(record_of(pod, "a+ b+"), pod_ips=("10.0.0.2",), host_ips=("10.0.0.1",))
    status = statuses.pod_status(pod, record, NOW)
    assert [each["name"] for each in status["containerStatuses"]] == ["a", "b"]
    assert status["containerStatuses"][0] == {
        "name": "a",
        "state": {"running": {"startedAt": WRITTEN_START}},
        "lastState": {},
        "ready": True,
        "started": True,
        "restartCount": 0,
        "image": "x",
        "imageID": "",
        "containerID": "windlass://id-a",
    }
    assert {each["type"]: each["status"] for each in status["conditions"]} == dict.fromkeys(
        ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"], "True"
    )
    assert (status["podIP"], status["podIPs"]) == ("10.0.0.2", [{"ip": "10.0.0.2"}])
    assert (status["hostIP"], status["hostIPs"]) == ("10.0.0.1", [{"ip": "10.0.0.1"}])
    assert status["startTime"] == WRITTEN_START


def test_transition_times_and_foreign_fields_are_kept() -> None:
    pod = pod_of()
    theirs = {"type": "example.com/gate", "status": "True", "lastTransitionTime": WRITTEN_START}
    pod["status"]["conditions"].append(theirs)
    pod["status"]["nominatedNodeName"] = "n"
    pod["status"] = statuses.pod_status(pod, record_of(pod, "a+"), NOW)
    later = NOW + timedelta(hours=1)
    again = statuses.pod_status(pod, record_of(pod, "a+"), later)
    assert again == pod["status"]
    assert again["conditions"][0] == theirs
    assert again["nominatedNodeName"] == "n"
    ended = statuses.pod_status(pod, record_of(pod, "a!"), later)
    assert condition(ended, "Ready")["lastTransitionTime"] == "2026-01-02T13:01:40Z"
    assert condition(ended, "Initialized")["lastTransitionTime"] == WRITTEN_NOW


@pytest.mark.parametrize(
    ("policy", "init", "states", "kind", "expected"),
    [
        ("Never", "", "a0", "Ready", ("False", "PodCompleted", None)),
        ("Never", "", "a0", "ContainersReady", ("False", "PodCompleted", None)),
        ("Never", "", "a0", "Initialized", ("True", "PodCompleted", None)),
        ("Never", "", "a0", "PodReadyToStartContainers", ("False", None, None)),
        ("Never", "", "a!", "Ready", ("False", "PodFailed", None)),
        ("Never", "", "a!", "Initialized", ("True", None, None)),
        (
            "Never",
            "ij",
            "i0",
            "Initialized",
            ("False", "ContainersNotInitialized", "containers with incomplete status: [j]"),
        ),
        (
            "Never",
            "ij",
            "",
            "Initialized",
            ("False", "ContainersNotInitialized", "containers with incomplete status: [i j]"),
        ),
        ("Never", "i", "i0", "Initialized", ("True", None, None)),
        ("Never", "S", "S+", "Initialized", ("True", None, None)),
        ("Never", "S", "S! a+", "Initialized", ("True", None, None)),
        (
            "Never",
            "S",
            "S! a+",
            "Ready",
            ("False", "ContainersNotReady", "containers with unready status: [S]"),
        ),
        ("Never", "S", "", "Ready", ("False", "ContainersNotReady", "containers with unready status: [S a]")),
        ("Always", "", "a+", "PodReadyToStartContainers", ("True", None, None)),
    ],
)
def test_conditions(
    policy: str, init: str, states: str, kind: str, expected: tuple[str, str | None, str | None]
) -> None:
    pod = pod_of(policy, init)
    found = condition(statuses.pod_status(pod, record_of(pod, states), NOW), kind)
    assert (found["status"], found.get("reason"), found.get("message")) == expected


@pytest.mark.parametrize(
    ("gate", "message"),
    [
        (None, 'corresponding condition of pod readiness gate "g" does not exist.'),
        ("False", 'the status of pod readiness gate "g" is not "True", but False'),
        ("True", None),
    ],
)
def test_readiness_gates(gate: str | None, message: str | None) -> None:
    pod = pod_of(readinessGates=[{"conditionType": "g"}])
    if gate:
        pod["status"]["conditions"].append({"type": "g", "status": gate})
    status = statuses.pod_status(pod, record_of(pod, "a+"), NOW)
    assert condition(status, "Ready").get("message") == message
    assert condition(status, "Ready")["status"] == ("False" if message else "True")
    assert condition(status, "ContainersReady")["status"] == "True"


def test_init_containers() -> None:
    pod = pod_of("Never", "iS")
    found = statuses.pod_status(pod, record_of(pod, "i0 S+"), NOW)
    once, sidecar = found["initContainerStatuses"]
    assert (once["ready"], once["started"]) == (True, False)
    assert (sidecar["ready"], sidecar["started"]) == (True, True)
    assert found["containerStatuses"][0]["state"] == {"waiting": {"reason": "PodInitializing"}}
    assert once["state"]["terminated"] == {
        "exitCode": 0,
        "reason": "Completed",
        "startedAt": WRITTEN_START,
        "finishedAt": "2026-01-02T12:00:02Z",
        "containerID": "windlass://id-i",
    }


def test_crash_loop_is_shown_as_waiting() -> None:
    pod = pod_of()
    container = record_of(pod, "a!").container("a")
    container = msgspec.structs.replace(container, restart_count=4, back_off_seconds=160.0)
    [found] = statuses.pod_status(pod, PodRecord((container,)), START + timedelta(seconds=3))[
        "containerStatuses"
    ]
    words = "back-off 2m40s restarting failed container=a pod=p_ns(u1)"
    assert found["state"] == {"waiting": {"reason": "CrashLoopBackOff", "message": words}}
    assert found["lastState"]["terminated"]["exitCode"] == 1
    assert (found["restartCount"], found["containerID"]) == (4, "windlass://id-a")
    [due] = statuses.pod_status(pod, PodRecord((container,)), START + timedelta(seconds=162))[
        "containerStatuses"
    ]
    assert due["state"]["terminated"]["exitCode"] == 1


def test_failed_start_is_shown_as_waiting() -> None:
    pod = pod_of()
    waiting = ContainerRecord("a").with_failed_start("CreateContainerConfigError", "no map", NOW)
    status = statuses.pod_status(pod, PodRecord((waiting,)), NOW)
    state = {"waiting": {"reason": "CreateContainerConfigError", "message": "no map"}}
    assert status["containerStatuses"][0]["state"] == state
    assert status["phase"] == "Pending"
    pod = pod_of("Never")
    ended = ContainerRecord("a").with_end(records.start_error("no such command", NOW, "x"))
    status = statuses.pod_status(pod, PodRecord((ended,)), NOW)
    assert status["containerStatuses"][0]["state"]["terminated"] == {
        "exitCode": 128,
        "reason": "StartError",
        "message": "no such command",
        "startedAt": "1970-01-01T00:00:00Z",
        "finishedAt": WRITTEN_NOW,
        "containerID": "windlass://x",
    }
    assert status["phase"] == "Failed"


def test_termination_messages_share_the_limit_of_the_pod() -> None:
    pod = pod_of("Never", main="ab")
    long = records.end(Running(START, "x"), NOW, message="m" * 10_000)
    record = PodRecord((ContainerRecord("a", current=long), ContainerRecord("b", current=long, last=long)))
    found = statuses.pod_status(pod, record, NOW)["containerStatuses"]
    assert [len(each["state"]["terminated"]["message"]) for each in found] == [6144, 6144]
    assert len(found[1]["lastState"]["terminated"]["message"]) == 6144


def test_deadline_fails_the_pod_after_all_containers_ended() -> None:
    pod = pod_of("Always", activeDeadlineSeconds=10)
    pod["status"] |= {"phase": "Running", "startTime": WRITTEN_START, "podIP": "10.0.0.2"}
    running = statuses.pod_status(pod, record_of(pod, "a+"), NOW)
    assert (running["phase"], running.get("reason")) == ("Running", None)
    over = statuses.pod_status(pod, record_of(pod, "a0"), NOW)
    words = "Pod was active on the node longer than the specified deadline"
    assert (over["phase"], over["reason"], over["message"]) == ("Failed", "DeadlineExceeded", words)
    assert over["podIP"] == "10.0.0.2"
    pod["status"] = over
    assert statuses.pod_status(pod, record_of(pod, "a0"), NOW + timedelta(hours=1)) == over


def test_eviction_fails_the_pod() -> None:
    pod = pod_of("Never", "i")
    record = record_of(pod, "i0 a!").with_ending(
        terminations.eviction("The node was low on resource: memory.")
    )
    status = statuses.pod_status(pod, record, NOW)
    assert (status["phase"], status["reason"]) == ("Failed", "Evicted")
    assert status["message"] == "The node was low on resource: memory."


@pytest.mark.parametrize(
    ("init", "states", "phase", "lost"),
    [
        ("", "", "Failed", ["a"]),
        ("ij", "", "Failed", ["i"]),
        ("ij", "i0", "Failed", []),
        ("ij", "i0 j0", "Failed", ["a"]),
        ("", "a0", "Succeeded", []),
        ("", "a!", "Failed", []),
    ],
)
def test_deleted_pod_gets_a_final_phase(init: str, states: str, phase: str, lost: list[str]) -> None:
    pod = pod_of("Always", init)
    pod["metadata"]["deletionTimestamp"] = WRITTEN_NOW
    status = statuses.pod_status(pod, record_of(pod, states), NOW)
    assert (status["phase"], status.get("reason")) == (phase, None)
    found = [*status.get("initContainerStatuses", []), *status["containerStatuses"]]
    reasons = {each["name"]: each["state"].get("terminated", {}).get("reason") for each in found}
    assert [name for name, reason in reasons.items() if reason == "ContainerStatusUnknown"] == lost


def test_recorded_waiting_state_is_shown() -> None:
    pod = pod_of()
    record = PodRecord((ContainerRecord("a", current=Waiting("ErrImagePull", "no", NOW)),))
    state = statuses.pod_status(pod, record, NOW)["containerStatuses"][0]["state"]
    assert state == {"waiting": {"reason": "ErrImagePull", "message": "no"}}


def test_restarting_sidecar_keeps_pod_running() -> None:
    pod = pod_of("Never", "S")
    pod["spec"]["initContainers"][0]["startupProbe"] = {}
    assert statuses.pod_status(pod, record_of(pod, "S+"), NOW)["phase"] == "Pending"
    assert statuses.pod_status(pod, record_of(pod, "S+ a+"), NOW)["phase"] == "Running"


def test_pod_in_back_off_stays_initialized() -> None:
    pod = pod_of("Always", "S")
    record = record_of(pod, "S! a!")
    looping = msgspec.structs.replace(record.container("a"), back_off_seconds=300.0)
    status = statuses.pod_status(pod, record.with_container(looping), NOW)
    assert "waiting" in status["containerStatuses"][0]["state"]
    assert condition(status, "Initialized")["status"] == "True"


def test_terminating_pod_shows_no_back_off() -> None:
    pod = pod_of("Always", main="ab")
    record = record_of(pod, "a! b+")
    record = record.with_container(msgspec.structs.replace(record.container("a"), back_off_seconds=300.0))
    assert "waiting" in statuses.pod_status(pod, record, NOW)["containerStatuses"][0]["state"]
    pod["metadata"]["deletionTimestamp"] = WRITTEN_NOW
    assert "terminated" in statuses.pod_status(pod, record, NOW)["containerStatuses"][0]["state"]


def test_stored_reason_is_kept() -> None:
    pod = pod_of("Never")
    pod["status"] |= {"phase": "Failed", "reason": "Evicted", "message": "m"}
    status = statuses.pod_status(pod, record_of(pod, "a0"), NOW)
    assert (status["phase"], status["reason"], status["message"]) == ("Failed", "Evicted", "m")
