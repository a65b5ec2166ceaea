"""JSONPaths of printer columns: `.spec.replicas`, `.status.conditions[?(@.type=="Ready")].status`, `['a\\.b'][0]`.

The syntax is that of kubectl, but unions, `..` and `range` are not supported. A path finds no values at all if one
step fails, e.g. an index into a mapping, an index out of range, or a comparison of 2 with 2.5.
"""

import operator
import re
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

_STEP = re.compile(
    r"""
      \.(?P<field>(?:\\.|[^\s.,\[\]$@{}\\])*)
    | \['(?P<key>[^']*)'\]
    | \[\?\((?P<filter>(?:"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|[^)"'])*)\)\]
    | \[(?P<all_elements>\*)\]
    | \[(?P<index>-?\d+)\]
    | \[(?P<slice>-?\d*:-?\d*(?::\d+)?)\]
    """,
    re.VERBOSE,
)
_COMPARISON = re.compile(r"(?P<left>[^!<>=]+)(?P<operator>[!<>=]+)(?P<right>.+)", re.DOTALL)
_NUMBER = re.compile(r"[+-]?\d+(\.\d+)?")
_OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


class _MismatchError(Exception):
    """A step fails: a type mismatch, an index out of range, or several values in a comparison."""


class _Field(msgspec.Struct, frozen=True):
    name: str

    def select(self, value: Any) -> Iterator[Any]:
        if isinstance(value, dict) and self.name in value:
            yield value[self.name]


class _Every(msgspec.Struct, frozen=True):
    """`.*`: the values of a mapping or the elements of a list."""

    def select(self, value: Any) -> Iterator[Any]:
        if isinstance(value, dict):
            yield from value.values()
        elif isinstance(value, list):
            yield from value


class _Elements(msgspec.Struct, frozen=True):
    """`[2]`, `[-1]`, `[1:3]` or `[*]`. `index` is set in the first two only."""

    index: int | None
    start: int | None = None
    stop: int | None = None
    step: int | None = None

    def select(self, value: Any) -> Iterator[Any]:
        if value is None:
            return
        if not isinstance(value, list):
            raise _MismatchError
        if self.index is None:
            yield from value[self.start : self.stop : self.step]
        elif -len(value) <= self.index < len(value):
            yield value[self.index]
        else:
            raise _MismatchError


class _Filter(msgspec.Struct, frozen=True):
    """`[?(@.left == right)]`; without an operator, it selects the elements that have `left`."""

    left: "Path"
    operator: str = ""
    right: "Path | str | int | float | bool" = ""

    def select(self, value: Any) -> Iterator[Any]:
        if not isinstance(value, list):
            raise _MismatchError
        for element in value:
            if self._accepts(element):
                yield element

    def _accepts(self, element: Any) -> bool:
        found = self.left.walk(element)
        if not self.operator:
            return bool(found)
        expected = self.right.walk(element) if isinstance(self.right, Path) else [self.right]
        if not found or not expected:
            return False
        if len(found) > 1 or len(expected) > 1 or _comparable_type(found[0]) != _comparable_type(expected[0]):
            raise _MismatchError
        return _OPERATORS[self.operator](found[0], expected[0])


class Path(msgspec.Struct, frozen=True):
    steps: tuple[_Field | _Every | _Elements | _Filter, ...]

    def find(self, value: Any) -> list[Any]:
        """Return all values at the path, in order; none if a step fails."""
        try:
            return self.walk(value)
        except _MismatchError:
            return []

    def walk(self, value: Any) -> list[Any]:
        """Return all values at the path, in order. Raise _MismatchError if a step fails."""
        values = [value]
        for step in self.steps:
            values = [found for each in values for found in step.select(each)]
        return values


def parse(text: str) -> Path:
    """Parse a path, or raise ValueError."""
    steps: list[_Field | _Every | _Elements | _Filter] = []
    position = 1 if text[:1] in ("$", "@") else 0
    while position < len(text):
        match = _STEP.match(text, position)
        is_single_dot = match is not None and match[0] == "." and text != "."
        if match is None or is_single_dot:
            raise ValueError(f"cannot parse {text[position:]!r} in the JSONPath {text!r}")
        steps.extend(_steps(match))
        position = match.end()
    return Path(tuple(steps))


def _steps(match: re.Match[str]) -> tuple[_Field | _Every | _Elements | _Filter, ...]:
    group, text = match.lastgroup, match[match.lastgroup or 0]
    match group:
        case "field":
            return (_Every() if text == "*" else _Field(text.replace("\\", "")),)
        case "key":
            # Kubernetes reads ['a.b'] as .a.b, so a dot in a name has to be escaped here too.
            return parse(f".{text}").steps
        case "all_elements":
            return (_Elements(None),)
        case "index":
            return (_Elements(int(text)),)
        case "slice":
            return (_Elements(None, *(int(bound) if bound else None for bound in text.split(":"))),)
    return (_filter(text),)


def _filter(text: str) -> _Filter:
    comparison = _COMPARISON.fullmatch(text)
    if comparison is None:
        return _Filter(parse(text.strip()))
    if comparison["operator"] not in _OPERATORS:
        raise ValueError(f"unknown operator {comparison['operator']!r} in the filter {text!r}")
    return _Filter(
        parse(comparison["left"].strip()), comparison["operator"], _operand(comparison["right"].strip())
    )


def _operand(text: str) -> Path | str | int | float | bool:
    is_quoted = len(text) > 1 and text[0] in "\"'" and text[-1] == text[0]
    if is_quoted:
        return re.sub(r"\\(.)", r"\1", text[1:-1])
    if text in ("true", "false"):
        return text == "true"
    if _NUMBER.fullmatch(text):
        return float(text) if "." in text else int(text)
    return parse(text)


def _comparable_type(value: Any) -> str:
    """Return the type of a scalar. Values of different types are not comparable, not even 2 and 2.5."""
    if isinstance(value, (bool, int, float, str)):
        return type(value).__name__
    raise _MismatchError
