"""Decides whether a rule of `completionPolicies` completes the attempt (B1)."""

import bisect
import operator
from collections.abc import Iterator, Mapping
from datetime import datetime

import msgspec

from windlass.decide import completion
from windlass.decide.completion import RoleCounts
from windlass.model import verdict
from windlass.model.completion import (
    FAILED,
    CompletionCode,
    CompletionTrigger,
    FrameworkAttemptCompletionStatus,
    framework_completion,
)
from windlass.model.framework import (
    CompletionRule,
    FrameworkSpec,
    RetryPolicySpec,
    TaskRoleSpec,
    parse_indexes,
)
from windlass.model.pods import PodView
from windlass.model.status import TaskRoleStatus, TaskStatus

Pods = Mapping[str, PodView]
_NOT_COUNTED = frozenset({CompletionCode.FRAMEWORK_ATTEMPT_COMPLETION, CompletionCode.DELETE_TASK_REQUESTED})


class _Selected(msgspec.Struct, frozen=True):
    """The selected tasks of a role."""

    role: TaskRoleSpec
    position: int
    expected: int
    """Number of the selected tasks in the spec."""
    counts: RoleCounts
    """The selected tasks that have completed."""
    tasks: tuple[TaskStatus, ...]


class _Met(msgspec.Struct, frozen=True):
    role: str
    task: TaskStatus
    message: str


def evaluate(
    spec: FrameworkSpec,
    roles: tuple[TaskRoleStatus, ...],
    role_counts: tuple[RoleCounts, ...],
    pods: Pods,
) -> FrameworkAttemptCompletionStatus | None:
    """Return the completion status by the first rule that is met; None if none is."""
    for rule in spec.completion_policies:
        met = _meet(rule, list(_select(rule, spec, roles, role_counts)), pods)
        if met is not None:
            return _completion_of(rule, met)
    return None


def counts_attempts(spec: FrameworkSpec) -> bool:
    """Return whether a rule counts failed attempts."""
    return any(rule.min_failed_attempt_count is not None for rule in spec.completion_policies)


def is_attempt_rule_met(spec: FrameworkSpec, roles: tuple[TaskRoleStatus, ...]) -> bool:
    """Return whether a rule about failed attempts is met. Then no task is retried before the attempt ends, so that the
    failure that met the rule remains in the status."""
    counts = tuple(map(completion.count_tasks, roles))
    return any(
        _meet(rule, list(_select(rule, spec, roles, counts)), {}) is not None
        for rule in spec.completion_policies
        if rule.min_failed_attempt_count is not None
    )


def _select(
    rule: CompletionRule,
    spec: FrameworkSpec,
    roles: tuple[TaskRoleStatus, ...],
    role_counts: tuple[RoleCounts, ...],
) -> Iterator[_Selected]:
    statuses, counts = {role.name: role for role in roles}, {each.role: each for each in role_counts}
    indexes = None if rule.task_indexes is None else parse_indexes(rule.task_indexes) or ()
    for position, role in enumerate(spec.task_roles):
        if (rule.task_roles and role.name not in rule.task_roles) or role.name not in statuses:
            continue
        tasks, counted, expected = statuses[role.name].task_statuses, counts[role.name], role.task_number
        if indexes is not None:
            tasks = _with_index(tasks, indexes)
            counted = msgspec.structs.replace(
                counted,
                succeeded=_with_index(counted.succeeded, indexes),
                failed=_with_index(counted.failed, indexes),
            )
            expected = sum(len(range(each.start, min(each.stop, role.task_number))) for each in indexes)
        yield _Selected(role, position, expected, counted, tasks)


def _with_index(tasks: tuple[TaskStatus, ...], indexes: tuple[range, ...]) -> tuple[TaskStatus, ...]:
    """Return the tasks in the ranges. Both are in the order of indexes."""
    return tuple(
        task for each in indexes for task in tasks[_position(tasks, each.start) : _position(tasks, each.stop)]
    )


def _position(tasks: tuple[TaskStatus, ...], index: int) -> int:
    return bisect.bisect_left(tasks, index, key=operator.attrgetter("index"))


def _meet(rule: CompletionRule, selection: list[_Selected], pods: Pods) -> _Met | None:
    """Return the task that met the rule, with a message; None if the rule is not met."""
    expected = sum(each.expected for each in selection)
    if rule.after_all and sum(each.counts.completed for each in selection) < expected:
        return None
    if rule.min_failed_attempt_count is not None:
        return _meet_failed_attempts(selection, rule.min_failed_attempt_count)
    if rule.min_container_restart_count is not None:
        return _meet_restarts(rule, selection, pods, rule.min_container_restart_count)
    if rule.all_succeeded:
        limit, what = expected, f"all {expected} selected tasks have succeeded (allSucceeded)"
    elif rule.min_succeeded_task_count is not None:
        limit = rule.min_succeeded_task_count
        what = f"{verdict.count('task', limit)} {_have(limit)} succeeded (minSucceededTaskCount)"
    else:
        limit = rule.min_failed_task_count or 1
        what = f"{verdict.count('task', limit)} {_have(limit)} failed (minFailedTaskCount)"
    ended = sorted(
        (
            (completion.completion_order(task, each.position, pods), each.role.name, task)
            for each in selection
            for task in (each.counts.succeeded if rule.is_success else _failed(rule, each.counts.failed))
        ),
        key=operator.itemgetter(0),
    )
    if limit == 0 or len(ended) < limit:
        return None
    _, role, task = ended[limit - 1]
    return _Met(role, task, what)


def _have(number: int) -> str:
    return "has" if number == 1 else "have"


def _failed(rule: CompletionRule, failed: tuple[TaskStatus, ...]) -> Iterator[TaskStatus]:
    """Yield the failed tasks whose phrase and code the rule counts."""
    for task in failed:
        ended = task.attempt_status.completion_status
        if (
            ended is not None
            and (not rule.phrases or ended.phrase in rule.phrases)
            and (not rule.code_ranges or any(codes.contains(ended.code) for codes in rule.code_ranges))
        ):
            yield task


def _meet_failed_attempts(selection: list[_Selected], limit: int) -> _Met | None:
    failed: list[tuple[datetime, bool, str, TaskStatus]] = []
    total = 0
    for each in selection:
        for task in each.tasks:
            if task.deletion_pending:
                continue
            has_failed = _has_counted_failure(task, each.role.task.retry_policy)
            attempts = task.retry_policy_status.accountable_retried_count + has_failed
            if attempts:
                attempt = task.attempt_status
                at = (attempt.completion_time or attempt.start_time) if has_failed else attempt.start_time
                failed.append((at, has_failed, each.role.name, task))
            total += attempts
    if total < limit:
        return None
    _, _, role, task = max(failed, key=operator.itemgetter(0, 1))
    return _Met(
        role, task, f"{verdict.count('attempt', total)} {_have(total)} failed (minFailedAttemptCount {limit})"
    )


def _has_counted_failure(task: TaskStatus, policy: RetryPolicySpec) -> bool:
    """Return whether the current attempt has failed, and its retry would count."""
    ended = task.attempt_status.completion_status
    if ended is None or not task.state.is_over or not ended.type.is_failed or ended.code in _NOT_COUNTED:
        return False
    return not (policy.fancy_retry_policy and ended.type.is_transient)


def _meet_restarts(rule: CompletionRule, selection: list[_Selected], pods: Pods, limit: int) -> _Met | None:
    total, most, decider = 0, 0, None
    for each in selection:
        for task in each.tasks:
            pod = pods.get(task.attempt_status.pod_name)
            is_counted = (
                pod is not None
                and pod.uid == task.attempt_status.pod_uid
                and not task.deletion_pending
                and (not rule.phases or pod.status.phase in rule.phases)
            )
            restarts = pod.restart_count if pod is not None and is_counted else 0
            total += restarts
            if restarts > most:
                most, decider = restarts, (each.role.name, task)
    if decider is None or total < limit:
        return None
    times = "once" if total == 1 else f"{total} times"
    return _Met(*decider, f"containers have restarted {times} (minContainerRestartCount {limit})")


def _completion_of(rule: CompletionRule, met: _Met) -> FrameworkAttemptCompletionStatus:
    message = f"{rule.name}: {met.message}" if rule.name else met.message
    trigger = CompletionTrigger(message=message, task_role_name=met.role, task_index=met.task.index)
    if rule.is_success:
        return framework_completion(CompletionCode.SUCCEEDED, message, trigger)
    failed = framework_completion(CompletionCode.COMPLETION_RULE_FAILED, message, trigger)
    ended = met.task.attempt_status.completion_status
    inherited = ended.type if ended is not None and ended.type.is_failed else FAILED
    return msgspec.structs.replace(failed, type=rule.type or inherited)
