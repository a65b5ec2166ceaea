"""`decide`: from a Framework and what is observed around it to what is stored and done."""

from collections.abc import Callable
from datetime import datetime

import msgspec

from windlass.decide import (
    attempt,
    blocked,
    completion,
    conditions,
    deletion,
    initial_status,
    write_coalescing,
)
from windlass.decide.builder import Draft
from windlass.decide.types import Decision, Observed, Rules
from windlass.model.framework import Framework
from windlass.model.states import State
from windlass.wire import semantic_validation

DEFAULT_RULES = Rules()

STEPS: dict[State, Callable[[Draft], bool]] = {
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
    """The same input gives the same decision. Nothing is changed, nothing is asked, nothing is told.

    `unstored` is the decision before on this very Framework, if its status still waits to be stored: this one goes on
    from there, so that what has been seen stays seen, with its date, and replaces it.
    """
    if observed.other_controller:
        return blocked.yield_to_other_controller(framework, observed, now)
    if framework.is_deleting:
        return deletion.of_deleting_framework(framework, observed, now, rules)
    if nonsense := semantic_validation.semantic_error(framework):
        return blocked.report_invalid_spec(framework, nonsense, now)
    status = framework.status or initial_status.framework_status(framework, now.replace(microsecond=0))
    draft = Draft(framework, status, observed, now, rules)
    if unstored is not None and write_coalescing.is_resumable(framework, unstored.status):
        draft.go_on_from(unstored)
    while STEPS[draft.status.state](draft):
        draft.actions.clear()
        draft.wake_at = None
    _summarise(draft)
    conditions.update(draft)
    return Decision(
        status=draft.status,
        actions=tuple(draft.actions),
        wake_at=draft.wake_at,
        reasons=(*draft.reasons, *draft.other_failures),
        failures=draft.failures,
        may_wait=write_coalescing.may_wait(framework, draft.status, draft.actions),
    )


def delete_owned_objects(framework: Framework, observed: Observed, now: datetime, rules: Rules) -> Decision:
    """What a Framework that is gone has left behind goes too, and is not left to the garbage collector."""
    return deletion.of_deleting_framework(framework, observed, now, rules)


def _summarise(draft: Draft) -> None:
    summary = completion.summary_of(draft.censuses())
    if summary != draft.status.summary:
        draft.status = msgspec.structs.replace(draft.status, summary=summary)
