"""Values in messages: strings are quoted as in Go, other values are JSON."""

from typing import Any

import pytest

from windlass.k8s import api_errors


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("plain", '"plain"'),
        ("", '""'),
        ('a "b" \\c', r'"a \"b\" \\c"'),
        ("\0\a\n\x7f", r'"\x00\a\n\x7f"'),
        ("é\u200b\U000e0001", '"é\\u200b\\U000e0001"'),
        (["\0"], '["\\u0000"]'),
        (None, "null"),
        (True, "true"),
        (0.5, "0.5"),
    ],
)
def test_value_in_a_message(value: Any, expected: str) -> None:
    assert api_errors.format_value(value) == expected


def test_names_are_quoted_in_messages() -> None:
    assert api_errors.not_found("", "pods", "\0").message == r'pods "\x00" not found'
