"""YAML documents as trees, with the position of every key, value and list item.

With aliases expanded, a tree has at most `parse.MAX_DEPTH` levels, so functions may recurse.
"""

from typing import Any

import msgspec

from windlass.wire.diagnostics import Diagnostic
from windlass.wire.yaml import scalars
from windlass.wire.yaml.text import Position


class Scalar(msgspec.Struct, frozen=True, gc=False):
    value: scalars.Scalar
    line: int
    column: int


class Sequence(msgspec.Struct, frozen=True, gc=False):
    items: tuple["Node", ...]
    line: int
    column: int


class Mapping(msgspec.Struct, frozen=True, gc=False):
    entries: dict[str, "Node"]
    keys: dict[str, Position]
    """The position of each key. A merged key has the position of its source."""
    line: int
    column: int

    def get(self, key: str) -> "Node | None":
        """Return the value of a key. Null counts as absent, as in Kubernetes."""
        node = self.entries.get(key)
        return None if isinstance(node, Scalar) and node.value is None else node


class Invalid(msgspec.Struct, frozen=True, gc=False):
    """A value that already has a diagnostic."""

    line: int
    column: int


Node = Scalar | Sequence | Mapping | Invalid


class Document(msgspec.Struct, frozen=True):
    root: Node
    diagnostics: tuple[Diagnostic, ...] = ()

    @property
    def is_empty(self) -> bool:
        return isinstance(self.root, Scalar) and self.root.value is None


class Parsed(msgspec.Struct, frozen=True):
    documents: tuple[Document, ...]
    """The documents that were parsed completely."""
    failure: Diagnostic | None = None
    """The error at which parsing stopped, if any."""


def plain(node: Node) -> Any:
    """Return the value without positions, like a JSON decoder. Raises ValueError for an invalid value."""
    match node:
        case Scalar(value=value):
            return value
        case Sequence(items=items):
            return [plain(item) for item in items]
        case Mapping(entries=entries):
            return {key: plain(value) for key, value in entries.items()}
        case Invalid():
            raise ValueError(f"line {node.line}: an invalid value has no plain form")


def without_nulls(value: Any) -> Any:
    """Return a plain value without fields that are null, which count as absent."""
    if isinstance(value, dict):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    return [without_nulls(item) for item in value] if isinstance(value, list) else value


def dig(node: Node | None, *keys: str) -> Node | None:
    """Return the value at a path of keys, or None."""
    for key in keys:
        node = node.get(key) if isinstance(node, Mapping) else None
    return node


def items_of(node: Node | None) -> tuple[Node, ...]:
    return node.items if isinstance(node, Sequence) else ()


def integer_of(node: Node | None) -> int | None:
    """Return the value of an integer; None for anything else, including booleans."""
    value = node.value if isinstance(node, Scalar) else None
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def text_of(node: Node | None) -> str | None:
    return node.value if isinstance(node, Scalar) and isinstance(node.value, str) else None
