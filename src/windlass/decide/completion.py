"""When a Framework attempt is decided, and by which task (statements 17 and 30 to 33)."""

import heapq
from datetime import datetime

import msgspec

from windlass.model.completion import (
    CompletionCode,
    CompletionTrigger,
    FrameworkAttemptCompletionStatus,
    TaskAttemptCompletionStatus,
    framework_completion,
)
from windlass.model.framework import CompletionPolicySpec, FrameworkSpec
from windlass.model.states import COMPLETED, RUNNING
from windlass.model.status import Summary, TaskRoleStatus, TaskStatus


class Census(msgspec.Struct, frozen=True):
    """A role's tasks, sorted by how they stand. Tasks that are being scaled away are not in it, and a task that ended
    because its attempt did, such as a parameter server, neither succeeded nor failed."""

    role: str
    tasks: int
    running: int
    succeeded: tuple[TaskStatus, ...]
    failed: tuple[TaskStatus, ...]

    @property
    def completed(self) -> int:
        return len(self.succeeded) + len(self.failed)


def census_of(role: TaskRoleStatus) -> Census:
    tasks = running = 0
    succeeded: list[TaskStatus] = []
    failed: list[TaskStatus] = []
    for task in role.task_statuses:
        if task.deletion_pending:
            continue
        tasks += 1
        if task.state is RUNNING:
            running += 1
        elif task.state is COMPLETED:
            ended = task.attempt_status.completion_status
            if ended is None or not ended.type.is_failed:
                succeeded.append(task)
            elif ended.code != CompletionCode.FRAMEWORK_ATTEMPT_COMPLETION:
                failed.append(task)
    return Census(role.name, tasks, running, tuple(succeeded), tuple(failed))


def summary_of(censuses: tuple[Census, ...]) -> Summary:
    tasks = running = succeeded = failed = 0
    for census in censuses:
        tasks += census.tasks
        running += census.running
        succeeded += len(census.succeeded)
        failed += len(census.failed)
    return Summary(tasks, running, succeeded, failed)


class _RuleMet(msgspec.Struct, frozen=True):
    at: datetime
    order: int
    role: str
    task: TaskStatus
    message: str


def evaluate(spec: FrameworkSpec, censuses: tuple[Census, ...]) -> FrameworkAttemptCompletionStatus | None:
    """How the attempt ends, or None while that is open."""
    by_role = {census.role: census for census in censuses}
    met = [
        rule
        for role in spec.task_roles
        if role.name in by_role
        for rule in _rules_met(role.framework_attempt_completion_policy, by_role[role.name])
    ]
    if met:
        return _inherited(min(met, key=lambda rule: (rule.at, rule.order)))
    tasks = sum(census.tasks for census in censuses)
    # One that was scaled away and is wanted again has a successor that is still to come.
    are_all_there = tasks >= sum(role.task_number for role in spec.task_roles)
    are_all_completed = tasks == sum(census.completed for census in censuses)
    if tasks > 0 and are_all_there and are_all_completed:
        failed = sum(len(census.failed) for census in censuses)
        return framework_completion(
            CompletionCode.SUCCEEDED,
            f"All {tasks} tasks have completed, {failed} of them failed, and no completion policy was met",
        )
    return None


def _rules_met(policy: CompletionPolicySpec, census: Census) -> list[_RuleMet]:
    met = []
    for order, name, limit, tasks in (
        (0, "Failed", policy.min_failed_task_count, census.failed),
        (1, "Succeeded", policy.min_succeeded_task_count, census.succeeded),
    ):
        is_switched_on = limit > 0
        if is_switched_on and len(tasks) >= limit:
            decider = heapq.nsmallest(limit, tasks, key=_completed_at)[-1]
            message = f"{name}TaskCount {len(tasks)} has reached Min{name}TaskCount {limit} in the TaskRole"
            met.append(_RuleMet(_completed_at(decider)[0], order, census.role, decider, message))
    return met


def _completed_at(task: TaskStatus) -> tuple[datetime, int]:
    """Of the same second, the lower index."""
    return task.completion_time or task.transition_time, task.index


def _inherited(rule: _RuleMet) -> FrameworkAttemptCompletionStatus:
    completion = rule.task.attempt_status.completion_status
    assert completion is not None  # noqa: S101 - a completed task has one
    return _with_trigger(
        completion,
        CompletionTrigger(message=rule.message, task_role_name=rule.role, task_index=rule.task.index),
    )


def _with_trigger(
    completion: TaskAttemptCompletionStatus, trigger: CompletionTrigger
) -> FrameworkAttemptCompletionStatus:
    return FrameworkAttemptCompletionStatus(
        code=completion.code,
        phrase=completion.phrase,
        type=completion.type,
        diagnostics=completion.diagnostics,
        trigger=trigger,
    )
