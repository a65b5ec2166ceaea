"""A decision in the making: the inputs, and what the steps have found so far.

Lives for one call of `decide` and never leaves it; everything that goes in or comes out is frozen.
"""

from datetime import datetime, timedelta

import msgspec

from windlass.decide import completion, failures, transitions
from windlass.decide.types import (
    ABOUT_ACTIONS,
    Action,
    Decision,
    Observed,
    Reason,
    ReasonKind,
    RelistObjects,
    Rules,
)
from windlass.model.completion import TaskAttemptCompletionStatus
from windlass.model.feature_annotations import requested_features
from windlass.model.framework import Framework
from windlass.model.states import State
from windlass.model.status import FrameworkStatus, TaskRoleStatus, TaskStatus

MAX_DELAY_SEC = 100 * 365 * 24 * 3600
"""A deadline beyond a hundred years is none; a date has no room for much more."""
RELIST_AFTER_SEC = 30
MAX_REPORTED_FAILURES = 50
MAX_FULL_MESSAGES = 10
"""So many long termination messages per attempt are kept whole; the others are cut."""


class DecisionBuilder:
    """What the steps of one decision work on."""

    def __init__(
        self, framework: Framework, status: FrameworkStatus, observed: Observed, now: datetime, rules: Rules
    ) -> None:
        self.framework = framework
        self.spec = framework.spec
        self.features = requested_features(framework.metadata.annotations)
        self.uids = {framework.uid, *observed.previous_uids}
        """Whose objects are ours: this Framework's, and those of the ones that had its name before."""
        self.status = status
        self.observed = observed
        self.now = now.replace(microsecond=0)
        """What is written into the status: Kubernetes keeps whole seconds."""
        self._instant = now
        self.rules = rules
        self.actions: list[Action] = []
        self.reasons: list[Reason] = []
        self.wake_at: datetime | None = None
        self.name_taken = ""
        self._full_messages: int | None = None
        self.failures = 0
        self._counted: tuple[TaskRoleStatus, ...] | None = None
        self._role_counts: tuple[completion.RoleCounts, ...] = ()

    def resume_from(self, unstored: Decision) -> None:
        """With its reasons, but for those that are found anew as long as they hold."""
        self.status = unstored.status or self.status
        self.failures = unstored.failures
        self.reasons += [
            reason
            for reason in unstored.reasons
            if reason.kind not in ABOUT_ACTIONS and not _is_of_other_failures(reason)
        ]

    def act(self, action: Action) -> None:
        self.actions.append(action)

    def relist(self) -> None:
        """Ask for the objects once, however many are missing."""
        if not any(isinstance(action, RelistObjects) for action in self.actions):
            self.actions.append(RelistObjects())

    def relist_if_unconfirmed(self, since: datetime) -> None:
        """An object was deleted before the watch had shown it: do not count on the watch to show that it is gone."""
        if self.is_due(since, RELIST_AFTER_SEC):
            self.relist()

    def report(
        self, kind: ReasonKind, message: str, role: str = "", index: int = -1, *, is_warning: bool = False
    ) -> None:
        self.reasons.append(Reason(kind, message, role, index, is_warning))

    def report_failure(self, role: str, task: TaskStatus, ended: TaskAttemptCompletionStatus) -> None:
        """The first few by name: when a gang falls, nobody reads ten thousand events."""
        self.failures += 1
        if self.failures <= MAX_REPORTED_FAILURES:
            attempt = task.attempt_status.id
            message = f"{role}-{task.index} failed in attempt {attempt}: {ended.phrase} ({ended.code})"
            self.report(ReasonKind.TASK_FAILED, message, role, task.index, is_warning=True)

    @property
    def other_failures(self) -> tuple[Reason, ...]:
        """In one sentence."""
        others = self.failures - MAX_REPORTED_FAILURES
        if others <= 0:
            return ()
        return (Reason(ReasonKind.TASK_FAILED, f"{others} more tasks failed", is_warning=True),)

    def report_end_of_attempt(self, kind: ReasonKind, message: str) -> None:
        self.reasons.append(Reason(kind, message, status=self.status))

    def report_end_of_task(self, kind: ReasonKind, message: str, role: str, task: TaskStatus) -> None:
        self.reasons.append(Reason(kind, message, role, task.index, task=task))

    def wake(self, at: datetime) -> None:
        if self.wake_at is None or at < self.wake_at:
            self.wake_at = at

    def is_due(self, since: datetime, seconds: int) -> bool:
        """Whether that many seconds have passed; if not, the Framework is woken when they have."""
        return self.is_past(since + timedelta(seconds=min(seconds, MAX_DELAY_SEC)))

    def is_past(self, due: datetime) -> bool:
        """Whether that moment has come; if not, the Framework is woken when it has."""
        if self._instant >= due:
            return True
        self.wake(due)
        return False

    def move(self, state: State) -> None:
        self.status = transitions.with_state(self.status, state, self.now)

    def with_attempt(self, **changes: object) -> None:
        attempt = msgspec.structs.replace(self.status.attempt_status, **changes)
        self.status = msgspec.structs.replace(self.status, attempt_status=attempt)

    def with_roles(self, roles: tuple[TaskRoleStatus, ...]) -> None:
        if roles is not self.status.attempt_status.task_role_statuses:
            self.with_attempt(task_role_statuses=roles)

    def role_counts(self) -> tuple[completion.RoleCounts, ...]:
        """How the tasks stand. Counted anew only if one of them has changed."""
        roles = self.status.attempt_status.roles
        if roles is not self._counted:
            self._counted = roles
            self._role_counts = tuple(completion.count_tasks(role) for role in roles)
        return self._role_counts

    def limit_messages(self, ended: TaskAttemptCompletionStatus) -> TaskAttemptCompletionStatus:
        """A few long messages of an attempt are kept whole; the others are cut (A2)."""
        cut = failures.truncate(ended)
        if cut is ended:
            return ended
        if self._full_messages is None:
            self._full_messages = sum(
                _is_long(task.attempt_status.completion_status)
                for role in self.status.attempt_status.roles
                for task in role.task_statuses
            )
        self._full_messages += 1
        return ended if self._full_messages <= MAX_FULL_MESSAGES else cut


def _is_of_other_failures(reason: Reason) -> bool:
    return reason.kind is ReasonKind.TASK_FAILED and not reason.role


def _is_long(ended: TaskAttemptCompletionStatus | None) -> bool:
    return ended is not None and failures.truncate(ended) is not ended
