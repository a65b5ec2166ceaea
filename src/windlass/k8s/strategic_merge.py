"""Strategic merge patches of built-in kinds: some lists are merged by keys.

Directives: `$patch` replaces or deletes a map, replaces a list or deletes a list item,
`$deleteFromPrimitiveList/<field>` removes values from a list, `$setElementOrder/<field>` sets the order of a list,
`$retainKeys` names the fields to keep.

As in Kubernetes, many invalid patches cause HTTP 500 with an empty reason.
"""

from collections import deque
from collections.abc import Callable, Hashable
from typing import Any, NoReturn

import msgspec

from windlass.k8s import api_errors, json_patch
from windlass.k8s import types as k8s_types

Object = dict[str, Any]

_DIRECTIVE = "$patch"
_RETAIN_KEYS = "$retainKeys"
_SET_ORDER = "$setElementOrder"
_DELETE_VALUES = "$deleteFromPrimitiveList"


class Rule(msgspec.Struct, frozen=True):
    """The merge strategy of a field: Kubernetes' patchStrategy and, for a list of objects, its patchMergeKey."""

    strategy: str
    key: str = ""

    @property
    def merges(self) -> bool:
        return "merge" in self.strategy.split(",")


def _by(key: str) -> Rule:
    return Rule("merge", key)


_BY_NAME = _by("name")
_BY_TYPE = _by("type")
# Volumes and claims are unions: a client that changes their type lists the fields to retain.
_BY_NAME_RETAINING = Rule("merge,retainKeys", "name")
_PLAIN_VALUES = Rule("merge")

_CONTAINER = {
    "env": _BY_NAME,
    "ports": _by("containerPort"),
    "volumeDevices": _by("devicePath"),
    "volumeMounts": _by("mountPath"),
}

# Per type, the fields that have a rule. All other lists are replaced as a whole; all other maps are merged.
RULES: dict[str, dict[str, Rule]] = {
    "V1Container": _CONTAINER,
    "V1ContainerStatus": {"allocatedResourcesStatus": _BY_NAME, "volumeMounts": _by("mountPath")},
    "V1DeploymentSpec": {"strategy": Rule("retainKeys")},
    "V1DeploymentStatus": {"conditions": _BY_TYPE},
    "V1EphemeralContainer": _CONTAINER,
    "V1JSONSchemaProps": {"x-kubernetes-validations": _by("rule")},
    "V1JobSchedulingConfiguration": {"resourceClaims": _BY_NAME},
    "V1JobStatus": {"conditions": _BY_TYPE},
    "V1NamespaceStatus": {"conditions": _BY_TYPE},
    "V1NodeAllocatableResourceClaimStatus": {"mapping": _BY_NAME, "overhead": _BY_NAME},
    "V1NodeSpec": {"podCIDRs": _PLAIN_VALUES},
    "V1NodeStatus": {"addresses": _BY_TYPE, "conditions": _BY_TYPE},
    "V1ObjectMeta": {"finalizers": _PLAIN_VALUES, "ownerReferences": _by("uid")},
    "V1PersistentVolumeClaimStatus": {"conditions": _BY_TYPE},
    "V1PodSpec": {
        "containers": _BY_NAME,
        "ephemeralContainers": _BY_NAME,
        "evictionResponders": _BY_NAME,
        "hostAliases": _by("ip"),
        "imagePullSecrets": _BY_NAME,
        "initContainers": _BY_NAME,
        "resourceClaims": _BY_NAME_RETAINING,
        "schedulingGates": _BY_NAME,
        "topologySpreadConstraints": _by("topologyKey"),
        "volumes": _BY_NAME_RETAINING,
    },
    "V1PodStatus": {
        "conditions": _BY_TYPE,
        "hostIPs": _by("ip"),
        "nodeAllocatableResourceClaimStatuses": _by("resourceClaimName"),
        "podIPs": _by("ip"),
        "resourceClaimStatuses": _BY_NAME_RETAINING,
    },
    "V1PodVolumeHealth": {"healthConditions": _by("status")},
    "V1ReplicaSetStatus": {"conditions": _BY_TYPE},
    "V1ServiceAccount": {"secrets": _BY_NAME},
    "V1ServiceSpec": {"ports": _by("port")},
    "V1ServiceStatus": {"conditions": _BY_TYPE},
    "V1StatefulSetStatus": {"conditions": _BY_TYPE},
    "V1VolumeHealthStatus": {"healthConditions": _by("status")},
}
_REPLACED = Rule("replace")

_POD_LISTS = RULES["V1PodSpec"] | RULES["V1Container"]
_UNIONS = frozenset({"env", "volumes"})
"""Lists whose items have one of several types: merging two items of different types would produce an
invalid item."""


def merge_pod_template(original: Object, patch: Object) -> Object:
    """Return a pod template with a patch by a user merged into it. Neither argument changes.

    The merge differs from a strategic merge patch in three ways: an item of `env` or `volumes` replaces the item of the
    same name, new items of a list come last, so that the main container stays the first, and directives are not
    supported.
    """
    result = {key: value for key, value in original.items() if not (key in patch and patch[key] is None)}
    for key, value in patch.items():
        if value is not None:
            result[key] = _merged_template_field(key, original.get(key), value)
    return result


def _merged_template_field(field: str, original: Any, patch: Any) -> Any:
    if isinstance(patch, dict):
        return merge_pod_template(original if isinstance(original, dict) else {}, patch)
    if not isinstance(patch, list):
        return patch
    rule = _POD_LISTS.get(field, _REPLACED)
    result = list(original) if rule.key and isinstance(original, list) else []
    positions = {item.get(rule.key): index for index, item in enumerate(result) if isinstance(item, dict)}
    for item in patch:
        position = positions.get(item.get(rule.key)) if isinstance(item, dict) else None
        if position is None:
            result.append(merge_pod_template({}, item) if isinstance(item, dict) else item)
        else:
            result[position] = merge_pod_template({} if field in _UNIONS else result[position], item)
    return result


@json_patch.limit_depth
def strategic_merge_patch(obj: Object, patch: Any, type_name: str) -> Object:
    """Return the object after the patch. `type_name` is a type of `k8s.types`."""
    if patch is None:
        patch = {}
    if not isinstance(patch, dict):
        raise json_patch.undecodable(patch, "map[string]interface {}")
    return _merged(json_patch.deep_copy(obj), json_patch.deep_copy(patch), type_name)


def _merged(original: Object, patch: Object, type_name: str) -> Object:
    if _DIRECTIVE in patch:
        return _replaced(patch)
    if _RETAIN_KEYS in patch:
        _retain(original, patch, patch.pop(_RETAIN_KEYS))
    for key in [key for key in patch if key.startswith(_SET_ORDER)]:
        _merge_ordered(original, patch, key, patch.pop(key), type_name)
    for key, value in patch.items():
        if key.startswith(_DELETE_VALUES):
            _delete_values(original, key, value, type_name)
        else:
            _merge_field(original, key, value, type_name)
    return original


def _replaced(patch: Object) -> Object:
    directive = patch[_DIRECTIVE]
    if directive not in ("replace", "delete"):
        _reject_directive(directive, patch)
    return _plain_map(patch) if directive == "replace" else {}


def _retain(original: Object, patch: Object, keys: Any) -> None:
    is_list_of_names = isinstance(keys, list) and all(isinstance(key, str) for key in keys)
    set_keys = [
        key for key in patch if patch[key] is not None and not key.startswith((_DELETE_VALUES, _SET_ORDER))
    ]
    if not is_list_of_names or not set(keys).issuperset(set_keys):
        raise api_errors.bad_request("invalid patch format of retainKeys")
    for key in original.keys() - set(keys):
        del original[key]


def _merge_field(original: Object, key: str, value: Any, type_name: str) -> None:
    current = original.get(key)
    if value is None:
        original.pop(key, None)
    elif isinstance(value, dict) and isinstance(current, dict):
        original[key] = _merged(current, value, _field_type(type_name, key))
    elif isinstance(value, list) and isinstance(current, list):
        original[key] = _merged_list(current, value, _item_type(type_name, key), _rule(type_name, key))
    elif isinstance(value, dict) and _is_deletion(value):
        original.pop(key, None)
    else:
        original[key] = _plain(value)


def _delete_values(original: Object, key: str, values: Any, type_name: str) -> None:
    _, slash, field = key.partition("/")
    current = original.get(field)
    if not slash:
        raise api_errors.bad_request("invalid patch format of primitive list")
    if not isinstance(values, list) or not isinstance(current, list):
        return
    if _rule(type_name, field) != _PLAIN_VALUES:
        raise api_errors.bad_request("invalid patch format of primitive list")
    _check_items(current, values)
    if current:
        identity = _identity(_PLAIN_VALUES)
        deleted = {identity(value) for value in values}
        original[field] = [value for value in current if identity(value) not in deleted]


def _merge_ordered(original: Object, patch: Object, key: str, order: Any, type_name: str) -> None:
    """Merge and order the list that `$setElementOrder` is about, and remove that list from the patch."""
    _, slash, field = key.partition("/")
    if not isinstance(order, list):
        _reject_type(order)
    if not slash:
        raise api_errors.bad_request("invalid patch format of setElementOrder list")
    for document in (original, patch):
        if not isinstance(document.get(field, []), list):
            _reject_type(document[field])
    item_type, rule = _item_type(type_name, field), _rule(type_name, field)
    if field not in original and field not in patch:
        return
    current, changes = original.get(field, []), patch.pop(field, None)
    _check_order(changes or [], order, rule)
    merged = current if changes is None else _merged_list(current, changes, item_type, rule)
    original[field] = _ordered(merged, order, current, rule)


def _check_order(items: list[Any], order: list[Any], rule: Rule) -> None:
    """Require that the items of a patch are in the order of `$setElementOrder`."""
    if not items or not order:
        return
    identity = _identity(rule)
    remaining = map(identity, order)
    changed = [item for item in items if not (isinstance(item, dict) and _DIRECTIVE in item)]
    # `in` consumes the iterator, so each item is searched for after the previous one.
    if not all(identity(item) in remaining for item in changed):
        _reject(
            f"The order in patch list:\n{_go_text(items)}\n doesn't match {_SET_ORDER} list:\n{_go_text(order)}\n"
        )


def _merged_list(original: list[Any], patch: list[Any], item_type: str, rule: Rule) -> list[Any]:
    if not rule.merges:
        return [_plain(item) for item in patch if not _is_directive(item)]
    if not original and not patch:
        return original
    _check_items(original, patch)
    if not rule.key:
        distinct = {_identity(rule)(item): item for item in original + patch}
        return _ordered(list(distinct.values()), patch, original, rule)
    return _merged_objects(original, patch, item_type, rule)


def _merged_objects(original: list[Any], patch: list[Any], item_type: str, rule: Rule) -> list[Any]:
    identity = _identity(rule)
    directives = [item for item in patch if _is_directive(item)]
    deleted = {identity(item) for item in directives if _is_deletion(item)}
    changes = [item for item in patch if not _is_directive(item)]
    if any(item[_DIRECTIVE] == "replace" for item in directives):
        return _ordered([_plain(item) for item in changes], [], [], rule)
    kept = [item for item in original if identity(item) not in deleted]
    merged = list(kept)
    positions = _positions(merged, identity)
    for item in changes:
        position = positions.get(identity(item))
        if position is None:
            positions[identity(item)] = len(merged)
            merged.append(_plain(item))
        else:
            merged[position] = _merged(merged[position], item, item_type)
    return _ordered(merged, changes, kept, rule)


def _ordered(items: list[Any], order: list[Any], server: list[Any], rule: Rule) -> list[Any]:
    """Return the items: those in `order` in its order, the others in the order of `server`, the list before the patch.

    An item that is not in `order` comes before the first item of `order` that followed it in `server`.
    """
    identity = _identity(rule)
    positions, server_positions = _positions(order, identity), _positions(server, identity)
    listed = [item for item in items if identity(item) in positions]
    listed.sort(key=lambda item: positions[identity(item)])
    others = [item for item in items if identity(item) not in positions]
    others.sort(key=lambda item: server_positions.get(identity(item), len(server)))
    unlisted = deque(others)
    result: list[Any] = []
    for item in listed:
        position = server_positions.get(identity(item), -1)
        while unlisted and server_positions.get(identity(unlisted[0]), position) < position:
            result.append(unlisted.popleft())
        result.append(item)
    return [*result, *unlisted]


def _positions(items: list[Any], identity: Callable[[Any], Hashable]) -> dict[Hashable, int]:
    positions: dict[Hashable, int] = {}
    for position, item in enumerate(items):
        positions.setdefault(identity(item), position)
    return positions


def _identity(rule: Rule) -> Callable[[Any], Hashable]:
    """Return a function that identifies list items: by the merge key, or by the value."""

    def identity(item: Any) -> Hashable:
        value = item
        if rule.key:
            if not isinstance(item, dict):
                _reject(f"expected a map[string]interface {{}}, but received a {_go_type(item)}")
            if rule.key not in item:
                _reject(f"map: {_go_text(item)} does not contain declared merge key: {rule.key}")
            value = item[rule.key]
        if isinstance(value, dict | list):
            _reject("cannot merge lists without merge key for struct")
        return type(value), value

    return identity


def _check_items(*lists: list[Any]) -> None:
    """Require that the items of merged lists have one type, which is not a list."""
    item_types = [type(item) for items in lists for item in items]
    if item_types and item_types[0] is list:
        raise json_patch.inapplicable()
    if len(set(item_types)) > 1:
        _reject(f"list element types are not identical: {_go_text(list(lists))}")


def _plain(value: Any) -> Any:
    """Return a value of a patch without directives and null fields."""
    if isinstance(value, dict):
        return _replaced(value) if _DIRECTIVE in value else _plain_map(value)
    if isinstance(value, list):
        return [_plain(item) for item in value if not _is_directive(item)]
    return value


def _plain_map(patch: Object) -> Object:
    return {
        key: _plain(value)
        for key, value in patch.items()
        if value is not None
        and key not in (_DIRECTIVE, _RETAIN_KEYS)
        and not key.startswith((_DELETE_VALUES, _SET_ORDER))
        and not _is_deletion(value)
    }


def _is_directive(item: Any) -> bool:
    if not isinstance(item, dict) or _DIRECTIVE not in item:
        return False
    directive = item[_DIRECTIVE]
    if directive == "merge":
        _reject("merging lists cannot yet be specified in the patch")
    if directive not in ("replace", "delete"):
        _reject_directive(directive, item)
    return True


def _is_deletion(value: Any) -> bool:
    return isinstance(value, dict) and value.get(_DIRECTIVE) == "delete"


def _rule(type_name: str, field: str) -> Rule:
    return RULES.get(type_name, {}).get(field, _REPLACED)


def _field_type(type_name: str, field: str) -> str:
    if type_name.startswith("{}"):
        _reject("merging an object in json but data type is not struct, instead is: map")
    declared = k8s_types.types().get(type_name)
    if declared is None or field not in declared.fields:
        struct = k8s_types.version_and_name(type_name)[1] if declared else "JSON"
        _reject(
            f"unable to find api field in struct {struct} for the json field {api_errors.format_value(field)}"
        )
    return declared.fields[field]


def _item_type(type_name: str, field: str) -> str:
    declared = _field_type(type_name, field)
    if not declared.startswith("[]"):
        _reject("expected slice or array type, but got: struct")
    return declared.removeprefix("[]")


def _reject(message: str) -> NoReturn:
    raise api_errors.ApiError(500, "", message)


def _reject_directive(directive: Any, patch: Object) -> NoReturn:
    shown = directive if isinstance(directive, str) else f"%!s({_go_type(directive)}={_go_text(directive)})"
    _reject(f"unknown patch type: {shown} in map: {_go_text(patch)}")


def _reject_type(value: Any) -> NoReturn:
    _reject(f"expected a []interface {{}}, but received a {_go_type(value)}")


def _go_text(value: Any) -> str:
    """Return a value as Go prints it in messages."""
    match value:
        case None:
            return "<nil>"
        case bool():
            return "true" if value else "false"
        case dict():
            return f"map[{' '.join(f'{key}:{_go_text(value[key])}' for key in sorted(value))}]"
        case list():
            return f"[{' '.join(map(_go_text, value))}]"
        case _:
            return str(value)


_GO_TYPES = {
    bool: "bool",
    int: "int64",
    float: "float64",
    str: "string",
    dict: "map[string]interface {}",
    list: "[]interface {}",
}


def _go_type(value: Any) -> str:
    return _GO_TYPES.get(type(value), "%!s(<nil>)")
