"""Deployments and StatefulSets: replicas of a template that a selector finds again, and their scale."""

import copy
from collections.abc import Iterator, Mapping
from typing import Any

from windlass.localcluster import failures
from windlass.localcluster.checks import basics, label_selectors, rollout_checks
from windlass.localcluster.failures import Fault
from windlass.localcluster.kinds import pod_spec_defaults
from windlass.localcluster.kinds.strategy import Object, Strategy, World

_QUARTER = "25%"
_STATEFUL_MAY_CHANGE = (
    *("replicas", "ordinals", "template", "updateStrategy", "persistentVolumeClaimRetentionPolicy"),
    *("minReadySeconds", "revisionHistoryLimit"),
)
_STATEFUL_FIXED = (
    "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy',"
    " 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"
)


class DeploymentStrategy(Strategy):
    counts_generations = True
    counts_annotations = True
    status_may_relabel = False

    def prepare_create(self, new: Object, world: World) -> None:
        self._fill(new)
        new["status"] = {}

    def prepare_update(self, new: Object, old: Object, world: World) -> None:
        self._fill(new)

    def validate(self, new: Object) -> Iterator[Fault]:
        spec = new.get("spec") or {}
        yield from basics.not_negative(spec, "spec", "replicas")
        yield from rollout_checks.template_faults(spec, "deployment", "ReplicaSet")
        yield from rollout_checks.of_deployment(spec)

    def validate_update(self, new: Object, old: Object) -> Iterator[Fault]:
        yield from basics.unchanged("spec.selector", new["spec"].get("selector"), old["spec"].get("selector"))

    def validate_status(self, new: Object, old: Object) -> Iterator[Fault]:
        return rollout_checks.of_status(
            new.get("status") or {}, ("updatedReplicas", "readyReplicas", "availableReplicas")
        )

    def _fill(self, new: Object) -> None:
        spec = _with_template_filled(new)
        strategy = spec.setdefault("strategy", {})
        if strategy.setdefault("type", "RollingUpdate") == "RollingUpdate":
            rolling = strategy.setdefault("rollingUpdate", {})
            rolling.setdefault("maxUnavailable", _QUARTER)
            rolling.setdefault("maxSurge", _QUARTER)


class StatefulSetStrategy(Strategy):
    counts_generations = True

    def prepare_create(self, new: Object, world: World) -> None:
        self._fill(new)
        new["status"] = {"availableReplicas": 0, "replicas": 0}

    def prepare_update(self, new: Object, old: Object, world: World) -> None:
        self._fill(new)

    def validate(self, new: Object) -> Iterator[Fault]:
        spec = new.get("spec") or {}
        yield from rollout_checks.of_stateful_set(spec)
        yield from basics.not_negative(spec, "spec", "replicas", "minReadySeconds")
        yield from rollout_checks.template_faults(
            rollout_checks.with_claims_as_volumes(spec), "statefulset", "StatefulSet"
        )

    def validate_update(self, new: Object, old: Object) -> Iterator[Fault]:
        spec, former = new["spec"], old["spec"]
        if any(spec.get(key) != former.get(key) for key in {*spec, *former} - {*_STATEFUL_MAY_CHANGE}):
            yield failures.forbidden_field("spec", _STATEFUL_FIXED)

    def validate_status(self, new: Object, old: Object) -> Iterator[Fault]:
        return rollout_checks.of_status(
            new.get("status") or {}, ("readyReplicas", "currentReplicas", "updatedReplicas")
        )

    def _fill(self, new: Object) -> None:
        spec = _with_template_filled(new)
        strategy = spec.setdefault("updateStrategy", {})
        if "type" not in strategy:
            strategy["type"] = "RollingUpdate"
            strategy.setdefault("rollingUpdate", {}).setdefault("partition", 0)
        for claim in spec.get("volumeClaimTemplates") or ():
            claim.setdefault("apiVersion", "v1")
            claim.setdefault("kind", "PersistentVolumeClaim")
            resources = (claim.get("spec") or {}).get("resources") or {}
            pod_spec_defaults.write_amounts(resources, "limits", "requests")


def scale_of(obj: Mapping[str, Any]) -> Object:
    """The `Scale` of a Deployment or a StatefulSet."""
    kept = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    spec = obj["spec"]
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {key: obj["metadata"][key] for key in kept if key in obj["metadata"]},
        "spec": {"replicas": spec["replicas"]} if spec.get("replicas") else {},
        "status": {
            "replicas": (obj.get("status") or {}).get("replicas", 0),
            "selector": label_selectors.written(spec.get("selector") or {}),
        },
    }


def with_scale(obj: Mapping[str, Any], scale: Mapping[str, Any]) -> Object:
    """The object with as many replicas as a `Scale` asks for, in the version that the scale is about."""
    name, replicas = obj["metadata"]["name"], (scale.get("spec") or {}).get("replicas") or 0
    if replicas < 0:
        fault = failures.invalid_value("spec.replicas", replicas, basics.NOT_NEGATIVE)
        raise failures.invalid("autoscaling", "Scale", name, [fault])
    scaled = copy.deepcopy(dict(obj))
    scaled["spec"]["replicas"] = replicas
    version = (scale.get("metadata") or {}).get("resourceVersion")
    if version:
        scaled["metadata"]["resourceVersion"] = version
    return scaled


def _with_template_filled(new: Object) -> Object:
    spec: Object = new.setdefault("spec", {})
    pod_spec_defaults.fill(spec.setdefault("template", {}).setdefault("spec", {}))
    return spec
