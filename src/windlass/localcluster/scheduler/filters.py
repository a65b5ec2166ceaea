"""May a pod run on a node? One function per rule, in the order of kube-scheduler's filters and in its words. Pure.

The first rule that a node breaks says why; of the last, everything that is short is told.
"""

from collections.abc import Callable
from typing import Any

import msgspec

from windlass.localcluster.scheduler import affinity, taints
from windlass.localcluster.scheduler.node_resources import Account, Wanted
from windlass.model.base import Json


class Refusal(msgspec.Struct, frozen=True):
    """Why a node is refused. `is_final`: it would be, even if there were no other pods on it."""

    reasons: tuple[str, ...]
    is_final: bool = True


Rule = Callable[[Wanted, Account], Refusal | None]

_NOT_SUPPORTED = "not supported by the scheduler of this cluster"


def refusal(wanted: Wanted, account: Account) -> Refusal | None:
    """Why this node is none for a pod; None when it is one."""
    return next((found for rule in RULES if (found := rule(wanted, account)) is not None), None)


def blocking_reason(spec: Json) -> str:
    """What keeps a pod from every node: that it contradicts itself, or requires what is not looked at here.

    Mere preferences among pods are passed over.
    """
    if affinity.names(spec) == frozenset():
        return "pod affinity terms conflict"
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    wishes: Json = spec.get("affinity") or {}
    spreads: Any = spec.get("topologySpreadConstraints") or ()
    found = {
        "required pod affinity is": (wishes.get("podAffinity") or {}).get(required),
        "required pod anti-affinity is": (wishes.get("podAntiAffinity") or {}).get(required),
        "topology spread with DoNotSchedule is": any(
            one.get("whenUnsatisfiable") == "DoNotSchedule" for one in spreads
        ),
        "resource claims are": spec.get("resourceClaims"),
        "scheduling groups are": spec.get("schedulingGroup"),
    }
    return next((f"{what} {_NOT_SUPPORTED}" for what, is_asked in found.items() if is_asked), "")


def _is_named(wanted: Wanted, account: Account) -> Refusal | None:
    """Kubernetes looks at no other node than those that a pod names, before it looks at anything else."""
    named = affinity.names(wanted.spec)
    if named is None or account.name in named:
        return None
    return Refusal(("node(s) didn't satisfy plugin(s) [NodeAffinity]",))


def _is_schedulable(wanted: Wanted, account: Account) -> Refusal | None:
    is_closed = (account.node.get("spec") or {}).get("unschedulable", False)
    if not is_closed or taints.tolerates(wanted.spec, taints.UNSCHEDULABLE):
        return None
    return Refusal(("node(s) were unschedulable",))


def _is_tolerated(wanted: Wanted, account: Account) -> Refusal | None:
    taint = taints.first_untolerated(wanted.spec, account.node)
    if taint is None:
        return None
    return Refusal((f"node(s) had untolerated taint {{{taint.get('key', '')}: {taint.get('value', '')}}}",))


def _is_selected(wanted: Wanted, account: Account) -> Refusal | None:
    if affinity.selects(wanted.spec, account.node):
        return None
    return Refusal(("node(s) didn't match Pod's node affinity/selector",))


def _has_free_ports(wanted: Wanted, account: Account) -> Refusal | None:
    if not wanted.asked.ports:
        return None
    taken = [port for other in account.pods.values() for port in other.ports]
    if not any(port.conflicts_with(other) for port in wanted.asked.ports for other in taken):
        return None
    return Refusal(("node(s) didn't have free ports for the requested pod ports",), is_final=False)


def _has_enough(wanted: Wanted, account: Account) -> Refusal | None:
    amounts = wanted.asked.amounts
    short = [name for name, amount in amounts.items() if amount > account.free(name)]
    reasons = [f"Insufficient {name}" for name in short]
    if account.room_for_pods < 1:
        reasons.append("Too many pods")
    if not reasons:
        return None
    is_too_small = any(amounts[name] > account.allocatable.get(name, 0) for name in short)
    return Refusal(tuple(reasons), is_final=is_too_small)


RULES: tuple[Rule, ...] = (
    _is_named,
    _is_schedulable,
    _is_tolerated,
    _is_selected,
    _has_free_ports,
    _has_enough,
)
