"""Structural validation of a tree against a model type: fields, types, limits, choices.

Field names and limits come from the `msgspec` structs. Other modules check rules that concern several fields.
"""

import functools
import re
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import msgspec
from msgspec import inspect

from windlass.model import framework, job, names, resources
from windlass.wire import diagnostics
from windlass.wire.diagnostics import Diagnostic, Fix, Remedy, Rule
from windlass.wire.yaml import tree

INT64 = range(-(2**63), 2**63)

_EXPLANATIONS = {
    names.ROLE_NAME_PATTERN: (
        "a role name of 1 to 63 lower-case letters and digits, without hyphens: "
        "pods are named {framework}-{role}-{index}"
    ),
    names.DNS_LABEL_PATTERN: (
        "a DNS label: 1 to 63 lower-case letters, digits and hyphens, with a letter or digit at both ends"
    ),
    names.TASK_PATTERN: "a task such as worker-0: the name of a role and an index",
    framework.INDEXES_PATTERN: "indexes of tasks such as 0-3,7",
    resources.GPU_RESOURCE_PATTERN: "nvidia.com/gpu, amd.com/gpu, or a MIG instance such as nvidia.com/mig-1g.10gb",
    job.VARIABLE_PATTERN: (
        "the name of a variable: letters, digits, underscores, hyphens and dots, not starting with a digit"
    ),
}


def check(
    node: tree.Node, struct: type[msgspec.Struct], path: str, *, is_open: bool = False
) -> Iterator[Diagnostic]:
    """Yield how a node differs from a struct. With `is_open`, unknown fields are allowed, but not in nested
    structs."""
    yield from _check_struct(node, _struct_type(struct), path, is_open=is_open)


def wrong_value(node: tree.Node, expected: str, path: str) -> Iterator[Diagnostic]:
    """Yield a diagnostic, unless the value already has one."""
    if not isinstance(node, tree.Invalid):
        fix = _quoting_fix(node, expected)
        advice = _QUOTING_ADVICE[fix.remedy] if fix is not None else ""
        message = f"found {describe(node)}, expected {expected}{advice}"
        yield diagnostics.error(node, path, message, Rule.WRONG_VALUE, fix)


def unknown_fields(node: tree.Mapping, known: tuple[str, ...], path: str) -> Iterator[Diagnostic]:
    for key in node.entries:
        if key not in known:
            yield diagnostics.error(
                node.keys[key],
                diagnostics.field(path, key),
                f"unknown field {diagnostics.quoted(key)}. {diagnostics.did_you_mean(key, known)}",
                diagnostics.unknown_field_rule(key, known),
                diagnostics.rename_fix(key, known, node.entries),
            )


def describe(node: tree.Node) -> str:
    """Return the value of a node in words."""
    match node:
        case tree.Mapping():
            return "a mapping"
        case tree.Sequence():
            return "a list"
        case tree.Scalar(value=None):
            return "null"
        case tree.Scalar(value=bool() as value):
            return f"the boolean {diagnostics.quoted(value)}"
        case tree.Scalar(value=str() as value):
            return f"the string {diagnostics.quoted(value)}"
        case tree.Scalar(value=value):
            return f"the number {diagnostics.quoted(value)}"
        case tree.Invalid():
            return "an invalid value"


def field_names(struct: type[msgspec.Struct]) -> tuple[str, ...]:
    """Return the names that the fields of a struct have in files."""
    return tuple(field.encode_name for field in msgspec.structs.fields(struct))


@functools.cache
def _struct_type(struct: type[msgspec.Struct]) -> inspect.StructType:
    struct_type = inspect.type_info(struct)
    assert isinstance(struct_type, inspect.StructType)  # noqa: S101 — narrows the type
    return struct_type


def _check_struct(
    node: tree.Node, struct: inspect.StructType, path: str, *, is_open: bool = False
) -> Iterator[Diagnostic]:
    if not isinstance(node, tree.Mapping):
        yield from wrong_value(node, "a mapping", path)
        return
    fields = {field.encode_name: field for field in struct.fields}
    known = tuple(fields)
    unknown = [key for key in node.entries if key not in fields]
    if not is_open:
        yield from unknown_fields(node, known, path)
    misspelt = {diagnostics.nearest(key, known) for key in unknown}
    for name, field in fields.items():
        value = node.get(name)
        if value is not None:
            yield from _check_type(value, field.type, diagnostics.field(path, name))
        elif field.required and name not in misspelt:
            yield diagnostics.missing_field(node, path, name)


def _check_type(node: tree.Node, type_: inspect.Type, path: str) -> Iterator[Diagnostic]:
    match type_:
        case inspect.StructType():
            yield from _check_struct(node, type_, path)
        case inspect.Metadata():
            yield from _check_described(node, type_, path)
        case inspect.UnionType():
            yield from _check_union(node, type_, path)
        case inspect.VarTupleType():
            yield from _check_items(node, type_.item_type, path)
        case inspect.DictType():
            yield from _check_values(node, type_, path)
        case _:
            yield from _check_scalar(node, type_, path)


def _check_scalar(node: tree.Node, type_: inspect.Type, path: str) -> Iterator[Diagnostic]:
    match type_:
        case inspect.EnumType():
            yield from _check_choice(node, tuple(str(member.value) for member in type_.cls), path)
        case inspect.IntType() | inspect.FloatType():
            yield from _check_number(node, type_, path)
        case inspect.StrType():
            yield from _check_string(node, type_, path)
        case inspect.BoolType():
            if not (isinstance(node, tree.Scalar) and isinstance(node.value, bool)):
                yield from wrong_value(node, "true or false", path)
        case inspect.DateTimeType():
            if not _is_a_time(node):
                yield from wrong_value(node, "a time such as 2018-06-14T21:53:04Z", path)


def _check_described(node: tree.Node, type_: inspect.Metadata, path: str) -> Iterator[Diagnostic]:
    """Check against a type with metadata. Its description, if any, is the best explanation of what is expected."""
    expected = (type_.extra_json_schema or {}).get("description")
    if expected is not None and not _accepts(type_.type, node):
        yield from wrong_value(node, expected, path)
    else:
        yield from _check_type(node, type_.type, path)


def _check_union(node: tree.Node, union: inspect.UnionType, path: str) -> Iterator[Diagnostic]:
    """Check against the first type that accepts the node, or against the only one.

    None is not a choice, because `tree.Mapping.get` treats null fields as absent.
    """
    choices = [type_ for type_ in union.types if not isinstance(type_, inspect.NoneType)]
    accepted = next((type_ for type_ in choices if _accepts(type_, node)), None)
    if accepted is not None or len(choices) == 1:
        yield from _check_type(node, accepted or choices[0], path)
    else:
        yield from wrong_value(node, " or ".join(_type_name(type_) for type_ in choices), path)


def _accepts(type_: inspect.Type, node: tree.Node) -> bool:
    """Return whether the node has the right type, apart from limits, items and fields."""
    match type_:
        case inspect.Metadata():
            return _accepts(type_.type, node)
        case inspect.UnionType():
            return any(_accepts(choice, node) for choice in type_.types)
        case inspect.StructType() | inspect.DictType():
            return isinstance(node, tree.Mapping)
        case inspect.VarTupleType():
            return isinstance(node, tree.Sequence)
    value = node.value if isinstance(node, tree.Scalar) else None
    match type_:
        case inspect.BoolType():
            return isinstance(value, bool)
        case inspect.IntType():
            return tree.integer_of(node) is not None
        case inspect.FloatType():
            return isinstance(value, float)
    return isinstance(value, str)


def _type_name(type_: inspect.Type) -> str:
    match type_:
        case inspect.StructType() | inspect.DictType():
            return "a mapping"
        case inspect.VarTupleType():
            return "a list"
        case inspect.BoolType():
            return "true or false"
        case inspect.IntType():
            return "an integer"
        case inspect.FloatType():
            return "a number"
    return "a string"


def _check_items(node: tree.Node, type_: inspect.Type, path: str) -> Iterator[Diagnostic]:
    if not isinstance(node, tree.Sequence):
        yield from wrong_value(node, "a list", path)
        return
    for index, item in enumerate(node.items):
        yield from _check_type(item, type_, diagnostics.item(path, index))


def _check_values(node: tree.Node, type_: inspect.DictType, path: str) -> Iterator[Diagnostic]:
    if not isinstance(node, tree.Mapping):
        yield from wrong_value(node, "a mapping", path)
        return
    for key, value in node.entries.items():
        place = node.keys[key]
        yield from _check_type(
            tree.Scalar(key, place.line, place.column), type_.key_type, diagnostics.field(path, key)
        )
        yield from _check_type(value, type_.value_type, diagnostics.field(path, key))


def _check_choice(node: tree.Node, choices: tuple[str, ...], path: str) -> Iterator[Diagnostic]:
    text = tree.text_of(node)
    if text in choices:
        return
    suggestion = diagnostics.nearest(text, choices) if text is not None else None
    hint = f'. Did you mean "{suggestion}"?' if suggestion is not None else ""
    yield from wrong_value(node, f"one of {', '.join(choices)}{hint}", path)


def _check_number(
    node: tree.Node, type_: inspect.IntType | inspect.FloatType, path: str
) -> Iterator[Diagnostic]:
    value: Any = node.value if isinstance(node, tree.Scalar) else None
    is_whole_number = tree.integer_of(node) is not None
    is_a_number = is_whole_number or (isinstance(value, float) and isinstance(type_, inspect.FloatType))
    word = "an integer" if isinstance(type_, inspect.IntType) else "a number"
    if not is_a_number:
        yield from wrong_value(node, f"{word}{_limits(type_)}", path)
    elif not _is_within(value, type_) or (is_whole_number and value not in INT64):
        yield from wrong_value(node, f"{word}{_limits(type_) or ' of at most 64 bits'}", path)


def _is_within(value: float, type_: inspect.IntType | inspect.FloatType) -> bool:
    return (type_.ge is None or value >= type_.ge) and (type_.le is None or value <= type_.le)


def _limits(type_: inspect.IntType | inspect.FloatType) -> str:
    if type_.ge is not None and type_.le is not None:
        return f" from {type_.ge} to {type_.le}"
    return f" of at least {type_.ge}" if type_.ge is not None else ""


def _check_string(node: tree.Node, type_: inspect.StrType, path: str) -> Iterator[Diagnostic]:
    text = tree.text_of(node)
    explanation = _EXPLANATIONS.get(type_.pattern or "", f"a string that matches {type_.pattern}")
    if text is None:
        yield from wrong_value(node, explanation if type_.pattern else "a string", path)
    elif type_.pattern is not None and re.fullmatch(type_.pattern, text) is None:
        yield from wrong_value(node, explanation, path)


def _is_a_time(node: tree.Node) -> bool:
    try:
        msgspec.convert(tree.text_of(node), datetime)
    except msgspec.ValidationError:
        return False
    return True


_QUOTING_ADVICE = {Remedy.QUOTE: ": put it in quotes", Remedy.UNQUOTE: ": remove the quotes"}


def _quoting_fix(node: tree.Node, expected: str) -> Fix | None:
    if not isinstance(node, tree.Scalar) or node.value is None:
        return None
    is_text = isinstance(node.value, str)
    if not is_text and expected.startswith("a string"):
        return Fix(Remedy.QUOTE)
    if is_text and expected.startswith("an integer") and _is_integer_without_quotes(str(node.value)):
        return Fix(Remedy.UNQUOTE, str(node.value))
    return None


def _is_integer_without_quotes(text: str) -> bool:
    """Return whether the text without quotes is the same integer. 010 would be an octal number."""
    return text.isascii() and text.isdecimal() and (text == "0" or text[0] != "0")
