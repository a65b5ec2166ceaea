"""What a cluster adds to the spec of a pod, though not to that of a template: as Kubernetes' admission plugins do."""

from collections.abc import Mapping
from typing import Any

from windlass.k8s import api_errors
from windlass.localcluster.apiserver.kinds import pod_spec_defaults
from windlass.localcluster.apiserver.strategy import Object

# There are no classes of priority but the system's own.
_PRIORITIES = {"": 0, "system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
_PASSING_TROUBLES = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_TOLERATED_SECONDS = 300
_SHORTEST_GRACE = 1


def fill(spec: Object) -> None:
    spec.setdefault("enableServiceLinks", True)
    if (spec.get("terminationGracePeriodSeconds") or 0) < 0:
        spec["terminationGracePeriodSeconds"] = _SHORTEST_GRACE
    pod_spec_defaults.fill(spec)
    for container in pod_spec_defaults.containers_of(spec):
        resources = container.get("resources") or {}
        if resources.get("limits"):
            resources["requests"] = {**resources["limits"], **(resources.get("requests") or {})}
    for trouble in _PASSING_TROUBLES:
        if not any(_tolerates(toleration, trouble) for toleration in spec.get("tolerations") or ()):
            spec.setdefault("tolerations", []).append(_passing(trouble))


def fill_priority(pod: str, spec: Object) -> None:
    wanted = spec.get("priorityClassName", "")
    if wanted not in _PRIORITIES:
        raise api_errors.forbidden("", "pods", pod, f"no PriorityClass with name {wanted} was found")
    computed = {"priority": _PRIORITIES[wanted], "preemptionPolicy": "PreemptLowerPriority"}
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


def _passing(trouble: str) -> Object:
    """A pod stays on a node that is in trouble for this long, in case it comes back."""
    return {
        "key": trouble,
        "operator": "Exists",
        "effect": "NoExecute",
        "tolerationSeconds": _TOLERATED_SECONDS,
    }
