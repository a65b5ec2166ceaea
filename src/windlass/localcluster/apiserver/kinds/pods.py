"""The strategy of Pod, with the defaults of Kubernetes' admission plugins, and binding."""

from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any

from windlass.k8s import api_errors, formats, quantities
from windlass.k8s.api_errors import FieldError
from windlass.localcluster.apiserver.checks import basics, containers, pod_specs
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
_QOS_RESOURCES = ("cpu", "memory")
_MAX_INT32 = 2**31 - 1
_IMMUTABLE = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)

Spec = Mapping[str, Any]


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
            new["status"]["conditions"] = [_scheduled_condition("False", cluster) | _GATED]

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
        return _update_errors(new["spec"], old["spec"])

    def validate_status(self, new: Object, old: Object) -> Iterator[FieldError]:
        return _status_errors(new, old)

    def grace_seconds(self, old: Object, requested: int | None) -> int:
        current: int | None = old["metadata"].get("deletionGracePeriodSeconds")
        if current is not None:
            # A second deletion can only shorten the grace period.
            return current if requested is None else min(current, _valid_grace_seconds(requested))
        is_done = (old.get("status") or {}).get("phase") in ("Succeeded", "Failed")
        if is_done or not old["spec"].get("nodeName"):
            return 0
        if requested is None:
            requested = old["spec"].get("terminationGracePeriodSeconds", 0)
        return _valid_grace_seconds(requested)


def bind(pod: Object, node: str, annotations: Mapping[str, str], cluster: ClusterView) -> Object:
    """Return the pod bound to a node, as a request to pods/binding stores it. Raise ApiError if it cannot be bound.

    An update can never change the node, so the result is stored without `validate_update`.
    """
    name = pod["metadata"]["name"]
    reason = _binding_conflict(pod)
    if reason:
        raise api_errors.conflict("", "pods/binding", name, f"pod {name} {reason}")
    meta, status = pod["metadata"], pod.get("status") or {}
    if annotations:
        meta = {**meta, "annotations": {**(meta.get("annotations") or {}), **annotations}}
    others = [one for one in status.get("conditions") or () if one.get("type") != "PodScheduled"]
    conditions = [*others, _scheduled_condition("True", cluster)]
    # A large spec is not copied: scheduling would stall the server.
    spec = {**pod["spec"], "nodeName": node}
    return {**pod, "metadata": meta, "spec": spec, "status": {**status, "conditions": conditions}}


def _binding_conflict(pod: Object) -> str:
    if pod["metadata"].get("deletionTimestamp"):
        return "is being deleted, cannot be assigned to a host"
    node = pod["spec"].get("nodeName")
    if node:
        return f'is already assigned to node "{node}"'
    if pod["spec"].get("schedulingGates"):
        return "has non-empty .spec.schedulingGates"
    return ""


def _scheduled_condition(status: str, cluster: ClusterView) -> Object:
    return {
        "type": "PodScheduled",
        "status": status,
        "lastProbeTime": None,
        "lastTransitionTime": cluster.now(),
    }


def _valid_grace_seconds(seconds: int) -> int:
    """Return the grace period, or 1 if it is negative, as in Kubernetes."""
    return seconds if seconds >= 0 else 1


def _token_errors(spec: Spec) -> Iterator[FieldError]:
    for volume, at in basics.indexed(spec.get("volumes"), "spec.volumes"):
        sources = (volume.get("projected") or {}).get("sources")
        for source, source_at in basics.indexed(sources, f"{at}.projected.sources"):
            if "serviceAccountToken" in source:
                problem = "must not be specified when serviceAccountName is not set"
                yield api_errors.forbidden_field(f"{source_at}.serviceAccountToken", problem)


def _update_errors(new: Spec, old: Spec) -> Iterator[FieldError]:
    for key in ("containers", "initContainers"):
        if len(new.get(key) or ()) != len(old.get(key) or ()):
            problem = "pod updates may not add or remove containers"
            yield api_errors.forbidden_field(f"spec.{key}", problem)
            return
    yield from _deadline_errors(new.get("activeDeadlineSeconds"), old.get("activeDeadlineSeconds"))
    yield from _toleration_errors(new.get("tolerations") or [], old.get("tolerations") or [])
    yield from _gate_errors(new.get("schedulingGates") or [], old.get("schedulingGates") or [])
    if _with_old_mutable_fields(new, old) != old:
        yield api_errors.forbidden_field("spec", _IMMUTABLE)


def _status_errors(new: Object, old: Object) -> Iterator[FieldError]:
    status, former = new.get("status") or {}, old.get("status") or {}
    policy = old["spec"].get("restartPolicy")
    for condition, at in basics.indexed(status.get("conditions"), "metadata.conditions"):
        condition_type = condition.get("type", "")
        yield from basics.invalid_values(f"{at}.Type", condition_type, formats.qualified_name(condition_type))
    if status.get("nominatedNodeName") != former.get("nominatedNodeName"):
        yield from basics.optional_name(status, "status", "nominatedNodeName", formats.dns_subdomain)
    for key in ("containerStatuses", "initContainerStatuses"):
        yield from _restart_errors(status.get(key) or [], former.get(key) or [], policy, f"status.{key}")
    for address, at in basics.indexed(status.get("podIPs"), "status.podIPs"):
        yield from basics.invalid_values(at, address.get("ip", ""), formats.ip_address(address.get("ip", "")))


def _deadline_errors(new: int | None, old: int | None) -> Iterator[FieldError]:
    """Check that a deadline is valid, and neither removed nor extended."""
    field = "spec.activeDeadlineSeconds"
    if new is None:
        if old is not None:
            problem = "must not update from a positive integer to nil value"
            yield api_errors.invalid_value(field, "null", problem)
        return
    problems = formats.between(new, 0, _MAX_INT32)
    yield from basics.invalid_values(field, new, problems)
    if not problems and old is not None and old < new:
        yield api_errors.invalid_value(field, new, "must be less than or equal to previous value")


def _toleration_errors(new: list[dict[str, Any]], old: list[dict[str, Any]]) -> Iterator[FieldError]:
    kept = {_without_seconds(toleration) for toleration in new}
    if any(_without_seconds(toleration) not in kept for toleration in old):
        problem = "existing toleration can not be modified except its tolerationSeconds"
        yield api_errors.forbidden_field("spec.tolerations", problem)


def _without_seconds(toleration: dict[str, Any]) -> frozenset[tuple[str, Any]]:
    return frozenset(item for item in toleration.items() if item[0] != "tolerationSeconds")


def _gate_errors(new: list[dict[str, Any]], old: list[dict[str, Any]]) -> Iterator[FieldError]:
    allowed = {gate.get("name", "") for gate in old}
    for gate in new:
        if gate.get("name", "") not in allowed:
            problem = f"only deletion is allowed, but found new scheduling gate '{gate.get('name', '')}'"
            yield api_errors.forbidden_field("spec.schedulingGates", problem)


def _with_old_mutable_fields(new: Spec, old: Spec) -> dict[str, Any]:
    """Return the new spec with the values of the old one in all mutable fields."""
    spec = {**new}
    for key in ("containers", "initContainers"):
        if key in spec:
            spec[key] = [
                {**container, "image": former.get("image")}
                for container, former in zip(spec[key], old.get(key) or (), strict=True)
            ]
    mutable = ["activeDeadlineSeconds", "tolerations", "schedulingGates"]
    if old.get("terminationGracePeriodSeconds", 0) < 0 and new.get("terminationGracePeriodSeconds") == 1:
        mutable.append("terminationGracePeriodSeconds")
    for key in mutable:
        spec.pop(key, None)
        if key in old:
            spec[key] = old[key]
    return spec


def _restart_errors(
    new: list[dict[str, Any]], old: list[dict[str, Any]], policy: str | None, path: str
) -> Iterator[FieldError]:
    """Reject a status in which a terminated container that may not restart is no longer terminated."""
    if policy == "Always":
        return
    ended = {one.get("name") for one in new if "terminated" in (one.get("state") or {})}
    present = {one.get("name") for one in new}
    for status, at in basics.indexed(old, path):
        end = (status.get("state") or {}).get("terminated")
        may_restart = end is not None and policy == "OnFailure" and end.get("exitCode", 0) != 0
        if end is None or may_restart or status.get("name") not in present - ended:
            continue
        yield api_errors.forbidden_field(f"{at}.state", "may not be transitioned to non-terminated state")


def _set_defaults(spec: Object) -> None:
    spec.setdefault("enableServiceLinks", True)
    if (spec.get("terminationGracePeriodSeconds") or 0) < 0:
        spec["terminationGracePeriodSeconds"] = 1
    pod_spec_defaults.set_defaults(spec)
    for container in pod_spec_defaults.all_containers(spec):
        resources = container.get("resources") or {}
        if resources.get("limits"):
            resources["requests"] = {**resources["limits"], **(resources.get("requests") or {})}
    for taint in _NODE_CONDITION_TAINTS:
        if not any(_tolerates(toleration, taint) for toleration in spec.get("tolerations") or ()):
            # The toleration delays the eviction of the pod from a node with this taint.
            toleration = {"key": taint, "operator": "Exists", "effect": "NoExecute"}
            spec.setdefault("tolerations", []).append({**toleration, "tolerationSeconds": _TOLERATED_SECONDS})


def _set_priority(pod: str, spec: Object) -> None:
    class_name = spec.get("priorityClassName", "")
    if class_name not in _PRIORITIES:
        raise api_errors.forbidden("", "pods", pod, f"no PriorityClass with name {class_name} was found")
    computed = {"priority": _PRIORITIES[class_name], "preemptionPolicy": "PreemptLowerPriority"}
    names = {"priority": "integer value of priority", "preemptionPolicy": "string value of PreemptionPolicy"}
    for key, name in names.items():
        if spec.setdefault(key, computed[key]) == computed[key]:
            continue
        reason = (
            f"the {name} ({spec[key]}) must not be provided in pod spec; priority admission controller computed"
            f" {computed[key]} from the given PriorityClass name"
        )
        raise api_errors.forbidden("", "pods", pod, reason)


def _tolerates(toleration: Mapping[str, Any], key: str) -> bool:
    return toleration.get("key", "") in ("", key) and toleration.get("effect", "") in ("", "NoExecute")


def _qos_class(spec: dict[str, Any]) -> str:
    """Return Guaranteed if all containers have CPU and memory limits equal to their requests, BestEffort if none has a
    CPU or memory limit or request, else Burstable."""
    totals = {
        "requests": dict.fromkeys(_QOS_RESOURCES, Decimal()),
        "limits": dict.fromkeys(_QOS_RESOURCES, Decimal()),
    }
    all_have_limits = True
    for container in pod_spec_defaults.all_containers(spec):
        for key, total in totals.items():
            amounts = (container.get("resources") or {}).get(key) or {}
            for name in _QOS_RESOURCES:
                amount = max(quantities.parse(amounts.get(name, "0")), Decimal())
                total[name] += amount
                all_have_limits = all_have_limits and (key == "requests" or amount > 0)
    if not any((*totals["requests"].values(), *totals["limits"].values())):
        return "BestEffort"
    return "Guaranteed" if all_have_limits and totals["requests"] == totals["limits"] else "Burstable"
