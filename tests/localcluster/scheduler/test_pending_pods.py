"""Pending pods are grouped by what a decision depends on, and the groups are tried in a fair order."""

from typing import Any

from windlass.localcluster.scheduler import decision, node_resources
from windlass.localcluster.scheduler.pending_pods import PendingPod, PendingPods

CAPACITY = 4


def pending(arrival: int, *, owner: str = "a", namespace: str = "default", **spec: Any) -> PendingPod:
    metadata = {
        "namespace": namespace,
        "uid": str(arrival),
        "ownerReferences": [{"uid": owner, "controller": True}],
    }
    pod = {"metadata": metadata, "spec": {"containers": [], **spec}}
    pod_info = node_resources.pod_info_of(pod)
    return PendingPod(pod, pod_info, decision.equivalence_key(pod_info), "", arrival)


def placed(pods: PendingPods, count: int) -> list[str]:
    """Place the oldest pod of the next group `count` times, and return their names."""
    names = []
    for _ in range(count):
        group = pods.take(lambda _: CAPACITY)
        names.append(group.oldest)
        pods.remove(group.oldest)
        pods.on_placed(group)
    return names


def test_pods_with_different_owners_nodes_or_claims_are_in_different_groups() -> None:
    volumes = [{"persistentVolumeClaim": {"claimName": "data"}}]
    kinds = [
        pending(0),
        pending(1, owner="b"),
        pending(2, nodeSelector={"x": "y"}),
        pending(3, volumes=volumes),
        pending(4, volumes=volumes, namespace="other"),
    ]
    assert len({one.group_key for one in kinds}) == 5
    assert pending(5).group_key == pending(6, namespace="other").group_key


def test_groups_that_fit_are_tried_in_order_of_arrival() -> None:
    pods = PendingPods()
    for arrival, owner in enumerate("aabab"):
        pods.update(f"{owner}{arrival}", pending(arrival, owner=owner))

    assert placed(pods, 5) == ["a0", "a1", "b2", "a3", "b4"]
    assert not pods.has_active


def test_group_larger_than_the_cluster_yields_after_each_pod() -> None:
    pods = PendingPods()
    for arrival in range(CAPACITY + 3):
        pods.update(f"a{arrival}", pending(arrival))
    for arrival in (10, 11):
        pods.update(f"b{arrival}", pending(arrival, owner="b"))

    assert placed(pods, 5) == ["a0", "b10", "a1", "b11", "a2"]


def test_group_larger_than_the_cluster_does_not_yield_to_lower_priority() -> None:
    pods = PendingPods()
    pods.update("b", pending(0, owner="b"))
    for arrival in range(1, CAPACITY + 3):
        pods.update(f"a{arrival}", pending(arrival, priority=1))

    assert placed(pods, 7) == [f"a{arrival}" for arrival in range(1, 7)] + ["b"]


def test_result_applies_to_all_pods_of_a_group_and_is_reported_once() -> None:
    pods = PendingPods()
    for arrival in range(3):
        pods.update(f"a{arrival}", pending(arrival))
    pods.on_unschedulable(pods.take(lambda _: CAPACITY), "full")
    assert [pods.take_unreported() for _ in range(4)] == [
        *((f"a{index}", "full") for index in range(3)),
        None,
    ]

    pods.update("a3", pending(3))
    pods.on_unschedulable(pods.take(lambda _: CAPACITY), "full")
    assert [pods.take_unreported(), pods.take_unreported()] == [("a3", "full"), None]
