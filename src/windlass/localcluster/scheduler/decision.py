"""Where a pod goes, or why it goes nowhere, in the words of kube-scheduler. Pure.

Pods are never preempted here; what the scheduler of Kubernetes says about preemption is said all the same, for it is
part of the message that people and programs read.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec

from windlass.localcluster.scheduler import filters, node_resources, scoring
from windlass.localcluster.scheduler.cache import Ledger
from windlass.localcluster.scheduler.filters import Refusal
from windlass.localcluster.scheduler.node_resources import Account, Asked, Wanted
from windlass.localcluster.store_types import object_key
from windlass.model.base import Json

SCHEDULER = "default-scheduler"
NO_NODES = "no nodes available to schedule pods"
_NO_HELP = "Preemption is not helpful for scheduling"
_DECISIVE = (
    *("nodeSelector", "affinity", "tolerations", "topologySpreadConstraints", "resourceClaims"),
    "schedulingGroup",
)


class Placed(msgspec.Struct, frozen=True):
    node: str


class Unschedulable(msgspec.Struct, frozen=True):
    message: str


Outcome = Placed | Unschedulable


def place(pod: Json, nodes: Iterable[Json], pods: Iterable[Json]) -> Outcome:
    """Decide for one pod, from scratch."""
    ledger = Ledger()
    for node in nodes:
        ledger.note_node(node)
    for other in pods:
        ledger.note_pod(object_key(other["metadata"].get("namespace", ""), other["metadata"]["name"]), other)
    return choose(node_resources.wanted_by(pod), ledger.accounts)


def choose(wanted: Wanted, nodes: Sequence[Account], blocking_reason: str = "") -> Outcome:
    """Decide for one pod. A `blocking_reason` is what keeps it from every node, whatever the node."""
    if not nodes:
        return Unschedulable(NO_NODES)
    blocking_reason = blocking_reason or filters.blocking_reason(wanted.spec)
    if blocking_reason:
        return Unschedulable(_unavailable(blocking_reason, [_NO_HELP] * len(nodes)))
    refusals = [filters.refusal(wanted, account) for account in nodes]
    fitting_nodes = [account for account, found in zip(nodes, refusals, strict=True) if found is None]
    if fitting_nodes:
        return Placed(scoring.best(wanted, fitting_nodes).name)
    refused = [(account, found) for account, found in zip(nodes, refusals, strict=True) if found is not None]
    why = _counted(reason for _, found in refused for reason in found.reasons)
    return Unschedulable(_unavailable(why, [_preemption(wanted.asked, *one) for one in refused]))


def awaits_placement(pod: Json) -> bool:
    """Is it for this scheduler to find a node for a pod, and may it do so now?"""
    spec = pod["spec"]
    is_ours = spec.get("schedulerName") in (None, "", SCHEDULER)
    is_held_back = bool(spec.get("schedulingGates"))
    is_over = "deletionTimestamp" in pod["metadata"] or node_resources.has_ended(pod)
    return is_ours and not spec.get("nodeName") and not is_held_back and not is_over


def shape(wanted: Wanted) -> bytes:
    """All that a decision depends on: two pods of one shape fare alike."""
    return msgspec.json.encode([[wanted.spec.get(key) for key in _DECISIVE], wanted.asked])


def _preemption(asked: Asked, account: Account, refusal: Refusal) -> str:
    if refusal.is_final:
        return _NO_HELP
    if any(other.priority < asked.priority for other in account.pods.values()):
        return "Preemption is not supported by the scheduler of this cluster"
    return "No preemption victims found for incoming pod"


def _unavailable(why: str, about_preemption: Sequence[str]) -> str:
    """The whole message; about preemption there is something to say of each node."""
    nowhere = f"0/{len(about_preemption)} nodes are available:"
    return f"{nowhere} {why}. preemption: {nowhere} {_counted(about_preemption)}."


def _counted(reasons: Iterable[str]) -> str:
    return ", ".join(sorted(f"{count} {reason}" for reason, count in Counter(reasons).items()))
