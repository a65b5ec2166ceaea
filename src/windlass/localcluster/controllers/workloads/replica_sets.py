"""What a ReplicaSet needs: as many pods as it says, whichever they are. Pure."""

from collections.abc import Sequence
from datetime import datetime

from windlass.localcluster.controllers.workloads import back_off, observed, templates
from windlass.localcluster.controllers.workloads.decisions import Action, Create, Decision, Delete, earliest
from windlass.localcluster.controllers.workloads.observed import Pod
from windlass.model.base import Json

RESOURCE = "replicasets.apps"
_PODS = "pods"
# Of more than these at a time, the next are made when these are there.
_MOST_AT_ONCE = 500


def decide(replica_set: Json, pods: Sequence[Pod], now: datetime) -> Decision:
    active = [pod for pod in pods if pod.is_active]
    least_ready = replica_set["spec"].get("minReadySeconds", 0)
    actions: tuple[Action, ...] = ()
    wake_at = None
    if "deletionTimestamp" not in replica_set["metadata"]:
        actions, wake_at = _changes(replica_set, active, pods, now)
    return Decision(
        status=_status(replica_set, active, pods, now),
        actions=actions,
        wake_at=earliest(wake_at, observed.next_available(active, least_ready, now)),
    )


def _changes(
    replica_set: Json, active: Sequence[Pod], pods: Sequence[Pod], now: datetime
) -> tuple[tuple[Action, ...], datetime | None]:
    missing = replica_set["spec"]["replicas"] - len(active)
    if missing < 0:
        surplus = observed.least_useful(active)[:-missing]
        return tuple(Delete(_PODS, pod.name, pod.uid) for pod in surplus), None
    if not missing:
        return (), None
    # Pods that fail, rather than their containers, were evicted or could never start.
    ready_at = back_off.next_creation([pod for pod in pods if pod.phase == "Failed"], (), now)
    if now < ready_at:
        return (), ready_at
    base = f"{replica_set['metadata']['name']}-"
    made = (Create(_PODS, templates.pod(replica_set, base=base)) for _ in range(min(missing, _MOST_AT_ONCE)))
    return tuple(made), None


def _status(replica_set: Json, active: Sequence[Pod], pods: Sequence[Pod], now: datetime) -> Json:
    spec = replica_set["spec"]
    labels = (spec["template"].get("metadata") or {}).get("labels") or {}
    least_ready = spec.get("minReadySeconds", 0)
    numbers = {
        "fullyLabeledReplicas": sum(labels.items() <= pod.labels.items() for pod in active),
        "readyReplicas": sum(pod.is_ready for pod in active),
        "availableReplicas": sum(pod.is_available(least_ready, now) for pod in active),
        "terminatingReplicas": sum(pod.is_going and not pod.is_over for pod in pods),
    }
    return {
        **(replica_set.get("status") or {}),
        "replicas": len(active),
        "observedGeneration": replica_set["metadata"]["generation"],
        **numbers,
    }
