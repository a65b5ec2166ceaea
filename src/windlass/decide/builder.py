"""Builds one decision: holds its input and what the steps have decided so far.

A builder is used for one decision; its input and output are immutable.
"""

from datetime import datetime, timedelta

import msgspec

from windlass.decide import completion, failures, transitions
from windlass.decide.types import (
    REPORTED_AFTER_ACTIONS,
    Action,
    Decision,
    Observed,
    Reason,
    ReasonKind,
    RelistObjects,
    Rules,
)
from windlass.model import names, verdict
from windlass.model.completion import TaskAttemptCompletionStatus
from windlass.model.feature_annotations import requested_features
from windlass.model.framework import Framework
from windlass.model.states import State
from windlass.model.status import FrameworkStatus, TaskAttemptStatus, TaskRoleStatus, TaskStatus

MAX_DELAY_SEC = 100 * 365 * 24 * 3600
"""Longer delays are limited to a hundred years, because a datetime cannot exceed the year 9999."""
RELIST_AFTER_SEC = 30
MAX_REPORTED_FAILURES = 50
MAX_FULL_MESSAGES = 10
"""Number of task attempts, per Framework attempt, whose long messages are stored completely; the messages of others are
truncated."""


class DecisionBuilder:
    """The state that the steps of one decision share."""

    def __init__(
        self, framework: Framework, status: FrameworkStatus, observed: Observed, now: datetime, rules: Rules
    ) -> None:
        self.framework = framework
        self.spec = framework.spec
        self.features = requested_features(framework.metadata.annotations)
        self.uids = {framework.uid, *observed.previous_uids}
        """UIDs of this Framework and of deleted Frameworks of the same name: objects owned by them are ours."""
        self.status = status
        self.observed = observed
        self.now = now.replace(microsecond=0)
        """The time for the status. Kubernetes stores whole seconds."""
        self._exact_now = now
        self.rules = rules
        self.actions: list[Action] = []
        self.reasons: list[Reason] = []
        self.wake_at: datetime | None = None
        self.name_taken_message = ""
        """The message of the condition NameTaken; empty if the name is free."""
        self._long_message_count: int | None = None
        self.failure_count = 0
        self._counted_roles: tuple[TaskRoleStatus, ...] | None = None
        self._role_counts: tuple[completion.RoleCounts, ...] = ()

    def resume_from(self, unstored: Decision) -> None:
        """Continue a decision whose status is not stored. Reasons that the steps report again as long as
        they apply are not copied."""
        self.status = unstored.status or self.status
        self.failure_count = unstored.failure_count
        self.reasons += [
            reason
            for reason in unstored.reasons
            if reason.kind not in REPORTED_AFTER_ACTIONS and not _is_about_unreported_failures(reason)
        ]

    def add_action(self, action: Action) -> None:
        self.actions.append(action)

    def relist(self) -> None:
        """Add the action that lists the objects again, once per decision."""
        if not any(isinstance(action, RelistObjects) for action in self.actions):
            self.actions.append(RelistObjects())

    def relist_if_overdue(self, since: datetime) -> None:
        """List the objects again RELIST_AFTER_SEC after `since`: an object that was deleted before the watch reported
        its creation would stay unconfirmed, because the watch may not report its deletion either."""
        if self.is_due(since, RELIST_AFTER_SEC):
            self.relist()

    def report(
        self,
        kind: ReasonKind,
        message: str,
        role: str = "",
        index: int = -1,
        *,
        is_warning: bool = False,
        status: FrameworkStatus | None = None,
        task: TaskStatus | None = None,
        failed_attempt: TaskAttemptStatus | None = None,
    ) -> None:
        self.reasons.append(Reason(kind, message, role, index, is_warning, status, task, failed_attempt))

    def report_failure(
        self, role: str, task: TaskStatus, completion_status: TaskAttemptCompletionStatus
    ) -> None:
        """Count the failure. Report only the first ones individually: thousands of tasks would create thousands of
        events."""
        self.failure_count += 1
        if self.failure_count <= MAX_REPORTED_FAILURES:
            attempt = task.attempt_status
            message = verdict.describe_task_failure(
                names.host_name(role, task.index),
                attempt,
                completion_status,
                f" (attempt {attempt.id + 1})" if attempt.id else "",
                ended_at=self.now,
            )
            self.report(
                ReasonKind.TASK_FAILED, message, role, task.index, is_warning=True, failed_attempt=attempt
            )

    @property
    def unreported_failures(self) -> tuple[Reason, ...]:
        """One reason for all failures that were not reported individually, if there are any."""
        unreported = self.failure_count - MAX_REPORTED_FAILURES
        if unreported <= 0:
            return ()
        return (Reason(ReasonKind.TASK_FAILED, f"{unreported} more tasks failed", is_warning=True),)

    def is_due(self, since: datetime, seconds: int) -> bool:
        """Return whether `seconds` have passed since `since`. If not, schedule a pass for the time when they have."""
        return self.is_past(since + timedelta(seconds=min(seconds, MAX_DELAY_SEC)))

    def is_past(self, due: datetime) -> bool:
        """Return whether the time `due` has come. If not, schedule a pass for it."""
        if self._exact_now >= due:
            return True
        if self.wake_at is None or due < self.wake_at:
            self.wake_at = due
        return False

    def move_to(self, state: State) -> None:
        self.status = transitions.with_state(self.status, state, self.now)

    def update_attempt(self, **changes: object) -> None:
        attempt = msgspec.structs.replace(self.status.attempt_status, **changes)
        self.status = msgspec.structs.replace(self.status, attempt_status=attempt)

    def set_roles(self, roles: tuple[TaskRoleStatus, ...]) -> None:
        if roles is not self.status.attempt_status.task_role_statuses:
            self.update_attempt(task_role_statuses=roles)

    def role_counts(self) -> tuple[completion.RoleCounts, ...]:
        """Return the counts of each role. They are computed again only if a task has changed."""
        roles = self.status.attempt_status.roles
        if roles is not self._counted_roles:
            self._counted_roles = roles
            self._role_counts = tuple(completion.count_tasks(role) for role in roles)
        return self._role_counts

    def limit_messages(self, completion_status: TaskAttemptCompletionStatus) -> TaskAttemptCompletionStatus:
        """Truncate the messages, except in the first MAX_FULL_MESSAGES task attempts with long messages (A2)."""
        truncated = failures.truncate(completion_status)
        if truncated is completion_status:
            return completion_status
        if self._long_message_count is None:
            self._long_message_count = sum(
                _is_long(task.attempt_status.completion_status)
                for role in self.status.attempt_status.roles
                for task in role.task_statuses
            )
        self._long_message_count += 1
        return completion_status if self._long_message_count <= MAX_FULL_MESSAGES else truncated


def _is_about_unreported_failures(reason: Reason) -> bool:
    return reason.kind is ReasonKind.TASK_FAILED and not reason.role


def _is_long(completion_status: TaskAttemptCompletionStatus | None) -> bool:
    return completion_status is not None and failures.truncate(completion_status) is not completion_status
