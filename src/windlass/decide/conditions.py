"""The conditions of a Framework, e.g. for `kubectl wait` (A6)."""

from datetime import datetime

import msgspec

from windlass.decide import suspend
from windlass.decide.builder import DecisionBuilder
from windlass.model.states import State
from windlass.model.status import Condition, ConditionType, FrameworkStatus


def update(builder: DecisionBuilder) -> None:
    status = builder.status
    conditions = status.conditions
    completion = status.attempt_status.completion_status
    if status.state is State.COMPLETED and completion is not None:
        condition_type = ConditionType.FAILED if completion.type.is_failed else ConditionType.COMPLETE
        message = f"{completion.phrase} ({completion.code}): {completion.diagnostics}"
        conditions = _set(conditions, condition_type, message, builder.now, completion.phrase)
    is_waiting = status.state is State.ATTEMPT_CREATION_PENDING
    is_suspended = is_waiting and suspend.is_suspended(builder.spec)
    for condition_type, message in (
        (ConditionType.SUSPENDED, "spec.suspend is true" if is_suspended else ""),
        (ConditionType.NAME_TAKEN, builder.name_taken_message),
        # Only Frameworks that are not managed have these conditions.
        (ConditionType.INVALID, ""),
        (ConditionType.OTHER_CONTROLLER, ""),
    ):
        conditions = _set(conditions, condition_type, message, builder.now)
    if conditions is not status.conditions:
        builder.status = msgspec.structs.replace(status, conditions=conditions)


def with_condition(
    status: FrameworkStatus, condition_type: ConditionType, message: str, now: datetime
) -> FrameworkStatus:
    """Return the status with the condition set to true; the same object if the condition already has this message."""
    conditions = _set(status.conditions, condition_type, message, now.replace(microsecond=0))
    if conditions is status.conditions:
        return status
    return msgspec.structs.replace(status, conditions=conditions)


def _set(
    conditions: tuple[Condition, ...],
    condition_type: ConditionType,
    message: str,
    now: datetime,
    reason: str = "",
) -> tuple[Condition, ...]:
    """Return the conditions with one of them set to true, or to false if the message is empty.

    A condition that was never true is not added as false. The reason of a true condition is its type unless one is
    given.
    """
    current = next(
        (condition for condition in conditions if condition.type == condition_type and condition.is_true),
        None,
    )
    is_unchanged = not message if current is None else current.message == message != ""
    if is_unchanged:
        return conditions
    if not message:
        cleared = Condition(type=condition_type, status="False", last_transition_time=now)
        return tuple(cleared if condition is current else condition for condition in conditions)
    since = now if current is None else current.last_transition_time
    new = Condition(
        type=condition_type,
        status="True",
        last_transition_time=since,
        reason=reason or condition_type.value,
        message=message,
    )
    return (*(condition for condition in conditions if condition.type != condition_type), new)
