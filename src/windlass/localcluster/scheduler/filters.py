"""The filters that decide whether a pod may run on a node, in kube-scheduler's order and words.

The first filter that rejects a node supplies the reason. The last one lists every resource that is insufficient.
"""

from collections.abc import Callable
from typing import Any

import msgspec

from windlass.localcluster.scheduler import node_constraints
from windlass.localcluster.scheduler.node_resources import NodeInfo, PodInfo
from windlass.model.base import Json


class Rejection(msgspec.Struct, frozen=True):
    """The reasons to reject a node. `is_final`: the node would be rejected even without other pods on it."""

    reasons: tuple[str, ...]
    is_final: bool = True


Filter = Callable[[PodInfo, NodeInfo], Rejection | None]

_NOT_SUPPORTED = "not supported by the scheduler of this cluster"


def rejection(pod_info: PodInfo, node_info: NodeInfo) -> Rejection | None:
    """Return why a node cannot run a pod; None if it can."""
    return next((found for filter_ in FILTERS if (found := filter_(pod_info, node_info)) is not None), None)


def blocking_reason(spec: Json) -> str:
    """Return why no node can run a pod: contradictory terms or an unsupported requirement; empty if there is none.

    Preferred pod affinity and anti-affinity are ignored.
    """
    if node_constraints.required_names(spec) == frozenset():
        return "pod affinity terms conflict"
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    affinity: Json = spec.get("affinity") or {}
    spreads: Any = spec.get("topologySpreadConstraints") or ()
    unsupported = {
        "required pod affinity is": (affinity.get("podAffinity") or {}).get(required),
        "required pod anti-affinity is": (affinity.get("podAntiAffinity") or {}).get(required),
        "topology spread with DoNotSchedule is": any(
            one.get("whenUnsatisfiable") == "DoNotSchedule" for one in spreads
        ),
        "resource claims are": spec.get("resourceClaims"),
        "scheduling groups are": spec.get("schedulingGroup"),
    }
    return next((f"{what} {_NOT_SUPPORTED}" for what, is_used in unsupported.items() if is_used), "")


def claim_blocking_reason(name: str, claim: Json | None) -> str:
    """Return why the volume of a claim is not available; empty if it is available."""
    if claim is None:
        return f'persistentvolumeclaim "{name}" not found'
    phase = (claim.get("status") or {}).get("phase")
    if phase == "Lost":
        volume = claim["spec"].get("volumeName", "")
        return f'persistentvolumeclaim "{name}" bound to non-existent persistentvolume "{volume}"'
    if "deletionTimestamp" in claim["metadata"]:
        return f'persistentvolumeclaim "{name}" is being deleted'
    return "" if phase == "Bound" else "pod has unbound immediate PersistentVolumeClaims"


def _node_name_rejection(pod_info: PodInfo, node_info: NodeInfo) -> Rejection | None:
    """Reject nodes that the required terms do not name, before any other filter, as kube-scheduler does."""
    named = node_constraints.required_names(pod_info.spec)
    if named is None or node_info.name in named:
        return None
    return Rejection(("node(s) didn't satisfy plugin(s) [NodeAffinity]",))


def _cordon_rejection(pod_info: PodInfo, node_info: NodeInfo) -> Rejection | None:
    is_cordoned = (node_info.node.get("spec") or {}).get("unschedulable", False)
    if not is_cordoned or node_constraints.tolerates(pod_info.spec, node_constraints.UNSCHEDULABLE_TAINT):
        return None
    return Rejection(("node(s) were unschedulable",))


def _taint_rejection(pod_info: PodInfo, node_info: NodeInfo) -> Rejection | None:
    taint = node_constraints.first_untolerated_taint(pod_info.spec, node_info.node)
    if taint is None:
        return None
    return Rejection((f"node(s) had untolerated taint {{{taint.get('key', '')}: {taint.get('value', '')}}}",))


def _affinity_rejection(pod_info: PodInfo, node_info: NodeInfo) -> Rejection | None:
    if node_constraints.selects(pod_info.spec, node_info.node):
        return None
    return Rejection(("node(s) didn't match Pod's node affinity/selector",))


def _port_rejection(pod_info: PodInfo, node_info: NodeInfo) -> Rejection | None:
    if not pod_info.requests.ports:
        return None
    taken = [port for other in node_info.pods.values() for port in other.ports]
    if not any(port.conflicts_with(other) for port in pod_info.requests.ports for other in taken):
        return None
    return Rejection(("node(s) didn't have free ports for the requested pod ports",), is_final=False)


def _resource_rejection(pod_info: PodInfo, node_info: NodeInfo) -> Rejection | None:
    amounts, tasks_per_gpu = pod_info.requests.amounts, pod_info.requests.tasks_per_gpu
    short = [name for name, amount in amounts.items() if amount > node_info.free(name, tasks_per_gpu)]
    reasons = [f"Insufficient {name}" for name in short]
    if node_info.free_pod_slots < 1:
        reasons.append("Too many pods")
    if not reasons:
        return None
    is_too_small = any(amounts[name] > node_info.total(name) for name in short)
    return Rejection(tuple(reasons), is_final=is_too_small)


FILTERS: tuple[Filter, ...] = (
    _node_name_rejection,
    _cordon_rejection,
    _taint_rejection,
    _affinity_rejection,
    _port_rejection,
    _resource_rejection,
)
