"""The command `windlass describe`."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from windlass.cli import cluster_options, name_completion
from windlass.cli.cluster_options import ClusterOptions
from windlass.cli.commands import status
from windlass.cli.terminal import tables
from windlass.cli.terminal.tables import Column
from windlass.model import verdict

if TYPE_CHECKING:
    from windlass.client.connection import Connection
    from windlass.client.describe import Description
    from windlass.client.events import Event
    from windlass.client.pods import Pod
    from windlass.model.framework import CompletionRule, FrameworkSpec, RetryPolicySpec, TaskRoleSpec

MAX_EVENTS = 20
"""Maximum number of events to show, the latest ones; `windlass events` shows all."""

_ROLES = (
    Column("ROLE", 6, can_shrink=True),
    Column("TASKS", 5),
    Column("COMPLETES WHEN", 3, can_shrink=True),
    Column("RETRIES", 2, can_shrink=True),
    Column("IMAGE", 4, can_shrink=True),
    Column("COMMAND", 1, can_shrink=True),
)
_PODS = (
    Column("POD", 6, can_shrink=True),
    Column("PHASE", 5),
    Column("RESTARTS", 1),
    Column("AGE", 2),
    Column("NODE", 3, can_shrink=True),
    Column("REASON", 0, can_shrink=True),
)
_EVENTS = (
    Column("AGE", 5),
    Column("OBJECT", 4, can_shrink=True),
    Column("REASON", 3, can_shrink=True),
    Column("MESSAGE", 6, can_shrink=True),
)


@click.command()
@click.argument("name", metavar="[NAME]", required=False, shell_complete=name_completion.jobs)
@cluster_options.options
def describe(name: str | None, cluster: ClusterOptions) -> None:
    """Show the details of a job (default: the latest): status, spec, tasks, pods, companions and latest events.

    \b
        windlass describe digits
    """
    with cluster_options.naming_kept_output(name):
        cluster_options.run(cluster, _describe, name)


async def _describe(connection: "Connection", name: str | None) -> None:
    from windlass.client import describe

    description = await describe.describe(connection, await cluster_options.job_name(connection, name))
    click.echo("\n".join(lines(description, datetime.now(UTC), tables.terminal_width())))


def lines(description: "Description", now: datetime, width: int | None) -> Iterator[str]:
    framework = description.framework
    yield from status.lines(framework, now, width, description.view)
    yield "\nspec"
    for title, text in _spec_lines(description):
        yield tables.paragraph(f"  {title}", text, width, indent=18)
    yield tables.table(_ROLES, [_role(role) for role in framework.spec.task_roles], width)
    if description.pods:
        yield "\npods"
        yield tables.table(_PODS, [_pod(pod, now) for pod in description.pods], width)
    if description.companions:
        yield "\ncompanions"
        yield from status.companion_lines(description.companions, width)
    if description.events:
        left_out = len(description.events) - MAX_EVENTS
        yield f"\nevents, the last {MAX_EVENTS} of {len(description.events)}" if left_out > 0 else "\nevents"
        yield tables.table(_EVENTS, [_event(each, now) for each in description.events[-MAX_EVENTS:]], width)
    for message in description.unreadable:
        yield tables.paragraph("not readable", message, width, indent=14)


def _spec_lines(description: "Description") -> Iterator[tuple[str, str]]:
    framework = description.framework
    spec, metadata = framework.spec, framework.metadata
    if spec.description:
        yield "description", spec.description
    yield "kind", f"{framework.kind} of {framework.group}"
    for title, values in (("labels", metadata.labels), ("annotations", metadata.annotations)):
        if values:
            yield title, ", ".join(f"{name}={value}" for name, value in values.items())
    yield "execution", f"{spec.execution_type}{', suspended' if spec.suspend else ''}"
    yield "retries", _retries(spec.retry_policy)
    for rule in spec.completion_policies:
        yield "completes if" if rule.is_success else "fails if", _rule(rule)
    for role in spec.task_roles:
        for start in role.start_after:
            number = "all" if start.min_task_count is None else f"{start.min_task_count}"
            yield "start order", f"{role.name} after {number} {start.task_role}: {start.condition}"
        if role.parallelism is not None:
            yield "parallelism", f"at most {role.parallelism} {role.name} at a time"
    yield "completed pods", f"{spec.completed_pods}"
    yield from _deadlines(spec)


def _rule(rule: "CompletionRule") -> str:
    """Return e.g. `2 tasks failed, of worker 0-3 (name of the rule)`."""
    texts = (
        ("task", rule.min_succeeded_task_count, "succeeded"),
        ("task", rule.min_failed_task_count, "failed"),
        ("attempt", rule.min_failed_attempt_count, "failed"),
        ("container restart", rule.min_container_restart_count, ""),
    )
    named = (f"{verdict.count(noun, number)} {end}".strip() for noun, number, end in texts if number)
    what = next(named, "all tasks succeeded")
    selected = " ".join(filter(None, (", ".join(rule.task_roles) or "", rule.task_indexes or "")))
    name = f" ({rule.name})" if rule.name else ""
    after = ", when all have completed" if rule.after_all else ""
    return f"{what}{f', of {selected}' if selected else ''}{after}{name}"


def _deadlines(spec: "FrameworkSpec") -> Iterator[tuple[str, str]]:
    from windlass.wire import durations

    for title, seconds in (
        ("pending limit", spec.pending_deadline_seconds),
        ("run time limit", spec.active_deadline_seconds),
        ("kept for", spec.ttl_seconds_after_finished),
    ):
        if seconds is not None:
            yield title, durations.format_seconds(seconds)


def _retries(policy: "RetryPolicySpec") -> str:
    unlimited = {-2: "always, even after success", -1: "after every failure"}
    count = policy.max_retry_count
    limit = unlimited.get(count) or ("none" if count == 0 else f"{count} after failures")
    if not policy.fancy_retry_policy:
        return limit
    transient = policy.max_transient_retry_count
    return f"{limit}; {'any number' if transient is None else transient} after transient failures"


def _role(role: "TaskRoleSpec") -> list[str]:
    containers = (role.task.pod.get("spec") or {}).get("containers") or [{}]
    main = containers[0]
    command = [*(main.get("command") or ()), *(main.get("args") or ())]
    return [
        role.name,
        str(role.task_number),
        _completion_text(role),
        _retries(role.task.retry_policy),
        str(main.get("image") or ""),
        " ".join(map(str, command)),
    ]


def _completion_text(role: "TaskRoleSpec") -> str:
    policy = role.framework_attempt_completion_policy
    conditions = []
    if policy.min_failed_task_count > 0:
        conditions.append(f"{policy.min_failed_task_count} failed")
    if policy.min_succeeded_task_count > 0:
        conditions.append(f"{policy.min_succeeded_task_count} succeeded")
    return " or ".join(conditions)


def _pod(pod: "Pod", now: datetime) -> list[str]:
    from windlass.client import waiting

    restarts = sum(each.restart_count for each in pod.container_statuses)
    phase = "Terminating" if pod.is_deleting else pod.status.phase
    reason = waiting.waiting_reason(pod, pod.default_container) if phase == "Pending" else pod.status.reason
    age = tables.age(pod.metadata.creation_timestamp, now)
    return [pod.name, phase, str(restarts), age, pod.spec.node_name, reason]


def _event(event: "Event", now: datetime) -> list[str]:
    times = f" ({event.count} times)" if event.count > 1 else ""
    return [tables.age(event.last, now), event.object, event.reason, f"{event.message}{times}"]
