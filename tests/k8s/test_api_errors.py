"""Values in messages: strings are quoted as in Go, other values are JSON."""

from collections.abc import Iterator
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


def test_errors_are_computed_up_to_the_limit() -> None:
    computed = []

    def errors() -> Iterator[api_errors.FieldError]:
        for number in range(100_000):
            computed.append(number)
            yield api_errors.required(f"spec.items[{number}]")

    error = api_errors.invalid("", "Pod", "a", errors())

    assert len(computed) == api_errors.MAX_ERRORS
    assert error.details is not None
    assert len(error.details["causes"]) == api_errors.MAX_ERRORS


def test_errors_with_long_values_are_short() -> None:
    errors = [api_errors.invalid_value("spec", ["x" * 1_000_000], "bad") for _ in range(50)]
    assert len(api_errors.invalid("", "Pod", "a", errors).message) < 2 * api_errors.MAX_ERROR_CHARACTERS
    assert (
        len(api_errors.invalid_value("spec", "\n" * 1_000_000, "bad").message)
        < api_errors.MAX_ERROR_CHARACTERS
    )
