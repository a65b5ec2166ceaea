"""Nobody writes a status by hand, so it is not checked: but it should not vanish without a word either."""

from collections.abc import Iterator

import msgspec

from windlass.model.status import FrameworkStatus
from windlass.wire import diagnostics
from windlass.wire.diagnostics import Diagnostic
from windlass.wire.yaml import tree


def check(node: tree.Mapping, path: str) -> Iterator[Diagnostic]:
    """Of a Framework."""
    status = node.get("status")
    is_empty = status is None or (isinstance(status, tree.Mapping) and not status.entries)
    if status is not None and not is_empty and not _holds_faults(status) and not _is_one(status):
        yield diagnostics.warning(
            status,
            diagnostics.field(path, "status"),
            "this is no status that a controller wrote; it is not read",
        )


def _holds_faults(node: tree.Node) -> bool:
    match node:
        case tree.Mapping():
            return any(_holds_faults(value) for value in node.entries.values())
        case tree.Sequence():
            return any(_holds_faults(item) for item in node.items)
    return isinstance(node, tree.Invalid)


def _is_one(status: tree.Node) -> bool:
    try:
        msgspec.convert(tree.plain(status), FrameworkStatus)
    except msgspec.ValidationError:
        return False
    return True
