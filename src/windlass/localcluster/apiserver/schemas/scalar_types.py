"""The scalar types of built-in kinds, and the decoding errors of kube-apiserver for invalid values.

The messages are those of Go's JSON decoder and of types with their own decoder (times, quantities, int-or-string).
"""

import base64
import binascii
import calendar
import re
from collections.abc import Callable
from typing import Any

import msgspec

from windlass.k8s import quantities

_RFC3339 = re.compile(
    r"([0-9]{4})-(0[1-9]|1[0-2])-([0-2][0-9]|3[01])[Tt]([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]"
    r"(?:[.,][0-9]+)?(?:[Zz]|[+-](?:[01][0-9]|2[0-4]):[0-5][0-9])"
)
_LAYOUT = "2006-01-02T15:04:05Z07:00"
_LOOSE_QUANTITY = re.compile(r"([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)")
_QUANTITY_FORMAT = (
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
)
_QUANTITY_SUFFIX = "unable to parse quantity's suffix"
_INT64 = range(-(2**63), 2**63)
_ANY_TYPE = (str, bool, int, float, list, dict)
_INT64_FIELDS = frozenset(
    {
        *("activeDeadlineSeconds", "deletionGracePeriodSeconds", "expirationSeconds", "seconds"),
        *("terminationGracePeriodSeconds", "tolerationSeconds"),
        *("fsGroup", "runAsGroup", "runAsUser", "supplementalGroups", "gid", "uid"),
        *("generation", "observedGeneration"),
        *("maxItems", "maxLength", "maxProperties", "minItems", "minLength", "minProperties"),
    }
)


class Scalar(msgspec.Struct, frozen=True):
    """The JSON types and values that a scalar field accepts.

    `zero` replaces null in a list or a map. As in Go, neither the errors of a type with its own decoder nor those of
    `problem` name the field.
    """

    go_type: str
    types: tuple[type, ...]
    zero: object = None
    is_valid: Callable[[Any], bool] | None = None
    problem: Callable[[Any], str] | None = None
    has_own_decoder: bool = False


def is_date_time(text: str) -> bool:
    match = _RFC3339.fullmatch(text)
    if match is None:
        return False
    year, month, day = int(match[1]), int(match[2]), int(match[3])
    return 1 <= day <= 28 or 28 < day <= calendar.monthrange(year or 4, month)[1]


def go_integer_type(field: str) -> str:
    """Return the Go type of an integer field, which only error messages show."""
    return "int64" if field in _INT64_FIELDS else "int32"


def _time_problem(text: str) -> str:
    if is_date_time(text):
        return ""
    quoted = msgspec.json.encode(text).decode()
    return f'parsing time {quoted} as "{_LAYOUT}": cannot parse {quoted} as "2006"'


def _quantity_problem(value: object) -> str:
    if isinstance(value, (bool, list, dict)):
        return _QUANTITY_FORMAT
    text = str(value)
    if quantities.is_quantity(text):
        return ""
    is_close = _LOOSE_QUANTITY.fullmatch(text) is not None
    return _QUANTITY_SUFFIX if is_close else _QUANTITY_FORMAT


def _bytes_problem(text: str) -> str:
    stripped = text.replace("\r", "").replace("\n", "")
    try:
        base64.b64decode(stripped, validate=True)
    except (binascii.Error, ValueError):
        wrong = re.search(r"[^A-Za-z0-9+/]", stripped)
        return f"illegal base64 data at input byte {wrong.start() if wrong else len(stripped) - len(stripped) % 4}"
    return ""


SCALARS = {
    "string": Scalar("string", (str,), zero=""),
    "boolean": Scalar("bool", (bool,), zero=False),
    "integer": Scalar("int32", (int,), zero=0, is_valid=_INT64.__contains__),
    "number": Scalar("float64", (int, float), zero=0),
    "object": Scalar("map[string]interface {}", (dict,)),
    "any": Scalar("interface {}", _ANY_TYPE),
    "int-or-string": Scalar("int32", (int, str), zero=0, has_own_decoder=True),
    "date-time": Scalar("string", (str,), problem=_time_problem, has_own_decoder=True),
    "bytes": Scalar("[]uint8", (str,), zero="", problem=_bytes_problem),
    "quantity": Scalar("string", _ANY_TYPE, zero="0", problem=_quantity_problem, has_own_decoder=True),
}
