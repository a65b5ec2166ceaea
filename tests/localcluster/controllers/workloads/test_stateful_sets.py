"""Decisions about a StatefulSet."""

from typing import Any

import pytest
from tests.localcluster.controllers.workloads.samples import acts, at, pod, workload

from windlass.localcluster.controllers.workloads import stateful_sets
from windlass.localcluster.controllers.workloads.decisions import Create
from windlass.localcluster.controllers.workloads.observed import Pod

CLAIM = {
    "apiVersion": "v1",
    "kind": "PersistentVolumeClaim",
    "metadata": {"name": "data", "labels": {"own": "label"}},
    "spec": {"accessModes": ["ReadWriteOnce"]},
}
FORMER = "w-former"


def stateful_set(replicas: int, status: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    usual = {
        "replicas": replicas,
        "serviceName": "ring",
        "podManagementPolicy": "OrderedReady",
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
    }
    return workload("StatefulSet", {**usual, **spec}, status)


NOW = stateful_sets.revision_of(stateful_set(1))


def member(number: int, phase: str = "Running", revision: str = NOW, **fields: Any) -> Pod:
    return pod(f"w-{number}", phase, labels={stateful_sets.REVISION: revision}, **fields)


def ready(number: int, revision: str = NOW) -> Pod:
    return member(number, revision=revision, ready=1)


PARALLEL: dict[str, Any] = {"podManagementPolicy": "Parallel"}
STEPS: dict[str, tuple[dict[str, Any], list[Pod], list[str]]] = {
    "the first": (stateful_set(3), [], ["create w-0"]),
    "the second waits for the first": (stateful_set(3), [member(0)], []),
    "the second": (stateful_set(3), [ready(0)], ["create w-1"]),
    "one that went comes again before others": (stateful_set(3), [ready(0), ready(2)], ["create w-1"]),
    "one that goes is waited for": (stateful_set(1), [member(0, deleted=99)], []),
    "one that failed goes": (stateful_set(2), [member(0, "Failed")], ["delete w-0"]),
    "but not at once": (stateful_set(2), [member(0, "Failed", created=95)], []),
    "those who are too many go from the highest on": (
        stateful_set(1),
        [ready(0), ready(1), ready(2)],
        ["delete w-2"],
    ),
    "one at a time": (stateful_set(1), [ready(0), ready(1), member(2, deleted=99)], []),
    "all at once": (stateful_set(3, **PARALLEL), [member(1)], ["create w-0", "create w-2"]),
    "all go at once": (
        stateful_set(0, **PARALLEL),
        [ready(0), ready(1), member(2, deleted=99)],
        ["delete w-1", "delete w-0"],
    ),
    "numbers that begin later": (stateful_set(1, ordinals={"start": 5}), [], ["create w-5"]),
    "with claims": (stateful_set(1, volumeClaimTemplates=[CLAIM]), [], ["create data-w-0", "create w-0"]),
    "claims that go with their pods": (
        stateful_set(
            0,
            volumeClaimTemplates=[CLAIM],
            persistentVolumeClaimRetentionPolicy={"whenScaled": "Delete"},
        ),
        [ready(0)],
        ["delete w-0", "delete data-w-0"],
    ),
    "an update, from the highest on": (
        stateful_set(2),
        [ready(0, FORMER), ready(1, FORMER)],
        ["delete w-1"],
    ),
    "the next when that is ready": (stateful_set(2), [ready(0, FORMER), ready(1)], ["delete w-0"]),
    "not before": (stateful_set(2), [ready(0, FORMER), member(1)], []),
    "a partition": (
        stateful_set(2, updateStrategy={"type": "RollingUpdate", "rollingUpdate": {"partition": 1}}),
        [ready(0, FORMER), ready(1)],
        [],
    ),
    "update strategy OnDelete": (
        stateful_set(1, updateStrategy={"type": "OnDelete"}),
        [ready(0, FORMER)],
        [],
    ),
    "a template that never works can be replaced": (
        stateful_set(2),
        [member(0, revision=FORMER)],
        ["delete w-0"],
    ),
}


@pytest.mark.parametrize(("body", "pods", "expected"), STEPS.values(), ids=STEPS)
def test_actions(body: dict[str, Any], pods: list[Pod], expected: list[str]) -> None:
    assert acts(stateful_sets.decide(body, pods, at(100))) == expected


def test_pod_and_claim_of_an_ordinal() -> None:
    body = stateful_set(1, volumeClaimTemplates=[CLAIM])
    claim, made = stateful_sets.decide(body, [], at(0)).actions
    assert isinstance(claim, Create)
    assert isinstance(made, Create)
    assert claim.may_exist
    assert claim.body["metadata"]["labels"] == {"own": "label", "app": "w"}
    assert "ownerReferences" not in claim.body["metadata"]
    spec, labels = made.body["spec"], made.body["metadata"]["labels"]
    assert (spec["hostname"], spec["subdomain"]) == ("w-0", "ring")
    assert spec["volumes"] == [{"name": "data", "persistentVolumeClaim": {"claimName": "data-w-0"}}]
    assert labels == {
        "app": "w",
        "statefulset.kubernetes.io/pod-name": "w-0",
        "apps.kubernetes.io/pod-index": "0",
        "controller-revision-hash": stateful_sets.revision_of(body),
    }


STATUSES: dict[str, tuple[list[Pod], tuple[int, int, int, str]]] = {
    "none yet": ([], (0, 0, 0, FORMER)),
    "on the way": ([ready(0, FORMER), ready(1)], (2, 2, 1, FORMER)),
    "not ready": ([ready(0), member(1)], (2, 1, 2, FORMER)),
    "done": ([ready(0), ready(1)], (2, 2, 2, NOW)),
    "one too many": ([ready(0), ready(1), member(2, deleted=1)], (3, 2, 2, FORMER)),
}


@pytest.mark.parametrize(("pods", "expected"), STATUSES.values(), ids=STATUSES)
def test_status_counts_pods(pods: list[Pod], expected: tuple[int, int, int, str]) -> None:
    status = stateful_sets.decide(stateful_set(2, {"currentRevision": FORMER}), pods, at(100)).status or {}
    fields = ("replicas", "readyReplicas", "updatedReplicas", "currentRevision")
    assert tuple(status[field] for field in fields) == expected
    assert status["updateRevision"] == NOW


@pytest.mark.parametrize(
    ("name", "expected"), [("w-0", True), ("w-12", True), ("w", False), ("w-x", False), ("other-0", False)]
)
def test_may_own_checks_the_pod_name(name: str, expected: bool) -> None:
    assert stateful_sets.may_own(stateful_set(1), name) is expected
