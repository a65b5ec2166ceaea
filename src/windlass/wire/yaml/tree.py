"""Documents in which every key, value and list item knows its line and column, and how to walk them.

How they are read from bytes is in `parsing`, what they should say is checked elsewhere. A tree is at most
`parsing.DEEPEST` levels deep, aliases included, so whoever walks one may recurse.
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
    """Where each key stands; a key that was merged in stands where it was written."""
    line: int
    column: int

    def get(self, key: str) -> "Node | None":
        """The value of a key; a null counts as absent, as it does to Kubernetes."""
        node = self.entries.get(key)
        return None if isinstance(node, Scalar) and node.value is None else node


class Invalid(msgspec.Struct, frozen=True, gc=False):
    """A value that was found faulty already, and about which nothing more should be said."""

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
    """Those that were read to their end."""
    failure: Diagnostic | None = None
    """Why reading stopped, if it did."""


def plain(node: Node) -> Any:
    """The same value without places: what a JSON decoder would have given."""
    match node:
        case Scalar(value=value):
            return value
        case Sequence(items=items):
            return [plain(item) for item in items]
        case Mapping(entries=entries):
            return {key: plain(value) for key, value in entries.items()}
        case Invalid():
            raise ValueError(f"line {node.line}: a faulty value has no plain form")


def without_nulls(value: Any) -> Any:
    """A plain value without the fields that are null: to Kubernetes they are absent, to a model of the wrong type."""
    if isinstance(value, dict):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    return [without_nulls(item) for item in value] if isinstance(value, list) else value


def dig(node: Node | None, *keys: str) -> Node | None:
    """The value under a path of keys, if there is one."""
    for key in keys:
        node = node.get(key) if isinstance(node, Mapping) else None
    return node


def items_of(node: Node | None) -> tuple[Node, ...]:
    return node.items if isinstance(node, Sequence) else ()


def text_of(node: Node | None) -> str | None:
    return node.value if isinstance(node, Scalar) and isinstance(node.value, str) else None
