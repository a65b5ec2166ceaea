"""JSON output of commands."""

import json

import msgspec

from windlass.cli import json_output

CONTROL = "\x1b]0;\x07\x7f\x80\x9b\x9f\u202a\u202e\u2066\u2069\u061c\u200b\u200e\u200f\u2060\ufeff\U000e0000\U000e007f"
HARMLESS = "caf\xe9 \xa0\u2029\u202f\u2065\u206a\u65e5 \U0001f469\u200d\U0001f4bb \U000e0080\U000e0100"


def test_characters_that_control_terminals_are_escaped() -> None:
    encoded = json_output.encode({CONTROL: [CONTROL]})
    assert encoded.isascii()
    assert b"\x7f" not in encoded
    assert json.loads(encoded) == {CONTROL: [CONTROL]}


def test_other_characters_are_unchanged() -> None:
    assert json_output.encode(HARMLESS) == f'"{HARMLESS}"'.encode()


def test_stored_json_is_escaped_and_indented() -> None:
    raw = msgspec.Raw(b'{"a":"\xc2\x9b"}')
    assert json_output.indented(raw) == b'{\n  "a": "\\u009b"\n}'
