"""The strategies of Deployment, ReplicaSet and StatefulSet (`pkg/registry/apps` and `pkg/apis/apps/validation`)."""

from collections.abc import Iterator, Mapping
from typing import Any

from windlass.k8s import api_errors, formats
from windlass.k8s.api_errors import FieldError
from windlass.localcluster.apiserver.checks import basics, label_selectors, pod_specs
from windlass.localcluster.apiserver.kinds import pod_spec_defaults, scales
from windlass.localcluster.apiserver.strategy import ClusterView, Object, Strategy

_DEFAULT_ROLLING_PERCENTAGE = "25%"
_POD_MANAGEMENT_POLICIES = ("OrderedReady", "Parallel")
_STATUS_COUNTS = (
    *("replicas", "updatedReplicas", "readyReplicas", "availableReplicas", "unavailableReplicas"),
    *("fullyLabeledReplicas", "currentReplicas"),
)


class _WorkloadStrategy(Strategy):
    """The strategy of kinds with replicas of a pod template, whose labels the selector must match."""

    scale = scales.BUILT_IN_PATHS
    has_generation = True
    # The status of a new object.
    initial_status: Object = {}
    # Counts in the status that cannot be greater than status.replicas.
    partial_counts: tuple[str, ...] = ()
    immutable_fields: tuple[str, ...] = ("selector",)

    def default(self, new: Object) -> None:
        spec: Object = new.setdefault("spec", {})
        pod_spec_defaults.set_defaults(spec.setdefault("template", {}).setdefault("spec", {}))

    def prepare_create(self, new: Object, cluster: ClusterView) -> None:
        new["status"] = dict(self.initial_status)

    def validate_update(self, new: Object, old: Object) -> Iterator[FieldError]:
        for key in self.immutable_fields:
            yield from basics.immutable(f"spec.{key}", new["spec"].get(key), old["spec"].get(key))

    def validate_status(self, new: Object, old: Object) -> Iterator[FieldError]:
        status = new.get("status") or {}
        fields = ("observedGeneration", *_STATUS_COUNTS, "collisionCount")
        yield from basics.not_negative(status, "status", *fields)
        for key in self.partial_counts:
            count = status.get(key, 0)
            if count > status.get("replicas", 0):
                problem = "cannot be greater than status.replicas"
                yield api_errors.invalid_value(f"status.{key}", count, problem)
        available = status.get("availableReplicas", 0)
        if "availableReplicas" in self.partial_counts and available > status.get("readyReplicas", 0):
            problem = "cannot be greater than readyReplicas"
            yield api_errors.invalid_value("status.availableReplicas", available, problem)


class DeploymentStrategy(_WorkloadStrategy):
    annotations_change_generation = True
    status_updates_metadata = False
    partial_counts = ("updatedReplicas", "readyReplicas", "availableReplicas")

    def default(self, new: Object) -> None:
        super().default(new)
        strategy = new["spec"].setdefault("strategy", {})
        if strategy.setdefault("type", "RollingUpdate") == "RollingUpdate":
            rolling = strategy.setdefault("rollingUpdate", {})
            rolling.setdefault("maxUnavailable", _DEFAULT_ROLLING_PERCENTAGE)
            rolling.setdefault("maxSurge", _DEFAULT_ROLLING_PERCENTAGE)

    def validate(self, new: Object) -> Iterator[FieldError]:
        spec = new.get("spec") or {}
        yield from basics.not_negative(spec, "spec", "replicas")
        yield from _template_errors(spec, "deployment", "ReplicaSet")
        yield from _deployment_errors(spec)


class ReplicaSetStrategy(_WorkloadStrategy):
    status_updates_metadata = False
    initial_status = {"replicas": 0}
    partial_counts = ("fullyLabeledReplicas", "readyReplicas", "availableReplicas")

    def validate(self, new: Object) -> Iterator[FieldError]:
        spec = new.get("spec") or {}
        yield from basics.not_negative(spec, "spec", "replicas", "minReadySeconds")
        yield from _template_errors(spec, "deployment", "ReplicaSet")


class StatefulSetStrategy(_WorkloadStrategy):
    initial_status = {"availableReplicas": 0, "replicas": 0}
    partial_counts = ("readyReplicas", "currentReplicas", "updatedReplicas")
    immutable_fields = ("selector", "volumeClaimTemplates", "serviceName", "podManagementPolicy")

    def default(self, new: Object) -> None:
        super().default(new)
        spec = new["spec"]
        strategy = spec.setdefault("updateStrategy", {})
        if "type" not in strategy:
            strategy["type"] = "RollingUpdate"
            rolling = strategy.setdefault("rollingUpdate", {})
            rolling.setdefault("maxUnavailable", 1)
            rolling.setdefault("partition", 0)
        for claim in spec.get("volumeClaimTemplates") or ():
            claim.setdefault("apiVersion", "v1")
            claim.setdefault("kind", "PersistentVolumeClaim")
            pod_spec_defaults.canonicalize_resources(claim.get("spec") or {})

    def validate(self, new: Object) -> Iterator[FieldError]:
        spec = new.get("spec") or {}
        yield from _stateful_set_errors(spec)
        yield from basics.not_negative(spec, "spec", "replicas", "minReadySeconds")
        yield from _template_errors(_with_claims_as_volumes(spec), "statefulset", "StatefulSet")


def _deployment_errors(spec: Mapping[str, Any]) -> Iterator[FieldError]:
    strategy = spec.get("strategy") or {}
    strategy_type, rolling = strategy.get("type"), strategy.get("rollingUpdate")
    if strategy_type == "RollingUpdate":
        yield from _rolling_errors(rolling or {}, "spec.strategy.rollingUpdate")
    elif strategy_type == "Recreate":
        if rolling is not None:
            problem = "may not be specified when strategy `type` is 'Recreate'"
            yield api_errors.forbidden_field("spec.strategy.rollingUpdate", problem)
    else:
        yield api_errors.not_supported("spec.strategy", strategy, ("Recreate", "RollingUpdate"))
    yield from basics.not_negative(
        spec, "spec", "minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds"
    )
    deadline = spec.get("progressDeadlineSeconds")
    if deadline is not None and deadline <= spec.get("minReadySeconds", 0):
        problem = "must be greater than minReadySeconds"
        yield api_errors.invalid_value("spec.progressDeadlineSeconds", deadline, problem)


def _stateful_set_errors(spec: Mapping[str, Any]) -> Iterator[FieldError]:
    policy = spec.get("podManagementPolicy", "")
    if policy not in _POD_MANAGEMENT_POLICIES:
        problem = "must be 'OrderedReady' or 'Parallel'"
        yield api_errors.invalid_value("spec.podManagementPolicy", policy, problem)
    strategy = spec.get("updateStrategy") or {}
    strategy_type, rolling = strategy.get("type"), strategy.get("rollingUpdate")
    if strategy_type == "OnDelete":
        if rolling is not None:
            problem = "only allowed for updateStrategy 'RollingUpdate'"
            yield api_errors.invalid_value("spec.updateStrategy.rollingUpdate", rolling, problem)
    elif strategy_type == "RollingUpdate":
        yield from basics.not_negative(rolling or {}, "spec.updateStrategy.rollingUpdate", "partition")
    else:
        problem = "must be 'RollingUpdate' or 'OnDelete'"
        yield api_errors.invalid_value("spec.updateStrategy", strategy, problem)


def _template_errors(spec: Mapping[str, Any], kind: str, owner: str) -> Iterator[FieldError]:
    """Check the selector and the template.

    `kind` and `owner` are the words that Kubernetes' messages use, e.g. `deployment` also for a ReplicaSet.
    """
    selector, template = spec.get("selector"), spec.get("template") or {}
    labels, pod = (template.get("metadata") or {}).get("labels"), template.get("spec") or {}
    if selector is None:
        yield api_errors.required("spec.selector")
    else:
        yield from label_selectors.errors(selector, "spec.selector")
        if label_selectors.is_empty(selector):
            problem = f"empty selector is invalid for {kind}"
            yield api_errors.invalid_value("spec.selector", selector, problem)
    yield from label_selectors.mismatch(selector, labels, "spec.template.metadata.labels")
    yield from pod_specs.template_errors(template, "spec.template")
    if pod.get("restartPolicy") != "Always":
        field = "spec.template.spec.restartPolicy"
        yield api_errors.not_supported(field, pod.get("restartPolicy", ""), ["Always"])
    if pod.get("activeDeadlineSeconds") is not None:
        problem = f"activeDeadlineSeconds in {owner} is not Supported"
        yield api_errors.forbidden_field("spec.template.spec.activeDeadlineSeconds", problem)


def _with_claims_as_volumes(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return the spec with a volume for every claim template, because mounts may refer to claim templates."""
    template = spec.get("template") or {}
    pod = template.get("spec") or {}
    claims = [
        {"name": name, "persistentVolumeClaim": {"claimName": name}}
        for claim in spec.get("volumeClaimTemplates") or ()
        if (name := (claim.get("metadata") or {}).get("name"))
    ]
    names = {claim["name"] for claim in claims}
    volumes = [volume for volume in pod.get("volumes") or () if volume.get("name") not in names]
    return {**spec, "template": {**template, "spec": {**pod, "volumes": [*volumes, *claims]}}}


def _rolling_errors(rolling: Mapping[str, Any], path: str) -> Iterator[FieldError]:
    unavailable, surge = rolling.get("maxUnavailable", 0), rolling.get("maxSurge", 0)
    for key, value in (("maxUnavailable", unavailable), ("maxSurge", surge)):
        if isinstance(value, str):
            yield from basics.invalid_values(f"{path}.{key}", value, formats.percentage(value))
        else:
            yield from basics.not_negative(rolling, path, key)
    if _count_or_percentage(unavailable) == 0 and _count_or_percentage(surge) == 0:
        yield api_errors.invalid_value(
            f"{path}.maxUnavailable", unavailable, "may not be 0 when `maxSurge` is 0"
        )
    if isinstance(unavailable, str) and _count_or_percentage(unavailable) > 100:
        yield api_errors.invalid_value(f"{path}.maxUnavailable", unavailable, "must not be greater than 100%")


def _count_or_percentage(value: int | str) -> int:
    """Return the number in a count or a percentage; 0 for an invalid percentage."""
    if isinstance(value, int):
        return value
    return 0 if formats.percentage(value) else int(value.removesuffix("%"))
