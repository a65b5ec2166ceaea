"""Checks of single fields, which the validation of many kinds uses."""

import ipaddress
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from windlass.k8s import api_errors, formats
from windlass.k8s.api_errors import FieldError

NOT_NEGATIVE = "must be greater than or equal to 0"
PROTOCOLS = ("SCTP", "TCP", "UDP")
MAX_ID = 2**31 - 1
_LOCAL_MULTICAST = (ipaddress.ip_network("224.0.0.0/24"), ipaddress.ip_network("ff02::/16"))
Object = Mapping[str, Any]


def invalid_values(field: str, value: object, problems: Iterable[str]) -> Iterator[FieldError]:
    """Yield an error for each problem of a value."""
    for problem in problems:
        yield api_errors.invalid_value(field, value, problem)


def format_errors(holder: Object, path: str, key: str, rule: formats.Rule) -> Iterator[FieldError]:
    """Check a field against a rule. An absent field is checked as the empty string."""
    value = holder.get(key, "")
    yield from invalid_values(f"{path}.{key}", value, rule(value))


def required_name(holder: Object, path: str, key: str, rule: formats.Rule) -> Iterator[FieldError]:
    if not holder.get(key):
        yield api_errors.required(f"{path}.{key}")
    yield from optional_name(holder, path, key, rule)


def optional_name(holder: Object, path: str, key: str, rule: formats.Rule) -> Iterator[FieldError]:
    if holder.get(key):
        yield from format_errors(holder, path, key, rule)


def required_fields(holder: Object, path: str, *keys: str) -> Iterator[FieldError]:
    for key in keys:
        if not holder.get(key):
            yield api_errors.required(f"{path}.{key}")


def not_negative(holder: Object, path: str, *keys: str) -> Iterator[FieldError]:
    for key in keys:
        if (holder.get(key) or 0) < 0:
            yield api_errors.invalid_value(f"{path}.{key}", holder[key], NOT_NEGATIVE)


def ids_in_range(holder: Object, path: str, *keys: str) -> Iterator[FieldError]:
    """Check IDs of users and groups."""
    for key in keys:
        value = holder.get(key)
        if value is not None:
            yield from invalid_values(f"{path}.{key}", value, formats.between(value, 0, MAX_ID))


def choice(holder: Object, path: str, key: str, choices: Iterable[str]) -> Iterator[FieldError]:
    """Check a field that must have one of several values. An absent field is checked as the empty string."""
    value = holder.get(key, "")
    if value not in choices:
        yield api_errors.not_supported(f"{path}.{key}", value, choices)


def required_choice(holder: Object, path: str, key: str, choices: Iterable[str]) -> Iterator[FieldError]:
    if holder.get(key):
        yield from choice(holder, path, key, choices)
    else:
        yield api_errors.required(f"{path}.{key}")


def optional_choice(holder: Object, path: str, key: str, choices: Iterable[str]) -> Iterator[FieldError]:
    if holder.get(key) is not None:
        yield from choice(holder, path, key, choices)


def unique(field: str, value: str, seen: set[str]) -> Iterator[FieldError]:
    """Check that a value has not been seen yet, and add it to `seen`."""
    if value in seen:
        yield api_errors.duplicate(field, value)
    seen.add(value)


def not_found(field: str, value: object) -> FieldError:
    """Return an error for a reference to something that does not exist."""
    return FieldError(field, "FieldValueNotFound", f"Not found: {api_errors.format_value(value)}")


def immutable(field: str, new: object, old: object) -> Iterator[FieldError]:
    if new != old:
        yield api_errors.invalid_value(field, new, "field is immutable")


def port_errors(holder: Object, path: str, key: str) -> Iterator[FieldError]:
    """Check a port number or name."""
    value = holder.get(key, 0)
    problems = formats.port_name(value) if isinstance(value, str) else formats.port_number(value)
    yield from invalid_values(f"{path}.{key}", value, problems)


def indexed(items: Iterable[Any] | None, path: str) -> Iterator[tuple[Any, str]]:
    """Yield each item of a list with its path."""
    for index, item in enumerate(items or ()):
        yield item, f"{path}[{index}]"


def non_special_ip(field: str, address: str) -> Iterator[FieldError]:
    """Reject invalid, unspecified, loopback, link-local and link-local multicast addresses (ValidateNonSpecialIP)."""
    if not formats.is_ip_address(address):
        yield api_errors.invalid_value(field, address, "must be a valid IP address")
        return
    parsed = ipaddress.ip_address(address)
    is_local_multicast = any(parsed in network for network in _LOCAL_MULTICAST)
    problems = {
        "unspecified (0.0.0.0)": parsed.is_unspecified,
        "in the loopback range (127.0.0.0/8, ::1/128)": parsed.is_loopback,
        "in the link-local range (169.254.0.0/16, fe80::/10)": parsed.is_link_local,
        "in the link-local multicast range (224.0.0.0/24, ff02::/10)": is_local_multicast,
    }
    for problem, applies in problems.items():
        if applies:
            yield api_errors.invalid_value(field, address, f"may not be {problem}")
