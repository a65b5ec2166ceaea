"""Semantic validation of the rules of a Framework that FrameworkController does not have: completionPolicies,
podFailureSpec of a task, and startAfter."""

import functools
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter

from windlass.k8s import patterns
from windlass.model.failures import ContainerPattern, IntRange, PodPattern, TaskFailureClass
from windlass.model.framework import CompletionRule, FrameworkSpec, TaskRoleSpec, parse_indexes
from windlass.wire import diagnostics

_CONDITIONS = (
    "allSucceeded",
    "minSucceededTaskCount",
    "minFailedTaskCount",
    "minFailedAttemptCount",
    "minContainerRestartCount",
)


def problems(spec: FrameworkSpec) -> Iterator[str]:
    """Yield why the rules cannot be applied: the field, what is wrong, and a remedy."""
    if spec.completion_policies:
        for index, rule in enumerate(spec.completion_policies):
            yield from _rule_problems(rule, f"spec.completionPolicies[{index}]", spec)
    for index, role in enumerate(spec.task_roles):
        if role.task.pod_failure_spec:
            path = f"spec.taskRoles[{index}].task.podFailureSpec"
            yield from _failure_problems(role.task.pod_failure_spec, path)
        if role.start_after:
            yield from _order_problems(role, f"spec.taskRoles[{index}].startAfter", spec)
        if role.parallelism is not None and role.parallelism < 1:
            yield f"spec.taskRoles[{index}].parallelism: found {role.parallelism}, expected at least 1."
    if any(role.start_after for role in spec.task_roles) and (cycle := start_cycle(spec)):
        yield (
            f"spec.taskRoles: {' waits for '.join(cycle)} (startAfter), so that none of them can start. Remove one of "
            "these conditions."
        )


def start_cycle(spec: FrameworkSpec) -> list[str]:
    """Return the roles that wait for each other, the first one also at the end; empty if there are none."""
    waits_for = {role.name: [start.task_role for start in role.start_after] for role in spec.task_roles}
    try:
        TopologicalSorter(waits_for).prepare()
    except CycleError as error:
        return list(reversed(error.args[1]))
    return []


def _rule_problems(rule: CompletionRule, path: str, spec: FrameworkSpec) -> Iterator[str]:
    yield from _role_problems(rule.task_roles, f"{path}.taskRoles", spec)
    conditions = (
        rule.all_succeeded or None,
        rule.min_succeeded_task_count,
        rule.min_failed_task_count,
        rule.min_failed_attempt_count,
        rule.min_container_restart_count,
    )
    found = [name for name, value in zip(_CONDITIONS, conditions, strict=True) if value is not None]
    if len(found) != 1:
        written = " and ".join(found) or "no condition"
        yield f"{path}: found {written}, expected exactly one of {', '.join(_CONDITIONS)}."
    if any(number is not None and number < 1 for number in conditions):
        yield f"{path}.{found[0]}: expected at least 1."
    if rule.task_indexes is not None and parse_indexes(rule.task_indexes) is None:
        written = diagnostics.quoted(rule.task_indexes)
        yield f"{path}.taskIndexes: found {written}, expected indexes such as 0-3,7."
    if rule.min_failed_task_count is None and (rule.phrases or rule.code_ranges):
        yield f"{path}: phrases and codeRanges belong to minFailedTaskCount. Remove them."
    if rule.min_container_restart_count is None and rule.phases:
        yield f"{path}.phases: phases belong to minContainerRestartCount. Remove them."
    if rule.is_success and rule.type is not None:
        yield f"{path}.type: only a failure has a type. Remove it."
    if rule.type is not None and not rule.type.is_failed:
        yield f"{path}.type.name: found Succeeded, expected Failed. Remove the name."
    yield from _range_problems(rule.code_ranges, f"{path}.codeRanges")


def _role_problems(roles: tuple[str, ...], path: str, spec: FrameworkSpec) -> Iterator[str]:
    known = tuple(role.name for role in spec.task_roles)
    for name in roles:
        if name not in known:
            yield f"{path}: unknown role {diagnostics.quoted(name)}. {diagnostics.did_you_mean(name, known)}"


def _order_problems(role: TaskRoleSpec, path: str, spec: FrameworkSpec) -> Iterator[str]:
    for index, start in enumerate(role.start_after):
        yield from _role_problems((start.task_role,), f"{path}[{index}].taskRole", spec)


def _range_problems(ranges: tuple[IntRange, ...], path: str) -> Iterator[str]:
    for index, codes in enumerate(ranges):
        if codes.min is not None and codes.max is not None and codes.min > codes.max:
            yield f"{path}[{index}]: found {codes.min} to {codes.max}, expected min ≤ max."


@functools.lru_cache(maxsize=256)
def _failure_problems(classes: tuple[TaskFailureClass, ...], path: str) -> tuple[str, ...]:
    """Return the problems of the failure classes. The result is cached, because expressions are compiled."""
    return tuple(
        problem
        for index, failure in enumerate(classes)
        for problem in _class_problems(failure, f"{path}[{index}]")
    )


def _class_problems(failure: TaskFailureClass, path: str) -> Iterator[str]:
    if failure.code == 0:
        yield f"{path}.code: found 0, the code of success. Choose another code, or remove the field."
    if not failure.type.is_failed:
        yield f"{path}.type.name: found Succeeded, expected Failed. Remove the name."
    yield from _range_problems(failure.code_ranges, f"{path}.codeRanges")
    for index, pod in enumerate(failure.pod_patterns):
        at = f"{path}.podPatterns[{index}]"
        yield from _expression_problems(pod, at)
        for number, container in enumerate(pod.containers):
            where = f"{at}.containers[{number}]"
            yield from _expression_problems(container, where)
            yield from _range_problems((container.code_range,), f"{where}.codeRange")
            yield from _range_problems((container.signal_range,), f"{where}.signalRange")


def _expression_problems(pattern: PodPattern | ContainerPattern, path: str) -> Iterator[str]:
    for name, expression in (
        ("nameRegex", pattern.name_regex),
        ("reasonRegex", pattern.reason_regex),
        ("messageRegex", pattern.message_regex),
    ):
        if not expression:
            continue
        try:
            patterns.compile_search(expression)
        except patterns.PatternError as error:
            yield f"{path}.{name}: invalid RE2 expression: {error.reason}."
