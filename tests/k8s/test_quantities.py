"""Amounts and canonical forms of quantities, as a real API server wrote them."""

from decimal import Decimal

import pytest

from windlass.k8s import quantities


@pytest.mark.parametrize(
    ("written", "canonical", "amount"),
    [
        ("1000m", "1", 1),
        ("0.5", "500m", Decimal("0.5")),
        (".5", "500m", Decimal("0.5")),
        ("1500", "1500", 1500),
        ("1000", "1k", 1000),
        ("1024Mi", "1Gi", 2**30),
        ("0.5Gi", "512Mi", 2**29),
        ("1.5Ki", "1536", 1536),
        ("100Ki", "100Ki", 102400),
        ("1e3", "1e3", 1000),
        ("1e4", "10e3", 10000),
        ("0", "0", 0),
        ("-500m", "-500m", Decimal("-0.5")),
        ("1n", "1n", Decimal("1e-9")),
        ("1.1Mi", "1153433600m", Decimal("1153433.6")),
        ("12E", "12E", 2**63 - 1),
        (2, "2", 2),
        (2.5, "2500m", Decimal("2.5")),
    ],
)
def test_canonical_form_and_amount(written: str | float, canonical: str, amount: int | Decimal) -> None:
    assert quantities.canonical(written) == canonical
    assert quantities.parse(written) == amount
    assert quantities.parse(canonical) == amount


def test_amounts_have_thousandths() -> None:
    assert quantities.canonical("1.0005", quantities.MILLI) == "1001m"
    assert quantities.canonical("1n", quantities.MILLI) == "1m"


@pytest.mark.parametrize(
    ("written", "half"),
    [
        ("8Gi", "4Gi"),
        ("1Gi", "512Mi"),
        ("3Gi", "1536Mi"),
        ("500M", "250M"),
        ("1.5Gi", "768Mi"),
        (1000001, "500001"),
    ],
)
def test_half_of_a_size(written: str | float, half: str) -> None:
    assert quantities.half(written) == half


@pytest.mark.parametrize("written", ["", "x", "1 Gi", "1gi", "1ee3", "--1", "1.2.3", "1KiB", "9" * 1001])
def test_invalid_quantity(written: str) -> None:
    assert not quantities.is_quantity(written)
