"""Pods: what the server fills in, how long a deletion takes, how a pod gets its node.

What of a pod may change later is in `pod_updates`.
"""

import copy
from collections.abc import Iterator, Mapping
from typing import Any

from windlass.k8s import api_errors
from windlass.k8s.api_errors import Fault
from windlass.localcluster.apiserver.checks import containers, pod_specs, pod_updates
from windlass.localcluster.apiserver.kinds import pod_admission, pod_quality
from windlass.localcluster.apiserver.strategy import Object, Strategy, World

_GATED = {
    "reason": "SchedulingGated",
    "message": "Scheduling is blocked due to non-empty scheduling gates",
}


class PodStrategy(Strategy):
    counts_generations = True
    uncounted_spec_fields = ("nodeName",)
    returns_deleted = True
    is_graceful = True

    def prepare_create(self, new: Object, world: World) -> None:
        spec = new.setdefault("spec", {})
        pod_admission.fill(spec)
        pod_admission.fill_priority(new["metadata"].get("name", ""), spec)
        new["status"] = {"phase": "Pending", "qosClass": pod_quality.of(spec)}
        if spec.get("schedulingGates"):
            new["status"]["conditions"] = [_scheduled("False", world) | _GATED]

    def prepare_update(self, new: Object, old: Object, world: World) -> None:
        spec = new.setdefault("spec", {})
        pod_admission.fill(spec)
        for key in ("priority", "preemptionPolicy"):
            if key in old["spec"]:
                spec.setdefault(key, old["spec"][key])

    def prepare_status(self, new: Object, old: Object) -> None:
        """The one address and the first of the list are the same."""
        status = new.setdefault("status", {})
        if status.get("podIP") and not status.get("podIPs"):
            status["podIPs"] = [{"ip": status["podIP"]}]

    def validate(self, new: Object) -> Iterator[Fault]:
        spec = new.get("spec") or {}
        yield from pod_specs.faults(spec, "spec")
        if not spec.get("serviceAccountName"):
            yield from _token_faults(spec)
        yield from containers.image_faults(spec.get("containers") or [], "spec.containers")
        yield from containers.image_faults(spec.get("initContainers") or [], "spec.initContainers")
        if spec.get("ephemeralContainers"):
            yield api_errors.forbidden_field("spec.ephemeralContainers", "cannot be set on create")

    def validate_update(self, new: Object, old: Object) -> Iterator[Fault]:
        return pod_updates.faults(new["spec"], old["spec"])

    def validate_status(self, new: Object, old: Object) -> Iterator[Fault]:
        return pod_updates.status_faults(new, old)

    def grace_seconds(self, old: Object, asked: int | None) -> int:
        already: int | None = old["metadata"].get("deletionGracePeriodSeconds")
        if already is not None:
            # A second deletion can only be in more of a hurry.
            return already if asked is None else min(already, _not_negative(asked))
        is_done = (old.get("status") or {}).get("phase") in ("Succeeded", "Failed")
        if is_done or not old["spec"].get("nodeName"):
            return 0
        return _not_negative(old["spec"].get("terminationGracePeriodSeconds", 0) if asked is None else asked)


def bind(pod: Object, node: str, annotations: Mapping[str, str], world: World) -> Object:
    """The pod on its node, as pods/binding leaves it; raises when it cannot go there.

    The node is what an ordinary update may never change: whoever stores this does so without `validate_update`.
    """
    name = pod["metadata"]["name"]
    reason = _what_prevents_binding(pod)
    if reason:
        raise api_errors.conflict("", "pods/binding", name, f"pod {name} {reason}")
    bound = copy.deepcopy(pod)
    bound["spec"]["nodeName"] = node
    if annotations:
        bound["metadata"].setdefault("annotations", {}).update(annotations)
    conditions = bound.setdefault("status", {}).setdefault("conditions", [])
    conditions[:] = [condition for condition in conditions if condition.get("type") != "PodScheduled"]
    conditions.append(_scheduled("True", world))
    return bound


def _what_prevents_binding(pod: Object) -> str:
    if pod["metadata"].get("deletionTimestamp"):
        return "is being deleted, cannot be assigned to a host"
    node = pod["spec"].get("nodeName")
    if node:
        return f'is already assigned to node "{node}"'
    if pod["spec"].get("schedulingGates"):
        return "has non-empty .spec.schedulingGates"
    return ""


def _scheduled(status: str, world: World) -> Object:
    return {
        "type": "PodScheduled",
        "status": status,
        "lastProbeTime": None,
        "lastTransitionTime": world.now(),
    }


def _not_negative(seconds: int) -> int:
    """Kubernetes takes a negative grace period for the shortest one that there is."""
    return seconds if seconds >= 0 else 1


def _token_faults(spec: Mapping[str, Any]) -> Iterator[Fault]:
    for index, volume in enumerate(spec.get("volumes") or ()):
        for number, source in enumerate((volume.get("projected") or {}).get("sources") or ()):
            if "serviceAccountToken" in source:
                field = f"spec.volumes[{index}].projected.sources[{number}].serviceAccountToken"
                problem = "must not be specified when serviceAccountName is not set"
                yield api_errors.forbidden_field(field, problem)
