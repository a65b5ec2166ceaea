"""Templates with replicas, and how Deployments and StatefulSets go from one template to the next."""

from collections.abc import Iterator, Mapping
from typing import Any

from windlass.k8s import api_errors, formats
from windlass.k8s.api_errors import Fault
from windlass.localcluster.apiserver.checks import basics, label_selectors, pod_specs

_POLICIES = ("OrderedReady", "Parallel")
_COUNTS = (
    "replicas",
    "updatedReplicas",
    "readyReplicas",
    "availableReplicas",
    "unavailableReplicas",
    "fullyLabeledReplicas",
    "currentReplicas",
)


def of_deployment(spec: Mapping[str, Any]) -> Iterator[Fault]:
    strategy = spec.get("strategy") or {}
    kind, rolling = strategy.get("type"), strategy.get("rollingUpdate")
    if kind == "RollingUpdate":
        yield from _rolling_faults(rolling or {}, "spec.strategy.rollingUpdate")
    elif kind == "Recreate":
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


def of_stateful_set(spec: Mapping[str, Any]) -> Iterator[Fault]:
    policy = spec.get("podManagementPolicy", "")
    if policy not in _POLICIES:
        problem = "must be 'OrderedReady' or 'Parallel'"
        yield api_errors.invalid_value("spec.podManagementPolicy", policy, problem)
    strategy = spec.get("updateStrategy") or {}
    kind, rolling = strategy.get("type"), strategy.get("rollingUpdate")
    if kind == "OnDelete":
        if rolling is not None:
            problem = "only allowed for updateStrategy 'RollingUpdate'"
            yield api_errors.invalid_value("spec.updateStrategy.rollingUpdate", rolling, problem)
    elif kind == "RollingUpdate":
        yield from basics.not_negative(rolling or {}, "spec.updateStrategy.rollingUpdate", "partition")
    else:
        problem = "must be 'RollingUpdate' or 'OnDelete'"
        yield api_errors.invalid_value("spec.updateStrategy", strategy, problem)


def of_status(status: Mapping[str, Any], parts: tuple[str, ...]) -> Iterator[Fault]:
    """`parts` count some of all replicas."""
    yield from basics.not_negative(status, "status", "observedGeneration", *_COUNTS, "collisionCount")
    for key in parts:
        count = status.get(key, 0)
        if count > status.get("replicas", 0):
            problem = "cannot be greater than status.replicas"
            yield api_errors.invalid_value(f"status.{key}", count, problem)
    available = status.get("availableReplicas", 0)
    if "availableReplicas" in parts and available > status.get("readyReplicas", 0):
        yield api_errors.invalid_value(
            "status.availableReplicas", available, "cannot be greater than readyReplicas"
        )


def template_faults(spec: Mapping[str, Any], kind: str, owner: str) -> Iterator[Fault]:
    selector, template = spec.get("selector"), spec.get("template") or {}
    labels, pod = (template.get("metadata") or {}).get("labels"), template.get("spec") or {}
    if selector is None:
        yield api_errors.required("spec.selector")
    else:
        yield from label_selectors.faults(selector, "spec.selector")
        if label_selectors.is_empty(selector):
            problem = f"empty selector is invalid for {kind}"
            yield api_errors.invalid_value("spec.selector", selector, problem)
    yield from label_selectors.mismatch(selector, labels, "spec.template.metadata.labels")
    yield from pod_specs.template_faults(template, "spec.template")
    if pod.get("restartPolicy") != "Always":
        field = "spec.template.spec.restartPolicy"
        yield api_errors.not_supported(field, pod.get("restartPolicy", ""), ["Always"])
    if pod.get("activeDeadlineSeconds") is not None:
        problem = f"activeDeadlineSeconds in {owner} is not Supported"
        yield api_errors.forbidden_field("spec.template.spec.activeDeadlineSeconds", problem)


def with_claims_as_volumes(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Each pod of a StatefulSet gets a volume for every claim, which its mounts may name."""
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


def _rolling_faults(rolling: Mapping[str, Any], path: str) -> Iterator[Fault]:
    unavailable, surge = rolling.get("maxUnavailable", 0), rolling.get("maxSurge", 0)
    for key, value in (("maxUnavailable", unavailable), ("maxSurge", surge)):
        if isinstance(value, str):
            yield from basics.each(f"{path}.{key}", value, formats.percentage(value))
        else:
            yield from basics.not_negative(rolling, path, key)
    if _number(unavailable) == 0 and _number(surge) == 0:
        yield api_errors.invalid_value(
            f"{path}.maxUnavailable", unavailable, "may not be 0 when `maxSurge` is 0"
        )
    if isinstance(unavailable, str) and _number(unavailable) > 100:
        yield api_errors.invalid_value(f"{path}.maxUnavailable", unavailable, "must not be greater than 100%")


def _number(value: int | str) -> int:
    """Of a count or a percentage; what is neither counts as nothing."""
    if isinstance(value, int):
        return value
    return 0 if formats.percentage(value) else int(value.removesuffix("%"))
