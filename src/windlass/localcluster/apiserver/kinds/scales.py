"""The scale subresource (autoscaling/v1 Scale)."""

from collections.abc import Mapping
from typing import Any

from windlass.k8s import api_errors, json_patch
from windlass.k8s.label_selectors import format_object
from windlass.localcluster.apiserver.checks import basics
from windlass.localcluster.apiserver.strategy import Object, ScalePaths

_METADATA_FIELDS = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
# The paths of the built-in kinds with a scale subresource.
BUILT_IN_PATHS = ScalePaths(
    spec_replicas=".spec.replicas", status_replicas=".status.replicas", selector=".spec.selector"
)


def value_at(obj: Mapping[str, Any], path: str) -> Any:
    """Return the value at a simple JSONPath, or None."""
    value: Any = obj
    for key in path.removeprefix(".").split("."):
        value = value.get(key) if isinstance(value, dict) else None
    return value


def scale_of(obj: Mapping[str, Any], paths: ScalePaths) -> Object:
    replicas = value_at(obj, paths.spec_replicas)
    status = {"replicas": value_at(obj, paths.status_replicas) or 0}
    selector = value_at(obj, paths.selector) if paths.selector else None
    if selector:
        status["selector"] = format_object(selector) if isinstance(selector, dict) else selector
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {key: obj["metadata"][key] for key in _METADATA_FIELDS if key in obj["metadata"]},
        "spec": {"replicas": replicas} if replicas else {},
        "status": status,
    }


def with_scale(obj: Mapping[str, Any], paths: ScalePaths, scale: Mapping[str, Any]) -> Object:
    """Return the object with the replicas and the resourceVersion of a Scale."""
    name, replicas = obj["metadata"]["name"], value_at(scale, ".spec.replicas") or 0
    if not isinstance(replicas, int) or replicas < 0:
        error = api_errors.invalid_value("spec.replicas", replicas, basics.NOT_NEGATIVE)
        raise api_errors.invalid("autoscaling", "Scale", name, [error])
    scaled: Object = json_patch.deep_copy(dict(obj))
    *parents, last = paths.spec_replicas.removeprefix(".").split(".")
    holder = scaled
    for key in parents:
        holder = holder.setdefault(key, {})
        if not isinstance(holder, dict):
            error = api_errors.invalid_value(paths.spec_replicas, name, "the path does not lead to an object")
            raise api_errors.invalid("autoscaling", "Scale", name, [error])
    holder[last] = replicas
    version = value_at(scale, ".metadata.resourceVersion")
    if version:
        scaled["metadata"]["resourceVersion"] = version
    return scaled
