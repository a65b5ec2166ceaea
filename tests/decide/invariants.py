"""Invariants of every stored status, and of any two consecutive ones."""

from collections.abc import Iterator
from datetime import datetime

from windlass.decide.transitions import TRANSITIONS
from windlass.model.states import State
from windlass.model.status import FrameworkStatus, TaskStatus


def tasks_of(status: FrameworkStatus) -> Iterator[tuple[str, TaskStatus]]:
    """Yield every task with the name of its role."""
    for role in status.attempt_status.roles:
        for task in role.task_statuses:
            yield role.name, task


def uids_of(status: FrameworkStatus) -> set[str]:
    """Return the UIDs of the objects that the status names."""
    pods = {task.attempt_status.pod_uid for _, task in tasks_of(status)}
    return {uid for uid in pods | {status.attempt_status.config_map_uid} if uid is not None}


def check_step(before: FrameworkStatus | None, after: FrameworkStatus, now: datetime) -> None:
    """Check the invariants between a status and the next one."""
    assert after.attempt_status.id == after.retry_policy_status.total_retried_count, "statement 4"
    for _, task in tasks_of(after):
        assert task.attempt_status.id == task.retry_policy_status.total_retried_count, "statement 4"
    if before is None:
        return
    _check_machine(before, after, now)
    if before.attempt_status.id != after.attempt_status.id:
        return
    earlier = {(role, task.instance_uid): task for role, task in tasks_of(before)}
    for role, task in tasks_of(after):
        same = earlier.get((role, task.instance_uid))
        if same is not None:
            _check_machine(same, task, now)


def _check_machine(
    before: FrameworkStatus | TaskStatus, after: FrameworkStatus | TaskStatus, now: datetime
) -> None:
    """Check statements 10, 11 and 16 for one Framework or one task."""
    if before.state is State.COMPLETED:
        assert after.state is State.COMPLETED, "statement 10: Completed is final"
    if before.run_time is not None:
        assert after.run_time == before.run_time, "statement 16: runTime is that of the first run"
    if before.attempt_status.id != after.attempt_status.id:
        assert after.attempt_status.id == before.attempt_status.id + 1, "statement 4: attempts are counted"
        return
    if before.state is after.state:
        assert after.transition_time == before.transition_time, "statement 16: transitionTime"
    else:
        assert after.transition_time == now, "statement 16: transitionTime"
        assert after.state in _reachable(before.state), f"statement 10: {before.state} → {after.state}"
    ended = before.attempt_status.completion_status
    if ended is not None:
        assert after.attempt_status.completion_status == ended, "statement 16: completionStatus never changes"


def _reachable(state: State) -> set[State]:
    """Return the states that can follow within the same attempt, directly or later."""
    retry = (State.ATTEMPT_COMPLETED, State.ATTEMPT_CREATION_PENDING)
    found = {state}
    while True:
        further = {to for at, to in TRANSITIONS if at in found and (at, to) != retry} - found
        if not further:
            return found
        found |= further
