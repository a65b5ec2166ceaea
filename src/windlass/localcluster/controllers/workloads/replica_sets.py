"""Decide the next actions for a ReplicaSet: keep the specified number of pods. No function has side effects."""

from collections.abc import Sequence
from datetime import datetime

from windlass.localcluster.controllers.workloads import back_off, observed, templates
from windlass.localcluster.controllers.workloads.decisions import Action, Create, Decision, Delete, earliest
from windlass.localcluster.controllers.workloads.observed import Pod
from windlass.model.base import Json

RESOURCE = "replicasets.apps"
_PODS = "pods"
# Maximum number of pods created per step.
_MAX_CREATES = 500


def decide(replica_set: Json, pods: Sequence[Pod], now: datetime) -> Decision:
    active = [pod for pod in pods if pod.is_active]
    min_ready_seconds = replica_set["spec"].get("minReadySeconds", 0)
    actions: tuple[Action, ...] = ()
    wake_at = None
    if "deletionTimestamp" not in replica_set["metadata"]:
        actions, wake_at = _actions(replica_set, active, pods, now)
    return Decision(
        status=_status(replica_set, active, pods, now),
        actions=actions,
        wake_at=earliest(wake_at, observed.next_available(active, min_ready_seconds, now)),
    )


def _actions(
    replica_set: Json, active: Sequence[Pod], pods: Sequence[Pod], now: datetime
) -> tuple[tuple[Action, ...], datetime | None]:
    missing = replica_set["spec"]["replicas"] - len(active)
    if missing < 0:
        surplus = observed.by_deletion_order(active)[:-missing]
        return tuple(Delete(_PODS, pod.name, pod.uid) for pod in surplus), None
    if not missing:
        return (), None
    # With restartPolicy Always, a pod fails only because of an eviction, a deletion or the loss of its node.
    create_at = back_off.next_creation_time([pod for pod in pods if pod.phase == "Failed"], (), now)
    if now < create_at:
        return (), create_at
    base = f"{replica_set['metadata']['name']}-"
    count = min(missing, _MAX_CREATES)
    return tuple(Create(_PODS, templates.pod(replica_set, base=base)) for _ in range(count)), None


def _status(replica_set: Json, active: Sequence[Pod], pods: Sequence[Pod], now: datetime) -> Json:
    spec = replica_set["spec"]
    labels = (spec["template"].get("metadata") or {}).get("labels") or {}
    min_ready_seconds = spec.get("minReadySeconds", 0)
    return {
        **(replica_set.get("status") or {}),
        "replicas": len(active),
        "observedGeneration": replica_set["metadata"]["generation"],
        "fullyLabeledReplicas": sum(labels.items() <= pod.labels.items() for pod in active),
        "readyReplicas": sum(pod.is_ready for pod in active),
        "availableReplicas": sum(pod.is_available(min_ready_seconds, now) for pod in active),
        "terminatingReplicas": sum(pod.is_ending for pod in pods),
    }
