"""Decides when a Framework attempt is complete, and which task triggered that (statements 17 and 30 to 33)."""

import heapq
import operator
from collections.abc import Mapping
from datetime import UTC, datetime

import msgspec

from windlass.model.completion import (
    CompletionCode,
    CompletionTrigger,
    FrameworkAttemptCompletionStatus,
    framework_completion,
)
from windlass.model.framework import CompletionPolicySpec, FrameworkSpec
from windlass.model.pods import PodView
from windlass.model.states import COMPLETED, RUNNING
from windlass.model.status import TaskRoleStatus, TaskStatus

_UNKNOWN_FINISH = datetime.max.replace(tzinfo=UTC)


class RoleCounts(msgspec.Struct, frozen=True):
    """The tasks of a role by state. Tasks marked for deletion do not count. A task that was ended because the
    Framework attempt completed, e.g. a parameter server, counts neither as succeeded nor as failed."""

    role: str
    tasks: int
    running: int
    succeeded: tuple[TaskStatus, ...]
    failed: tuple[TaskStatus, ...]

    @property
    def completed(self) -> int:
        return len(self.succeeded) + len(self.failed)


def count_tasks(role: TaskRoleStatus) -> RoleCounts:
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
            completion = task.attempt_status.completion_status
            if completion is None or not completion.type.is_failed:
                succeeded.append(task)
            elif completion.code != CompletionCode.FRAMEWORK_ATTEMPT_COMPLETION:
                failed.append(task)
    return RoleCounts(role.name, tasks, running, tuple(succeeded), tuple(failed))


class CompletionOrder(msgspec.Struct, frozen=True, order=True):
    """The sort key of completed tasks. All tasks that one pass finds completed have the same completion time, e.g.
    after a change of leader: these are ordered by the finish times of their pods, then by the order of the spec.

    Only these are compared by finish times, which are from the clocks of different nodes.
    """

    completed_at: datetime
    finished_at: datetime
    role_position: int
    task_index: int


class _MetPolicy(msgspec.Struct, frozen=True):
    order: CompletionOrder
    role: str
    task: TaskStatus
    message: str


def evaluate(
    spec: FrameworkSpec, role_counts: tuple[RoleCounts, ...], pods: Mapping[str, PodView]
) -> FrameworkAttemptCompletionStatus | None:
    """Return the completion status of the attempt, or None if it is not complete."""
    by_role = {counts.role: counts for counts in role_counts}
    met = [
        policy
        for position, role in enumerate(spec.task_roles)
        if role.name in by_role
        for policy in _met_policies(
            role.framework_attempt_completion_policy, by_role[role.name], position, pods
        )
    ]
    if met:
        return _inherit_completion(min(met, key=lambda policy: policy.order))
    tasks = sum(counts.tasks for counts in role_counts)
    # A task that is marked for deletion may be in the spec again. Its replacement does not exist yet.
    are_all_present = tasks >= sum(role.task_number for role in spec.task_roles)
    are_all_completed = tasks == sum(counts.completed for counts in role_counts)
    if tasks > 0 and are_all_present and are_all_completed:
        failed = sum(len(counts.failed) for counts in role_counts)
        failures = f", {failed} failed" if failed else ""
        results = f"{tasks - failed} of {tasks} tasks succeeded{failures}"
        role_name, task_index = _last_task(spec, role_counts, pods)
        trigger = CompletionTrigger(message=results, task_role_name=role_name, task_index=task_index)
        return framework_completion(CompletionCode.SUCCEEDED, results, trigger)
    return None


def _last_task(
    spec: FrameworkSpec, role_counts: tuple[RoleCounts, ...], pods: Mapping[str, PodView]
) -> tuple[str, int]:
    """Return the role and index of the task that completed last."""
    positions = {role.name: position for position, role in enumerate(spec.task_roles)}
    ordered = (
        (completion_order(task, positions.get(counts.role, len(positions)), pods), counts.role)
        for counts in role_counts
        for task in (*counts.succeeded, *counts.failed)
    )
    order, role_name = max(ordered)
    return role_name, order.task_index


def _met_policies(
    policy: CompletionPolicySpec, counts: RoleCounts, position: int, pods: Mapping[str, PodView]
) -> list[_MetPolicy]:
    met = []
    for name, limit, tasks in (
        ("Failed", policy.min_failed_task_count, counts.failed),
        ("Succeeded", policy.min_succeeded_task_count, counts.succeeded),
    ):
        is_enabled = limit > 0
        if is_enabled and len(tasks) >= limit:
            ordered = ((completion_order(task, position, pods), task) for task in tasks)
            order, decider = heapq.nsmallest(limit, ordered, key=operator.itemgetter(0))[-1]
            message = f"{name}TaskCount {len(tasks)} has reached Min{name}TaskCount {limit} in the TaskRole"
            met.append(_MetPolicy(order, counts.role, decider, message))
    return met


def completion_order(task: TaskStatus, position: int, pods: Mapping[str, PodView]) -> CompletionOrder:
    attempt = task.attempt_status
    pod = pods.get(attempt.pod_name)
    finished_at = pod.finished_at if pod is not None and pod.uid == attempt.pod_uid else None
    return CompletionOrder(
        completed_at=task.completion_time or task.transition_time,
        finished_at=finished_at or _UNKNOWN_FINISH,
        role_position=position,
        task_index=task.index,
    )


def _inherit_completion(policy: _MetPolicy) -> FrameworkAttemptCompletionStatus:
    completion = policy.task.attempt_status.completion_status
    assert completion is not None  # noqa: S101 - a completed task has one
    return FrameworkAttemptCompletionStatus(
        code=completion.code,
        phrase=completion.phrase,
        type=completion.type,
        diagnostics=completion.diagnostics,
        trigger=CompletionTrigger(
            message=policy.message, task_role_name=policy.role, task_index=policy.task.index
        ),
    )
