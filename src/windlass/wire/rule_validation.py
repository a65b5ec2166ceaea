"""Semantic validation of the rules of a Framework that FrameworkController does not have: completionPolicies,
podFailureSpec of a task, and startAfter."""

import functools
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from typing import NamedTuple

from windlass.k8s import patterns
from windlass.model.failures import ContainerPattern, IntRange, PodPattern, TaskFailureClass
from windlass.model.framework import CompletionRule, FrameworkSpec, TaskRoleSpec, parse_indexes
from windlass.wire import diagnostics
from windlass.wire.diagnostics import Rule


class Problem(NamedTuple):
    path: str
    message: str
    """What is wrong, and a remedy."""
    rule: Rule = Rule.WRONG_VALUE

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"


_CONDITIONS = (
    "allSucceeded",
    "minSucceededTaskCount",
    "minFailedTaskCount",
    "minFailedAttemptCount",
    "minContainerRestartCount",
)


def problems(spec: FrameworkSpec) -> Iterator[Problem]:
    """Yield why the rules cannot be applied."""
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
            yield Problem(
                f"spec.taskRoles[{index}].parallelism", f"found {role.parallelism}, expected at least 1."
            )
    if any(role.start_after for role in spec.task_roles) and (cycle := start_cycle(spec)):
        waits = " waits for ".join(cycle)
        message = f"{waits} (startAfter), so that none of them can start. Remove one of these conditions."
        yield Problem("spec.taskRoles", message, Rule.START_DEADLOCK)


def start_cycle(spec: FrameworkSpec) -> list[str]:
    """Return the roles that wait for each other, the first one also at the end; empty if there are none."""
    waits_for = {role.name: [start.task_role for start in role.start_after] for role in spec.task_roles}
    try:
        TopologicalSorter(waits_for).prepare()
    except CycleError as error:
        return list(reversed(error.args[1]))
    return []


def _rule_problems(rule: CompletionRule, path: str, spec: FrameworkSpec) -> Iterator[Problem]:
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
        yield Problem(f"{path}", f"found {written}, expected exactly one of {', '.join(_CONDITIONS)}.")
    if any(number is not None and number < 1 for number in conditions):
        yield Problem(f"{path}.{found[0]}", "expected at least 1.")
    if rule.task_indexes is not None and parse_indexes(rule.task_indexes) is None:
        written = diagnostics.quoted(rule.task_indexes)
        yield Problem(f"{path}.taskIndexes", f"found {written}, expected indexes such as 0-3,7.")
    if rule.min_failed_task_count is None and (rule.phrases or rule.code_ranges):
        yield Problem(f"{path}", "phrases and codeRanges belong to minFailedTaskCount. Remove them.")
    if rule.min_container_restart_count is None and rule.phases:
        yield Problem(f"{path}.phases", "phases belong to minContainerRestartCount. Remove them.")
    if rule.is_success and rule.type is not None:
        yield Problem(f"{path}.type", "only a failure has a type. Remove it.")
    if rule.type is not None and not rule.type.is_failed:
        yield Problem(f"{path}.type.name", "found Succeeded, expected Failed. Remove the name.")
    yield from _range_problems(rule.code_ranges, f"{path}.codeRanges")


def _role_problems(roles: tuple[str, ...], path: str, spec: FrameworkSpec) -> Iterator[Problem]:
    known = tuple(role.name for role in spec.task_roles)
    for name in roles:
        if name not in known:
            yield Problem(
                f"{path}",
                f"unknown role {diagnostics.quoted(name)}. {diagnostics.did_you_mean(name, known)}",
                Rule.UNKNOWN_ROLE,
            )


def _order_problems(role: TaskRoleSpec, path: str, spec: FrameworkSpec) -> Iterator[Problem]:
    for index, start in enumerate(role.start_after):
        yield from _role_problems((start.task_role,), f"{path}[{index}].taskRole", spec)


def _range_problems(ranges: tuple[IntRange, ...], path: str) -> Iterator[Problem]:
    for index, codes in enumerate(ranges):
        if codes.min is not None and codes.max is not None and codes.min > codes.max:
            yield Problem(f"{path}[{index}]", f"found {codes.min} to {codes.max}, expected min ≤ max.")


@functools.lru_cache(maxsize=256)
def _failure_problems(classes: tuple[TaskFailureClass, ...], path: str) -> tuple[Problem, ...]:
    """Return the problems of the failure classes. The result is cached, because expressions are compiled."""
    return tuple(
        problem
        for index, failure in enumerate(classes)
        for problem in _class_problems(failure, f"{path}[{index}]")
    )


def _class_problems(failure: TaskFailureClass, path: str) -> Iterator[Problem]:
    if failure.code == 0:
        yield Problem(
            f"{path}.code", "found 0, the code of success. Choose another code, or remove the field."
        )
    if not failure.type.is_failed:
        yield Problem(f"{path}.type.name", "found Succeeded, expected Failed. Remove the name.")
    yield from _range_problems(failure.code_ranges, f"{path}.codeRanges")
    for index, pod in enumerate(failure.pod_patterns):
        at = f"{path}.podPatterns[{index}]"
        yield from _expression_problems(pod, at)
        for number, container in enumerate(pod.containers):
            where = f"{at}.containers[{number}]"
            yield from _expression_problems(container, where)
            yield from _range_problems((container.code_range,), f"{where}.codeRange")
            yield from _range_problems((container.signal_range,), f"{where}.signalRange")


def _expression_problems(pattern: PodPattern | ContainerPattern, path: str) -> Iterator[Problem]:
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
            yield Problem(f"{path}.{name}", f"invalid RE2 expression: {error.reason}.")
