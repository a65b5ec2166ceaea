"""Quantities of CPU, memory and other resources: `500m`, `1.5`, `16Gi`, `1e3`."""

import re
from decimal import ROUND_UP, Decimal

# Kubernetes does not limit the digits, but a number with millions of them exceeds the range of Decimal.
_FORMAT = re.compile(
    r"([+-]?(?:[0-9]{1,1000}(?:\.[0-9]{0,1000})?|\.[0-9]{1,1000}))(?:([KMGTPE]i)|([numkMGTPE]?)|[eE]([+-]?[0-9]{1,3}))"
)
_BINARY = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_DECIMAL = {"n": -3, "u": -2, "m": -1, "": 0, "k": 1, "M": 2, "G": 3, "T": 4, "P": 5, "E": 6}
_MAX = Decimal(2**63 - 1)
_NANO = Decimal("1e-9")
# Resources are counted in thousandths.
MILLI = Decimal("1e-3")


def parse(text: str | float) -> Decimal:
    """Return the amount, limited to 63 bits; 0 for an invalid quantity, which validation rejects earlier."""
    match = _FORMAT.fullmatch(str(text))
    if match is None:
        return Decimal(0)
    number, binary, decimal, exponent = match.groups()
    if binary:
        amount = Decimal(number) * Decimal(1024) ** _BINARY.index(binary)
    else:
        amount = Decimal(number).scaleb(int(exponent) if exponent else 3 * _DECIMAL[decimal])
    return max(-_MAX, min(amount, _MAX))


def is_quantity(text: str) -> bool:
    return _FORMAT.fullmatch(text) is not None


def canonical(text: str | float, precision: Decimal = _NANO) -> str:
    """Return the canonical form: no fraction, and the largest possible suffix. Round up to `precision`.

    An invalid or too large quantity is returned unchanged.
    """
    match = _FORMAT.fullmatch(str(text))
    amount = parse(text)
    if match is None or abs(amount) == _MAX:
        return str(text)
    amount = amount.quantize(precision, ROUND_UP)
    if match[2] and abs(amount) >= 1024 and amount % 1 == 0:
        return _with_binary_suffix(int(amount))
    return _with_decimal_suffix(amount, has_exponent=match[4] is not None)


def half(text: str | float) -> str:
    """Return half of a valid number of bytes in canonical form, rounded up."""
    match = _FORMAT.fullmatch(str(text))
    number = match[1] if match else "0"
    return canonical(f"{Decimal(number) / 2:f}{str(text)[len(number) :]}", Decimal(1))


def _with_binary_suffix(amount: int) -> str:
    power = 0
    while amount % 1024 == 0 and power < len(_BINARY) - 1:
        amount //= 1024
        power += 1
    return f"{amount}{_BINARY[power]}"


def _with_decimal_suffix(amount: Decimal, *, has_exponent: bool) -> str:
    if not amount:
        return "0"
    suffix, power = next(
        (suffix, power) for suffix, power in reversed(_DECIMAL.items()) if amount.scaleb(-3 * power) % 1 == 0
    )
    if has_exponent:
        suffix = f"e{3 * power}" if power else ""
    return f"{int(amount.scaleb(-3 * power))}{suffix}"
