"""Describe results of jobs and tasks in the words of users. Every command, the SDK and the events use these words.

    digits succeeded in 25 s (2 ps, 2 workers)
    digits failed: worker-1 exited with code 3 after 12 s: KeyError: 'lr' (train.py:41)

The completion phrases in the status, e.g. ContainerSigKillReceived, come from the reference controller. Messages do not
use them, except those of failure classes that an administrator configured.
"""

import re
import signal
from collections.abc import Sequence
from datetime import datetime

from windlass.model import names, start_errors, tracebacks
from windlass.model.completion import (
    CompletionCode,
    CompletionTrigger,
    ContainerCompletionStatus,
    FrameworkAttemptCompletionStatus,
    PodCompletionStatus,
    TaskAttemptCompletionStatus,
    phrase_of,
)
from windlass.model.framework import FrameworkSpec, RetryPolicySpec
from windlass.model.status import FrameworkStatus, RetryPolicyStatus, TaskAttemptStatus, TaskStatus

FIRST_START = "attempt started"
"""Message about the start of the first attempt of a job."""
MAX_NAMED_ROLES = 4
_PATTERN_DIAGNOSTICS = ("PodPattern matched: ", "PodPattern unmatched: ")
"""Beginnings of diagnostics that are JSON for the authors of failure classes."""
_ANNOUNCED_RETRY = re.compile(r"retrying (?:\S+ )?now \(")
_UNSPECIFIC_REASONS = ("", "Error", "Completed")
_REASONS = {"OOMKilled": "out of memory (OOMKilled)"}
_COULD_NOT_START = "could not start"
_OUT_OF_MEMORY = "ran out of memory"
_REJECTED_BY_NODE = "was rejected by its node"
_OUTCOMES = {
    "PodEvicted": "was evicted from its node",
    "PodNodeLost": "lost its node",
    "PodOutOfNodeResources": f"{_REJECTED_BY_NODE}, which lacks resources",
    "PodPreempted": "was preempted",
    "PodDeadlineExceeded": "exceeded the time limit of its pod",
    "PodForbidden": _REJECTED_BY_NODE,
    "PodAdmissionFailed": _REJECTED_BY_NODE,
    "ContainerOOMKilled": _OUT_OF_MEMORY,
    "ContainerCommandCannotRun": _COULD_NOT_START,
    "ContainerRuntimeFailed": _COULD_NOT_START,
    "ContainerStartFailed": _COULD_NOT_START,
    "ContainerStatusUnknown": "was lost by its node",
    "PodCreationPermanentError": _COULD_NOT_START,
    "PodCreationUnknownError": _COULD_NOT_START,
}
"""Results of tasks by the phrases of the status. Phrases that are not here belong to configured failure classes."""
_PHRASES_OF_CONTROLLER = frozenset(map(phrase_of, CompletionCode))
"""Phrases that the diagnostics repeat in words."""
_CREATION_ERROR = "Failed to create Pod: "
REJECTED_POD = "the API server rejected its pod: "
"""Beginning of the cause if a pod could not be created."""
_FATAL_SIGNALS = frozenset(
    {
        signal.SIGKILL,
        signal.SIGTERM,
        signal.SIGSEGV,
        signal.SIGBUS,
        signal.SIGABRT,
        signal.SIGILL,
        signal.SIGFPE,
    }
)
_SIGNAL_CODE = 128
"""A shell and a container runtime add the number of a signal to this code."""


def describe_completion(spec: FrameworkSpec, status: FrameworkStatus, log: Sequence[str] = ()) -> str:
    """Return the verdict about a completed job without its name, e.g. `succeeded in 25 s (2 ps, 2 workers)`.

    Before the job has completed, it is the verdict about the completed attempt. Empty if there is none. `log` are the
    last lines of the task that failed; they are used if the status contains none.
    """
    completion = status.attempt_status.completion_status
    if completion is None:
        return ""
    if not completion.type.is_failed:
        return f"succeeded{_duration(status)}{_retries(status)}{describe_roles(spec, status)}"
    if completion.code == CompletionCode.STOP_FRAMEWORK_REQUESTED:
        return f"stopped{_duration(status, 'after')}"
    if completion.code == CompletionCode.FRAMEWORK_SUSPENDED:
        return "suspended"
    return f"failed: {describe_failure(spec, status, completion, log)}"


def describe_failure(
    spec: FrameworkSpec,
    status: FrameworkStatus,
    completion: FrameworkAttemptCompletionStatus,
    log: Sequence[str] = (),
    *,
    with_attempt: bool = True,
) -> str:
    """Return the cause of a failed attempt of a job: the task that ended it, or the decision of the controller."""
    attempt = describe_attempt(status.retry_policy_status, spec.retry_policy) if with_attempt else ""
    task = find_task(status, completion.trigger)
    ended = None if task is None else task.attempt_status.completion_status
    is_rule = completion.code == CompletionCode.COMPLETION_RULE_FAILED
    if is_rule and completion.trigger is not None:
        attempt = f" ({completion.trigger.message}){attempt}"
    is_failed_task = ended is not None and ended.type.is_failed
    is_ended_by_task = ended is not None and (
        ended.code == completion.code
        or (is_rule and is_failed_task and ended.code != CompletionCode.FRAMEWORK_ATTEMPT_COMPLETION)
    )
    if completion.trigger is not None and task is not None and ended is not None and is_ended_by_task:
        name = names.host_name(completion.trigger.task_role_name, task.index)
        return describe_task_failure(name, task.attempt_status, ended, attempt, log)
    if is_rule and completion.trigger is not None and task is not None:
        name = names.host_name(completion.trigger.task_role_name, task.index)
        return f"{name} met a completion rule{attempt}"
    diagnostics = readable_diagnostics(completion.diagnostics)
    parts = [part for part in (_phrase(completion), diagnostics) if part] or [completion.phrase]
    return f"{': '.join(parts)}{attempt}"


def describe_start(spec: FrameworkSpec, status: FrameworkStatus) -> str:
    """Return `attempt started` or, after a retry, e.g. `attempt 2 of 4 started`."""
    if not status.attempt_status.id:
        return FIRST_START
    attempt = describe_attempt(status.retry_policy_status, spec.retry_policy)
    return f"{attempt.strip(' ()') or f'attempt {status.attempt_status.id + 1}'} started"


def describe_job_retry(spec: FrameworkSpec, status: FrameworkStatus, reason: str, delay_sec: int = 0) -> str:
    """Return e.g. `retrying in 4 s (retry 1 of 3): worker-0 exited with code 1`."""
    completion = status.attempt_status.completion_status
    if completion is not None and completion.code == CompletionCode.FRAMEWORK_SUSPENDED:
        return f"retrying: {reason}"
    cause = "the attempt succeeded"
    if completion is not None and completion.type.is_failed:
        cause = describe_failure(spec, status, completion, with_attempt=False)
    return describe_retry("", status.retry_policy_status, reason, cause, delay_sec)


def find_task(status: FrameworkStatus, trigger: CompletionTrigger | None) -> TaskStatus | None:
    """Return the task that ended the attempt; None if no task did."""
    if trigger is None:
        return None
    roles = (role for role in status.attempt_status.roles if role.name == trigger.task_role_name)
    tasks = (task for role in roles for task in role.task_statuses if task.index == trigger.task_index)
    return next(tasks, None)


def describe_task_failure(
    name: str,
    attempt: TaskAttemptStatus,
    completion: TaskAttemptCompletionStatus,
    note: str = "",
    log: Sequence[str] = (),
    *,
    ended_at: datetime | None = None,
) -> str:
    """Return e.g. `worker-1 exited with code 3 after 12 s: KeyError: 'lr' (train.py:41)`. `note` follows the duration.

    `ended_at` is used before the completion time is stored.
    """
    run_time = f"{_run_time(attempt, ended_at)}{note}"
    if cannot_start := start_error(completion):
        return f"{name} {_COULD_NOT_START}{note}: {cannot_start.text}"
    error = _container_error(failed_container(completion), last_lines(completion) or log)
    if completion.code > 0:
        return f"{name} exited with code {completion.code}{run_time}{_detail(error)}"
    outcome = _OUTCOMES.get(completion.phrase, "failed")
    text = f"{name} {outcome}{run_time}"
    if outcome == _OUT_OF_MEMORY:
        return text
    pod = completion.pod or PodCompletionStatus()
    reason = "" if completion.phrase in _OUTCOMES else pod.reason
    detail = ": ".join(part for part in (reason, pod.message.strip()) if part)
    if not detail:
        detail = (
            readable_diagnostics(completion.diagnostics).replace(_CREATION_ERROR, REJECTED_POD, 1) or error
        )
    if not detail and completion.code == CompletionCode.POD_FAILED_WITHOUT_FAILED_CONTAINER:
        detail = "none of its containers failed"
    return f"{text}{_detail(_phrase(completion))}{_detail(detail)}"


def start_error(completion: TaskAttemptCompletionStatus, image: str = "") -> start_errors.StartError | None:
    """Return why the container of a task could not start; None if it has started. `image` is empty for the programs of
    this machine."""
    container = failed_container(completion)
    if container is None or container.reason not in start_errors.START_REASONS:
        return None
    return start_errors.describe(container.reason, container.message, image)


def failed_container(completion: TaskAttemptCompletionStatus) -> ContainerCompletionStatus | None:
    """Return the container whose exit code is the completion code, else the first failed one; None if none failed."""
    failed = [each for each in (completion.pod.containers if completion.pod is not None else ()) if each.code]
    return next((each for each in failed if each.code == completion.code), next(iter(failed), None))


def describe_retry(
    subject: str, retried: RetryPolicyStatus, reason: str, cause: str, delay_sec: int = 0
) -> str:
    """Return e.g. `retrying in 4 s (retry 1 of 3): worker-0 exited with code 1`. `subject` is the task that is retried,
    or empty for the job. After the delay, return e.g. `retrying now (retry 1 of 3)`."""
    retrying = f"retrying {subject}" if subject else "retrying"
    if delay_sec:
        return f"{retrying} in {format_duration(delay_sec)} ({reason}): {cause}"
    is_announced = retried.retry_delay_sec is not None
    return f"{retrying} now ({reason})" if is_announced else f"{retrying} ({reason}): {cause}"


def is_announced_retry(message: str) -> bool:
    """Return whether a message is the second one about a delayed retry: `retrying in 4 s …`, then `retrying now …`."""
    return bool(_ANNOUNCED_RETRY.match(message))


def describe_roles(spec: FrameworkSpec, status: FrameworkStatus) -> str:
    """Return e.g. ` (2 ps, 2 workers)`, and how many tasks failed."""
    counts = {role.name: len(role.task_statuses) for role in status.attempt_status.roles} or {
        role.name: role.task_number for role in spec.task_roles
    }
    counts = {name: number for name, number in counts.items() if number}
    total = sum(counts.values())
    if len(counts) > MAX_NAMED_ROLES:
        parts = [f"{count('task', total)} in {len(counts)} roles"]
    else:
        parts = [count(name, number) for name, number in counts.items()]
    if failed := status.summary.failed:
        parts.append(f"{failed} failed")
    return f" ({', '.join(parts)})" if total else ""


def count(noun: str, number: int) -> str:
    """Return the number with the noun: `1 worker`, `2 workers`, `2 ps`."""
    return f"{number} {noun}" if number == 1 or noun.endswith("s") else f"{number} {noun}s"


def format_duration(seconds: float) -> str:
    """Return the duration in at most two units, e.g. `3 min` or `1 h 5 min`."""
    total = max(0, int(seconds))
    for size, unit, smaller, name in ((86400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if total >= size:
            rest = total % size // smaller
            return f"{total // size} {unit} {rest} {name}" if rest else f"{total // size} {unit}"
    return f"{total} s"


def last_lines(completion: TaskAttemptCompletionStatus) -> tuple[str, ...]:
    """Return the last log lines of the failed container, or the message of the pod, as stored in the status."""
    container = failed_container(completion)
    message = container.message if container is not None else ""
    message = message or (completion.pod.message if completion.pod is not None else "")
    return tuple(message.rstrip("\n").split("\n")) if message.strip() else ()


def _container_error(container: ContainerCompletionStatus | None, lines: Sequence[str]) -> str:
    if container is None:
        return ""
    if container.reason not in _UNSPECIFIC_REASONS:
        return _REASONS.get(container.reason) or ": ".join(
            (container.reason, *container.message.strip().splitlines()[:1])
        )
    return tracebacks.find_error(lines) or _signal(container.signal or container.code - _SIGNAL_CODE)


def _signal(number: int) -> str:
    return signal.Signals(number).name if number in _FATAL_SIGNALS else ""


def _phrase(completion: TaskAttemptCompletionStatus | FrameworkAttemptCompletionStatus) -> str:
    """Return the phrase of a configured failure class; empty for other phrases, which have words of their own."""
    is_known = completion.phrase in _OUTCOMES or completion.phrase in _PHRASES_OF_CONTROLLER
    return "" if is_known else completion.phrase


def _detail(text: str) -> str:
    return f": {text}" if text else ""


def readable_diagnostics(diagnostics: str) -> str:
    """Return the diagnostics; empty if they are JSON for the authors of failure classes."""
    return "" if diagnostics.startswith(_PATTERN_DIAGNOSTICS) else diagnostics.strip()


def _run_time(attempt: TaskAttemptStatus, ended_at: datetime | None) -> str:
    end = attempt.completion_time or ended_at
    if attempt.run_time is None or end is None:
        return ""
    seconds = (end - attempt.run_time).total_seconds()
    # The times in a status are whole seconds.
    return f" after {format_duration(seconds)}" if seconds >= 1 else " within 1 s"


def _duration(status: FrameworkStatus, word: str = "in") -> str:
    end = status.completion_time
    if end is None:
        return ""
    return f" {word} {format_duration((end - status.start_time).total_seconds())}"


def _retries(status: FrameworkStatus) -> str:
    retries = status.retry_policy_status.total_retried_count
    return f" after {retries} {'retry' if retries == 1 else 'retries'}" if retries else ""


def describe_attempt(retried: RetryPolicyStatus, policy: RetryPolicySpec) -> str:
    """Return e.g. ` (attempt 2 of 4)`, counted from 1. Empty for the first attempt of a job without retries."""
    limit, number = policy.max_retry_count, retried.total_retried_count + 1
    are_all_counted = retried.total_retried_count == retried.accountable_retried_count
    if limit > 0 and are_all_counted:
        return f" (attempt {number} of {limit + 1})"
    return f" (attempt {number})" if retried.total_retried_count else ""
