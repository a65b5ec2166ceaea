"""Does a tree have the shape of a model type: fields, types, limits, choices. Rules between fields live elsewhere.

The types are read from the `msgspec` structs themselves, so that no field name and no limit is written twice.
"""

import functools
import re
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import msgspec
from msgspec import inspect

from windlass.model import names
from windlass.wire import faults, tree
from windlass.wire.faults import Fault

INT64 = range(-(2**63), 2**63)

_EXPLANATIONS = {
    names.ROLE_NAME_PATTERN: (
        "a role name of 1 to 63 lower-case letters and digits, without a hyphen: "
        "pods are called {framework}-{role}-{index}, and that has to stay readable"
    ),
}


def check(
    node: tree.Node, struct: type[msgspec.Struct], path: str, *, is_open: bool = False
) -> Iterator[Fault]:
    """Everything in which the node differs from the struct. An open one may have fields that the struct has not."""
    yield from _check_struct(node, _described(struct), path, is_open=is_open)


def wrong_type(node: tree.Node, expected: str, path: str) -> Iterator[Fault]:
    """One fault, or none where the value is known to be faulty already."""
    if not isinstance(node, tree.Invalid):
        yield faults.error(
            node, path, f"found {described(node)}, expected {expected}{_quoting_advice(node, expected)}"
        )


def described(node: tree.Node) -> str:
    """What stands there, in words."""
    match node:
        case tree.Mapping():
            return "a mapping"
        case tree.Sequence():
            return "a list"
        case tree.Scalar(value=None):
            return "null"
        case tree.Scalar(value=bool() as value):
            return f"the boolean {faults.quoted(value)}"
        case tree.Scalar(value=str() as value):
            return f"the string {faults.quoted(value)}"
        case tree.Scalar(value=value):
            return f"the number {faults.quoted(value)}"
        case tree.Invalid():
            return "a faulty value"


def is_integer(node: tree.Node) -> bool:
    return isinstance(node, tree.Scalar) and isinstance(node.value, int) and not isinstance(node.value, bool)


def field_names(struct: type[msgspec.Struct]) -> tuple[str, ...]:
    """As they are written in a file."""
    return tuple(field.encode_name for field in msgspec.structs.fields(struct))


@functools.cache
def _described(struct: type[msgspec.Struct]) -> inspect.StructType:
    description = inspect.type_info(struct)
    assert isinstance(description, inspect.StructType)  # noqa: S101 — what a struct is described by
    return description


def _check_struct(
    node: tree.Node, struct: inspect.StructType, path: str, *, is_open: bool = False
) -> Iterator[Fault]:
    if not isinstance(node, tree.Mapping):
        yield from wrong_type(node, "a mapping", path)
        return
    fields = {field.encode_name: field for field in struct.fields}
    known = tuple(fields)
    unknown = [key for key in node.entries if key not in fields]
    if not is_open:
        for key in unknown:
            yield faults.error(
                node.keys[key],
                faults.field(path, key),
                f"there is no field of this name here: it would be dropped, as if it were not written. "
                f"{faults.did_you_mean(key, known)}",
            )
    written_differently = {faults.nearest(key, known) for key in unknown}
    for name, field in fields.items():
        value = node.get(name)
        if value is not None:
            yield from _check_type(value, field.type, faults.field(path, name))
        elif field.required and name not in written_differently:
            yield faults.error(node, path, f'the field "{name}" is missing, and has to be there')


def _check_type(node: tree.Node, kind: inspect.Type, path: str) -> Iterator[Fault]:
    match kind:
        case inspect.StructType():
            yield from _check_struct(node, kind, path)
        case inspect.UnionType():
            yield from _check_type(node, _written_choice(kind), path)
        case inspect.VarTupleType():
            yield from _check_items(node, kind.item_type, path)
        case inspect.DictType():
            yield from _check_values(node, kind.value_type, path)
        case inspect.EnumType():
            yield from _check_choice(node, tuple(str(member.value) for member in kind.cls), path)
        case inspect.IntType() | inspect.FloatType():
            yield from _check_number(node, kind, path)
        case inspect.StrType():
            yield from _check_string(node, kind, path)
        case inspect.BoolType():
            if not (isinstance(node, tree.Scalar) and isinstance(node.value, bool)):
                yield from wrong_type(node, "true or false", path)
        case inspect.DateTimeType():
            if not _is_a_time(node):
                yield from wrong_type(node, "a time such as 2018-06-14T21:53:04Z", path)


def _written_choice(union: inspect.UnionType) -> inspect.Type:
    """Of an optional type, the type: a null never gets here."""
    return next(kind for kind in union.types if not isinstance(kind, inspect.NoneType))


def _check_items(node: tree.Node, kind: inspect.Type, path: str) -> Iterator[Fault]:
    if not isinstance(node, tree.Sequence):
        yield from wrong_type(node, "a list", path)
        return
    for index, item in enumerate(node.items):
        yield from _check_type(item, kind, faults.item(path, index))


def _check_values(node: tree.Node, kind: inspect.Type, path: str) -> Iterator[Fault]:
    if not isinstance(node, tree.Mapping):
        yield from wrong_type(node, "a mapping", path)
        return
    for key, value in node.entries.items():
        yield from _check_type(value, kind, faults.field(path, key))


def _check_choice(node: tree.Node, choices: tuple[str, ...], path: str) -> Iterator[Fault]:
    text = tree.text_of(node)
    if text in choices:
        return
    suggestion = faults.nearest(text, choices) if text is not None else None
    hint = f'; did you mean "{suggestion}"?' if suggestion is not None else ""
    yield from wrong_type(node, f"one of {', '.join(choices)}{hint}", path)


def _check_number(node: tree.Node, kind: inspect.IntType | inspect.FloatType, path: str) -> Iterator[Fault]:
    value: Any = node.value if isinstance(node, tree.Scalar) else None
    is_whole = is_integer(node)
    is_a_number = is_whole or (isinstance(value, float) and isinstance(kind, inspect.FloatType))
    word = "an integer" if isinstance(kind, inspect.IntType) else "a number"
    if not is_a_number:
        yield from wrong_type(node, f"{word}{_limits(kind)}", path)
    elif not _is_within(value, kind) or (is_whole and value not in INT64):
        yield from wrong_type(node, f"{word}{_limits(kind) or ' of at most 64 bits'}", path)


def _is_within(value: float, kind: inspect.IntType | inspect.FloatType) -> bool:
    return (kind.ge is None or value >= kind.ge) and (kind.le is None or value <= kind.le)


def _limits(kind: inspect.IntType | inspect.FloatType) -> str:
    if kind.ge is not None and kind.le is not None:
        return f" from {kind.ge} to {kind.le}"
    return f" of at least {kind.ge}" if kind.ge is not None else ""


def _check_string(node: tree.Node, kind: inspect.StrType, path: str) -> Iterator[Fault]:
    text = tree.text_of(node)
    explanation = _EXPLANATIONS.get(kind.pattern or "", f"a string that matches {kind.pattern}")
    if text is None:
        yield from wrong_type(node, explanation if kind.pattern else "a string", path)
    elif kind.pattern is not None and re.fullmatch(kind.pattern, text) is None:
        yield from wrong_type(node, explanation, path)


def _is_a_time(node: tree.Node) -> bool:
    try:
        msgspec.convert(tree.text_of(node), datetime)
    except msgspec.ValidationError:
        return False
    return True


def _quoting_advice(node: tree.Node, expected: str) -> str:
    if not isinstance(node, tree.Scalar) or node.value is None:
        return ""
    is_text = isinstance(node.value, str)
    if not is_text and expected.startswith("a string"):
        return ": put it in quotes"
    if is_text and expected.startswith("an integer") and str(node.value).isdigit():
        return ": remove the quotes"
    return ""
