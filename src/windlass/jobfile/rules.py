"""Rules for single values of a job file: names, labels, quantities. A field without a value is not checked."""

import re
from collections.abc import Callable, Iterator, Mapping

from windlass.k8s.formats import is_object_name
from windlass.model import names
from windlass.model.resources import NVIDIA_GPU, SHARED_SUFFIX
from windlass.wire import diagnostics, kubernetes_validation, structural_validation
from windlass.wire.diagnostics import Diagnostic, Fix, Remedy
from windlass.wire.yaml import tree

Check = Callable[[tree.Node, str], Iterator[Diagnostic]]
"""A function that takes a node and its path, and yields diagnostics."""

RESERVED_ANNOTATIONS = {
    names.RUNTIME_ANNOTATION: "runtime",
    names.BARRIER_ANNOTATION: "barrier",
    names.ELASTIC_ANNOTATION: "elastic of a role",
    names.IDLE_ANNOTATION: "idle",
}
"""Annotations that have their own field in the job file."""
EXPECTED_SERVICE_NAME = "a name that starts with a letter, because a Service has the same name"

_KEY = re.compile(r"(?:([^/]{1,253})/)?([A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)")
_VALUE = re.compile(r"(?=.{0,63}\Z)(?:[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?)?")
_ZERO = re.compile(r"[+-]?[0.]+(?:[A-Za-z].*)?")
_BYTES = re.compile(r"([0-9]+(?:\.[0-9]+)?) *([kKmMgGtTpP])([iI]?)[bB]?")
"""A number of bytes as people write it, e.g. 8GB, 8 gib or 8g."""
_MIN_MEMORY_BYTES = 1_000_000
"""A smaller number without a unit is probably meant in another unit."""


def check_fields(node: tree.Node | None, checks: Mapping[str, Check], path: str) -> Iterator[Diagnostic]:
    """Apply the check of each field that is set."""
    for field, check in checks.items():
        value = tree.dig(node, field)
        if value is not None:
            yield from check(value, diagnostics.field(path, field))


def text_check(is_valid: Callable[[str], object], expected: str) -> Check:
    """Return a check of strings. It skips values of other types, which another check reports."""

    def check(node: tree.Node, path: str) -> Iterator[Diagnostic]:
        text = tree.text_of(node)
        if text is not None and not is_valid(text):
            yield from structural_validation.wrong_value(node, expected, path)

    return check


def type_check(type_name: str) -> Check:
    """Return a check against a type of Kubernetes: a list if the name begins with `[]`, otherwise a mapping. It skips
    other values, which another check reports."""
    expected = tree.Sequence if type_name.startswith("[]") else tree.Mapping

    def check(node: tree.Node, path: str) -> Iterator[Diagnostic]:
        if isinstance(node, expected):
            yield from kubernetes_validation.check(node, type_name, path)

    return check


def starts_without_digit(name: str) -> bool:
    """Return whether the name does not start with a digit. Other invalid characters are reported elsewhere."""
    return not name[:1].isdecimal()


def roles_of(node: tree.Node, path: str) -> Iterator[tuple[tree.Mapping, str]]:
    """Yield the roles that are mappings, with their paths."""
    roles = tree.dig(node, "roles")
    for name, role in roles.entries.items() if isinstance(roles, tree.Mapping) else ():
        if isinstance(role, tree.Mapping):
            yield role, diagnostics.field(path, "roles", name)


check_namespace = text_check(
    re.compile(f"(?:{names.DNS_LABEL_PATTERN})?").fullmatch,
    "a DNS label: 1 to 63 lower-case letters, digits and hyphens",
)
check_image = text_check(
    lambda text: not re.search(r"\s", text),
    "the name of an image, without spaces",
)
check_object_name = text_check(
    lambda text: not text or is_object_name(text),
    "the name of an object: lower-case letters, digits, hyphens and dots",
)
"""An empty name counts as absent."""
_check_label_value = text_check(
    _VALUE.fullmatch,
    "at most 63 letters, digits, hyphens, underscores and dots, with a letter or digit at both ends",
)


def check_object_names(node: tree.Node, path: str) -> Iterator[Diagnostic]:
    for index, item in enumerate(tree.items_of(node)):
        yield from check_object_name(item, diagnostics.item(path, index))


def check_labels(node: tree.Node, path: str) -> Iterator[Diagnostic]:
    yield from _check_keys(node, path)
    for key, value in node.entries.items() if isinstance(node, tree.Mapping) else ():
        yield from _check_label_value(value, diagnostics.field(path, key))


def check_annotations(node: tree.Node, path: str) -> Iterator[Diagnostic]:
    yield from _check_keys(node, path)
    for key, position in node.keys.items() if isinstance(node, tree.Mapping) else ():
        if key in RESERVED_ANNOTATIONS:
            message = f"the job file has a field for this: use {RESERVED_ANNOTATIONS[key]} instead"
            yield diagnostics.error(position, diagnostics.field(path, key), message)


def _check_keys(node: tree.Node, path: str) -> Iterator[Diagnostic]:
    for key, position in node.keys.items() if isinstance(node, tree.Mapping) else ():
        match = _KEY.fullmatch(key)
        if match is None or (match[1] is not None and not is_object_name(match[1])):
            message = (
                f"found {diagnostics.quoted(key)}, expected a name such as team or example.com/team: "
                "at most 63 letters, digits, hyphens, underscores and dots"
            )
            yield diagnostics.error(position, diagnostics.field(path, key), message)


def check_quantity(
    node: tree.Node, path: str, expected: str = "a quantity above 0, such as 2, 0.5, 500m or 4Gi"
) -> Iterator[Diagnostic]:
    if not isinstance(node, tree.Scalar) or isinstance(node.value, bool):
        return
    text = str(node.value)
    if not kubernetes_validation.is_quantity(node) or text.startswith("-") or _ZERO.fullmatch(text):
        match = _BYTES.fullmatch(text)
        if match is None:
            yield from structural_validation.wrong_value(node, expected, path)
            return
        number, prefix, binary = match.groups()
        meant = f"{number}{'k' if prefix in 'kK' and not binary else prefix.upper()}{binary.lower()}"
        message = f"found the string {diagnostics.quoted(text)}, expected {expected}. Did you mean {meant}?"
        yield diagnostics.error(node, path, message, fix=Fix(Remedy.REPLACE, meant))


def check_memory(node: tree.Node, path: str) -> Iterator[Diagnostic]:
    yield from check_quantity(node, path)
    value = node.value if isinstance(node, tree.Scalar) else None
    number = str(value)
    if not isinstance(value, bool) and number.isdecimal() and 0 < int(number[:8]) < _MIN_MEMORY_BYTES:
        message = f"found {number}, which means {number} bytes, too little for any program. Did you mean {number}Gi?"
        yield diagnostics.error(node, path, message)


def check_resources(node: tree.Node, path: str) -> Iterator[Diagnostic]:
    return check_fields(node, {"cpus": check_quantity, "memory": check_memory, "gpus": _check_gpus}, path)


def _check_gpus(node: tree.Node, path: str) -> Iterator[Diagnostic]:
    shared = tree.dig(node, "shared")
    tasks = tree.integer_of(shared) if shared is not None else None
    if shared is not None and tasks is not None and tasks > 1:
        resource = tree.text_of(tree.dig(node, "resource") or node) or NVIDIA_GPU
        message = (
            f"up to {tasks} tasks share a GPU, but its memory is not divided: together they must fit into it. A "
            f"Kubernetes cluster must offer {resource}{SHARED_SUFFIX}, and the number of tasks per GPU is set there"
        )
        yield diagnostics.warning(shared, diagnostics.field(path, "shared"), message)


def check_single_source(
    node: tree.Mapping, found: list[str], sources: tuple[str, ...], path: str, fields: tuple[str, ...] = ()
) -> Iterator[Diagnostic]:
    """Require that exactly one source is set. `fields` are the valid keys; without them, no key counts as misspelt.

    If no source is set but a key resembles one, yield nothing: the misspelt key has its own diagnostic.
    """
    is_misspelt = any(
        diagnostics.nearest(key, fields) in sources for key in node.entries if key not in fields
    )
    if len(found) != 1 and (found or not is_misspelt):
        text = " and ".join(found) or "no source"
        yield diagnostics.error(node, path, f"found {text}, expected exactly one of {', '.join(sources)}")
