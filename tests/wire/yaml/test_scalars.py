"""Plain scalars have the same values as in the YAML parser of Kubernetes."""

import math

import pytest

from windlass.wire.yaml import scalars


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", None),
        ("~", None),
        ("null", None),
        ("yes", True),
        ("y", True),
        ("On", True),
        ("n", False),
        ("FALSE", False),
        ("tRue", "tRue"),
        ("worker", "worker"),
        ("3", 3),
        ("-2", -2),
        ("+5", 5),
        ("0", 0),
        ("0644", 420),
        ("0o644", 420),
        ("089", 89),
        ("0x1F", 31),
        ("-0b101", -5),
        ("1_000", 1000),
        ("9223372036854775808", 2**63),
        ("1e9", 1_000_000_000),
        ("3.0", 3),
        ("-0.0", 0),
        (".5", 0.5),
        ("1.5e3", 1500),
        ("1e30", 1e30),
        ("1e999", "1e999"),
        ("1.2.3", "1.2.3"),
        ("22:30", "22:30"),
        ("2018-06-14", "2018-06-14"),
        ("2018-06-14T21:53:04Z", "2018-06-14T21:53:04Z"),
        ("10.151.40.241", "10.151.40.241"),
        ("-", "-"),
        (".", "."),
        ("9" * 400, "9" * 400),
        ("٣", "٣"),
    ],
)
def test_plain_scalar_is_resolved(text: str, value: scalars.Scalar) -> None:
    resolved = scalars.resolve(text)

    assert resolved == value
    assert type(resolved) is type(value)


@pytest.mark.parametrize("text", [".nan", ".NaN", ".inf", "-.Inf", "+.INF"])
def test_infinity_and_nan_are_floats(text: str) -> None:
    resolved = scalars.resolve(text)

    assert isinstance(resolved, float)
    assert not math.isfinite(resolved)


@pytest.mark.parametrize(("text", "is_string"), [("worker", True), ("y", False), ("1e3", False), ("", False)])
def test_is_string(text: str, is_string: bool) -> None:
    assert scalars.is_string(text) is is_string
