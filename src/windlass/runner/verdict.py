"""The result of a job in the user's words, with its exit code."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from windlass.client import views
from windlass.model import names
from windlass.model.completion import CompletionCode, CompletionTrigger
from windlass.model.framework import Framework
from windlass.model.states import State
from windlass.model.status import FrameworkStatus, TaskStatus
from windlass.runner import exit_codes
from windlass.runner.report import Topic, Verdict
from windlass.wire import durations


def of_job(framework: Framework | None, name: str, now: datetime, *, was_interrupted: bool) -> Verdict:
    """Return the result of a Framework as it was last observed: completed, or deleted before it completed."""
    status = framework.status if framework is not None else None
    completion = status.attempt_status.completion_status if status is not None else None
    if framework is None or status is None or completion is None or status.state is not State.COMPLETED:
        code = exit_codes.INTERRUPTED if was_interrupted else exit_codes.OTHER_CODE
        return Verdict(Topic.ERROR, now, name, "deleted before it completed", exit=code)
    has_succeeded = not completion.type.is_failed
    return Verdict(
        Topic.COMPLETED,
        now,
        name,
        _success(status) if has_succeeded else _failure(framework, status),
        exit=exit_codes.INTERRUPTED
        if was_interrupted
        else exit_codes.of_job(completion.code, has_succeeded=has_succeeded),
        code=completion.code,
        phrase=completion.phrase,
        type=" ".join((completion.type.name.value, *completion.type.attributes)),
        state=status.state.value,
    )


def of_all(name: str, verdicts: Sequence[Verdict], now: datetime) -> Verdict:
    """Return the result of several jobs. Its exit code is that of the first job in the file that did not succeed."""
    failed = [verdict for verdict in verdicts if verdict.exit != exit_codes.SUCCESS]
    message = f"{len(verdicts) - len(failed)} of {len(verdicts)} jobs succeeded"
    if failed:
        message += f"; the first job in the file that did not succeed is {failed[0].object}"
    return Verdict(Topic.SUMMARY, now, name, message, exit=failed[0].exit if failed else exit_codes.SUCCESS)


def companions_running_message(verdicts: Sequence[Verdict], companions: Mapping[str, str]) -> str:
    """Return the line for a run that stays open for companions after its jobs have ended. `companions` maps names to
    URLs."""
    result = "succeeded" if all(verdict.exit == exit_codes.SUCCESS for verdict in verdicts) else "failed"
    if len(verdicts) > 1:
        result = "jobs ended"
    if len(companions) == 1:
        ((name, url),) = companions.items()
        return f"{result}; {name} keeps running{f' at {url}' if url else ''} (Ctrl-C stops it)"
    listed = " and ".join(f"{name} at {url}" if url else name for name, url in companions.items())
    return f"{result}; {listed} keep running (Ctrl-C stops them)"


def _success(status: FrameworkStatus) -> str:
    duration = ""
    if status.completion_time is not None:
        seconds = (status.completion_time - status.start_time).total_seconds()
        duration = f" in {durations.format_seconds(int(seconds)) if seconds >= 60 else f'{seconds:.0f} s'}"
    summary = status.summary
    results = views.task_results(summary.succeeded, summary.failed, summary.tasks)
    return f"succeeded{duration} ({results})" if summary.tasks else f"succeeded{duration}"


def _failure(framework: Framework, status: FrameworkStatus) -> str:
    completion = status.attempt_status.completion_status
    if completion is None:
        return "failed"
    if completion.code == CompletionCode.STOP_FRAMEWORK_REQUESTED:
        return "stopped"
    cause = _task_failure(status, completion.trigger) if completion.trigger is not None else ""
    if not cause:
        reason = f"{completion.phrase} ({completion.code})"
        cause = f"{reason}: {completion.diagnostics}" if completion.diagnostics else reason
    return f"failed: {cause}{_attempt(framework, status)}"


def _task_failure(status: FrameworkStatus, trigger: CompletionTrigger) -> str:
    """Describe the failure of the task that ended the job. Empty if the status does not contain one."""
    task = _find_task(status, trigger)
    completion = task.attempt_status.completion_status if task is not None else None
    if completion is None or not completion.type.is_failed:
        return ""
    name = names.host_name(trigger.task_role_name, trigger.task_index)
    containers = completion.pod.containers if completion.pod is not None else ()
    codes = [container.code for container in containers if container.code]
    if codes:
        return f"{name} exited with code {codes[0]}"
    return f"{name}: {completion.phrase} ({completion.code})"


def _find_task(status: FrameworkStatus, trigger: CompletionTrigger) -> TaskStatus | None:
    for role in status.attempt_status.roles:
        if role.name == trigger.task_role_name:
            return next((task for task in role.task_statuses if task.index == trigger.task_index), None)
    return None


def _attempt(framework: Framework, status: FrameworkStatus) -> str:
    """Return the number of the failed attempt as text. Empty if maxRetryCount is not positive and there was
    no retry."""
    retried, limit = status.retry_policy_status, framework.spec.retry_policy.max_retry_count
    are_all_counted = retried.total_retried_count == retried.accountable_retried_count
    if limit > 0 and are_all_counted:
        return f" (attempt {retried.total_retried_count + 1} of {limit + 1})"
    return f" (attempt {retried.total_retried_count + 1})" if retried.total_retried_count else ""
