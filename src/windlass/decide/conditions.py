"""The conditions that `kubectl wait` and the printer columns read (A6)."""

from datetime import datetime

import msgspec

from windlass.decide import suspend
from windlass.decide.builder import DecisionBuilder
from windlass.model.states import State
from windlass.model.status import Condition, ConditionType, FrameworkStatus

BLOCKING_CONDITIONS = (ConditionType.INVALID, ConditionType.OTHER_CONTROLLER)
"""Conditions that become false as soon as the Framework is managed again."""


def update(builder: DecisionBuilder) -> None:
    status = builder.status
    conditions = status.conditions
    completion = status.attempt_status.completion_status
    if status.state is State.COMPLETED and completion is not None:
        kind = ConditionType.FAILED if completion.type.is_failed else ConditionType.COMPLETE
        message = f"{completion.phrase} ({completion.code}): {completion.diagnostics}"
        conditions = _with(conditions, kind, completion.phrase, message, builder.now)
    is_waiting = status.state is State.ATTEMPT_CREATION_PENDING
    conditions = _set(
        conditions,
        ConditionType.SUSPENDED,
        is_waiting and suspend.is_suspended(builder.spec),
        "Suspended",
        "spec.suspend is true",
        builder.now,
    )
    conditions = _set(
        conditions,
        ConditionType.NAME_TAKEN,
        bool(builder.name_taken),
        "NameTaken",
        builder.name_taken,
        builder.now,
    )
    for kind in BLOCKING_CONDITIONS if conditions else ():
        conditions = _set(conditions, kind, False, "", "", builder.now)
    if conditions is not status.conditions:
        builder.status = msgspec.structs.replace(status, conditions=conditions)


def with_condition(
    status: FrameworkStatus, kind: ConditionType, message: str, now: datetime
) -> FrameworkStatus:
    """Return the status with the condition set; the same object if it has it already, with the same message."""
    conditions = _with(status.conditions, kind, kind.value, message, now.replace(microsecond=0))
    if conditions is status.conditions:
        return status
    return msgspec.structs.replace(status, conditions=conditions)


def _set(
    conditions: tuple[Condition, ...],
    kind: ConditionType,
    value: bool,
    reason: str,
    message: str,
    now: datetime,
) -> tuple[Condition, ...]:
    """Set or clear a condition. One that was never true is not added."""
    if value:
        return _with(conditions, kind, reason, message, now)
    return (
        tuple(
            Condition(type=kind, status="False", last_transition_time=now)
            if condition.type == kind and condition.is_true
            else condition
            for condition in conditions
        )
        if any(condition.type == kind and condition.is_true for condition in conditions)
        else conditions
    )


def _with(
    conditions: tuple[Condition, ...], kind: ConditionType, reason: str, message: str, now: datetime
) -> tuple[Condition, ...]:
    current = next((condition for condition in conditions if condition.type == kind), None)
    if current is not None and current.is_true and current.message == message:
        return conditions
    since = current.last_transition_time if current is not None and current.is_true else now
    new = Condition(type=kind, status="True", last_transition_time=since, reason=reason, message=message)
    others = tuple(condition for condition in conditions if condition.type != kind)
    return (*others, new)
