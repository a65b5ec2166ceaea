"""A plain value as YAML on one line, for templates: whatever stands around it, it is read as what went in.

It is JSON wherever that is YAML too. Nothing but letters and digits that every reader of YAML agrees on stands there
without quotes.
"""

import json
import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

_LONGEST_PLAIN_KEY = 900
"""Readers of YAML look no further than 1024 characters for the colon after a key."""
_UNSAFE = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
"""What YAML forbids, or takes for the end of a line."""


class NotYamlError(ValueError):
    """There is no such value in a manifest."""


def line(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int():
            return str(int(value))
        case float():
            return _number(value)
        case str():
            return _text(value)
        case Mapping():
            return f"{{{', '.join(_entry(key, item) for key, item in value.items())}}}"
        case list() | tuple():
            return _list(value)
        case _:
            raise NotYamlError(f"a value of the type {type(value).__name__} cannot be written as YAML")


def _list(items: Iterable[Any]) -> str:
    return f"[{', '.join(line(item) for item in items)}]"


def _entry(key: Any, value: Any) -> str:
    if not isinstance(key, str):
        raise NotYamlError(f"the key {key!r} is no text: Kubernetes has no place for it")
    written = _text(key)
    return f"{'? ' if len(written) > _LONGEST_PLAIN_KEY else ''}{written}: {line(value)}"


def _number(value: float) -> str:
    """With a point: some readers take 1e+22 for a word."""
    if not math.isfinite(value):
        raise NotYamlError(f"the number {value} cannot be written: Kubernetes has no place for it")
    digits, exponent, power = repr(float(value)).partition("e")
    return f"{digits}{'' if '.' in digits else '.0'}{exponent}{power}"


def _text(value: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError as broken:
        raise NotYamlError(
            f"half a character (a lone surrogate) at place {broken.start} of a text"
        ) from broken
    return _UNSAFE.sub(_escaped, json.dumps(str(value), ensure_ascii=False))


def _escaped(found: re.Match[str]) -> str:
    return f"\\u{ord(found[0]):04x}"
