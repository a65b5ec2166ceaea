"""Upper bounds of the sizes of texts that expressions in templates create. A short one could exhaust the memory."""

import re
from collections.abc import Iterable, Mapping, Sized
from typing import Any

_PERCENT = re.compile(r"%(?:\([^)%]*\))?[-+ #0]*([0-9]*\*?)(?:\.([0-9]*\*?))?")
_SPECIFICATION = re.compile(r"[:}]([^:{}]*)\}")
_NESTED = re.compile(r"\{[^{}:]*:[^{}]*\{")
_DIGITS = re.compile("[0-9]{1,12}")
_UNBOUNDED = 1 << 62


def product(subject: Any, arguments: Iterable[Any]) -> int:
    """Return the bound of an operation that adds an argument, or a number of characters, to each part of a value."""
    return max(1, _size(subject)) * max(1, *map(_size, arguments), 1)


def joined(texts: Iterable[Any], separator: str) -> int:
    return sum((len(text) if isinstance(text, str) else 0) + len(separator) for text in texts)


def percent_formatted(text: str, values: Any) -> int:
    """Return the bound of `text % values`."""
    arguments = _arguments(values)
    widths = [width for field in _PERCENT.findall(text) for width in field if width]
    if any("*" in width for width in widths):
        widths += [str(abs(each)) for each in arguments if isinstance(each, int)]
    return len(text) + text.count("%") * _longest(widths, arguments)


def brace_formatted(text: str, values: Iterable[Any]) -> int:
    """Return the bound of `text.format(values)`; none if a width is an argument."""
    text = text.replace("{{", "")
    if _NESTED.search(text):
        return _UNBOUNDED
    return len(text) + text.count("{") * _longest(_SPECIFICATION.findall(text), values)


def _longest(widths: Iterable[str], arguments: Iterable[Any]) -> int:
    numbers = (int(digits) for width in widths for digits in _DIGITS.findall(width))
    return max((1, *numbers, *(len(str(each)) for each in arguments)))


def _arguments(values: Any) -> tuple[Any, ...]:
    if isinstance(values, Mapping):
        return tuple(values.values())
    return values if isinstance(values, tuple) else (values,)


def _size(value: Any) -> int:
    if isinstance(value, int):
        return abs(value)
    if isinstance(value, Mapping):
        return max(map(_size, value.values()), default=0)
    return len(value) if isinstance(value, Sized) else 0
