"""Generate odd values: mutated JSON trees, and unusual encodings of them."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import yaml

from fuzzing import objects

_LONG = 20_000
_MANY = 300
_CHANGES_AT_ONCE = (1, 1, 1, 1, 2, 4)
_SOUND = 0.9

_STRANGE = yaml.safe_load((Path(__file__).parent / "strange.yaml").read_text())
_LENGTHS = ("9" * 30, "9" * 400, "-" + "9" * 400, "a" * 63, "a" * 64, "a" * 253, "a" * 254, "a." * 126 + "a")
TEXTS: tuple[str, ...] = (*(text for line in _STRANGE["texts"] for text in line), *_LENGTHS)
KEYS: tuple[str, ...] = tuple(text for line in _STRANGE["keys"] for text in line)
NUMBERS: tuple[int | float, ...] = (
    *(0, -0.0, 1, -1, 2, 80, 255, 256, 65535, 65536, 2**31 - 1, 2**31, -(2**31) - 1, 2**53 + 1),
    *(2**63 - 1, 2**63, -(2**63), -(2**63) - 1, 2**64, 10**30, 10**400, -(10**400)),
    *(0.1, 1.5, -1.5, 1e15, 1e21, 1e308, -1e308, 5e-324, 1.0, 3.0),
)


def generator(*origin: object) -> Random:
    """Return a random generator that is the same for the same origin."""
    return Random(repr(origin))  # noqa: S311 — nothing here is secret


def text(dice: Random) -> str:
    if dice.random() < 0.25:
        return dice.choice(objects.NAMES)
    if dice.random() < 0.03:
        return dice.choice('aé😀 \\"') * dice.randrange(_LONG)
    return dice.choice(TEXTS)


def anything(dice: Random, depth: int = 3) -> Any:
    """Return any value, mostly a small one."""
    draw = dice.random()
    if draw < 0.35:
        return text(dice)
    if draw < 0.6:
        return dice.choice(NUMBERS)
    if draw < 0.75 or not depth:
        return dice.choice((None, True, False, [], {}, ""))
    if draw < 0.87:
        return [anything(dice, depth - 1) for _ in range(dice.randrange(4))]
    return {key(dice): anything(dice, depth - 1) for _ in range(dice.randrange(4))}


def key(dice: Random) -> str:
    return dice.choice(KEYS) if dice.random() < 0.7 else text(dice)


def mutated(value: Any, dice: Random) -> Any:
    """Return the value with a few changes."""
    for _ in range(dice.choice(_CHANGES_AT_ONCE)):
        value = _changed(value, dice)
    return value


def _changed(value: Any, dice: Random) -> Any:
    goes_down = bool(value) and isinstance(value, dict | list) and dice.random() < 0.85
    if goes_down and isinstance(value, dict):
        chosen = dice.choice(list(value))
        return {**value, chosen: _changed(value[chosen], dice)}
    if goes_down:
        place = dice.randrange(len(value))
        return [*value[:place], _changed(value[place], dice), *value[place + 1 :]]
    return dice.choice(_CHANGES)(value, dice)


def _without(value: Any, dice: Random) -> Any:
    if not value or not isinstance(value, dict | list):
        return None
    if isinstance(value, list):
        return value[:-1]
    gone = dice.choice(list(value))
    return {name: kept for name, kept in value.items() if name != gone}


def _with_more(value: Any, dice: Random) -> Any:
    if isinstance(value, dict):
        return {**value, key(dice): anything(dice)}
    if isinstance(value, list):
        return [*value, *value[:1], anything(dice)]
    return [value]


def _renamed(value: Any, dice: Random) -> Any:
    if not value or not isinstance(value, dict):
        return {key(dice): value}
    old = dice.choice(list(value))
    return {(key(dice) if name == old else name): kept for name, kept in value.items()}


def _of_another_type(value: Any, dice: Random) -> Any:
    if isinstance(value, str):
        return dice.choice(([value], {"a": value}, len(value), None, value.swapcase(), value.upper()))
    if isinstance(value, bool | int | float):
        return dice.choice((str(value), -value, value + 1, [value], value * 1000))
    return dice.choice((json.dumps(value), None, 0, True, [value], {"a": value}))


def _many(value: Any, dice: Random) -> Any:
    if isinstance(value, list):
        return ([*value, None] * _MANY)[:_MANY]
    if isinstance(value, dict):
        return {**value, **{f"k{number}": "v" for number in range(_MANY)}}
    return (str(value)[:_LONG] * dice.randrange(_MANY))[:_LONG]


def _deep(value: Any, dice: Random) -> Any:
    """Return a value nested so deeply that a recursive function may fail."""
    for _ in range(dice.choice((20, 100, 300, 600))):
        value = {"a": value} if dice.random() < 0.5 else [value]
    return value


_CHANGES: tuple[Callable[[Any, Random], Any], ...] = (
    lambda _, dice: anything(dice),
    lambda _, dice: anything(dice),
    lambda _, dice: text(dice),
    lambda _, dice: dice.choice(NUMBERS),
    _without,
    _with_more,
    _with_more,
    _renamed,
    _of_another_type,
    _of_another_type,
    _many,
    _deep,
)

# Encodings


def json_text(value: Any, dice: Random) -> bytes:
    """Encode as JSON, sometimes malformed."""
    written = json.dumps(value)
    return written.encode() if dice.random() < _SOUND else dice.choice(_SPOILINGS)(written, dice)


def _cut(written: str, dice: Random) -> bytes:
    return written[: dice.randrange(len(written) + 1)].encode()


def _twice_said(written: str, _: Random) -> bytes:
    return re.sub(
        r'"(name|kind|spec|a)":', lambda found: f"{found[0]} null, {found[0]}", written, count=2
    ).encode()


def _bad_bytes(written: str, dice: Random) -> bytes:
    place = dice.randrange(len(written) + 1)
    strange = dice.choice(
        (b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"\0", b"\xef\xbb\xbf", b"\x1b", b"\\u", b"\\x")
    )
    return written[:place].encode() + strange + written[place:].encode()


def _odd_number(written: str, dice: Random) -> bytes:
    odd = dice.choice(
        ("NaN", "-Infinity", "1e999", "-1e-999", "01", "+1", "1.", ".1", "0x1", "1" * 5000, "-0", "1E400")
    )
    return re.sub(r": \d+", f": {odd}", written, count=1).encode()


def _bottomless(_: str, dice: Random) -> bytes:
    depth = dice.choice((900, 1100, 5000, 100_000))
    inner = b'{"a":' * depth + b"1" + b"}" * depth if dice.random() < 0.5 else b"[" * depth + b"]" * depth
    thing = b'{"apiVersion":"fuzz.example/v1","kind":"Thing","metadata":{"name":"deep"},'
    return dice.choice((inner, thing + b'"spec":{"name":"abc","free":{"a":' + inner + b"}}}"))


def _in_another_encoding(written: str, dice: Random) -> bytes:
    return written.encode(dice.choice(("utf-16", "utf-32", "utf-8-sig")))


def _twice(written: str, dice: Random) -> bytes:
    return (written + dice.choice(("", " ", "\n", ",", "\n---\n")) + written).encode()


_SPOILINGS = (_cut, _twice_said, _bad_bytes, _odd_number, _bottomless, _in_another_encoding, _twice)
