"""Validate a pod template against the types of Kubernetes (`k8s.types`).

An unknown field is a warning, because Kubernetes drops it. A wrong type is an error, because Kubernetes rejects it.
"""

from collections.abc import Callable, Iterator

from windlass.k8s import quantities
from windlass.k8s import types as k8s_types
from windlass.wire import diagnostics, structural_validation
from windlass.wire.diagnostics import Diagnostic, Rule
from windlass.wire.yaml import tree

_ROOT = "V1PodTemplateSpec"


def check(template: tree.Node, path: str) -> Iterator[Diagnostic]:
    """Yield how a template differs from a PodTemplateSpec."""
    yield from _check(template, _ROOT, path)


def check_type(node: tree.Node, kind: str, path: str) -> Iterator[Diagnostic]:
    """Yield how a node differs from a type of `k8s.types`, e.g. V1Service."""
    yield from _check(node, kind, path)


def _check(node: tree.Node, kind: str, path: str) -> Iterator[Diagnostic]:
    if kind.startswith("[]"):
        yield from _check_items(node, kind[2:], path)
    elif kind.startswith("{}"):
        yield from _check_values(node, kind[2:], path)
    elif kind in k8s_types.types():
        yield from _check_object(node, kind, path)
    else:
        expected, is_valid = _SCALARS[kind]
        if not is_valid(node):
            yield from structural_validation.wrong_type(node, expected, path)


def _check_items(node: tree.Node, kind: str, path: str) -> Iterator[Diagnostic]:
    if not isinstance(node, tree.Sequence):
        yield from structural_validation.wrong_type(node, "a list", path)
        return
    for index, item in enumerate(node.items):
        yield from _check(item, kind, diagnostics.item(path, index))


def _check_values(node: tree.Node, kind: str, path: str) -> Iterator[Diagnostic]:
    if not isinstance(node, tree.Mapping):
        yield from structural_validation.wrong_type(node, "a mapping", path)
        return
    for key, value in node.entries.items():
        yield from _check(value, kind, diagnostics.field(path, key))


def _check_object(node: tree.Node, kind: str, path: str) -> Iterator[Diagnostic]:
    pod_type = k8s_types.types()[kind]
    if not isinstance(node, tree.Mapping):
        yield from structural_validation.wrong_type(node, f"a mapping ({_type_name(kind)})", path)
        return
    for key in node.entries:
        value = node.get(key)
        if key not in pod_type.fields:
            yield _unknown_field(node, key, kind, path)
        elif value is not None:
            yield from _check(value, pod_type.fields[key], diagnostics.field(path, key))
    for name in pod_type.required:
        if node.get(name) is None:
            message = f'missing required field "{name}" of {_type_name(kind)}'
            yield diagnostics.error(node, path, message, Rule.MISSING_FIELD)


def _unknown_field(node: tree.Mapping, key: str, kind: str, path: str) -> Diagnostic:
    known = tuple(k8s_types.types()[kind].fields)
    message = f"unknown field {diagnostics.quoted(key)} of {_type_name(kind)}: Kubernetes drops it."
    return diagnostics.warning(
        node.keys[key],
        diagnostics.field(path, key),
        f"{message} {diagnostics.did_you_mean(key, known)}",
        diagnostics.rule_for(key, known),
        diagnostics.rename_fix(key, known, node.entries),
    )


def _type_name(kind: str) -> str:
    return kind.removeprefix("Core").removeprefix("V1")


def _is_string(node: tree.Node) -> bool:
    return tree.text_of(node) is not None


def _is_boolean(node: tree.Node) -> bool:
    return isinstance(node, tree.Scalar) and isinstance(node.value, bool)


def _is_int64(node: tree.Node) -> bool:
    return (
        structural_validation.is_integer(node)
        and isinstance(node, tree.Scalar)
        and node.value in structural_validation.INT64
    )


def _is_int_or_string(node: tree.Node) -> bool:
    return _is_int64(node) or _is_string(node)


def is_quantity(node: tree.Node) -> bool:
    if isinstance(node, tree.Scalar) and isinstance(node.value, float):
        return True
    text = tree.text_of(node)
    return structural_validation.is_integer(node) or (text is not None and quantities.is_quantity(text))


def _is_object(node: tree.Node) -> bool:
    return isinstance(node, tree.Mapping)


_SCALARS: dict[str, tuple[str, Callable[[tree.Node], bool]]] = {
    "string": ("a string", _is_string),
    "integer": ("an integer of at most 64 bits", _is_int64),
    "boolean": ("true or false", _is_boolean),
    "date-time": ("a time such as 2018-06-14T21:53:04Z", _is_string),
    "int-or-string": ("an integer or a string", _is_int_or_string),
    "quantity": ("a quantity such as 2, 500m or 16Gi", is_quantity),
    "object": ("a mapping", _is_object),
}
