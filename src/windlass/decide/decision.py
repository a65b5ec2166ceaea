"""Decides which status to store and which actions to take, from a Framework and its observed objects."""

from collections.abc import Callable
from datetime import datetime

import msgspec

from windlass.decide import (
    attempt,
    conditions,
    deletion,
    initial_status,
    rescale,
    write_coalescing,
)
from windlass.decide.builder import DecisionBuilder
from windlass.decide.types import Decision, Observed, Reason, ReasonKind, Rules
from windlass.model.framework import Framework
from windlass.model.states import State
from windlass.model.status import ConditionType, Summary
from windlass.wire import semantic_validation

DEFAULT_RULES = Rules()

STEPS: dict[State, Callable[[DecisionBuilder], bool]] = {
    State.ATTEMPT_CREATION_PENDING: attempt.while_creation_is_pending,
    State.ATTEMPT_CREATION_REQUESTED: attempt.while_creation_is_requested,
    State.ATTEMPT_PREPARING: attempt.while_active,
    State.ATTEMPT_RUNNING: attempt.while_active,
    State.ATTEMPT_DELETION_PENDING: attempt.while_ending,
    State.ATTEMPT_DELETION_REQUESTED: attempt.while_ending,
    State.ATTEMPT_DELETING: attempt.while_ending,
    State.ATTEMPT_COMPLETED: attempt.while_attempt_is_completed,
    State.COMPLETED: attempt.after_completion,
}


def decide(
    framework: Framework,
    observed: Observed,
    now: datetime,
    rules: Rules = DEFAULT_RULES,
    unstored: Decision | None = None,
) -> Decision:
    """Return the decision. The same input gives the same decision, and the input is not changed.

    `unstored` is the previous decision on the same Framework if its status is not stored yet. The new decision
    replaces it and, if possible, continues from its status, so that observations and their times are kept.
    """
    if observed.other_controller:
        return _yield_to_other_controller(framework, observed, now)
    if framework.is_deleting and framework.status is None:
        return deletion.decide_deletion(framework, observed, now, rules)
    if not framework.is_deleting and (error := semantic_validation.semantic_error(framework)):
        return _block(framework, ConditionType.INVALID, ReasonKind.INVALID, error, now)
    status = framework.status or initial_status.framework_status(framework, now.replace(microsecond=0))
    builder = DecisionBuilder(framework, status, observed, now, rules)
    if unstored is not None and write_coalescing.is_resumable(framework, unstored.status):
        builder.resume_from(unstored)
    is_settled = builder.status.state is State.COMPLETED and not framework.is_deleting
    if not is_settled:
        builder.set_roles(rescale.copy_timeouts(builder.spec, builder.status.attempt_status.roles))
    if framework.is_deleting:
        attempt.while_framework_is_deleted(builder)
    else:
        _advance(builder)
        conditions.update(builder)
    _summarise(builder)
    return Decision(
        status=builder.status,
        actions=tuple(builder.actions),
        wake_at=builder.wake_at,
        reasons=(*builder.reasons, *builder.unreported_failures),
        failure_count=builder.failure_count,
        may_wait=write_coalescing.may_wait(framework, builder.status, builder.actions),
    )


def _advance(builder: DecisionBuilder) -> None:
    while STEPS[builder.status.state](builder):
        builder.actions.clear()
        builder.wake_at = None


def _summarise(builder: DecisionBuilder) -> None:
    counts = builder.role_counts()
    summary = Summary(
        tasks=sum(role.tasks for role in counts),
        running=sum(role.running for role in counts),
        succeeded=sum(len(role.succeeded) for role in counts),
        failed=sum(len(role.failed) for role in counts),
    )
    if summary != builder.status.summary:
        builder.status = msgspec.structs.replace(builder.status, summary=summary)


# Frameworks that are not managed: nothing is deleted, running tasks keep running.


def _yield_to_other_controller(framework: Framework, observed: Observed, now: datetime) -> Decision:
    """Report the other controller once, so that the controllers do not overwrite each other's status forever (A8)."""
    status = framework.status
    condition = None if status is None else status.condition(ConditionType.OTHER_CONTROLLER)
    if observed.is_other_controller_reported or (condition is not None and condition.is_true):
        return Decision(status=status)
    other = observed.other_controller
    message = (
        f"{other} also writes the status of this Framework. To let Windlass manage it, stop {other} and restart the "
        "Windlass controller"
    )
    return _block(framework, ConditionType.OTHER_CONTROLLER, ReasonKind.OTHER_CONTROLLER, message, now)


def _block(
    framework: Framework, condition: ConditionType, kind: ReasonKind, message: str, now: datetime
) -> Decision:
    """Return a decision that sets the condition and takes no action."""
    status = framework.status
    if status is None:
        # A status without roles. Once the Framework is managed, its roles are added like new ones.
        empty = msgspec.structs.replace(framework.spec, task_roles=())
        without_roles = msgspec.structs.replace(framework, spec=empty)
        status = initial_status.framework_status(without_roles, now.replace(microsecond=0))
    blocked = conditions.with_condition(status, condition, message, now)
    if blocked is framework.status:
        return Decision(status=blocked)
    return Decision(status=blocked, reasons=(Reason(kind, message, is_warning=True),))
