"""Validation of names, labels, keys, ports and other values, with the messages of Kubernetes.

Each check returns the problems of a value: an empty tuple if it is valid. The caller adds the name of the field.
"""

import functools
import ipaddress
import re
from collections.abc import Callable

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_UNDERSCORED = "_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_UNDERSCORED_SUBDOMAIN = rf"{_UNDERSCORED}(\.{_UNDERSCORED})*"
_LABEL_1035 = "[a-z]([-a-z0-9]*[a-z0-9])?"
_QUALIFIED = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_KEY = "[-._a-zA-Z0-9]+"
_HEADER = "[-A-Za-z0-9]+"
_PERCENT = "[0-9]+%"

_LABEL_MESSAGE = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end"
    " with an alphanumeric character"
)
_SUBDOMAIN_MESSAGE = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start"
    " and end with an alphanumeric character"
)
_UNDERSCORED_SUBDOMAIN_MESSAGE = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', and must"
    " start and end with an alphanumeric character"
)
_LABEL_1035_MESSAGE = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character,"
    " and end with an alphanumeric character"
)
_QUALIFIED_NAME_MESSAGE = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric"
    " character"
)
_LABEL_VALUE_MESSAGE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start"
    " and end with an alphanumeric character"
)
_ENVIRONMENT_NAME_MESSAGE = (
    "a valid environment variable name must consist only of printable ASCII characters other than '='"
)
_KEY_MESSAGE = "a valid config key must consist of alphanumeric characters, '-', '_' or '.'"
_HEADER_MESSAGE = "a valid HTTP header must consist of alphanumeric characters or '-'"
_PERCENTAGE_MESSAGE = "a valid percent string must be a numeric string followed by an ending '%'"

Problems = tuple[str, ...]
Rule = Callable[[str], Problems]

# Longer values, which are rare, are not cached, so that they cannot fill the memory.
_MAX_CACHED_LENGTH = 256


def _cached(rule: Rule) -> Rule:
    """Cache the results: the same labels, keys and names recur."""
    cached = functools.lru_cache(maxsize=4096)(rule)

    @functools.wraps(rule)
    def check(value: str) -> Problems:
        return cached(value) if len(value) <= _MAX_CACHED_LENGTH else rule(value)

    return check


@_cached
def dns_label(value: str) -> Problems:
    is_subdomain = "." in value and re.fullmatch(_SUBDOMAIN, value)
    mismatch = _mismatch(value, _LABEL, _LABEL_MESSAGE, "my-name", "123-abc")
    return _too_long(value, 63) + (("must not contain dots",) if is_subdomain else mismatch)


@_cached
def dns_1035_label(value: str) -> Problems:
    return _too_long(value, 63) + _mismatch(value, _LABEL_1035, _LABEL_1035_MESSAGE, "my-name", "abc-123")


@_cached
def dns_subdomain(value: str) -> Problems:
    return _too_long(value, 253) + _mismatch(value, _SUBDOMAIN, _SUBDOMAIN_MESSAGE, "example.com")


def is_object_name(value: str) -> bool:
    """Return whether most kinds of objects may have this name: it is a DNS subdomain."""
    return not dns_subdomain(value)


def search_domain(value: str) -> Problems:
    """Check a search domain of a resolver, which may contain underscores."""
    mismatch = _mismatch(value, _UNDERSCORED_SUBDOMAIN, _UNDERSCORED_SUBDOMAIN_MESSAGE, "example.com")
    return _too_long(value, 253) + mismatch


@_cached
def qualified_name(value: str) -> Problems:
    """Check a label key, finalizer or resource: a name, optionally after a DNS subdomain and a slash."""
    prefix, slash, name = value.rpartition("/")
    if "/" in prefix:
        text = _mismatch("", _QUALIFIED, _QUALIFIED_NAME_MESSAGE, "MyName", "my.name", "123-abc")[0]
        return (
            f"a valid label key {text} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')",
        )
    problems: Problems = ()
    if slash and not prefix:
        problems = ("prefix part must be non-empty",)
    elif slash:
        mismatch = _mismatch(prefix, _SUBDOMAIN, _SUBDOMAIN_MESSAGE, "example.com")
        problems = _with_prefix("prefix part ", _too_long(prefix, 253, "bytes") + mismatch)
    if not name:
        problems += ("name part must be non-empty",)
    mismatch = _too_long(name, 63, "bytes") + _mismatch(
        name, _QUALIFIED, _QUALIFIED_NAME_MESSAGE, "MyName", "my.name", "123-abc"
    )
    return problems + _with_prefix("name part ", mismatch)


@_cached
def label_value(value: str) -> Problems:
    mismatch = _mismatch(value, f"({_QUALIFIED})?", _LABEL_VALUE_MESSAGE, "MyValue", "my_value", "12345")
    return _too_long(value, 63, "bytes") + mismatch


@_cached
def environment_name(value: str) -> Problems:
    if not value:
        return ("environment variable name must be non-empty",)
    is_valid = value.isascii() and value.isprintable() and "=" not in value
    return () if is_valid else (_ENVIRONMENT_NAME_MESSAGE,)


@_cached
def data_key(value: str) -> Problems:
    """Check a key of a ConfigMap or Secret, which may become a file name."""
    mismatch = _mismatch(value, _KEY, _KEY_MESSAGE, "key.name", "KEY_NAME", "key-name")
    return _too_long(value, 253) + mismatch + _parent_directory_problems(value)


def http_header(value: str) -> Problems:
    return _mismatch(value, _HEADER, _HEADER_MESSAGE, "X-Header-Name")


def percentage(value: str) -> Problems:
    return _mismatch(value, _PERCENT, _PERCENTAGE_MESSAGE, "1%", "93%")


def port_name(value: str) -> Problems:
    problems = [*_too_long(value, 15)]
    if not re.fullmatch("[-a-z0-9]+", value):
        problems.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not re.search("[a-z]", value):
        problems.append("must contain at least one letter (a-z)")
    if "--" in value:
        problems.append("must not contain consecutive hyphens")
    if value.startswith("-") or value.endswith("-"):
        problems.append("must not begin or end with a hyphen")
    return tuple(problems)


def between(value: int, lowest: int, highest: int) -> Problems:
    return () if lowest <= value <= highest else (f"must be between {lowest} and {highest}, inclusive",)


def port_number(value: int) -> Problems:
    return between(value, 1, 65535)


def ip_address(value: str) -> Problems:
    if is_ip_address(value):
        return ()
    return ("must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)",)


def is_ip_address(value: str) -> bool:
    try:
        ipaddress.ip_address(value)
    except ValueError:
        return False
    return "%" not in value


def path_segment(value: str) -> Problems:
    if value in (".", ".."):
        return (f"may not be '{value}'",)
    return path_segment_prefix(value)


def path_segment_prefix(value: str) -> Problems:
    return tuple(f"may not contain '{character}'" for character in "/%" if character in value)


def _too_long(value: str, limit: int, unit: str = "characters") -> Problems:
    """Check the length in bytes. Kubernetes writes "bytes" only for qualified names and label values."""
    return () if len(value.encode()) <= limit else (f"must be no more than {limit} {unit}",)


def _mismatch(value: str, pattern: str, rule: str, *examples: str) -> Problems:
    if re.fullmatch(pattern, value):
        return ()
    quoted = " or ".join(f"'{example}', " for example in examples)
    return (f"{rule} (e.g. {quoted}regex used for validation is '{pattern}')",)


def _parent_directory_problems(value: str) -> Problems:
    if value in (".", ".."):
        return (f"must not be '{value}'",)
    return ("must not start with '..'",) if value.startswith("..") else ()


def _with_prefix(prefix: str, problems: Problems) -> Problems:
    return tuple(prefix + problem for problem in problems)
