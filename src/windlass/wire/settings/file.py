"""Load the controller configuration from flags, variables, a file and fallback variables (highest priority first)."""

import functools
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from windlass.k8s import formats, patterns
from windlass.model import completion, names, settings
from windlass.model.completion import CompletionTypeName
from windlass.model.settings import Settings
from windlass.wire import diagnostics, structural_validation
from windlass.wire.diagnostics import Diagnostic, InvalidFileError
from windlass.wire.settings import environment
from windlass.wire.settings.environment import Layer
from windlass.wire.yaml import parse as yaml_parse
from windlass.wire.yaml import tree

_REGEX_FIELDS = ("nameRegex", "reasonRegex", "messageRegex")
_DEFAULTS = {setting.key: setting.default for setting in environment.SETTINGS}


class LoadedSettings(NamedTuple):
    settings: Settings
    warnings: tuple[Diagnostic, ...]


class OrderRule(NamedTuple):
    """A setting must be less than another one, or equal to it if `may_be_equal`."""

    low: str
    high: str
    reason: str
    may_be_equal: bool = False
    is_about_lease: bool = False

    def __str__(self) -> str:
        return f"{self.low} {'≤' if self.may_be_equal else '<'} {self.high}, since {self.reason}"


ORDERS = (
    OrderRule(
        "frameworkMinRetryDelaySecForTransientConflictFailed",
        "frameworkMaxRetryDelaySecForTransientConflictFailed",
        "the delay is chosen between them",
        may_be_equal=True,
    ),
    OrderRule(
        "leaseRenewDeadlineSec",
        "leaseDurationSec",
        "a leader that cannot renew its lease must stop before another replica takes over",
        is_about_lease=True,
    ),
    OrderRule(
        "leaseRetryPeriodSec",
        "leaseRenewDeadlineSec",
        "a leader must retry a renewal before the deadline",
        is_about_lease=True,
    ),
    OrderRule(
        "requestTimeoutSec",
        "leaseRenewDeadlineSec",
        "a request is sent only if the lease outlasts the request timeout",
        may_be_equal=True,
        is_about_lease=True,
    ),
)


MAX_RETRY_JITTER = 1.2
"""Jitter extends the retry period by up to 20 %."""
RENEWAL_RULE = f"{MAX_RETRY_JITTER} × leaseRetryPeriodSec < leaseRenewDeadlineSec"
REQUEST_RULE = f"requestTimeoutSec + {MAX_RETRY_JITTER} × leaseRetryPeriodSec ≤ leaseDurationSec"


def load_settings(data: bytes, file: str) -> Settings:
    """Load a file. An empty file means all defaults. Raise `InvalidFileError` with all errors."""
    return load((data, file), {}, {}).settings


def load(
    file: tuple[bytes, str] | None, variables: Mapping[str, str], flags: Mapping[str, Any]
) -> LoadedSettings:
    """Load the settings from a file (content and name), the environment, and flags by attribute.

    Raise `InvalidFileError` with the errors of all sources.
    """
    data, name = file or (b"", "")
    file_root, found = _read(data, name)
    from_environment = environment.from_environment(variables)
    from_flags = environment.from_flags(flags)
    for layer in (from_environment, from_flags):
        found.extend(_attributed(_check_values(layer.root), layer, name))
    roots = (
        environment.from_fallback_variables(variables).root,
        file_root,
        from_environment.root,
        from_flags.root,
    )
    origins = {**from_environment.origins, **from_flags.origins}
    merged = Layer(functools.reduce(_merged, roots), origins)
    invalid_keys = {diagnostic.path for diagnostic in found}
    order_errors = list(_check_orders(merged, name, invalid_keys))
    invalid_keys |= {diagnostic.path for diagnostic in order_errors}
    found.extend(_attributed(order_errors, merged, name))
    found.extend(_attributed(_check_lease(merged.root, invalid_keys), merged, name))
    found.extend(_attributed(_check_burst(merged.root), merged, name))
    if any(diagnostic.is_error for diagnostic in found):
        raise InvalidFileError([diagnostic for diagnostic in found if diagnostic.is_error])
    return LoadedSettings(_settings(merged.root), (*found, *environment.unknown_variables(variables)))


def _read(data: bytes, file: str) -> tuple[tree.Mapping, list[Diagnostic]]:
    """Return the mapping of the file and its diagnostics."""
    parsed = yaml_parse.parse(data)
    documents = [document for document in parsed.documents if not document.is_empty]
    found = diagnostics.collect(_check_file(parsed, documents), file)
    root = documents[0].root if documents else None
    return root if isinstance(root, tree.Mapping) else tree.Mapping({}, {}, 1, 1), list(found)


def _settings(root: tree.Mapping) -> Settings:
    read = msgspec.convert(tree.without_nulls(tree.plain(root)), Settings)
    return msgspec.structs.replace(read, namespaces=tuple(dict.fromkeys(read.namespaces)))


def _merged(lower: tree.Mapping, upper: tree.Mapping) -> tree.Mapping:
    entries, keys = dict(lower.entries), {**lower.keys, **upper.keys}
    for key, value in upper.entries.items():
        below = entries.get(key)
        if isinstance(value, tree.Mapping) and isinstance(below, tree.Mapping):
            entries[key] = _merged(below, value)
        elif upper.get(key) is not None or below is None:
            entries[key] = value
    return tree.Mapping(entries, keys, upper.line, upper.column)


def _attributed(found: Iterable[Diagnostic], layer: Layer, file: str) -> Iterator[Diagnostic]:
    for diagnostic in found:
        origin = layer.origins.get(diagnostic.path.partition("[")[0])
        yield diagnostic.with_file(file) if origin is None else environment.with_origin(diagnostic, origin)


# Single values


def _check_file(parsed: tree.Parsed, documents: list[tree.Document]) -> Iterator[Diagnostic]:
    if parsed.failure is not None:
        yield parsed.failure
    for document in documents[:1]:
        yield from document.diagnostics
        yield from _check_values(document.root)
        yield from _check_failure_classes(document.root)
    for document in documents[1:]:
        yield diagnostics.error(
            document.root, "", "found another document, expected one: a configuration is one mapping"
        )


def _check_values(root: tree.Node) -> Iterator[Diagnostic]:
    yield from structural_validation.check(root, Settings, "")
    for key, is_valid, expected in (
        ("metricsAddress", _is_address, 'host:port, [v6]:port, :port, or "off"'),
        (
            "leaseName",
            formats.is_object_name,
            "a name of an object: lower-case letters, digits, hyphens and dots",
        ),
        (
            "leaseNamespace",
            _is_namespace,
            "the name of a namespace: lower-case letters, digits and hyphens",
        ),
    ):
        node = tree.dig(root, key)
        text = tree.text_of(node)
        if node is not None and text is not None and not is_valid(text):
            yield from structural_validation.wrong_value(node, expected, key)


def _is_address(text: str) -> bool:
    if text in ("", settings.OFF):
        return True
    try:
        settings.parse_address(text)
    except ValueError:
        return False
    return True


def _is_namespace(text: str) -> bool:
    return text == "" or re.fullmatch(names.DNS_LABEL_PATTERN, text) is not None


# Relations between values


def _check_orders(merged: Layer, file: str, invalid_keys: set[str]) -> Iterator[Diagnostic]:
    """Check the order of settings whose own values are valid."""
    has_election = _value(merged.root, "leaderElection") is not False
    for order in ORDERS:
        if invalid_keys & {order.low, order.high} or (order.is_about_lease and not has_election):
            continue
        low, high = _value(merged.root, order.low), _value(merged.root, order.high)
        are_in_order = low < high or (order.may_be_equal and low == high)
        if are_in_order:
            continue
        written = [key for key in (order.high, order.low) if merged.root.get(key) is not None]
        to_change = min(written, key=lambda key: key not in merged.origins)
        other = order.low if to_change == order.high else order.high
        yield diagnostics.error(
            merged.root.get(to_change) or merged.root,
            to_change,
            f"found {diagnostics.quoted(_value(merged.root, to_change))}, and {other} is "
            f"{diagnostics.quoted(_value(merged.root, other))} ({_origin(merged, file, other)}): expected {order}",
        )


def _check_lease(root: tree.Mapping, invalid_keys: set[str]) -> Iterator[Diagnostic]:
    """Require that the lease is still valid for requestTimeoutSec just before a renewal."""
    keys = ("leaseDurationSec", "leaseRenewDeadlineSec", "leaseRetryPeriodSec", "requestTimeoutSec")
    if _value(root, "leaderElection") is False or invalid_keys & set(keys):
        return
    duration, deadline, retry, timeout = (_value(root, key) for key in keys)
    longest_pause = retry * MAX_RETRY_JITTER
    if longest_pause >= deadline:
        key, expected = "leaseRetryPeriodSec", RENEWAL_RULE
    elif timeout + longest_pause > duration:
        key, expected = "requestTimeoutSec", REQUEST_RULE
    else:
        return
    yield diagnostics.error(
        root.get(key) or root,
        key,
        f"found {diagnostics.quoted(_value(root, key))}, with leaseDurationSec {duration:g}, leaseRenewDeadlineSec "
        f"{deadline:g} and leaseRetryPeriodSec {retry:g}: expected {expected}. Otherwise hardly any "
        "time is left for requests",
    )


def _check_burst(root: tree.Mapping) -> Iterator[Diagnostic]:
    node = root.get("kubeClientBurst")
    if node is not None and _value(root, "kubeClientBurst") and not _value(root, "kubeClientQps"):
        yield diagnostics.warning(node, "kubeClientBurst", "no effect while kubeClientQps is 0 (no limit)")


def _value(root: tree.Mapping, key: str) -> Any:
    """Return a number or boolean; the default if the value is missing or invalid."""
    node = root.get(key)
    if isinstance(node, tree.Scalar) and isinstance(node.value, int | float):
        return node.value
    return _DEFAULTS[key]


def _origin(merged: Layer, file: str, key: str) -> str:
    node = merged.root.get(key)
    return "the default" if node is None else merged.origins.get(key) or f"{file}:{node.line}"


# Failure classes


def _check_failure_classes(root: tree.Node) -> Iterator[Diagnostic]:
    first_lines: dict[int, int] = {}
    for index, failure in enumerate(tree.items_of(tree.dig(root, "podFailureSpec"))):
        path = diagnostics.item("podFailureSpec", index)
        if not isinstance(failure, tree.Mapping):
            continue
        yield from _check_code(failure.get("code"), first_lines, f"{path}.code")
        yield from _check_type(tree.dig(failure, "type", "name"), f"{path}.type.name")
        if not tree.items_of(failure.get("podPatterns")):
            yield diagnostics.error(
                failure,
                path,
                'missing "podPatterns": add at least one, because no pod gets this code without a pattern',
            )
        for number, pattern in enumerate(tree.items_of(failure.get("podPatterns"))):
            yield from _check_pattern(pattern, diagnostics.item(f"{path}.podPatterns", number))


def _check_code(node: tree.Node | None, first_lines: dict[int, int], path: str) -> Iterator[Diagnostic]:
    if not isinstance(node, tree.Scalar) or not isinstance(node.value, int):
        return
    if completion.is_reserved(node.value):
        reserved = " and ".join(f"{codes.start} to {codes.stop - 1}" for codes in completion.RESERVED_CODES)
        yield diagnostics.error(
            node, path, f"found {node.value}, but {reserved} are reserved: choose another code"
        )
    if node.value in first_lines:
        yield diagnostics.error(
            node,
            path,
            f"found {node.value}, which is also the code of the entry in line {first_lines[node.value]}: "
            "give each entry its own code",
        )
    first_lines.setdefault(node.value, node.line)


def _check_type(node: tree.Node | None, path: str) -> Iterator[Diagnostic]:
    """Reject Succeeded. The structural validation rejects values other than Succeeded and Failed."""
    if node is not None and tree.text_of(node) == CompletionTypeName.SUCCEEDED:
        yield from structural_validation.wrong_value(
            node, f"{CompletionTypeName.FAILED}: only failed pods are classified", path
        )


def _check_pattern(pattern: tree.Node, path: str) -> Iterator[Diagnostic]:
    """Check the pattern of a pod or of a container."""
    yield from _check_expressions(pattern, path)
    for field in ("signalRange", "codeRange"):
        yield from _check_range(tree.dig(pattern, field), f"{path}.{field}")
    for index, container in enumerate(tree.items_of(tree.dig(pattern, "containers"))):
        yield from _check_pattern(container, diagnostics.item(f"{path}.containers", index))


def _check_expressions(pattern: tree.Node, path: str) -> Iterator[Diagnostic]:
    for field in _REGEX_FIELDS:
        node = tree.dig(pattern, field)
        text = tree.text_of(node)
        if node is None or text is None:
            continue
        try:
            patterns.compile_search(text)
        except patterns.PatternError as error:
            yield diagnostics.error(node, f"{path}.{field}", f"invalid RE2 expression: {error.reason}")


def _check_range(node: tree.Node | None, path: str) -> Iterator[Diagnostic]:
    low, high = (tree.integer_of(tree.dig(node, key)) for key in ("min", "max"))
    if node is not None and low is not None and high is not None and low > high:
        yield diagnostics.error(node, path, f"found the range from {low} to {high}, expected min ≤ max")
