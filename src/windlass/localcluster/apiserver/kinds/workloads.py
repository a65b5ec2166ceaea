"""Deployments, ReplicaSets and StatefulSets: replicas of a template that a selector finds again, and their scale."""

from collections.abc import Iterator

from windlass.k8s.api_errors import Fault
from windlass.localcluster.apiserver.checks import basics, rollouts
from windlass.localcluster.apiserver.kinds import pod_spec_defaults, scales
from windlass.localcluster.apiserver.strategy import Object, Strategy, World

_QUARTER = "25%"
_STATEFUL_FIXED = ("selector", "volumeClaimTemplates", "serviceName", "podManagementPolicy")


class DeploymentStrategy(Strategy):
    scale = scales.USUAL
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
        yield from rollouts.template_faults(spec, "deployment", "ReplicaSet")
        yield from rollouts.of_deployment(spec)

    def validate_update(self, new: Object, old: Object) -> Iterator[Fault]:
        yield from basics.unchanged("spec.selector", new["spec"].get("selector"), old["spec"].get("selector"))

    def validate_status(self, new: Object, old: Object) -> Iterator[Fault]:
        return rollouts.of_status(
            new.get("status") or {}, ("updatedReplicas", "readyReplicas", "availableReplicas")
        )

    def _fill(self, new: Object) -> None:
        spec = _with_template_filled(new)
        strategy = spec.setdefault("strategy", {})
        if strategy.setdefault("type", "RollingUpdate") == "RollingUpdate":
            rolling = strategy.setdefault("rollingUpdate", {})
            rolling.setdefault("maxUnavailable", _QUARTER)
            rolling.setdefault("maxSurge", _QUARTER)


class ReplicaSetStrategy(Strategy):
    scale = scales.USUAL
    counts_generations = True
    status_may_relabel = False

    def prepare_create(self, new: Object, world: World) -> None:
        _with_template_filled(new)
        new["status"] = {"replicas": 0}

    def prepare_update(self, new: Object, old: Object, world: World) -> None:
        _with_template_filled(new)

    def validate(self, new: Object) -> Iterator[Fault]:
        spec = new.get("spec") or {}
        yield from basics.not_negative(spec, "spec", "replicas", "minReadySeconds")
        yield from rollouts.template_faults(spec, "deployment", "ReplicaSet")

    def validate_update(self, new: Object, old: Object) -> Iterator[Fault]:
        yield from basics.unchanged("spec.selector", new["spec"].get("selector"), old["spec"].get("selector"))

    def validate_status(self, new: Object, old: Object) -> Iterator[Fault]:
        return rollouts.of_status(
            new.get("status") or {}, ("fullyLabeledReplicas", "readyReplicas", "availableReplicas")
        )


class StatefulSetStrategy(Strategy):
    scale = scales.USUAL
    counts_generations = True

    def prepare_create(self, new: Object, world: World) -> None:
        self._fill(new)
        new["status"] = {"availableReplicas": 0, "replicas": 0}

    def prepare_update(self, new: Object, old: Object, world: World) -> None:
        self._fill(new)

    def validate(self, new: Object) -> Iterator[Fault]:
        spec = new.get("spec") or {}
        yield from rollouts.of_stateful_set(spec)
        yield from basics.not_negative(spec, "spec", "replicas", "minReadySeconds")
        yield from rollouts.template_faults(
            rollouts.with_claims_as_volumes(spec), "statefulset", "StatefulSet"
        )

    def validate_update(self, new: Object, old: Object) -> Iterator[Fault]:
        spec, former = new["spec"], old["spec"]
        for key in _STATEFUL_FIXED:
            yield from basics.unchanged(f"spec.{key}", spec.get(key), former.get(key))

    def validate_status(self, new: Object, old: Object) -> Iterator[Fault]:
        return rollouts.of_status(
            new.get("status") or {}, ("readyReplicas", "currentReplicas", "updatedReplicas")
        )

    def _fill(self, new: Object) -> None:
        spec = _with_template_filled(new)
        strategy = spec.setdefault("updateStrategy", {})
        if "type" not in strategy:
            strategy["type"] = "RollingUpdate"
            rolling = strategy.setdefault("rollingUpdate", {})
            rolling.setdefault("maxUnavailable", 1)
            rolling.setdefault("partition", 0)
        for claim in spec.get("volumeClaimTemplates") or ():
            claim.setdefault("apiVersion", "v1")
            claim.setdefault("kind", "PersistentVolumeClaim")
            resources = (claim.get("spec") or {}).get("resources") or {}
            pod_spec_defaults.write_amounts(resources, "limits", "requests")


def _with_template_filled(new: Object) -> Object:
    spec: Object = new.setdefault("spec", {})
    pod_spec_defaults.fill(spec.setdefault("template", {}).setdefault("spec", {}))
    return spec
