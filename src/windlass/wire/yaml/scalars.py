"""What a plain YAML scalar means: as the YAML reader of Kubernetes (sigs.k8s.io/yaml) has it.

That is YAML 1.1 with that reader's own ideas: `y` and `on` are booleans, `0644` is octal, `1e9` is a number,
`22:30` and dates are strings. What kubectl would send is what we read.
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
_MAY_MEAN_A_NUMBER = frozenset("+-.0123456789")
_LONGEST_NUMBER = 330
"""Every finite float fits; longer digits are text, so that nobody waits for them to be converted."""

_INTEGER = re.compile(r"([-+]?)(?:0[xX]([0-9a-fA-F]+)|0[oO]?([0-7]+)|0[bB]([01]+)|(0|[1-9][0-9]*))")
_BASES = (16, 8, 2, 10)
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_UNSIGNED_64 = 2**64
_WRITTEN_WITHOUT_EXPONENT = 1e21


def resolve(text: str) -> Scalar:
    """The value of a plain scalar. NaN and the infinities come out as such; JSON has no way to write them."""
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in _MAY_MEAN_A_NUMBER or len(text) > _LONGEST_NUMBER:
        return text
    digits = text if text[0] == "." else text.replace("_", "")
    integer = _INTEGER.fullmatch(digits)
    if integer is not None:
        number = _integer(integer)
        # A decimal beyond 64 bits is a float to that reader, as below.
        if integer[5] is None or -_UNSIGNED_64 // 2 <= number < _UNSIGNED_64:
            return number
    if _FLOAT.fullmatch(digits) is None or math.isinf(float(digits)):
        return text
    return _as_json_writes_it(float(digits))


def means_a_string(text: str) -> bool:
    """Whether a plain scalar with this text comes back as this very string."""
    return isinstance(resolve(text), str)


def _integer(match: re.Match[str]) -> int:
    digits, base = next(
        (group, base) for group, base in zip(match.groups()[1:], _BASES, strict=True) if group
    )
    return int(match[1] + digits, base)


def _as_json_writes_it(number: float) -> int | float:
    """`3.0` and `1e9` reach the API server as 3 and 1000000000, and may stand where an integer is wanted."""
    return int(number) if number.is_integer() and abs(number) < _WRITTEN_WITHOUT_EXPONENT else number
