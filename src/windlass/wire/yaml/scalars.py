"""Resolve plain YAML scalars as Kubernetes does (sigs.k8s.io/yaml).

As in YAML 1.1, `y` and `on` are booleans, and `0644` is octal. Unlike in YAML 1.1, `1e9` is a number, and `22:30` and
dates are strings.
"""

import math
import re

Scalar = str | int | float | bool | None

_WORDS: dict[str, Scalar] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"), False),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), math.nan),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), math.inf),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), -math.inf),
}
_NUMBER_STARTS = frozenset("+-.0123456789")
_MAX_NUMBER_LENGTH = 330
"""No finite float needs more digits. Longer scalars remain strings, because their conversion would be slow."""

_INTEGER = re.compile(r"([-+]?)(?:0[xX]([0-9a-fA-F]+)|0[oO]?([0-7]+)|0[bB]([01]+)|(0|[1-9][0-9]*))")
_BASES = (16, 8, 2, 10)
FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_UNSIGNED_64 = 2**64
_MIN_EXPONENT_NOTATION = 1e21


def resolve(text: str) -> Scalar:
    """Return the value of a plain scalar, including NaN and infinities."""
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in _NUMBER_STARTS or len(text) > _MAX_NUMBER_LENGTH:
        return text
    digits = text if text[0] == "." else text.replace("_", "")
    integer = _INTEGER.fullmatch(digits)
    if integer is not None:
        number = _integer(integer)
        # A decimal integer of more than 64 bits is resolved as a float below.
        if integer[5] is None or -_UNSIGNED_64 // 2 <= number < _UNSIGNED_64:
            return number
    if FLOAT.fullmatch(digits) is None or math.isinf(float(digits)):
        return text
    return _as_json_number(float(digits))


def is_string(text: str) -> bool:
    """Return whether a plain scalar with this text is a string."""
    return isinstance(resolve(text), str)


def _integer(match: re.Match[str]) -> int:
    digits, base = next(
        (group, base) for group, base in zip(match.groups()[1:], _BASES, strict=True) if group
    )
    return int(match[1] + digits, base)


def _as_json_number(number: float) -> int | float:
    """Convert `3.0` and `1e9` to integers, as in the JSON that the API server receives."""
    return int(number) if number.is_integer() and abs(number) < _MIN_EXPONENT_NOTATION else number
