"""Quantities of CPU, memory and other resources: `500m`, `1.5`, `16Gi`, `1e3`."""

import re
from decimal import ROUND_UP, Decimal

_FORM = re.compile(r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+))(?:([KMGTPE]i)|([numkMGTPE]?)|[eE]([+-]?[0-9]{1,3}))")
_BINARY = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_DECIMAL = {"n": -3, "u": -2, "m": -1, "": 0, "k": 1, "M": 2, "G": 3, "T": 4, "P": 5, "E": 6}
_MOST = Decimal(2**63 - 1)
_NANO = Decimal("1e-9")
# Resources are counted in thousandths.
MILLI = Decimal("1e-3")


def parse(written: str | float) -> Decimal:
    """Return the amount; 0 for an invalid quantity, which validation rejects earlier."""
    match = _FORM.fullmatch(str(written))
    if match is None:
        return Decimal(0)
    number, binary, decimal, exponent = match.groups()
    if binary:
        amount = Decimal(number) * Decimal(1024) ** _BINARY.index(binary)
    else:
        amount = Decimal(number).scaleb(int(exponent) if exponent else 3 * _DECIMAL[decimal])
    return max(-_MOST, min(amount, _MOST))


def is_quantity(written: str) -> bool:
    return _FORM.fullmatch(written) is not None


def canonical(written: str | float, finest: Decimal = _NANO) -> str:
    """Return the canonical form: no fraction, and the largest possible suffix. Round up to `finest`."""
    match = _FORM.fullmatch(str(written))
    amount = parse(written)
    if match is None or abs(amount) == _MOST:
        return str(written)
    amount = amount.quantize(finest, ROUND_UP)
    if match[2] and abs(amount) >= 1024 and amount % 1 == 0:
        return _with_binary_suffix(int(amount))
    return _with_decimal_suffix(amount, in_exponents=match[4] is not None)


def _with_binary_suffix(amount: int) -> str:
    power = 0
    while amount % 1024 == 0 and power < len(_BINARY) - 1:
        amount //= 1024
        power += 1
    return f"{amount}{_BINARY[power]}"


def _with_decimal_suffix(amount: Decimal, *, in_exponents: bool) -> str:
    if not amount:
        return "0"
    suffix, power = next(
        (suffix, power) for suffix, power in reversed(_DECIMAL.items()) if amount.scaleb(-3 * power) % 1 == 0
    )
    if in_exponents:
        suffix = f"e{3 * power}" if power else ""
    return f"{int(amount.scaleb(-3 * power))}{suffix}"
