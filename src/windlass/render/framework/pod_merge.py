"""What people write under `pod:`, merged into a pod template as Kubernetes merges a patch into a pod.

Mappings are merged, a null takes a field away, and a list is replaced, but for those whose items have a name: there, an
item of the same name is merged into, and another one is added.
"""

from typing import Any

from windlass.model.base import Json

_KEYS = {
    "containers": "name",
    "initContainers": "name",
    "ephemeralContainers": "name",
    "volumes": "name",
    "env": "name",
    "volumeMounts": "mountPath",
    "volumeDevices": "devicePath",
    "ports": "containerPort",
    "imagePullSecrets": "name",
    "hostAliases": "ip",
    "topologySpreadConstraints": "topologyKey",
}
_REPLACED = frozenset({"env", "volumes"})
"""Their items are of one kind or another: half of each would be neither."""


def merged(original: Json, patch: Json) -> Json:
    """Neither is changed."""
    result = {key: value for key, value in original.items() if not (key in patch and patch[key] is None)}
    for key, value in patch.items():
        if value is not None:
            result[key] = _value(key, original.get(key), value)
    return result


def _value(field: str, original: Any, patch: Any) -> Any:
    if isinstance(patch, dict):
        return merged(original if isinstance(original, dict) else {}, patch)
    if isinstance(patch, list) and isinstance(original, list) and field in _KEYS:
        return _list(original, patch, _KEYS[field], is_replaced=field in _REPLACED)
    if isinstance(patch, list):
        return [merged({}, item) if isinstance(item, dict) else item for item in patch]
    return patch


def _list(original: list[Any], patch: list[Any], key: str, *, is_replaced: bool) -> list[Any]:
    result = list(original)
    places = {item.get(key): place for place, item in enumerate(result) if isinstance(item, dict)}
    for item in patch:
        place = places.get(item.get(key)) if isinstance(item, dict) else None
        if place is None:
            result.append(merged({}, item) if isinstance(item, dict) else item)
        else:
            result[place] = merged({} if is_replaced else result[place], item)
    return result
