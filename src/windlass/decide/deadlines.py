"""The deadlines of a Framework: activeDeadlineSeconds and pendingDeadlineSeconds (A4)."""

from datetime import datetime

from windlass.decide.builder import DecisionBuilder
from windlass.model.completion import (
    CompletionCode,
    CompletionTrigger,
    FrameworkAttemptCompletionStatus,
    framework_completion,
)
from windlass.model.states import State
from windlass.model.status import TaskStatus

_PENDING_STATES = frozenset(
    {State.ATTEMPT_CREATION_PENDING, State.ATTEMPT_CREATION_REQUESTED, State.ATTEMPT_PREPARING}
)


def active_deadline_exceeded(builder: DecisionBuilder) -> FrameworkAttemptCompletionStatus | None:
    """Return the completion status if the deadline over all attempts has passed. Time in which the Framework is
    suspended or held does not count."""
    limit = builder.spec.active_deadline_seconds
    if limit is None or builder.status.holding.since is not None:
        return None
    if not builder.is_due(builder.status.start_time, limit + builder.status.holding.total_sec):
        return None
    return framework_completion(
        CompletionCode.ACTIVE_DEADLINE_EXCEEDED,
        f"the job was active for more than {limit} s (activeDeadlineSeconds)",
    )


def pending_deadline_exceeded(builder: DecisionBuilder) -> FrameworkAttemptCompletionStatus | None:
    """Return the completion status if a task has been waiting too long for its pod to run. In a role with startAfter or
    parallelism, the time before the pod is created does not count."""
    limit = builder.spec.pending_deadline_seconds
    if limit is None:
        return None
    held_back = {role.name for role in builder.spec.task_roles if role.start_after or role.parallelism}
    pending = [
        (_pending_since(builder, task), role.name, task)
        for role in builder.status.attempt_status.roles
        for task in role.task_statuses
        if task.state in _PENDING_STATES
        and not task.deletion_pending
        and not (task.state is State.ATTEMPT_CREATION_PENDING and role.name in held_back)
    ]
    if not pending:
        return None
    since, role_name, task = min(pending, key=lambda entry: entry[0])
    if not builder.is_due(since, limit):
        return None
    return framework_completion(
        CompletionCode.PENDING_DEADLINE_EXCEEDED,
        f"{role_name}-{task.index} was pending for more than {limit} s (pendingDeadlineSeconds)",
        CompletionTrigger(
            message=f"The task was pending since {since:%Y-%m-%dT%H:%M:%SZ}",
            task_role_name=role_name,
            task_index=task.index,
        ),
    )


def _pending_since(builder: DecisionBuilder, task: TaskStatus) -> datetime:
    """Return when the task entered its state. Until its pod is observed, time before the ConfigMap was created does not
    count."""
    config_map = builder.observed.config_map
    attempt_began = None if config_map is None else config_map.metadata.creation_timestamp
    if task.state is State.ATTEMPT_PREPARING or attempt_began is None:
        return task.transition_time
    return max(task.transition_time, attempt_began)
