"""The allowed state transitions as data, and the only function that changes a state.

A transition that is not in the table is a bug and raises an error. The diagram in the documentation is generated from
the same table.
"""

from datetime import datetime
from enum import StrEnum
from typing import TypeVar

import msgspec

from windlass.model.states import ATTEMPT_COMPLETED, COMPLETED, RUNNING, State
from windlass.model.status import FrameworkStatus, TaskStatus

S = TypeVar("S", FrameworkStatus, TaskStatus)


class TransitionType(StrEnum):
    """How a transition relates to the regular path and to FrameworkController."""

    PATH = "regular path"
    SHORTCUT = "shortcut: see statements 11 and A1 in docs/behaviours.md"
    WINDLASS = "not in FrameworkController"


class IllegalTransitionError(AssertionError):
    """A step attempted a transition that is not in the table."""


_S = State
TRANSITIONS: dict[tuple[State, State], TransitionType] = {
    (_S.ATTEMPT_CREATION_PENDING, _S.ATTEMPT_CREATION_REQUESTED): TransitionType.PATH,
    (_S.ATTEMPT_CREATION_REQUESTED, _S.ATTEMPT_PREPARING): TransitionType.PATH,
    (_S.ATTEMPT_PREPARING, _S.ATTEMPT_RUNNING): TransitionType.PATH,
    (_S.ATTEMPT_PREPARING, _S.ATTEMPT_DELETION_PENDING): TransitionType.PATH,
    (_S.ATTEMPT_RUNNING, _S.ATTEMPT_DELETION_PENDING): TransitionType.PATH,
    (_S.ATTEMPT_DELETION_PENDING, _S.ATTEMPT_DELETION_REQUESTED): TransitionType.PATH,
    (_S.ATTEMPT_DELETION_REQUESTED, _S.ATTEMPT_DELETING): TransitionType.PATH,
    (_S.ATTEMPT_DELETING, _S.ATTEMPT_COMPLETED): TransitionType.PATH,
    (_S.ATTEMPT_COMPLETED, _S.ATTEMPT_CREATION_PENDING): TransitionType.PATH,
    (_S.ATTEMPT_COMPLETED, _S.COMPLETED): TransitionType.PATH,
    # The attempt ends before it has an object.
    (_S.ATTEMPT_CREATION_PENDING, _S.ATTEMPT_COMPLETED): TransitionType.SHORTCUT,
    # The object is being deleted.
    (_S.ATTEMPT_CREATION_REQUESTED, _S.ATTEMPT_DELETING): TransitionType.SHORTCUT,
    (_S.ATTEMPT_PREPARING, _S.ATTEMPT_DELETING): TransitionType.SHORTCUT,
    (_S.ATTEMPT_RUNNING, _S.ATTEMPT_DELETING): TransitionType.SHORTCUT,
    (_S.ATTEMPT_DELETION_PENDING, _S.ATTEMPT_DELETING): TransitionType.SHORTCUT,
    # The object was deleted, the pod of a task has ended (A1), or the pods of the attempt are kept (A2).
    (_S.ATTEMPT_CREATION_REQUESTED, _S.ATTEMPT_COMPLETED): TransitionType.SHORTCUT,
    (_S.ATTEMPT_PREPARING, _S.ATTEMPT_COMPLETED): TransitionType.SHORTCUT,
    (_S.ATTEMPT_RUNNING, _S.ATTEMPT_COMPLETED): TransitionType.SHORTCUT,
    (_S.ATTEMPT_DELETION_PENDING, _S.ATTEMPT_COMPLETED): TransitionType.SHORTCUT,
    (_S.ATTEMPT_DELETION_REQUESTED, _S.ATTEMPT_COMPLETED): TransitionType.SHORTCUT,
    # An object that the watch has not reported yet is deleted too, after the completion status is stored.
    (_S.ATTEMPT_CREATION_REQUESTED, _S.ATTEMPT_DELETION_PENDING): TransitionType.WINDLASS,
}


def check(current: State, new: State) -> None:
    if (current, new) not in TRANSITIONS:
        raise IllegalTransitionError(f"transition from {current} to {new} is not allowed")


def with_state(status: S, state: State, now: datetime) -> S:
    """Return the status of a Framework or task in the new state, with the timestamps that the transition sets."""
    check(status.state, state)
    replace, attempt = msgspec.structs.replace, status.attempt_status
    if state is RUNNING:
        attempt = replace(attempt, run_time=now)
        since = status.run_time or now
        return replace(status, state=state, transition_time=now, run_time=since, attempt_status=attempt)
    if state is ATTEMPT_COMPLETED:
        attempt = replace(attempt, completion_time=now)
        return replace(status, state=state, transition_time=now, attempt_status=attempt)
    if state is COMPLETED:
        return replace(status, state=state, transition_time=now, completion_time=now)
    return replace(status, state=state, transition_time=now)
