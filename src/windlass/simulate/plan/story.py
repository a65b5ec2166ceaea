"""What one pass of the controller has changed, told for people: two statuses and the reasons between them → events.

Pure. What a status says whose request is merely under way is left out: requests take no time in a plan.
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
from windlass.model.states import State
from windlass.model.status import FrameworkStatus, RetryPolicyStatus, TaskStatus

_UNDER_WAY = frozenset(
    {
        State.ATTEMPT_CREATION_PENDING,
        State.ATTEMPT_CREATION_REQUESTED,
        State.ATTEMPT_DELETION_REQUESTED,
        State.ATTEMPT_DELETING,
    }
)
_ABOUT_TASKS = frozenset({ReasonKind.TASK_FAILED, ReasonKind.TASK_RETRIED, ReasonKind.TASK_DELETED})
_SAID = {
    State.ATTEMPT_PREPARING: "pod made",
    State.ATTEMPT_RUNNING: "running",
    State.COMPLETED: "pod gone",
}


class Event(msgspec.Struct, frozen=True):
    """Something that happens to the job, or to tasks of one role at once."""

    at: float
    """Seconds since the job was submitted."""
    role: str
    """Empty: it is the job's."""
    tasks: tuple[int, ...]
    """Indexes of the tasks, none if it is the job's."""
    state: str
    """In which the job or the task is now. Empty: as before."""
    what: str

    @property
    def who(self) -> str:
        """As `tasks_named` has it. Empty: the job."""
        return tasks_named(self.role, self.tasks) if self.role else ""

    def comes_before(self, other: "Event") -> bool:
        """The same happens to the next task of the role."""
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


class _Told(msgspec.Struct, frozen=True):
    """Of one task, or of the job."""

    role: str
    index: int
    state: str
    what: str


def events(
    at: float, old: FrameworkStatus | None, new: FrameworkStatus, reasons: Sequence[Reason]
) -> Iterator[Event]:
    """Causes before effects: tasks that ended by themselves, then the job, then the tasks that end with it."""
    retried = {
        (reason.role, reason.index): reason for reason in reasons if reason.kind is ReasonKind.TASK_RETRIED
    }
    last = (
        next((reason.status for reason in reasons if reason.kind is ReasonKind.FRAMEWORK_RETRIED), None)
        or new
    )
    before = {} if old is None or old.attempt_status.id != last.attempt_status.id else _tasks(old)
    causes: list[_Told] = []
    effects: list[_Told] = []
    for key, task in _tasks(last).items():
        again = retried.get(key)
        ended = task if again is None or again.task is None else again.task
        was = before.get(key)
        is_ended_with_job = _is_by_order(ended) and not (was is not None and _is_by_order(was))
        (effects if is_ended_with_job else causes).extend(_changes(key, was, ended))
        if again is not None:
            causes.append(_told_of_retry(key, again, task.retry_policy_status))
    yield from _gathered(at, causes)
    yield from _gathered(at, _of_job(old, new, reasons))
    yield from _gathered(at, effects)


def class_of(ended: CompletionType) -> str:
    return " ".join((ended.name.value, *ended.attributes))


def cause(ended: FrameworkAttemptCompletionStatus) -> str:
    """What decided it."""
    trigger = ended.trigger
    tells_it_all = ended.code == CompletionCode.PENDING_DEADLINE_EXCEEDED
    if trigger is None or tells_it_all:
        return ended.diagnostics
    return f"{trigger.task_role_name}-{trigger.task_index}: {trigger.message}"


def endless(status: FrameworkStatus | None) -> str:
    """Why a job to which nothing happens any more has not ended."""
    tasks = {} if status is None else _tasks(status)
    running = [key for key, task in tasks.items() if not task.state.is_over]
    if not running:
        return "it has no tasks: nothing ever ends it"
    roles = list(dict.fromkeys(role for role, _ in running))
    named = ", ".join(tasks_named(role, [index for each, index in running if each == role]) for role in roles)
    end = "ends" if len(running) == 1 else "end"
    return f"{named} never {end} without being told to, and nothing else ends the job"


def tasks_named(role: str, indexes: Sequence[int]) -> str:
    """worker-1, worker-0..3, or worker-0..1,3."""
    runs: list[list[int]] = []
    for index in sorted(indexes):
        if runs and index == runs[-1][-1] + 1:
            runs[-1].append(index)
        else:
            runs.append([index])
    spans = [str(run[0]) if len(run) == 1 else f"{run[0]}..{run[-1]}" for run in runs]
    return f"{role}-{','.join(spans)}"


def _how(ended: TaskAttemptCompletionStatus) -> str:
    """Phrase, code and class."""
    named = f"{ended.phrase} ({ended.code})"
    return f"{named}, {class_of(ended.type)}" if ended.type.is_failed else named


def _tasks(status: FrameworkStatus) -> dict[Key, TaskStatus]:
    return {
        (role.name, task.index): task for role in status.attempt_status.roles for task in role.task_statuses
    }


def _is_by_order(task: TaskStatus) -> bool:
    """It ended because its attempt did."""
    ended = task.attempt_status.completion_status
    return ended is not None and ended.code == CompletionCode.FRAMEWORK_ATTEMPT_COMPLETION


def _changes(key: Key, old: TaskStatus | None, new: TaskStatus) -> Iterator[_Told]:
    was = None if old is None else old.attempt_status.completion_status
    ended = new.attempt_status.completion_status
    is_changed = old is None or old.state is not new.state
    if ended is not None and was is None:
        yield _Told(*key, new.state, _told_of_end(new, ended))
    elif is_changed and new.state not in _UNDER_WAY:
        yield _Told(*key, new.state, _SAID.get(new.state, ""))


def _told_of_end(task: TaskStatus, ended: TaskAttemptCompletionStatus) -> str:
    if _is_by_order(task):
        return f"ended with the job: {ended.phrase} ({ended.code})"
    delay = task.retry_policy_status.retry_delay_sec
    what = f"attempt {task.attempt_status.id} ends: {_how(ended)}"
    return what if delay is None else f"{what}; it is tried again in {delay} s"


def _told_of_retry(key: Key, reason: Reason, retried: RetryPolicyStatus) -> _Told:
    why = reason.message.partition(": ")[2]
    what = f"attempt {retried.total_retried_count} begins: {why} ({retries(retried)})"
    return _Told(*key, State.ATTEMPT_CREATION_PENDING, what)


def retries(retried: RetryPolicyStatus) -> str:
    counted = retried.accountable_retried_count
    return f"retries: {counted} counted, {retried.total_retried_count - counted} not counted"


def _of_job(old: FrameworkStatus | None, new: FrameworkStatus, reasons: Sequence[Reason]) -> Iterator[_Told]:
    own = [reason for reason in reasons if reason.kind not in _ABOUT_TASKS]
    for reason in own:
        is_retry = reason.kind is ReasonKind.FRAMEWORK_RETRIED
        what = f"{reason.message} ({retries(new.retry_policy_status)})" if is_retry else reason.message
        yield _Told("", 0, _state_after(reason, new), what)
    is_changed = old is None or old.state is not new.state
    if is_changed and not own and new.state not in _UNDER_WAY:
        yield _Told("", 0, new.state, "")


def _state_after(reason: Reason, new: FrameworkStatus) -> str:
    """One pass may go through several states; each reason stands for one of them."""
    match reason.kind:
        case ReasonKind.ATTEMPT_ENDING:
            return State.ATTEMPT_DELETION_PENDING
        case _:
            return new.state


def _gathered(at: float, told: Iterable[_Told]) -> Iterator[Event]:
    """What happens to several tasks of a role alike is one event."""
    found: dict[tuple[str, str, str], list[int]] = {}
    for each in told:
        found.setdefault((each.role, each.state, each.what), []).append(each.index)
    for (role, state, what), indexes in found.items():
        yield Event(at, role, tuple(indexes) if role else (), state, what)
