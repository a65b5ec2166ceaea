"""The controller's configuration file → Settings. What a setting means stands in `windlass.settings`."""

from collections.abc import Iterator
from typing import Any

import msgspec

from windlass.model import completion, expressions
from windlass.model.completion import CompletionTypeName
from windlass.model.failures import ContainerPattern, FailureClass, IntRange, PodPattern
from windlass.settings import Settings
from windlass.wire import faults, parsing, shape, tree
from windlass.wire.faults import Fault, FaultyFileError

_MIN_DELAY = "frameworkMinRetryDelaySecForTransientConflictFailed"
_MAX_DELAY = "frameworkMaxRetryDelaySecForTransientConflictFailed"
_EXPRESSIONS = ("nameRegex", "reasonRegex", "messageRegex")
_LOWEST_FAILED_CODE = 1
"""A container pattern without a lower bound speaks of containers that failed, as in the reference."""


def load_settings(data: bytes, file: str) -> Settings:
    """An empty file means all defaults. Raises `FaultyFileError` with all faults of the file."""
    parsed = parsing.parse(data)
    documents = [document for document in parsed.documents if not document.is_empty]
    found = faults.gathered(_check_file(parsed, documents), file)
    if found:
        raise FaultyFileError(found)
    if not documents:
        return Settings()
    settings = msgspec.convert(tree.without_nulls(tree.plain(documents[0].root)), Settings)
    return msgspec.structs.replace(
        settings, pod_failure_spec=tuple(_with_lowest_codes(failure) for failure in settings.pod_failure_spec)
    )


def _check_file(parsed: tree.Parsed, documents: list[tree.Document]) -> Iterator[Fault]:
    if parsed.failure is not None:
        yield parsed.failure
    for document in documents[:1]:
        yield from document.faults
        yield from _check(document.root)
    for document in documents[1:]:
        yield faults.error(
            document.root, "", "found another document, expected one: a configuration is one mapping"
        )


def _check(root: tree.Node) -> Iterator[Fault]:
    yield from shape.check(root, Settings, "")
    if isinstance(root, tree.Mapping):
        yield from _check_delays(root)
        yield from _check_failure_classes(root)


def _check_delays(root: tree.Mapping) -> Iterator[Fault]:
    default = Settings()
    lowest = _integer(
        root.get(_MIN_DELAY), default.framework_min_retry_delay_sec_for_transient_conflict_failed
    )
    highest = _integer(
        root.get(_MAX_DELAY), default.framework_max_retry_delay_sec_for_transient_conflict_failed
    )
    if highest < lowest:
        field = _MAX_DELAY if root.get(_MAX_DELAY) is not None else _MIN_DELAY
        yield faults.error(
            root.get(field) or root,
            field,
            f"the longest delay, {highest} s, is less than the shortest, {lowest} s: "
            f"expected {_MIN_DELAY} ≤ {_MAX_DELAY}",
        )


def _check_failure_classes(root: tree.Mapping) -> Iterator[Fault]:
    first_lines: dict[int, int] = {}
    for index, failure in enumerate(tree.items_of(root.get("podFailureSpec"))):
        path = faults.item("podFailureSpec", index)
        if not isinstance(failure, tree.Mapping):
            continue
        yield from _check_code(failure.get("code"), first_lines, f"{path}.code")
        yield from _check_type(tree.dig(failure, "type", "name"), f"{path}.type.name")
        if not tree.items_of(failure.get("podPatterns")):
            yield faults.error(
                failure,
                path,
                'found no "podPatterns", expected at least one: without, no pod ever gets this code',
            )
        for number, pattern in enumerate(tree.items_of(failure.get("podPatterns"))):
            yield from _check_pattern(pattern, faults.item(f"{path}.podPatterns", number))


def _check_code(node: tree.Node | None, first_lines: dict[int, int], path: str) -> Iterator[Fault]:
    if not isinstance(node, tree.Scalar) or not isinstance(node.value, int):
        return
    if completion.is_reserved(node.value):
        reserved = " and ".join(f"{codes.start} to {codes.stop - 1}" for codes in completion.RESERVED_CODES)
        yield faults.error(
            node, path, f"found {node.value}, but {reserved} are reserved: choose a code outside"
        )
    if node.value in first_lines:
        yield faults.error(
            node,
            path,
            f"found {node.value}, the code of the entry in line {first_lines[node.value]} too: "
            "expected a code of its own for every entry",
        )
    first_lines.setdefault(node.value, node.line)


def _check_type(node: tree.Node | None, path: str) -> Iterator[Fault]:
    """Other words than the two names are the shape's affair."""
    if node is not None and tree.text_of(node) == CompletionTypeName.SUCCEEDED:
        yield from shape.wrong_type(
            node, f"{CompletionTypeName.FAILED}: only failed pods are classified", path
        )


def _check_pattern(pattern: tree.Node, path: str) -> Iterator[Fault]:
    """A pod's pattern, or that of a container within it."""
    yield from _check_expressions(pattern, path)
    for field, lowest in (("signalRange", None), ("codeRange", _LOWEST_FAILED_CODE)):
        yield from _check_range(tree.dig(pattern, field), lowest, f"{path}.{field}")
    for index, container in enumerate(tree.items_of(tree.dig(pattern, "containers"))):
        yield from _check_pattern(container, faults.item(f"{path}.containers", index))


def _check_expressions(pattern: tree.Node, path: str) -> Iterator[Fault]:
    for field in _EXPRESSIONS:
        node = tree.dig(pattern, field)
        text = tree.text_of(node)
        if node is None or text is None:
            continue
        try:
            expressions.compile_expression(text)
        except expressions.ExpressionError as refused:
            yield faults.error(node, f"{path}.{field}", f"this is no RE2 expression: {refused}")


def _check_range(node: tree.Node | None, lowest: int | None, path: str) -> Iterator[Fault]:
    low = _integer(tree.dig(node, "min"), lowest)
    high = _integer(tree.dig(node, "max"), None)
    if node is not None and low is not None and high is not None and low > high:
        yield faults.error(
            node, path, f"found the range from {low} to {high}, expected min ≤ max: it holds no number"
        )


def _integer(node: tree.Node | None, otherwise: Any) -> Any:
    return node.value if isinstance(node, tree.Scalar) and shape.is_integer(node) else otherwise


def _with_lowest_codes(failure: FailureClass) -> FailureClass:
    return msgspec.structs.replace(
        failure,
        pod_patterns=tuple(_pod_pattern_with_lowest_codes(pattern) for pattern in failure.pod_patterns),
    )


def _pod_pattern_with_lowest_codes(pattern: PodPattern) -> PodPattern:
    containers = tuple(_container_with_lowest_code(container) for container in pattern.containers)
    return msgspec.structs.replace(pattern, containers=containers)


def _container_with_lowest_code(container: ContainerPattern) -> ContainerPattern:
    if container.code_range.min is not None:
        return container
    code_range = IntRange(min=_LOWEST_FAILED_CODE, max=container.code_range.max)
    return msgspec.structs.replace(container, code_range=code_range)
