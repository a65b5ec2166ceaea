"""Decisions about a Deployment and its status."""

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.localcluster.controllers.workloads.samples import acts, at, workload, written

from windlass.localcluster.controllers.workloads import deployments, templates
from windlass.localcluster.controllers.workloads.decisions import Annotate, Create, Decision
from windlass.localcluster.controllers.workloads.deployments import Bounds, Size

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


# Rollouts


def rolling_spec(replicas: int, surge: int | str = "25%", unavailable: int | str = "25%") -> dict[str, Any]:
    rolling = {"maxSurge": surge, "maxUnavailable": unavailable}
    return {"replicas": replicas, "strategy": {"type": "RollingUpdate", "rollingUpdate": rolling}}


@pytest.mark.parametrize(
    ("given_spec", "expected"),
    [
        (rolling_spec(4), Bounds(5, 3)),
        (rolling_spec(1), Bounds(2, 1)),
        (rolling_spec(10), Bounds(13, 8)),
        (rolling_spec(3, 0, 1), Bounds(3, 2)),
        (rolling_spec(3, 2, 0), Bounds(5, 3)),
        (rolling_spec(1, 0, "25%"), Bounds(1, 0)),
        (rolling_spec(2, 0, 5), Bounds(2, 0)),
        (rolling_spec(0), Bounds(0, 0)),
    ],
)
def test_bounds_round_surge_up_and_unavailable_down(given_spec: dict[str, Any], expected: Bounds) -> None:
    assert deployments.bounds(given_spec) == expected


def full(wanted: int, available: int | None = None) -> Size:
    return Size(wanted, wanted, wanted if available is None else available)


STEPS: dict[str, tuple[dict[str, Any], Size, dict[str, Size], int, dict[str, int]]] = {
    "the first": (rolling_spec(3), Size(0), {}, 3, {}),
    "larger": (rolling_spec(5), full(3), {}, 5, {}),
    "smaller": (rolling_spec(2), full(3), {}, 2, {}),
    "one above": (rolling_spec(3, 1, 0), Size(0), {"a": full(3)}, 1, {"a": 3}),
    "one below": (rolling_spec(3, 0, 1), Size(0), {"a": full(3)}, 0, {"a": 2}),
    "one for one": (rolling_spec(3, 1, 0), full(1), {"a": full(3)}, 1, {"a": 2}),
    "not before it is available": (rolling_spec(3, 1, 0), full(1, 0), {"a": full(3)}, 1, {"a": 3}),
    "what never worked goes at once": (rolling_spec(3, 1, 1), full(0), {"a": full(3, 0)}, 1, {"a": 2}),
    "the last": (rolling_spec(3, 1, 0), full(3), {"a": full(1)}, 3, {"a": 0}),
    "the oldest first": (rolling_spec(3, 1, 1), full(2), {"a": full(1), "b": full(1)}, 2, {"a": 0, "b": 0}),
}


@pytest.mark.parametrize(("given_spec", "new", "former", "size", "sizes"), STEPS.values(), ids=STEPS)
def test_rolling_update_step(
    given_spec: dict[str, Any], new: Size, former: dict[str, Size], size: int, sizes: dict[str, int]
) -> None:
    assert deployments.rolling_sizes(given_spec, new, former) == (size, sizes)


@given(st.integers(1, 12), st.integers(0, 4), st.integers(0, 4))
def test_every_rollout_ends_within_its_bounds(replicas: int, surge: int, unavailable: int) -> None:
    asked = rolling_spec(replicas, surge, unavailable)
    limits = deployments.bounds(asked)
    new, former = 0, replicas
    for _ in range(3 * replicas + 3):
        new, sizes = deployments.rolling_sizes(asked, full(new), {"a": full(former)})
        former = sizes["a"]
        assert new + former <= limits.max_pods
        # The new pods of this step may not exist yet.
        assert former + new >= limits.min_available
    assert (new, former) == (replicas, 0)


RECREATED: dict[str, tuple[dict[str, Size], int]] = {
    "the first": ({}, 3),
    "the former has pods": ({"a": full(3)}, 0),
    "they go": ({"a": Size(0, 0, 0, terminating=2)}, 0),
    "they are gone": ({"a": Size(0)}, 3),
}


@pytest.mark.parametrize(("former", "expected"), RECREATED.values(), ids=RECREATED)
def test_recreate_waits_until_former_pods_are_gone(former: dict[str, Size], expected: int) -> None:
    assert deployments.recreate_sizes(rolling_spec(3), former) == (expected, dict.fromkeys(former, 0))
