"""Validate pod templates and other objects against the types of Kubernetes (`k8s.types`).

An unknown field is a warning, because Kubernetes drops it. A wrong type is an error, because Kubernetes rejects it.
"""

from collections.abc import Callable, Iterator

from windlass.k8s import quantities, removed_versions
from windlass.k8s import types as k8s_types
from windlass.wire import diagnostics, structural_validation
from windlass.wire.diagnostics import Diagnostic
from windlass.wire.yaml import tree

POD_TEMPLATE = "V1PodTemplateSpec"
_KINDS_WITH_SELECTOR = ("DaemonSet", "Deployment", "ReplicaSet", "StatefulSet")


def check(node: tree.Node, type_name: str, path: str) -> Iterator[Diagnostic]:
    """Yield how a node differs from a type of `k8s.types`, e.g. V1Service or []V1Container."""
    if type_name.startswith("[]"):
        yield from _check_items(node, type_name[2:], path)
    elif type_name.startswith("{}"):
        yield from _check_values(node, type_name[2:], path)
    elif type_name in k8s_types.types():
        yield from _check_object(node, type_name, path)
    else:
        expected, is_valid = _SIMPLE_TYPES[type_name]
        if not is_valid(node):
            yield from structural_validation.wrong_value(node, expected, path)


def check_api_version(node: tree.Node, path: str) -> Iterator[Diagnostic]:
    """Yield a warning if Kubernetes no longer has the API version of an object."""
    version_node = tree.dig(node, "apiVersion")
    version, kind = tree.text_of(version_node), tree.text_of(tree.dig(node, "kind"))
    removal = removed_versions.removal_of(version or "", kind or "")
    if version_node is None or removal is None:
        return
    advice = f"Use {removal.replacement}."
    lacks_selector = removal.replacement == "apps/v1" and tree.dig(node, "spec", "selector") is None
    if lacks_selector and kind in _KINDS_WITH_SELECTOR:
        advice = f"Use {removal.replacement}, and set spec.selector, which it requires."
    message = f"Kubernetes {removal.release} and later have no {kind} in {version}. {advice}"
    yield diagnostics.warning(version_node, diagnostics.field(path, "apiVersion"), message)


def _check_items(node: tree.Node, type_name: str, path: str) -> Iterator[Diagnostic]:
    if not isinstance(node, tree.Sequence):
        yield from structural_validation.wrong_value(node, "a list", path)
        return
    for index, item in enumerate(node.items):
        yield from check(item, type_name, diagnostics.item(path, index))


def _check_values(node: tree.Node, type_name: str, path: str) -> Iterator[Diagnostic]:
    if not isinstance(node, tree.Mapping):
        yield from structural_validation.wrong_value(node, "a mapping", path)
        return
    for key, value in node.entries.items():
        yield from check(value, type_name, diagnostics.field(path, key))


def _check_object(node: tree.Node, type_name: str, path: str) -> Iterator[Diagnostic]:
    object_type = k8s_types.types()[type_name]
    if not isinstance(node, tree.Mapping):
        yield from structural_validation.wrong_value(node, f"a mapping ({_short_name(type_name)})", path)
        return
    for key in node.entries:
        value = node.get(key)
        if key not in object_type.fields:
            yield _unknown_field(node, key, type_name, path)
        elif value is not None:
            yield from check(value, object_type.fields[key], diagnostics.field(path, key))
    for name in object_type.required:
        if node.get(name) is None:
            yield diagnostics.missing_field(node, path, name, f" of {_short_name(type_name)}")


def _unknown_field(node: tree.Mapping, key: str, type_name: str, path: str) -> Diagnostic:
    known = tuple(k8s_types.types()[type_name].fields)
    message = f"unknown field {diagnostics.quoted(key)} of {_short_name(type_name)}."
    return diagnostics.warning(
        node.keys[key],
        diagnostics.field(path, key),
        f"{message} {diagnostics.did_you_mean(key, known)}",
        diagnostics.unknown_field_rule(key, known),
        diagnostics.rename_fix(key, known, node.entries),
    )


def _short_name(type_name: str) -> str:
    return type_name.removeprefix("Core").removeprefix("V1")


def _is_string(node: tree.Node) -> bool:
    return tree.text_of(node) is not None


def _is_int64(node: tree.Node) -> bool:
    value = tree.integer_of(node)
    # `None in range(...)` would compare every number.
    return value is not None and value in structural_validation.INT64


def is_quantity(node: tree.Node) -> bool:
    if isinstance(node, tree.Scalar) and isinstance(node.value, float):
        return True
    text = tree.text_of(node)
    return tree.integer_of(node) is not None or (text is not None and quantities.is_quantity(text))


_SIMPLE_TYPES: dict[str, tuple[str, Callable[[tree.Node], bool]]] = {
    "string": ("a string", _is_string),
    "integer": ("an integer of at most 64 bits", _is_int64),
    "boolean": ("true or false", lambda node: isinstance(node, tree.Scalar) and isinstance(node.value, bool)),
    "date-time": ("a time such as 2018-06-14T21:53:04Z", _is_string),
    "int-or-string": ("an integer or a string", lambda node: _is_int64(node) or _is_string(node)),
    "quantity": ("a quantity such as 2, 500m or 16Gi", is_quantity),
    "object": ("a mapping", lambda node: isinstance(node, tree.Mapping)),
}
