"""Every field of a pod's status, at each stage of its life."""

import re
from typing import Any

import pytest
from pods.place import Place
from pods.seen import Condition, Seen
from pods.specs import FOREVER, IMAGE, container, scratch

TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
ADDRESS = re.compile(r"\d+\.\d+\.\d+\.\d+")
CONTAINER_ID = re.compile(r"[a-z][a-z0-9-]*://\S+")
NEVER_MOUNTED = [{"name": "data", "configMap": {"name": "there-is-none"}}]
UNREADY = "containers with unready status: [main]"


def conditions(seen: Seen) -> dict[str, tuple[str, str, str]]:
    """The four that every release has."""
    four = ("Initialized", "Ready", "ContainersReady", "PodScheduled")
    found = {name: seen.conditions.get(name, Condition("missing")) for name in four}
    return {name: (each.status, each.reason, each.message) for name, each in found.items()}


def check_container(status: dict[str, Any], **expected: Any) -> None:
    """All that a status of a container has beside its state."""
    assert status["image"].endswith(IMAGE)
    assert isinstance(status["imageID"], str)
    found = {name: status.get(name) for name in ("ready", "started", "restartCount", "lastState")}
    assert found == {"ready": False, "started": False, "restartCount": 0, "lastState": {}, **expected}


def check_node_fields(seen: Seen) -> None:
    assert TIME.fullmatch(seen.status["startTime"])
    assert ADDRESS.fullmatch(seen.status["hostIP"])
    assert seen.node


def check_address(seen: Seen) -> None:
    assert ADDRESS.fullmatch(seen.address)
    assert seen.status["podIPs"][0] == {"ip": seen.address}


def check_times(terminated: dict[str, Any]) -> None:
    assert TIME.fullmatch(terminated["startedAt"])
    assert TIME.fullmatch(terminated["finishedAt"])
    assert terminated["startedAt"] <= terminated["finishedAt"]


def test_status_while_a_container_is_created(place: Place) -> None:
    """It is never created, since a volume is missing."""
    seen = place.start("true", volumes=NEVER_MOUNTED).waiting("ContainerCreating")
    assert seen.phase == "Pending"
    check_node_fields(seen)
    assert not seen.address
    status = seen.container()
    check_container(status)
    assert "containerID" not in status
    assert status["state"] == {"waiting": {"reason": "ContainerCreating"}}
    unready = ("False", "ContainersNotReady", UNREADY)
    assert conditions(seen) == {
        "Initialized": ("True", "", ""),
        "Ready": unready,
        "ContainersReady": unready,
        "PodScheduled": ("True", "", ""),
    }


def test_status_while_init_containers_wait(place: Place) -> None:
    first = container("true", "first")
    seen = place.start("true", initContainers=[first], volumes=NEVER_MOUNTED).waiting("PodInitializing")
    assert seen.phase == "Pending"
    assert seen.waits_for("first") == "PodInitializing"
    message = "containers with incomplete status: [first]"
    assert conditions(seen)["Initialized"] == ("False", "ContainersNotInitialized", message)


def test_status_while_an_init_container_runs(place: Place) -> None:
    pod = place.start("true", initContainers=[container(FOREVER, "first")])
    seen = pod.wait("to initialize", lambda seen: seen.running("first"))
    assert seen.phase == "Pending"
    assert seen.waiting() == {"reason": "PodInitializing"}
    message = "containers with incomplete status: [first]"
    assert conditions(seen)["Initialized"] == ("False", "ContainersNotInitialized", message)
    assert conditions(seen)["Ready"] == ("False", "ContainersNotReady", UNREADY)
    assert seen.container("first")["ready"] is False


def test_status_while_running(place: Place) -> None:
    seen = place.start(FOREVER).ready()
    assert seen.phase == "Running"
    check_node_fields(seen)
    check_address(seen)
    status = seen.container()
    check_container(status, ready=True, started=True)
    assert CONTAINER_ID.fullmatch(status["containerID"])
    assert list(status["state"]) == ["running"]
    assert TIME.fullmatch(status["state"]["running"]["startedAt"])
    assert set(conditions(seen).values()) == {("True", "", "")}


@pytest.mark.parametrize(
    ("script", "phase", "code", "reason"),
    [("true", "Succeeded", 0, "Completed"), ("exit 3", "Failed", 3, "Error")],
)
def test_status_after_the_end(place: Place, script: str, phase: str, code: int, reason: str) -> None:
    seen = place.start(script).ended()
    assert seen.phase == phase
    check_node_fields(seen)
    status = seen.container()
    check_container(status)
    terminated = seen.terminated()
    assert terminated is not None
    check_times(terminated)
    assert CONTAINER_ID.fullmatch(terminated["containerID"])
    assert status["containerID"] == terminated["containerID"]
    fields = ("exitCode", "reason", "startedAt", "finishedAt", "containerID")
    assert set(terminated) == set(fields), "no message, since none was left"
    assert (terminated["exitCode"], terminated["reason"]) == (code, reason)


def test_conditions_of_a_success(place: Place) -> None:
    completed = ("PodCompleted", "")
    assert conditions(place.start("true").ended()) == {
        "Initialized": ("True", *completed),
        "Ready": ("False", *completed),
        "ContainersReady": ("False", *completed),
        "PodScheduled": ("True", "", ""),
    }


def test_conditions_of_a_failure(place: Place, by_release: str) -> None:
    found = conditions(place.start("false").ended())
    assert (found["Initialized"], found["PodScheduled"]) == (("True", "", ""), ("True", "", ""))
    for name in ("Ready", "ContainersReady"):
        assert found[name][:2] == ("False", by_release)


def test_pod_ip_is_kept_after_the_end(place: Place) -> None:
    check_address(place.start("true").ended())


def test_status_of_two_containers(place: Place) -> None:
    """The pod runs as long as one of them does, and fails when one has failed."""
    pod = place.start(
        container("exit 5", "short"),
        container("until [ -e /data/go ]; do sleep 0.1; done", "long", volumeMounts=MOUNT),
        volumes=scratch(),
    )
    seen = pod.wait("to lose one", lambda seen: seen.terminated("short") and seen.running("long"))
    assert seen.phase == "Running"
    assert seen.exit_code("short") == 5
    assert seen.conditions["Ready"].message == "containers with unready status: [short]"
    # The container may end, and this command with it, before the command has returned.
    pod.sh("touch /data/go", container="long")
    ended = pod.ended()
    assert (ended.phase, ended.exit_code("short"), ended.exit_code("long")) == ("Failed", 5, 0)


MOUNT = [{"name": "data", "mountPath": "/data"}]


def test_times_are_in_order(place: Place) -> None:
    seen = place.start("true").ended()
    created, started = seen.body["metadata"]["creationTimestamp"], seen.status["startTime"]
    terminated = seen.terminated()
    assert terminated is not None
    assert created <= started <= terminated["startedAt"] <= terminated["finishedAt"]


def test_conditions_have_transition_times(place: Place) -> None:
    seen = place.start("true").ended()
    for each in seen.status["conditions"]:
        assert TIME.fullmatch(each["lastTransitionTime"]), each


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        ({}, "BestEffort"),
        ({"requests": {"cpu": "10m"}}, "Burstable"),
        ({"limits": {"cpu": "100m", "memory": "256Mi"}}, "Guaranteed"),
    ],
)
def test_qos_class_is_kept(place: Place, resources: dict[str, Any], expected: str) -> None:
    seen = place.start(container("true", resources=resources)).ended()
    assert (seen.phase, seen.status["qosClass"]) == ("Succeeded", expected)


def test_host_network_pod_has_the_address_of_the_node(place: Place) -> None:
    seen = place.start(FOREVER, hostNetwork=True).running()
    assert seen.address == seen.status["hostIP"]


def test_each_pod_has_its_own_address(place: Place) -> None:
    addresses = [place.start(FOREVER).running().address for _ in range(3)]
    assert len(set(addresses)) == 3
