"""Unschedulable pods stay pending, with an event of the scheduler."""

from typing import Any

import pytest
from pods.place import Place
from pods.specs import FOREVER, container, free_port

from conformance.client import Json


def requested(**resources: str) -> Json:
    return container("true", resources={"requests": resources})


def affinity(operator: str, *values: str) -> dict[str, Any]:
    expression = {"key": "windlass-test", "operator": operator, "values": list(values)}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


CASES: dict[str, tuple[Any, dict[str, Any], str]] = {
    "selector": ("true", {"nodeSelector": {"windlass-test": "none"}}, "node(s) didn't match"),
    "affinity": ("true", {"affinity": affinity("In", "none")}, "node(s) didn't match"),
    "cpu": (requested(cpu="100000"), {}, "Insufficient cpu"),
    "memory": (requested(memory="1000Ti"), {}, "Insufficient memory"),
    "gpu": (
        container("true", resources={"limits": {"example.com/gpu": "1"}}),
        {},
        "Insufficient example.com/gpu",
    ),
}


@pytest.mark.parametrize(("main", "spec", "words"), CASES.values(), ids=CASES)
def test_unschedulable_pod_stays_pending(place: Place, main: Any, spec: dict[str, Any], words: str) -> None:
    pod = place.start(main, **spec)
    seen = pod.wait("to be judged", lambda seen: "PodScheduled" in seen.conditions)
    condition = seen.conditions["PodScheduled"]
    assert (seen.phase, condition.status, condition.reason) == ("Pending", "False", "Unschedulable")
    nodes = len(place.client.get("/api/v1/nodes").body["items"])
    assert condition.message.startswith(f"0/{nodes} nodes are available: ")
    assert words in condition.message
    assert not seen.node
    assert "startTime" not in seen.status
    assert "containerStatuses" not in seen.status
    event = pod.event("FailedScheduling", words)
    assert event["type"] == "Warning"
    assert event["message"] == condition.message


def test_negative_node_affinity(place: Place) -> None:
    assert place.start("true", affinity=affinity("NotIn", "none")).ended().phase == "Succeeded"


def test_pending_pod_can_be_deleted(place: Place) -> None:
    pod = place.start("true", nodeSelector={"windlass-test": "none"})
    pod.event("FailedScheduling")
    pod.delete()
    pod.wait_until_gone()


def test_node_name_needs_no_scheduler(place: Place) -> None:
    node = place.client.get("/api/v1/nodes").names[0]
    pod = place.start("true", nodeName=node)
    assert (pod.ended().phase, pod.seen().node) == ("Succeeded", node)


def test_other_scheduler_name_stays_pending(place: Place) -> None:
    pod = place.start("true", schedulerName="another-scheduler")
    pod.stays("pending", lambda seen: seen.phase == "Pending" and not seen.node)
    assert "PodScheduled" not in pod.seen().conditions


def test_pod_is_scheduled_when_the_label_appears(place: Place) -> None:
    """The label is removed again, since all tests share the node."""
    label = f"windlass-test-{place.namespace}"
    pod = place.start("true", nodeSelector={label: "yes"})
    pod.event("FailedScheduling")
    node = f"/api/v1/nodes/{place.client.get('/api/v1/nodes').names[0]}"
    place.client.patch(node, {"metadata": {"labels": {label: "yes"}}}).expect(200)
    try:
        assert pod.ended().phase == "Succeeded"
    finally:
        place.client.patch(node, {"metadata": {"labels": {label: None}}})


def test_host_port_is_used_once_per_node(place: Place) -> None:
    nodes = len(place.client.get("/api/v1/nodes").body["items"])
    if nodes > 4:
        pytest.skip("too many nodes to fill")
    main = container(FOREVER, ports=[{"containerPort": 80, "hostPort": free_port()}])
    pods = [place.start(main) for _ in range(nodes + 1)]

    def waiting() -> list[Any]:
        return [pod for pod in pods if not pod.seen().node]

    for pod in pods:
        pod.wait("to be judged", lambda seen: "PodScheduled" in seen.conditions)
    (late,) = waiting()
    assert "didn't have free ports" in late.event("FailedScheduling")["message"]
    first = next(pod for pod in pods if pod is not late)
    first.delete()
    late.running()


def test_toleration_allows_a_tainted_node(place: Place) -> None:
    key = f"windlass.test/{place.namespace}"
    nodes = place.client.get("/api/v1/nodes").body["items"]
    if len(nodes) > 1:
        pytest.skip("other nodes would be taken")
    node = f"/api/v1/nodes/{nodes[0]['metadata']['name']}"
    taint = {"key": key, "value": "x", "effect": "NoSchedule"}
    before = nodes[0]["spec"].get("taints", [])
    place.client.patch(node, {"spec": {"taints": [*before, taint]}}).expect(200)
    try:
        toleration = {"key": key, "operator": "Exists"}
        assert place.start("true", tolerations=[toleration]).ended().phase == "Succeeded"
        pod = place.start("true")
        assert "taint" in pod.event("FailedScheduling")["message"]
    finally:
        place.client.patch(node, {"spec": {"taints": before}})
    assert pod.ended().phase == "Succeeded"
