"""Building blocks of validation."""

import ipaddress
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from windlass.k8s import api_errors, formats
from windlass.k8s.api_errors import FieldError

NOT_NEGATIVE = "must be greater than or equal to 0"
PROTOCOLS = ("SCTP", "TCP", "UDP")


def invalid_values(field: str, value: object, problems: Iterable[str]) -> Iterator[FieldError]:
    """Yield an error for each problem of a value."""
    for problem in problems:
        yield api_errors.invalid_value(field, value, problem)


def required_name(field: str, value: str | None, rule: formats.Rule) -> Iterator[FieldError]:
    if not value:
        yield api_errors.required(field)
        return
    yield from invalid_values(field, value, rule(value))


def optional_name(field: str, value: str | None, rule: formats.Rule) -> Iterator[FieldError]:
    if value:
        yield from invalid_values(field, value, rule(value))


def required_fields(holder: Mapping[str, Any], path: str, *keys: str) -> Iterator[FieldError]:
    for key in keys:
        if not holder.get(key):
            yield api_errors.required(f"{path}.{key}")


def not_negative(holder: Mapping[str, Any], path: str, *keys: str) -> Iterator[FieldError]:
    for key in keys:
        if (holder.get(key) or 0) < 0:
            yield api_errors.invalid_value(f"{path}.{key}", holder[key], NOT_NEGATIVE)


def required_choice(field: str, value: str | None, choices: Iterable[str]) -> Iterator[FieldError]:
    if not value:
        yield api_errors.required(field)
    elif value not in choices:
        yield api_errors.not_supported(field, value, choices)


def optional_choice(field: str, value: str | None, choices: Iterable[str]) -> Iterator[FieldError]:
    if value is not None and value not in choices:
        yield api_errors.not_supported(field, value, choices)


def not_found(field: str, value: object) -> FieldError:
    """Return an error for a reference to something that does not exist."""
    return FieldError(field, "FieldValueNotFound", f"Not found: {api_errors.format_value(value)}")


def immutable(field: str, new: object, old: object) -> Iterator[FieldError]:
    if new != old:
        yield api_errors.invalid_value(field, new, "field is immutable")


def port_errors(field: str, value: int | str) -> Iterator[FieldError]:
    """Check a port number or name."""
    problems = formats.port_name(value) if isinstance(value, str) else formats.port_number(value)
    yield from invalid_values(field, value, problems)


def indexed(items: Iterable[Any] | None, path: str) -> Iterator[tuple[Any, str]]:
    """Yield each item of a list with its path."""
    for index, item in enumerate(items or ()):
        yield item, f"{path}[{index}]"


def non_special_ip(field: str, address: str) -> Iterator[FieldError]:
    """Reject unspecified, loopback, link-local and multicast addresses (ValidateNonSpecialIP)."""
    if not formats.is_ip_address(address):
        yield api_errors.invalid_value(field, address, "must be a valid IP address")
        return
    parsed = ipaddress.ip_address(address)
    if parsed.is_unspecified:
        yield api_errors.invalid_value(field, address, "may not be unspecified (0.0.0.0)")
    if parsed.is_loopback:
        yield api_errors.invalid_value(
            field, address, "may not be in the loopback range (127.0.0.0/8, ::1/128)"
        )
    if parsed.is_link_local:
        yield api_errors.invalid_value(
            field, address, "may not be in the link-local range (169.254.0.0/16, fe80::/10)"
        )
    if parsed in ipaddress.ip_network("224.0.0.0/24") or parsed in ipaddress.ip_network("ff02::/16"):
        problem = "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)"
        yield api_errors.invalid_value(field, address, problem)
