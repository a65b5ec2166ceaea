"""The result of a job in the user's words, with its exit code."""

import re
from collections.abc import Mapping, Sequence
from datetime import datetime

from windlass.client import views
from windlass.client.explain import failures
from windlass.model import names
from windlass.model import verdict as job_verdict
from windlass.model.framework import Framework
from windlass.model.states import State
from windlass.runner import exit_codes
from windlass.runner.report import Topic, Verdict

_PORT_CONFLICT = re.compile(r"address already in use|EADDRINUSE|address in use", re.IGNORECASE)
_NO_CONNECTION = re.compile(
    r"name resolution|name or service not known|network is unreachable|could not resolve|no route to host|"
    r"failed to resolve|getaddrinfo failed",
    re.IGNORECASE,
)


def of_job(
    framework: Framework | None,
    name: str,
    now: datetime,
    *,
    was_interrupted: bool,
    log: Sequence[str] = (),
    output: str = "",
) -> Verdict:
    """Return the result of a Framework as it was last observed: completed, or deleted before it completed. `log` are
    the last lines of the task that ended the job, `output` is where the output of the job is."""
    status = framework.status if framework is not None else None
    completion = status.attempt_status.completion_status if status is not None else None
    if framework is None or status is None or completion is None or status.state is not State.COMPLETED:
        if was_interrupted:
            return stopped(name, now)
        return failed(name, "it was deleted before it completed", exit_codes.OTHER_CODE, now)
    has_succeeded = not completion.type.is_failed
    return Verdict(
        Topic.COMPLETED,
        now,
        name,
        f"{name} {job_verdict.describe_completion(framework.spec, status, log)}",
        exit=exit_codes.INTERRUPTED
        if was_interrupted
        else exit_codes.of_job(completion.code, has_succeeded=has_succeeded),
        code=completion.code,
        phrase=completion.phrase,
        type=" ".join((completion.type.name.value, *completion.type.attributes)),
        state=status.state.value,
        verdict=views.job_view(framework).verdict,
        output=output,
    )


def failed(name: str, cause: str, code: int, now: datetime) -> Verdict:
    return Verdict(Topic.ERROR, now, name, f"{name} failed: {cause}", exit=code, verdict="failed")


def timed_out(name: str, cause: str, now: datetime) -> Verdict:
    message = f"{name} timed out: {cause}"
    return Verdict(Topic.ERROR, now, name, message, exit=exit_codes.TIMED_OUT, verdict="timed out")


def stopped(name: str, now: datetime) -> Verdict:
    """Return the result after Ctrl-C if the job has no result."""
    return Verdict(Topic.ERROR, now, name, f"{name} stopped", exit=exit_codes.INTERRUPTED, verdict="stopped")


def failed_task(framework: Framework | None) -> str:
    """Return the task that ended the job, e.g. `worker-1`; empty if no task did."""
    status = framework.status if framework is not None else None
    completion = status.attempt_status.completion_status if status is not None else None
    if status is None or completion is None or completion.trigger is None or not completion.type.is_failed:
        return ""
    task = job_verdict.find_task(status, completion.trigger)
    return names.host_name(completion.trigger.task_role_name, task.index) if task is not None else ""


def advice(framework: Framework | None) -> str:
    """Return what to do about the failure of a job; empty if that is unknown."""
    failure = failures.first_failure(framework) if framework is not None else None
    return failure.hint if failure is not None and failure.task == failed_task(framework) else ""


def network_hint(log: Sequence[str], notes: Sequence[str], *, is_network_shared: bool) -> str:
    """Return the limits of the pods' network that may have caused a failure, judged by the last lines of the failed
    task; empty if there are no limits or the lines do not mention the network."""
    lines = "\n".join(log)
    if is_network_shared and _PORT_CONFLICT.search(lines):
        limits = "; ".join(notes) or "pods share the host network"
        return (
            f"{limits}. A port can therefore be used by only one task and by no other program of this machine"
        )
    if notes and not is_network_shared and _NO_CONNECTION.search(lines):
        return "; ".join(notes)
    return ""


def of_all(name: str, verdicts: Sequence[Verdict], now: datetime) -> Verdict:
    """Return the result of several jobs. Its exit code is that of the first job in the file that did not succeed."""
    others = [verdict for verdict in verdicts if verdict.exit != exit_codes.SUCCESS]
    message = f"{len(verdicts) - len(others)} of {len(verdicts)} jobs succeeded"
    if others:
        message += f"; the first job in the file that did not succeed is {others[0].object}"
    code = others[0].exit if others else exit_codes.SUCCESS
    word = "failed" if others else "succeeded"
    return Verdict(Topic.SUMMARY, now, name, message, exit=code, verdict=word)


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
