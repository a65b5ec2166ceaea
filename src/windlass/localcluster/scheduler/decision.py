"""Choose a node for a pod, or report why the pod is unschedulable, in the words of kube-scheduler.

Pods are never preempted. Messages mention preemption nevertheless, because people and programs expect the messages of
kube-scheduler.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec

from windlass.localcluster.scheduler import filters, node_constraints, node_resources
from windlass.localcluster.scheduler.filters import Rejection
from windlass.localcluster.scheduler.node_resources import NodeInfo, PodInfo, PodRequests
from windlass.model.base import Json

SCHEDULER = "default-scheduler"
NO_NODES = "no nodes available to schedule pods"
_PREEMPTION_NOT_HELPFUL = "Preemption is not helpful for scheduling"
_SCHEDULING_FIELDS = (
    *("nodeSelector", "affinity", "tolerations", "topologySpreadConstraints", "resourceClaims"),
    "schedulingGroup",
)

_MAX_SCORE = 100
_TAINT_WEIGHT, _AFFINITY_WEIGHT, _FREE_WEIGHT = 3, 2, 1


class Placed(msgspec.Struct, frozen=True):
    node: str


class Unschedulable(msgspec.Struct, frozen=True):
    message: str


Outcome = Placed | Unschedulable


def choose(pod_info: PodInfo, nodes: Sequence[NodeInfo], blocking_reason: str = "") -> Outcome:
    """Choose a node for one pod. `blocking_reason` applies to every node, e.g. an unbound claim."""
    if not nodes:
        return Unschedulable(NO_NODES)
    blocking_reason = blocking_reason or filters.blocking_reason(pod_info.spec)
    if blocking_reason:
        return Unschedulable(_unavailable(blocking_reason, [_PREEMPTION_NOT_HELPFUL] * len(nodes)))
    rejections = [filters.rejection(pod_info, node_info) for node_info in nodes]
    fitting_nodes = [node_info for node_info, found in zip(nodes, rejections, strict=True) if found is None]
    if fitting_nodes:
        return Placed(_best_node(pod_info, fitting_nodes).name)
    rejected = [
        (node_info, found) for node_info, found in zip(nodes, rejections, strict=True) if found is not None
    ]
    reasons = _counted(reason for _, found in rejected for reason in found.reasons)
    return Unschedulable(_unavailable(reasons, [_preemption(pod_info.requests, *one) for one in rejected]))


def _best_node(pod_info: PodInfo, node_infos: Sequence[NodeInfo]) -> NodeInfo:
    """Return the node with the highest score; the first by name if several are equal.

    As in kube-scheduler, the score depends on PreferNoSchedule taints, preferred node affinity, and the CPU and memory
    that stay free. Other criteria of kube-scheduler, e.g. balanced allocation, are not used.
    """
    if len(node_infos) == 1:
        return node_infos[0]
    soft_taints = [
        node_constraints.count_untolerated_soft_taints(pod_info.spec, node_info.node)
        for node_info in node_infos
    ]
    preferences = [
        node_constraints.affinity_weight(pod_info.spec, node_info.node) for node_info in node_infos
    ]
    most_taints, most_weight = max(soft_taints), max(preferences)

    def rank(index: int) -> tuple[int, str]:
        score = (
            _TAINT_WEIGHT * (_MAX_SCORE - _share(soft_taints[index], most_taints))
            + _AFFINITY_WEIGHT * _share(preferences[index], most_weight)
            + _FREE_WEIGHT * _free_share(pod_info.requests, node_infos[index])
        )
        return -score, node_infos[index].name

    return node_infos[min(range(len(node_infos)), key=rank)]


def _free_share(requests: PodRequests, node_info: NodeInfo) -> int:
    """Return the mean percentage of CPU and memory that stays free."""
    shares = [
        _share(
            node_info.allocatable[name] - node_info.nonzero.get(name, 0) - requests.nonzero.get(name, 0),
            whole,
        )
        for name in ("cpu", "memory")
        if (whole := node_info.allocatable.get(name, 0))
    ]
    return sum(shares) // len(shares) if shares else 0


def _share(part: int, whole: int) -> int:
    return max(part, 0) * _MAX_SCORE // whole if whole else 0


def needs_scheduling(pod: Json) -> bool:
    """Return whether a pod is assigned to this scheduler, has no node yet, and is not gated, deleted or finished."""
    spec = pod["spec"]
    is_ours = spec.get("schedulerName") in (None, "", SCHEDULER)
    is_gated = bool(spec.get("schedulingGates"))
    is_ending = "deletionTimestamp" in pod["metadata"] or node_resources.is_finished(pod)
    return is_ours and not spec.get("nodeName") and not is_gated and not is_ending


def equivalence_key(pod_info: PodInfo) -> bytes:
    """Return the fields of a pod that a decision depends on, except its claims.

    Pods with equal keys and equal claims are scheduled alike.
    """
    return msgspec.json.encode([[pod_info.spec.get(key) for key in _SCHEDULING_FIELDS], pod_info.requests])


def _preemption(requests: PodRequests, node_info: NodeInfo, rejection: Rejection) -> str:
    if rejection.is_final:
        return _PREEMPTION_NOT_HELPFUL
    if any(other.priority < requests.priority for other in node_info.pods.values()):
        return "Preemption is not supported by the scheduler of this cluster"
    return "No preemption victims found for incoming pod"


def _unavailable(reasons: str, about_preemption: Sequence[str]) -> str:
    """Return the message with reasons and, for each node, the result of preemption."""
    prefix = f"0/{len(about_preemption)} nodes are available:"
    return f"{prefix} {reasons}. preemption: {prefix} {_counted(about_preemption)}."


def _counted(reasons: Iterable[str]) -> str:
    return ", ".join(sorted(f"{count} {reason}" for reason, count in Counter(reasons).items()))
