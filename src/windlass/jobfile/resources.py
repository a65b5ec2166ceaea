"""Check the resources of tasks and companions in a job file."""

import re
from collections.abc import Iterator

from windlass.wire import diagnostics, pod_schema, structural_validation
from windlass.wire.diagnostics import Diagnostic
from windlass.wire.yaml import tree

_ZERO = re.compile(r"[+-]?[0.]+(?:[A-Za-z].*)?")
_MIN_MEMORY_BYTES = 1_000_000
"""A smaller number without a unit is probably meant in another unit."""


def check(node: tree.Node, path: str) -> Iterator[Diagnostic]:
    for field, rule in (("cpus", check_quantity), ("memory", check_memory)):
        value = tree.dig(node, field)
        if value is not None:
            yield from rule(value, diagnostics.field(path, field))


def check_quantity(node: tree.Node, path: str) -> Iterator[Diagnostic]:
    if not isinstance(node, tree.Scalar) or isinstance(node.value, bool):
        return
    text = str(node.value)
    if not pod_schema.is_quantity(node) or text.startswith("-") or _ZERO.fullmatch(text):
        yield from structural_validation.wrong_type(
            node, "a quantity above 0, such as 2, 0.5, 500m or 4Gi", path
        )


def check_memory(node: tree.Node, path: str) -> Iterator[Diagnostic]:
    yield from check_quantity(node, path)
    value = node.value if isinstance(node, tree.Scalar) else None
    number = str(value)
    if not isinstance(value, bool) and number.isdecimal() and 0 < int(number[:8]) < _MIN_MEMORY_BYTES:
        message = f"found {number}, which means {number} bytes, too little for any program. Did you mean {number}Gi?"
        yield diagnostics.error(node, path, message)
