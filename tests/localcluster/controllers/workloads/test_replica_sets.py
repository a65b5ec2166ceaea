"""Decisions about a ReplicaSet."""

from typing import Any

import pytest
from tests.localcluster.controllers.workloads.samples import acts, at, pod, workload

from windlass.localcluster.controllers.workloads import replica_sets
from windlass.localcluster.controllers.workloads.observed import Pod


def replica_set(replicas: int, **spec: Any) -> dict[str, Any]:
    return workload("ReplicaSet", {"replicas": replicas, **spec})


STEPS: dict[str, tuple[dict[str, Any], list[Pod], list[str]]] = {
    "all are missing": (replica_set(2), [], ["create w-", "create w-"]),
    "one is missing": (replica_set(2), [pod("a")], ["create w-"]),
    "enough": (replica_set(1), [pod("a")], []),
    "one that goes is replaced": (replica_set(1), [pod("a", deleted=99)], ["create w-"]),
    "one that was evicted is replaced": (replica_set(1), [pod("a", "Failed", ended=50)], ["create w-"]),
    "but not at once": (replica_set(1), [pod("a", "Failed", ended=99)], []),
    "too many: those that are not ready go first": (
        replica_set(1),
        [pod("a"), pod("b", ready=5), pod("c", "Pending", has_node=False)],
        ["delete c", "delete a"],
    ),
}


@pytest.mark.parametrize(("body", "pods", "expected"), STEPS.values(), ids=STEPS)
def test_actions_keep_the_specified_number_of_pods(
    body: dict[str, Any], pods: list[Pod], expected: list[str]
) -> None:
    assert acts(replica_sets.decide(body, pods, at(100))) == expected


def test_deleted_replica_set_creates_no_pods() -> None:
    body = replica_set(1)
    body["metadata"]["deletionTimestamp"] = "2030-01-01T00:00:00Z"
    assert acts(replica_sets.decide(body, [], at(100))) == []


def test_status_counts_pods() -> None:
    pods = [
        pod("a", ready=10, labels={"app": "w"}),
        pod("b", ready=95, labels={"app": "w"}),
        pod("c", labels={"app": "w"}),
        pod("d", deleted=1),
    ]
    decision = replica_sets.decide(replica_set(3, minReadySeconds=10), pods, at(100))
    assert decision.status == {
        "replicas": 3,
        "fullyLabeledReplicas": 3,
        "readyReplicas": 2,
        "availableReplicas": 1,
        "terminatingReplicas": 1,
        "observedGeneration": 1,
    }
    assert decision.wake_at == at(105)
