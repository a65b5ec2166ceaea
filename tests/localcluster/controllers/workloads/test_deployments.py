"""Decisions about a Deployment and its status."""

import copy
from typing import Any

import pytest
from tests.localcluster.controllers.workloads.samples import acts, at, workload, written

from windlass.localcluster.controllers.workloads import deployments, templates
from windlass.localcluster.controllers.workloads.decisions import Annotate, Create, Decision

ROLLING = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}


def deployment(replicas: int = 2, status: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    usual = {
        "replicas": replicas,
        "strategy": ROLLING,
        "revisionHistoryLimit": 1,
        "progressDeadlineSeconds": 60,
    }
    return workload("Deployment", {**usual, **spec}, status)


def replica_set(owner: dict[str, Any], replicas: int, revision: int, available: int | None = None) -> Any:
    """Return a ReplicaSet as the Deployment creates it, with pods."""
    (made, *_) = [one.body for one in deployments.decide(owner, [], at(0)).actions if isinstance(one, Create)]
    made["spec"]["replicas"] = replicas
    made["metadata"] |= {"uid": f"uid-{revision}", "generation": 1}
    made["metadata"]["annotations"][deployments.REVISION] = str(revision)
    count = replicas if available is None else available
    made["status"] = {"replicas": replicas, "readyReplicas": count, "availableReplicas": count}
    return made


def changed(owner: dict[str, Any], image: str) -> dict[str, Any]:
    other = copy.deepcopy(owner)
    other["spec"]["template"]["spec"]["containers"][0]["image"] = image
    return other


NAME = "w-" + templates.hash_of(deployment()["spec"]["template"])


def done(decision: Decision) -> list[str]:
    return [word for word in acts(decision) if word != "Annotate"]


def said(decision: Decision) -> dict[str, tuple[str, str]]:
    conditions = (decision.status or {})["conditions"]
    return {one["type"]: (one["status"], one["reason"]) for one in conditions}


def test_new_deployment_creates_a_replica_set() -> None:
    decision = deployments.decide(deployment(), [], at(0))
    assert acts(decision) == [f"create {NAME}", "Annotate"]
    made = decision.actions[0]
    assert isinstance(made, Create)
    spec = made.body["spec"]
    (hashed,) = {NAME.removeprefix("w-")}
    assert spec["selector"]["matchLabels"] == {"app": "w", "pod-template-hash": hashed}
    assert spec["template"]["metadata"]["labels"] == {"app": "w", "pod-template-hash": hashed}
    assert spec["replicas"] == 2
    assert decision.actions[1] == Annotate({deployments.REVISION: "1"})
    assert said(decision) == {
        "Available": ("False", "MinimumReplicasUnavailable"),
        "Progressing": ("True", "NewReplicaSetCreated"),
    }


def test_complete_deployment_needs_no_action() -> None:
    owner = deployment()
    decision = deployments.decide(owner, [replica_set(owner, 2, 1)], at(0))
    assert done(decision) == []
    assert said(decision) == {
        "Available": ("True", "MinimumReplicasAvailable"),
        "Progressing": ("True", "NewReplicaSetAvailable"),
    }
    assert decision.wake_at is None


def test_new_template_creates_a_new_replica_set() -> None:
    owner = deployment()
    former = replica_set(owner, 2, 1)
    newer = changed(owner, "j")
    decision = deployments.decide(newer, [former], at(0))
    made = decision.actions[0]
    assert isinstance(made, Create)
    assert made.body["spec"]["replicas"] == 1
    assert made.body["metadata"]["annotations"][deployments.REVISION] == "2"
    later = deployments.decide(newer, [former, replica_set(newer, 1, 2)], at(0))
    assert done(later) == [f"resize {NAME} to 1"]


def test_rollback_reuses_the_former_replica_set() -> None:
    owner = deployment()
    former, latest = replica_set(owner, 0, 1), replica_set(changed(owner, "j"), 2, 2)
    decision = deployments.decide(owner, [former, latest], at(0))
    assert done(decision)[0] == f"resize {NAME} to 1"
    assert decision.actions[0].annotations[deployments.REVISION] == "3"  # type: ignore[union-attr]


def test_scaling_changes_the_replica_set() -> None:
    owner = deployment(5)
    assert done(deployments.decide(owner, [replica_set(owner, 2, 1)], at(0))) == [f"resize {NAME} to 5"]


def test_recreate_scales_down_first() -> None:
    owner = deployment(strategy={"type": "Recreate"})
    former, newer = replica_set(owner, 2, 1), changed(owner, "j")
    made, *rest = done(deployments.decide(newer, [former], at(0)))
    assert made.startswith("create w-")
    assert rest == [f"resize {NAME} to 0"]
    new = replica_set(newer, 0, 2)
    former["spec"]["replicas"] = 0
    former["status"] = {"replicas": 0, "terminatingReplicas": 1}
    new["metadata"]["annotations"] |= former["metadata"]["annotations"] | {deployments.REVISION: "2"}
    assert done(deployments.decide(newer, [former, new], at(0))) == []
    former["status"] = {"replicas": 0}
    assert done(deployments.decide(newer, [former, new], at(0))) == [f"resize {new['metadata']['name']} to 2"]


def test_old_replica_sets_beyond_the_limit_are_deleted() -> None:
    owner = deployment()
    former = [replica_set(changed(owner, str(number)), 0, number) for number in (1, 2, 3)]
    decision = deployments.decide(owner, [replica_set(owner, 2, 4), *former], at(0))
    assert done(decision) == [f"delete {one['metadata']['name']}" for one in former[:2]]


def test_paused_deployment_is_only_scaled() -> None:
    owner = deployment(4, paused=True)
    former = replica_set(deployment(2), 2, 1)
    decision = deployments.decide(changed(owner, "j"), [former], at(0))
    assert done(decision) == [f"resize {NAME} to 4"]
    assert said(decision)["Progressing"] == ("Unknown", "DeploymentPaused")


PROGRESS: dict[str, tuple[int, int, tuple[str, str]]] = {
    "nothing since": (0, 30, ("True", "ReplicaSetUpdated")),
    "for too long": (0, 60, ("False", "ProgressDeadlineExceeded")),
    "one more is there": (1, 60, ("True", "ReplicaSetUpdated")),
    "all are there": (2, 60, ("True", "NewReplicaSetAvailable")),
}


@pytest.mark.parametrize(("available", "seconds", "expected"), PROGRESS.values(), ids=PROGRESS)
def test_progress_condition(available: int, seconds: int, expected: tuple[str, str]) -> None:
    owner = deployment()
    first = deployments.decide(owner, [replica_set(owner, 2, 1, available=0)], at(0))
    assert said(first)["Progressing"] == ("True", "ReplicaSetUpdated")
    assert first.wake_at == at(60)
    owner["status"] = first.status
    later = deployments.decide(owner, [replica_set(owner, 2, 1, available)], at(seconds))
    assert said(later)["Progressing"] == expected


def test_progress_extends_the_deadline() -> None:
    owner = deployment()
    owner["status"] = deployments.decide(owner, [replica_set(owner, 2, 1, available=0)], at(0)).status
    later = deployments.decide(owner, [replica_set(owner, 2, 1, available=1)], at(50))
    assert later.wake_at == at(110)
    (progressing,) = [one for one in (later.status or {})["conditions"] if one["type"] == "Progressing"]
    assert progressing["lastUpdateTime"] == written(50)


def test_status_counts_replicas() -> None:
    owner = deployment()
    newer = changed(owner, "j")
    sets = [replica_set(owner, 2, 1), replica_set(newer, 1, 2, available=0)]
    status = deployments.decide(newer, sets, at(0)).status or {}
    del status["conditions"]
    assert status == {
        "observedGeneration": 1,
        "replicas": 3,
        "updatedReplicas": 1,
        "readyReplicas": 2,
        "availableReplicas": 2,
        "unavailableReplicas": 1,
    }
