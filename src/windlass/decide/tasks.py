"""One walk over all tasks: each follows its pod, then is retried, completed or ended."""

from datetime import datetime

import msgspec

from windlass.decide import deletion, rescale, task_lifecycle
from windlass.decide.builder import DecisionBuilder
from windlass.decide.types import CreatePod, ReasonKind
from windlass.model.completion import CompletionCode
from windlass.model.framework import RetryPolicySpec
from windlass.model.states import COMPLETED, CREATION_PENDING
from windlass.model.status import TaskRoleStatus, TaskStatus

SCALE_DOWN_DIAGNOSTICS = "The task was removed from the spec"
MIN_POSTPONED_PODS = 8
"""So many names that others have taken hold up no other task."""
ATTEMPT_END_DIAGNOSTICS = "The Framework attempt ended before the task"


def update_tasks(builder: DecisionBuilder) -> None:
    """Rescale, follow, retry: what happens while the attempt is wanted."""
    attempt_id = builder.status.attempt_status.id
    roles = rescale.resize_roles(
        builder.framework, builder.status.attempt_status.roles, attempt_id, builder.now
    )
    policies = {spec.name: spec.task.retry_policy for spec in builder.spec.task_roles}

    def advance(role: str, task: TaskStatus) -> TaskStatus:
        if task_lifecycle.is_up_to_date(builder, task):
            return task
        if task.deletion_pending:
            task = task_lifecycle.end_task(
                builder, role, task, CompletionCode.DELETE_TASK_REQUESTED, SCALE_DOWN_DIAGNOSTICS
            )
        else:
            task = task_lifecycle.update_from_pod(builder, role, task)
        return task_lifecycle.retry_or_complete(builder, role, task, policies.get(role, RetryPolicySpec()))

    roles = _map_tasks(roles, advance)
    roles, ended = rescale.drop_deleted_tasks(builder.framework, roles, attempt_id, builder.now)
    for role, task in ended:
        builder.report_end_of_task(
            ReasonKind.TASK_DELETED, f"Removed {role}-{task.index}: its role was scaled down", role, task
        )
    builder.with_roles(roles)


def end_tasks(builder: DecisionBuilder) -> None:
    """The attempt is decided: the tasks that had not completed end with it, and none is retried."""
    if are_all_completed(builder):
        return

    def end(role: str, task: TaskStatus) -> TaskStatus:
        if task.is_completed:
            return task
        task = task_lifecycle.end_task(
            builder, role, task, CompletionCode.FRAMEWORK_ATTEMPT_COMPLETION, ATTEMPT_END_DIAGNOSTICS
        )
        return task_lifecycle.complete(builder, task)

    builder.with_roles(_map_tasks(builder.status.attempt_status.roles, end))


def are_all_completed(builder: DecisionBuilder) -> bool:
    return all(
        task.state is COMPLETED for role in builder.status.attempt_status.roles for task in role.task_statuses
    )


def _map_tasks(roles: tuple[TaskRoleStatus, ...], step: "task_lifecycle.Step") -> tuple[TaskRoleStatus, ...]:
    """The same roles, and the same tuple of them, where no task changed."""
    mapped = []
    for role in roles:
        tasks = [step(role.name, task) for task in role.task_statuses]
        is_unchanged = all(map(_is_same, tasks, role.task_statuses))
        mapped.append(role if is_unchanged else msgspec.structs.replace(role, task_statuses=tuple(tasks)))
    return roles if all(map(_is_same, mapped, roles)) else tuple(mapped)


def _is_same(new: object, old: object) -> bool:
    return new is old


def reconcile_pods(builder: DecisionBuilder) -> None:
    """Create the pods that are missing, delete those that have to go."""
    pods = builder.observed.pods
    claimed: set[str] = set()
    missing: list[tuple[str, TaskStatus]] = []
    for role in builder.status.attempt_status.roles:
        for task in role.task_statuses:
            attempt = task.attempt_status
            if task.state is CREATION_PENDING:
                # Somebody may have its name: a stranger, or a pod of ours on its way out.
                if not task.deletion_pending and attempt.pod_name not in pods:
                    missing.append((role.name, task))
                continue
            pod = pods.get(attempt.pod_name)
            if pod is None or pod.uid != attempt.pod_uid:
                continue
            claimed.add(pod.uid)
            if task.state.is_ending:
                deletion.delete_pod(builder, pod)
    _create_pods(builder, missing, existing=len(claimed))
    if len(claimed) < len(pods):
        deletion.delete_unclaimed_pods(builder, claimed)


def _create_pods(builder: DecisionBuilder, missing: list[tuple[str, TaskStatus]], existing: int) -> None:
    """All at once, as long as none was turned down.

    From then on no more may be waiting for their next try than there are pods already, and a few if there are none: a
    quota that is used up is asked about by a few pods, later each time, and not by thousands. Those that were turned
    down come first, so that a refusal that concerns all does not begin anew with each name.
    """
    postponed = builder.observed.outcomes.postponed
    fresh: list[CreatePod] = []
    due: list[tuple[datetime, CreatePod]] = []
    waiting = 0
    for role, task in missing:
        until = postponed.get(task.attempt_status.pod_name)
        if until is None:
            fresh.append(CreatePod(role, task.index))
        elif builder.is_past(until):
            due.append((until, CreatePod(role, task.index)))
        else:
            waiting += 1
    if due or waiting:
        due.sort(key=lambda entry: entry[0])
        more = max(0, max(MIN_POSTPONED_PODS, existing) - waiting)
        fresh = [*(creation for _, creation in due), *fresh][:more]
    for creation in fresh:
        builder.act(creation)
