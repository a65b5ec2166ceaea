"""Write a value as YAML on one line, for templates. Parsers read the value back unchanged in any context.

The output is JSON, except where JSON is not valid YAML. All strings are quoted.
"""

import json
import math
import re
from collections.abc import Mapping
from typing import Any

_MAX_IMPLICIT_KEY = 900
"""YAML parsers expect the colon of an implicit key (one without `?`) within 1024 characters."""
_UNSAFE = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
"""Characters that YAML forbids or reads as line breaks."""


class NotYamlError(ValueError):
    """A value cannot be written as YAML for Kubernetes."""


def dump(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int():
            return str(int(value))
        case float():
            return _dump_float(value)
        case str():
            return _dump_string(value)
        case Mapping():
            return f"{{{', '.join(_dump_entry(key, item) for key, item in value.items())}}}"
        case list() | tuple():
            return f"[{', '.join(map(dump, value))}]"
        case _:
            raise NotYamlError(f"a value of the type {type(value).__name__} cannot be written as YAML")


def _dump_entry(key: Any, value: Any) -> str:
    if not isinstance(key, str):
        raise NotYamlError(f"the key {key!r} is not a string, which Kubernetes requires")
    written = _dump_string(key)
    return f"{'? ' if len(written) > _MAX_IMPLICIT_KEY else ''}{written}: {dump(value)}"


def _dump_float(value: float) -> str:
    """Return a number with a decimal point: some parsers read 1e+22 as a string."""
    if not math.isfinite(value):
        raise NotYamlError(f"the number {value} cannot be written: Kubernetes has finite numbers only")
    digits, exponent, power = repr(float(value)).partition("e")
    return f"{digits}{'' if '.' in digits else '.0'}{exponent}{power}"


def _dump_string(value: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError as error:
        message = f"invalid character (lone surrogate) at position {error.start} of a string"
        raise NotYamlError(message) from error
    text = json.dumps(str(value), ensure_ascii=False)
    return _UNSAFE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)
