"""Convert jobs to the rows and details that the page shows. No requests are sent here."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

import msgspec

from windlass.client import timeline, views
from windlass.client.events import Event
from windlass.client.explain import pending
from windlass.client.explain import retries as explain_retries
from windlass.client.explain.explanation import Explanation
from windlass.client.explain.retries import Retries
from windlass.client.history import JobHistory
from windlass.client.job_watch import Found
from windlass.client.report import contents
from windlass.client.report.contents import TaskAttempt
from windlass.client.submit import node_capacity
from windlass.client.timeline import Timeline
from windlass.client.views import JobState, JobView, TaskState
from windlass.k8s import pod_resources
from windlass.model import names
from windlass.model.framework import Framework, FrameworkSpec
from windlass.model.status import EndedTaskAttempt
from windlass.web.schema import (
    BAR_COLUMNS,
    ContainerExit,
    EventTick,
    JobAttempt,
    JobRow,
    Resources,
    RetryCounts,
    RoleCounts,
    StateTime,
    TaskAttemptDetail,
    TaskRow,
    TimelineAnswer,
    milliseconds,
    stamp,
)
from windlass.wire.codec import InvalidFramework

MAX_TASKS = 1_000
"""Number of tasks that the detail of a job contains."""
MAX_BARS = 100_000
MAX_EVENTS = 5_000
"""Number of events of a timeline. Each pod of a large job has several; warnings are kept first."""
_FAILED = (TaskState.FAILED, TaskState.RETRYING)
_ENDED = (TaskState.SUCCEEDED, TaskState.FAILED, TaskState.RETRYING, TaskState.ENDED)


def of_job(found: Found) -> JobRow:
    match found:
        case InvalidFramework():
            return _row(views.job_view(found))
        case JobHistory():
            row = _framework_row(found.framework, found.view)
            if not found.is_deleted:
                return row
            ended = stamp(found.records[-1].spec.completion_time)
            return msgspec.structs.replace(row, exists=False, finished=row.finished or ended)
    return _framework_row(found, views.job_view(found))


def _row(view: JobView) -> JobRow:
    return JobRow(
        namespace=view.namespace,
        name=view.name,
        uid=view.uid,
        state=view.state,
        verdict=view.verdict,
        message=view.message,
        created=stamp(view.created),
        finished=stamp(view.completed),
        attempt=view.attempt,
    )


def _framework_row(framework: Framework, view: JobView) -> JobRow:
    status = framework.status
    started = status.run_time or status.start_time if status is not None else None
    duration = (view.completed - started).total_seconds() if view.completed and started else None
    return msgspec.structs.replace(
        _row(view),
        roles=tuple(_role_counts(view)),
        retries=_retries(framework),
        started=stamp(started),
        duration_seconds=duration,
        resources=resources_of(framework.spec),
        suspended=framework.spec.suspend,
    )


def _role_counts(view: JobView) -> Iterator[RoleCounts]:
    counts: dict[str, Counter[TaskState]] = {role: Counter() for role in view.roles}
    for (role, state), number in Counter((task.role, task.state) for task in view.tasks).items():
        counts.setdefault(role, Counter())[state] = number
    for role, found in counts.items():
        tasks = view.roles.get(role, found.total())
        running = found[TaskState.RUNNING] + found[TaskState.STOPPING]
        yield RoleCounts(
            name=role,
            tasks=tasks,
            running=running,
            succeeded=found[TaskState.SUCCEEDED],
            failed=sum(found[state] for state in _FAILED),
            waiting=max(0, tasks - running - sum(found[state] for state in _ENDED)),
        )


def _retries(framework: Framework) -> RetryCounts:
    status = framework.status
    if status is None:
        return RetryCounts()
    total = status.retry_policy_status.total_retried_count + sum(
        task.retry_policy_status.total_retried_count
        for role in status.attempt_status.roles
        for task in role.task_statuses
    )
    classes = Counter(timeline.class_of(each) or "other" for each in status.earlier_attempts)
    if unknown := total - classes.total():
        classes["other"] += max(0, unknown)
    return RetryCounts(total=total, by_class=dict(classes))


def resources_of(spec: FrameworkSpec) -> Resources:
    amounts: pod_resources.Amounts = {}
    for role in spec.task_roles:
        requests = node_capacity.requests_of({"task": {"pod": role.task.pod}})
        amounts = pod_resources.added(
            amounts, {name: each * role.task_number for name, each in requests.items()}
        )
    return resources(amounts)


def resources(amounts: Mapping[str, int]) -> Resources:
    gpus = sum(number for name, number in amounts.items() if name.endswith("/gpu"))
    return Resources(cpu=amounts.get("cpu", 0) / 1000, memory=amounts.get("memory", 0), gpus=gpus)


# Details


def task_rows(view: JobView) -> tuple[TaskRow, ...]:
    return tuple(
        TaskRow(
            role=task.role,
            index=task.index,
            state=task.state,
            node=task.node,
            pod_name=task.pod,
            message=task.reason,
        )
        for task in view.tasks[:MAX_TASKS]
    )


def facts(framework: Framework) -> dict[str, str]:
    """Return what the job runs, by role if the roles differ."""
    metadata, spec = framework.metadata, framework.spec
    found: dict[str, str] = {}
    for label, of_container in (("image", _image), ("command", _command)):
        values = {role.name: of_container(_container(role.task.pod)) for role in spec.task_roles}
        if len(set(values.values())) == 1:
            found[label] = next(iter(values.values()))
        else:
            found |= {f"{label} of {role}": value for role, value in values.items()}
    policy = spec.retry_policy
    found |= {
        "runtime": metadata.annotations.get(names.RUNTIME_ANNOTATION, ""),
        "description": spec.description,
        "retries": f"at most {policy.max_retry_count}" if policy.max_retry_count > 0 else "",
        "created": stamp(metadata.creation_timestamp) or "",
        "apiVersion": framework.api_version,
        "uid": framework.uid,
    }
    return {label: value for label, value in found.items() if value}


def _container(template: Mapping[str, object]) -> Mapping[str, object]:
    spec = template.get("spec")
    containers = spec.get("containers") if isinstance(spec, dict) else None
    return containers[0] if isinstance(containers, list) and containers else {}


def _image(container: Mapping[str, object]) -> str:
    return str(container.get("image") or "")


def _command(container: Mapping[str, object]) -> str:
    words = [*_words(container.get("command")), *_words(container.get("args"))]
    is_shell = len(words) >= 3 and words[0].endswith("sh") and words[1].startswith("-")
    return words[2] if is_shell else " ".join(words)


def _words(value: object) -> list[str]:
    return [str(each) for each in value] if isinstance(value, list) else []


def why(found: Explanation) -> tuple[str, ...]:
    """Return the explanation as paragraphs."""
    failure = found.failure
    paragraphs = [found.message, failure.hint if failure is not None else "", found.advice]
    paragraphs += [f"{pending.shorten_names(each.tasks)}: {each.reason}" for each in found.waits]
    if failure is not None and failure.lines:
        paragraphs.append("\n".join((f"Last lines of {failure.task}:", *failure.lines)))
    paragraphs += _retry_paragraphs(found.task_retries, failure.task if failure is not None else "")
    paragraphs += _retry_paragraphs(found.job_retries, found.job)
    if found.outcome is not None and found.outcome.because:
        paragraphs.append(f"Cause: {found.outcome.because}")
    return tuple(each for each in paragraphs if each)


def _retry_paragraphs(retries: Retries | None, subject: str) -> Iterator[str]:
    if retries is None or (retries.follows is None and not retries.total):
        return
    yield f"Retries of {subject}: {explain_retries.describe_counts(retries)}"
    if retries.follows is not None:
        yield explain_retries.describe_decision(retries, subject)


# Timeline


def of_timeline(found: Timeline, now: datetime) -> TimelineAnswer:
    times = [each.phases[0].since for each in found.tasks if each.phases]
    times += [each.started for each in found.attempts if each.started is not None]
    times += [each.first for each in found.events]
    ends = [each.ended for each in found.tasks if each.ended is not None]
    ends += [each.ended for each in found.attempts if each.ended is not None]
    ends += [each.last for each in found.events]
    is_over = all(each.ended is not None for each in found.attempts)
    last = max([*times, *ends], default=now)
    return TimelineAnswer(
        now=_ms(now),
        start=_ms(min(times, default=now)),
        end=_ms(last if is_over else max(now, last)),
        columns=BAR_COLUMNS,
        bars=tuple(map(_bar, found.tasks[:MAX_BARS])),
        truncated=max(0, len(found.tasks) - MAX_BARS),
        job_attempts=tuple(
            JobAttempt(
                attempt=each.attempt,
                started=milliseconds(each.started),
                finished=milliseconds(each.ended),
                outcome=_attempt_outcome(each.state),
                reason=each.reason or each.retry_reason,
            )
            for each in found.attempts
        ),
        events=tuple(
            EventTick(
                time=_ms(each.last),
                reason=each.reason,
                message=each.message,
                object=each.object,
                type=each.type,
            )
            for each in _shown_events(found.events)
        ),
    )


def _shown_events(found: Sequence[Event]) -> Sequence[Event]:
    """Return the events of a timeline, the latest warnings if there are too many."""
    if len(found) <= MAX_EVENTS:
        return found
    by_importance = sorted(range(len(found)), key=lambda number: (found[number].is_warning, number))
    return [found[number] for number in sorted(by_importance[-MAX_EVENTS:])]


def _ms(time: datetime) -> int:
    return int(time.timestamp() * 1000)


def _bar(attempt: TaskAttempt) -> tuple[str | int | None, ...]:
    created = scheduled = pulling = pulled = started = ending = None
    for phase in attempt.phases:
        state, since = phase.state, _ms(phase.since)
        if state is contents.PENDING:
            created = since
        elif state is contents.RUNNING:
            started = since
        elif state is contents.ENDING:
            ending = since
        elif state is contents.PULLING:
            pulling = since
        elif pulling is not None:
            pulled = since
        else:
            scheduled = since
    return (
        attempt.role,
        attempt.index,
        attempt.job_attempt,
        attempt.attempt,
        attempt.node,
        created,
        scheduled,
        pulling,
        pulled,
        started,
        milliseconds(attempt.ended),
        timeline.outcome_of(attempt),
        attempt.code,
        attempt.failure_class,
        ending,
    )


def _attempt_outcome(state: JobState) -> str:
    outcomes = {
        JobState.RUNNING: timeline.Outcome.RUNNING,
        JobState.STOPPING: timeline.Outcome.RUNNING,
        JobState.SUCCEEDED: timeline.Outcome.SUCCEEDED,
        JobState.FAILED: timeline.Outcome.FAILED,
        JobState.RETRYING: timeline.Outcome.FAILED,
        JobState.STOPPED: timeline.Outcome.STOPPED,
        JobState.SUSPENDED: timeline.Outcome.STOPPED,
        JobState.DELETED: timeline.Outcome.STOPPED,
        JobState.DELETING: timeline.Outcome.STOPPED,
    }
    return outcomes.get(state, timeline.Outcome.PENDING)


def of_task_attempt(found: EndedTaskAttempt, attempt: int, lines: Sequence[str] = ()) -> TaskAttemptDetail:
    ended = found.attempt
    completion, pod_times = ended.completion_status, ended.times_of_pod
    pod = None if completion is None else completion.pod
    retry = found.retry
    decision = "" if retry is None else "retried" if retry.should_retry else "not retried"
    return TaskAttemptDetail(
        task=names.host_name(found.role, found.index),
        attempt=attempt,
        task_attempt=ended.id,
        node=ended.pod_node_name or "",
        pod_name=ended.pod_name,
        times=tuple(
            StateTime(state=state, time=stamp(time))
            for state, time in (
                ("pending", ended.start_time),
                ("pod created", pod_times.created),
                ("scheduled", pod_times.scheduled),
                ("started", pod_times.started or ended.run_time),
                ("deletion requested", pod_times.deletion_requested),
                ("ended", pod_times.ended),
                ("finished", ended.completion_time),
            )
            if time is not None
        ),
        exit_codes=tuple(
            ContainerExit(container=each.name, code=each.code, signal=each.signal, reason=each.reason)
            for each in (() if pod is None else pod.containers)
        ),
        class_=timeline.class_of(found),
        decision=decision,
        decision_reason="" if retry is None else retry.reason,
        last_lines=tuple(lines),
    )
