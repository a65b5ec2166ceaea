"""Convert one pass of the controller, given as two statuses and the reasons of the changes, into events.

A change to a transient state, in which an object is being created or deleted, produces no event by itself.
"""

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from windlass.decide.types import Reason, ReasonKind
from windlass.model.completion import (
    CompletionCode,
    CompletionType,
    FrameworkAttemptCompletionStatus,
    TaskAttemptCompletionStatus,
)
from windlass.model.states import CREATION_PENDING, State
from windlass.model.status import FrameworkStatus, RetryPolicyStatus, TaskStatus

_TRANSIENT_STATES = frozenset(
    {
        State.ATTEMPT_CREATION_PENDING,
        State.ATTEMPT_CREATION_REQUESTED,
        State.ATTEMPT_DELETION_REQUESTED,
        State.ATTEMPT_DELETING,
    }
)
_ABOUT_TASKS = frozenset({ReasonKind.TASK_FAILED, ReasonKind.TASK_RETRIED, ReasonKind.TASK_DELETED})
_STATE_MESSAGES = {
    State.ATTEMPT_PREPARING: "pod created",
    State.ATTEMPT_RUNNING: "running",
    State.COMPLETED: "pod deleted",
}


class Event(msgspec.Struct, frozen=True):
    """An event of the job, or of tasks of one role."""

    at: float
    """Seconds since the job was submitted."""
    role: str
    """Empty for an event of the job."""
    tasks: tuple[int, ...]
    """Indexes of the tasks; none for an event of the job."""
    state: str
    """The state of the job or the tasks after the event; empty for an event of a pod, e.g. an injected fault."""
    what: str

    @property
    def who(self) -> str:
        """Return the tasks, e.g. worker-0..3; empty for the job."""
        return format_tasks(self.role, self.tasks) if self.role else ""

    def is_continued_by(self, other: "Event") -> bool:
        """Return whether the other event is the same for a later task of the role."""
        is_alike = (self.at, self.role, self.state, self.what) == (
            other.at,
            other.role,
            other.state,
            other.what,
        )
        return is_alike and self.tasks[-1:] < other.tasks

    def with_task(self, index: int) -> "Event":
        return msgspec.structs.replace(self, tasks=(*self.tasks, index))


Key = tuple[str, int]


class _UnmergedEvent(msgspec.Struct, frozen=True):
    """An event of one task, or of the job if the role is empty."""

    role: str
    index: int
    state: str
    what: str


def events(
    at: float, old: FrameworkStatus | None, new: FrameworkStatus, reasons: Sequence[Reason]
) -> Iterator[Event]:
    """Yield events in causal order: those of tasks, of the job, and of tasks that ended with the job."""
    retry_reasons = {
        (reason.role, reason.index): reason for reason in reasons if reason.kind is ReasonKind.TASK_RETRIED
    }
    final_status = (
        next((reason.status for reason in reasons if reason.kind is ReasonKind.FRAMEWORK_RETRIED), None)
        or new
    )
    old_tasks = {} if old is None or old.attempt_status.id != final_status.attempt_status.id else _tasks(old)
    causes: list[_UnmergedEvent] = []
    effects: list[_UnmergedEvent] = []
    for key, task in _tasks(final_status).items():
        retry = retry_reasons.get(key)
        new_task = task if retry is None or retry.task is None else retry.task
        old_task = old_tasks.get(key)
        is_ended_with_job = _is_ended_by_attempt(new_task) and not (
            old_task is not None and _is_ended_by_attempt(old_task)
        )
        (effects if is_ended_with_job else causes).extend(_changes(key, old_task, new_task))
        if retry is not None:
            causes.append(_retry_event(key, retry, task.retry_policy_status))
    yield from _merged(at, causes)
    yield from _merged(at, _job_events(old, new, reasons))
    yield from _merged(at, effects)


def class_of(completion_type: CompletionType) -> str:
    return " ".join((completion_type.name.value, *completion_type.attributes))


def cause(completion: FrameworkAttemptCompletionStatus) -> str:
    """Return what completed the job."""
    trigger = completion.trigger
    if trigger is None:
        return completion.diagnostics
    is_deadline = completion.code == CompletionCode.PENDING_DEADLINE_EXCEEDED
    are_all_completed = trigger.message == completion.diagnostics
    if is_deadline or are_all_completed:
        return completion.diagnostics
    return f"{trigger.task_role_name}-{trigger.task_index}: {trigger.message}"


def endless_reason(status: FrameworkStatus | None) -> str:
    """Return why a job without further events has not ended."""
    tasks = {} if status is None else _tasks(status)
    active = {key: task for key, task in tasks.items() if not task.state.is_over}
    # Tasks that wait for others to start or to end are not the reason.
    running = [key for key, task in active.items() if task.state is not CREATION_PENDING] or list(active)
    if not running:
        return "it has no tasks, so nothing completes it"
    roles = list(dict.fromkeys(role for role, _ in running))
    named = ", ".join(
        format_tasks(role, [index for each, index in running if each == role]) for role in roles
    )
    end = "ends by itself" if len(running) == 1 else "end by themselves"
    return f"{named} never {end}, and nothing else completes the job"


def format_tasks(role: str, indexes: Sequence[int]) -> str:
    """Return e.g. worker-1, worker-0..3 or worker-0..1,3."""
    runs: list[list[int]] = []
    for index in sorted(indexes):
        if runs and index == runs[-1][-1] + 1:
            runs[-1].append(index)
        else:
            runs.append([index])
    spans = [str(run[0]) if len(run) == 1 else f"{run[0]}..{run[-1]}" for run in runs]
    return f"{role}-{','.join(spans)}"


def _completion_text(completion: TaskAttemptCompletionStatus) -> str:
    """Return phrase and code, and the class of a failure."""
    named = f"{completion.phrase} ({completion.code})"
    return f"{named}, {class_of(completion.type)}" if completion.type.is_failed else named


def _tasks(status: FrameworkStatus) -> dict[Key, TaskStatus]:
    return {
        (role.name, task.index): task for role in status.attempt_status.roles for task in role.task_statuses
    }


def _is_ended_by_attempt(task: TaskStatus) -> bool:
    """Return whether the task was ended because the attempt of the job ended."""
    completion = task.attempt_status.completion_status
    return completion is not None and completion.code == CompletionCode.FRAMEWORK_ATTEMPT_COMPLETION


def _changes(key: Key, old: TaskStatus | None, new: TaskStatus) -> Iterator[_UnmergedEvent]:
    old_completion = None if old is None else old.attempt_status.completion_status
    completion = new.attempt_status.completion_status
    is_changed = old is None or old.state is not new.state
    if completion is not None and old_completion is None:
        yield _UnmergedEvent(*key, new.state, _end_message(new, completion))
    elif is_changed and new.state not in _TRANSIENT_STATES:
        yield _UnmergedEvent(*key, new.state, _STATE_MESSAGES.get(new.state, ""))


def _end_message(task: TaskStatus, completion: TaskAttemptCompletionStatus) -> str:
    if _is_ended_by_attempt(task):
        return f"ended with the job: {completion.phrase} ({completion.code})"
    delay = task.retry_policy_status.retry_delay_sec
    what = f"attempt {task.attempt_status.id} ended: {_completion_text(completion)}"
    return what if delay is None else f"{what}; retrying in {delay} s"


def _retry_event(key: Key, reason: Reason, retried: RetryPolicyStatus) -> _UnmergedEvent:
    why = reason.message.partition(" (")[2].partition(")")[0]
    what = f"attempt {retried.total_retried_count} started: {why} ({format_retries(retried)})"
    return _UnmergedEvent(*key, State.ATTEMPT_CREATION_PENDING, what)


def format_retries(retried: RetryPolicyStatus) -> str:
    counted = retried.accountable_retried_count
    return f"retries: {counted} counted, {retried.total_retried_count - counted} not counted"


def _job_events(
    old: FrameworkStatus | None, new: FrameworkStatus, reasons: Sequence[Reason]
) -> Iterator[_UnmergedEvent]:
    job_reasons = [reason for reason in reasons if reason.kind not in _ABOUT_TASKS and not reason.role]
    for reason in job_reasons:
        is_retry = reason.kind is ReasonKind.FRAMEWORK_RETRIED
        what = f"{reason.message} ({format_retries(new.retry_policy_status)})" if is_retry else reason.message
        yield _UnmergedEvent("", 0, _state_after(reason, new), what)
    is_changed = old is None or old.state is not new.state
    if is_changed and not job_reasons and new.state not in _TRANSIENT_STATES:
        yield _UnmergedEvent("", 0, new.state, "")


def _state_after(reason: Reason, new: FrameworkStatus) -> str:
    """Return the state that belongs to a reason: one pass may go through several states."""
    match reason.kind:
        case ReasonKind.ATTEMPT_ENDING:
            return State.ATTEMPT_DELETION_PENDING
        case _:
            return new.state


def _merged(at: float, events: Iterable[_UnmergedEvent]) -> Iterator[Event]:
    """Merge the same events of several tasks of a role."""
    found: dict[tuple[str, str, str], list[int]] = {}
    for each in events:
        found.setdefault((each.role, each.state, each.what), []).append(each.index)
    for (role, state, what), indexes in found.items():
        yield Event(at, role, tuple(indexes) if role else (), state, what)
