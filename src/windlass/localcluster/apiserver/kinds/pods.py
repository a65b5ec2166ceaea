"""The strategy of Pod, with the defaults of Kubernetes' admission plugins, and binding.

`checks.pod_updates` has the rules for updates.
"""

import copy
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any

from windlass.k8s import api_errors, quantities
from windlass.k8s.api_errors import FieldError
from windlass.localcluster.apiserver.checks import containers, pod_specs, pod_updates
from windlass.localcluster.apiserver.kinds import pod_spec_defaults
from windlass.localcluster.apiserver.strategy import ClusterView, Object, Strategy

_GATED = {
    "reason": "SchedulingGated",
    "message": "Scheduling is blocked due to non-empty scheduling gates",
}
# The only priority classes are those of the system.
_PRIORITIES = {"": 0, "system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
_NODE_CONDITION_TAINTS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_TOLERATED_SECONDS = 300
_MIN_GRACE_SECONDS = 1
_QOS_RESOURCES = ("cpu", "memory")
_Amounts = dict[str, Decimal]


class PodStrategy(Strategy):
    has_generation = True
    fields_without_generation = ("nodeName",)
    returns_deleted_object = True
    is_graceful = True

    def default(self, new: Object) -> None:
        _set_defaults(new.setdefault("spec", {}))

    def prepare_create(self, new: Object, cluster: ClusterView) -> None:
        spec = new["spec"]
        _set_priority(new["metadata"].get("name", ""), spec)
        new["status"] = {"phase": "Pending", "qosClass": _qos_class(spec)}
        if spec.get("schedulingGates"):
            new["status"]["conditions"] = [_scheduled("False", cluster) | _GATED]

    def prepare_update(self, new: Object, old: Object, cluster: ClusterView) -> None:
        for key in ("priority", "preemptionPolicy"):
            if key in old["spec"]:
                new["spec"].setdefault(key, old["spec"][key])

    def prepare_status(self, new: Object, old: Object) -> None:
        """Set podIPs to podIP if only the latter is set."""
        status = new.setdefault("status", {})
        if status.get("podIP") and not status.get("podIPs"):
            status["podIPs"] = [{"ip": status["podIP"]}]

    def validate(self, new: Object) -> Iterator[FieldError]:
        spec = new.get("spec") or {}
        yield from pod_specs.errors(spec, "spec")
        if not spec.get("serviceAccountName"):
            yield from _token_errors(spec)
        yield from containers.image_errors(spec.get("containers") or [], "spec.containers")
        yield from containers.image_errors(spec.get("initContainers") or [], "spec.initContainers")
        if spec.get("ephemeralContainers"):
            yield api_errors.forbidden_field("spec.ephemeralContainers", "cannot be set on create")

    def validate_update(self, new: Object, old: Object) -> Iterator[FieldError]:
        return pod_updates.errors(new["spec"], old["spec"])

    def validate_status(self, new: Object, old: Object) -> Iterator[FieldError]:
        return pod_updates.status_errors(new, old)

    def grace_seconds(self, old: Object, requested: int | None) -> int:
        current: int | None = old["metadata"].get("deletionGracePeriodSeconds")
        if current is not None:
            # A second deletion can only shorten the grace period.
            return current if requested is None else min(current, _nonnegative_grace(requested))
        is_done = (old.get("status") or {}).get("phase") in ("Succeeded", "Failed")
        if is_done or not old["spec"].get("nodeName"):
            return 0
        return _nonnegative_grace(
            old["spec"].get("terminationGracePeriodSeconds", 0) if requested is None else requested
        )


def bind(pod: Object, node: str, annotations: Mapping[str, str], cluster: ClusterView) -> Object:
    """Return the pod bound to a node, as pods/binding leaves it. Raises if it cannot be bound.

    An update can never change the node, so the result is stored without `validate_update`.
    """
    name = pod["metadata"]["name"]
    reason = _binding_conflict(pod)
    if reason:
        raise api_errors.conflict("", "pods/binding", name, f"pod {name} {reason}")
    bound = copy.deepcopy(pod)
    bound["spec"]["nodeName"] = node
    if annotations:
        bound["metadata"].setdefault("annotations", {}).update(annotations)
    conditions = bound.setdefault("status", {}).setdefault("conditions", [])
    conditions[:] = [condition for condition in conditions if condition.get("type") != "PodScheduled"]
    conditions.append(_scheduled("True", cluster))
    return bound


def _binding_conflict(pod: Object) -> str:
    if pod["metadata"].get("deletionTimestamp"):
        return "is being deleted, cannot be assigned to a host"
    node = pod["spec"].get("nodeName")
    if node:
        return f'is already assigned to node "{node}"'
    if pod["spec"].get("schedulingGates"):
        return "has non-empty .spec.schedulingGates"
    return ""


def _scheduled(status: str, cluster: ClusterView) -> Object:
    return {
        "type": "PodScheduled",
        "status": status,
        "lastProbeTime": None,
        "lastTransitionTime": cluster.now(),
    }


def _nonnegative_grace(seconds: int) -> int:
    """Return 1 for a negative grace period, as Kubernetes does."""
    return seconds if seconds >= 0 else 1


def _token_errors(spec: Mapping[str, Any]) -> Iterator[FieldError]:
    for index, volume in enumerate(spec.get("volumes") or ()):
        for number, source in enumerate((volume.get("projected") or {}).get("sources") or ()):
            if "serviceAccountToken" in source:
                field = f"spec.volumes[{index}].projected.sources[{number}].serviceAccountToken"
                problem = "must not be specified when serviceAccountName is not set"
                yield api_errors.forbidden_field(field, problem)


def _set_defaults(spec: Object) -> None:
    spec.setdefault("enableServiceLinks", True)
    if (spec.get("terminationGracePeriodSeconds") or 0) < 0:
        spec["terminationGracePeriodSeconds"] = _MIN_GRACE_SECONDS
    pod_spec_defaults.set_defaults(spec)
    for container in pod_spec_defaults.all_containers(spec):
        resources = container.get("resources") or {}
        if resources.get("limits"):
            resources["requests"] = {**resources["limits"], **(resources.get("requests") or {})}
    for taint in _NODE_CONDITION_TAINTS:
        if not any(_tolerates(toleration, taint) for toleration in spec.get("tolerations") or ()):
            spec.setdefault("tolerations", []).append(_default_toleration(taint))


def _set_priority(pod: str, spec: Object) -> None:
    class_name = spec.get("priorityClassName", "")
    if class_name not in _PRIORITIES:
        raise api_errors.forbidden("", "pods", pod, f"no PriorityClass with name {class_name} was found")
    computed = {"priority": _PRIORITIES[class_name], "preemptionPolicy": "PreemptLowerPriority"}
    for key, words in (
        ("priority", "integer value of priority"),
        ("preemptionPolicy", "string value of PreemptionPolicy"),
    ):
        if spec.setdefault(key, computed[key]) == computed[key]:
            continue
        why = (
            f"the {words} ({spec[key]}) must not be provided in pod spec; priority admission controller computed"
            f" {computed[key]} from the given PriorityClass name"
        )
        raise api_errors.forbidden("", "pods", pod, why)


def _tolerates(toleration: Mapping[str, Any], key: str) -> bool:
    return toleration.get("key", "") in ("", key) and toleration.get("effect", "") in ("", "NoExecute")


def _default_toleration(taint: str) -> Object:
    """Return the toleration that keeps a pod on an unreachable node for a while."""
    return {
        "key": taint,
        "operator": "Exists",
        "effect": "NoExecute",
        "tolerationSeconds": _TOLERATED_SECONDS,
    }


def _qos_class(spec: dict[str, Any]) -> str:
    """Return Guaranteed if all containers have limits equal to their requests, BestEffort if none has any."""
    requests: _Amounts = {}
    limits: _Amounts = {}
    all_have_limits = True
    for container in pod_spec_defaults.all_containers(spec):
        resources = container.get("resources") or {}
        _add(requests, _positive_amounts(resources.get("requests") or {}))
        own_limits = _positive_amounts(resources.get("limits") or {})
        _add(limits, own_limits)
        all_have_limits = all_have_limits and len(own_limits) == len(_QOS_RESOURCES)
    if not requests and not limits:
        return "BestEffort"
    return "Guaranteed" if all_have_limits and requests == limits else "Burstable"


def _positive_amounts(amounts: Mapping[str, str]) -> _Amounts:
    parsed = {name: quantities.parse(amounts[name]) for name in _QOS_RESOURCES if name in amounts}
    return {name: amount for name, amount in parsed.items() if amount > 0}


def _add(total: _Amounts, amounts: _Amounts) -> None:
    for name, amount in amounts.items():
        total[name] = total.get(name, Decimal(0)) + amount
