"""Updates all tasks: each follows its pod, then is retried, completed or ended. Creates and deletes their pods."""

from collections.abc import Callable, Mapping
from datetime import datetime

import msgspec

from windlass.decide import (
    completion_rules,
    deletion,
    history,
    messages,
    parallelism,
    rescale,
    start_order,
    task_lifecycle,
)
from windlass.decide.builder import DecisionBuilder
from windlass.decide.types import CreatePod, ReasonKind
from windlass.model.completion import CompletionCode
from windlass.model.framework import RetryPolicySpec
from windlass.model.states import COMPLETED, CREATION_PENDING
from windlass.model.status import TaskRoleStatus, TaskStatus

SCALE_DOWN_DIAGNOSTICS = "The task was removed from the spec"
MIN_POSTPONED_PODS = 8
"""Lower bound of the limit on creations while some are postponed."""
ATTEMPT_END_DIAGNOSTICS = "The Framework attempt ended before the task"


def update_tasks(builder: DecisionBuilder) -> None:
    """Rescale the roles, update every task from its pod, and retry or complete it."""
    attempt_id = builder.status.attempt_status.id
    roles = rescale.resize_roles(
        builder.framework, builder.status.attempt_status.roles, attempt_id, builder.now
    )
    policies = {spec.name: spec.task.retry_policy for spec in builder.spec.task_roles}

    def follow(role: str, task: TaskStatus) -> TaskStatus:
        if task.deletion_pending:
            return task_lifecycle.end_task(
                builder, role, task, CompletionCode.DELETE_TASK_REQUESTED, SCALE_DOWN_DIAGNOSTICS
            )
        return task_lifecycle.update_from_pod(builder, role, task)

    def advance(role: str, task: TaskStatus) -> TaskStatus:
        if task_lifecycle.is_up_to_date(builder, task):
            return task
        policy = policies.get(role, RetryPolicySpec())
        return task_lifecycle.retry_or_complete(
            builder, role, follow(role, task), policy, may_retry=may_retry
        )

    may_retry = True
    if completion_rules.counts_attempts(builder.spec):
        roles = _map_tasks(
            roles,
            lambda role, task: task if task_lifecycle.is_up_to_date(builder, task) else follow(role, task),
        )
        may_retry = not completion_rules.is_attempt_rule_met(builder.spec, roles)
    roles = _map_tasks(roles, advance)
    roles, dropped = rescale.drop_deleted_tasks(builder.framework, roles, attempt_id, builder.now)
    for role, task in dropped:
        message = messages.task_deleted(role, task.index)
        builder.report(ReasonKind.TASK_DELETED, message, role, task.index, task=task)
        if builder.rules.keeps_records and task.attempt_status.pod_uid is not None:
            builder.status = history.with_ended_attempt(builder.status, role, task, None)
    builder.set_roles(roles)


def end_tasks(builder: DecisionBuilder) -> None:
    """End the tasks that have not completed, because the attempt has ended. None is retried."""
    if are_all_completed(builder):
        return

    def end(role: str, task: TaskStatus) -> TaskStatus:
        if task.is_completed:
            return task
        task = task_lifecycle.end_task(
            builder, role, task, CompletionCode.FRAMEWORK_ATTEMPT_COMPLETION, ATTEMPT_END_DIAGNOSTICS
        )
        return task_lifecycle.complete(builder, task)

    builder.set_roles(_map_tasks(builder.status.attempt_status.roles, end))


def are_all_completed(builder: DecisionBuilder) -> bool:
    return all(
        task.state is COMPLETED for role in builder.status.attempt_status.roles for task in role.task_statuses
    )


def _map_tasks(
    roles: tuple[TaskRoleStatus, ...], step: Callable[[str, TaskStatus], TaskStatus]
) -> tuple[TaskRoleStatus, ...]:
    """Return the roles with each task replaced by the step's result. Unchanged roles, and an unchanged tuple of them,
    stay the same objects."""
    updated = []
    for role in roles:
        new_tasks = [step(role.name, task) for task in role.task_statuses]
        tasks = rescale.same_if_unchanged(new_tasks, role.task_statuses)
        is_unchanged = tasks is role.task_statuses
        updated.append(role if is_unchanged else msgspec.structs.replace(role, task_statuses=tasks))
    return rescale.same_if_unchanged(updated, roles)


def reconcile_pods(builder: DecisionBuilder) -> None:
    """Create missing pods, and delete unclaimed pods and the pods of ending tasks."""
    pods = builder.observed.pods
    claimed: set[str] = set()
    missing: list[tuple[str, TaskStatus]] = []
    waiting = waiting_roles(builder)
    for role in builder.status.attempt_status.roles:
        missing_in_role: list[TaskStatus] = []
        for task in role.task_statuses:
            attempt = task.attempt_status
            if task.state is CREATION_PENDING:
                if not task.deletion_pending:
                    missing_in_role.append(task)
                continue
            pod = pods.get(attempt.pod_name)
            if pod is None or pod.uid != attempt.pod_uid:
                continue
            claimed.add(pod.uid)
            if task.state.is_ending:
                deletion.delete_pod(builder, pod)
        if missing_in_role and role.name not in waiting:
            uncertain = builder.observed.outcomes.uncertain
            spec = builder.spec.role(role.name)
            allowed = parallelism.limit(spec, role.task_statuses, missing_in_role, uncertain)
            # The name may be in use: by a pod of another owner, or by a terminating pod of ours.
            missing += ((role.name, task) for task in allowed if task.attempt_status.pod_name not in pods)
    _create_pods(builder, missing, existing=len(claimed))
    if len(claimed) < len(pods):
        deletion.delete_unclaimed_pods(builder, claimed)


def waiting_roles(builder: DecisionBuilder) -> Mapping[str, start_order.Waiting]:
    """Return the roles that wait for other roles to start."""
    is_ready = start_order.ready_in(builder.observed.pods)
    return start_order.waiting_roles(builder.spec, builder.status.attempt_status.roles, is_ready)


def _create_pods(builder: DecisionBuilder, missing: list[tuple[str, TaskStatus]], existing: int) -> None:
    """Create all pods at once, unless creations were postponed.

    In that case, the number of pods that are postponed or created is limited to the number of existing pods (at least
    MIN_POSTPONED_PODS): if a quota is exceeded, only a few creations are retried, with growing delays, instead of
    thousands. Postponed creations come first, so that an error that affects all pods does not start a new backoff for
    every name.
    """
    postponed = builder.observed.outcomes.postponed
    creations: list[CreatePod] = []
    due: list[tuple[datetime, CreatePod]] = []
    waiting = 0
    for role, task in missing:
        until = postponed.get(task.attempt_status.pod_name)
        if until is None:
            creations.append(CreatePod(role, task.index))
        elif builder.is_past(until):
            due.append((until, CreatePod(role, task.index)))
        else:
            waiting += 1
    if due or waiting:
        due.sort(key=lambda entry: entry[0])
        limit = max(0, max(MIN_POSTPONED_PODS, existing) - waiting)
        creations = [*(creation for _, creation in due), *creations][:limit]
    for creation in creations:
        builder.add_action(creation)
