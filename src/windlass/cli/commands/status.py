"""The command `windlass status`."""

import contextlib
import textwrap
from collections.abc import AsyncGenerator, Iterator, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from windlass.cli import cluster_options, name_completion, parameters
from windlass.cli.cluster_options import ClusterOptions
from windlass.cli.terminal import tables
from windlass.cli.terminal import text as terminal_text
from windlass.cli.terminal.tables import Column
from windlass.model.states import State

if TYPE_CHECKING:
    from windlass.client.companions.status import CompanionView
    from windlass.client.connection import Connection
    from windlass.client.history import JobHistory
    from windlass.client.views import JobView, TaskView
    from windlass.model.framework import Framework

_TASKS = (
    Column("TASK", 6, can_shrink=True),
    Column("STATE", 5),
    Column("ATTEMPT", 1),
    Column("EXIT", 4),
    Column("NODE", 3, can_shrink=True),
    Column("IP", 2, can_shrink=True),
    Column("REASON", 0, can_shrink=True),
)
_ATTEMPTS = (
    Column("ATTEMPT", 1),
    Column("STATE", 5),
    Column("AGE", 2),
    Column("DURATION", 2),
    Column("NODE", 3, can_shrink=True),
    Column("REASON", 6, can_shrink=True),
    Column("RETRIED", 0, can_shrink=True),
)
_COMPANIONS = (
    Column("COMPANION", 6),
    Column("STATE", 5),
    Column("URL", 4),
    Column("REASON", 0, can_shrink=True),
)
_STATE_CONDITIONS = ("Complete", "Failed", "Suspended")
"""Types of conditions that the state of the job already shows."""


@click.command()
@click.argument("name", metavar="[NAME]", required=False, shell_complete=name_completion.jobs)
@click.option("--watch", "-w", "watches", is_flag=True, help="Update the status until the job has completed.")
@click.option(
    "--history", "has_history", is_flag=True, help="Show all attempts of the job, even if it was deleted."
)
@parameters.output("text", "json")
@cluster_options.options
def status(name: str | None, watches: bool, has_history: bool, output: str, cluster: ClusterOptions) -> None:
    """Show the status of a job (default: the latest), its tasks and its companions. With -o json, print the Framework
    with `verdict` and `message`.

    With --history, also show the recorded attempts; with --history -o json, print only the attempts. Records remain
    when the job is deleted.

    Companions that are left over from a deleted job are shown too. The URL of a companion is valid in the cluster, or
    everywhere if its Service is exposed. The printed command opens a companion from this machine.

    \b
        windlass status digits
        windlass status -w digits
        windlass status digits --history
        windlass status digits -o json | jq .status.state
    """
    if watches and output == "json":
        raise click.UsageError("--watch and --output json are mutually exclusive")
    with cluster_options.naming_kept_output(name):
        if has_history:
            cluster_options.run(cluster, _history, name, is_json=output == "json")
        elif watches:
            cluster_options.run(cluster, _watch, name)
        else:
            cluster_options.run(cluster, _status, name, is_json=output == "json")


async def _history(connection: "Connection", name: str | None, *, is_json: bool) -> None:
    from windlass.cli import json_output
    from windlass.client import history

    found = await history.find(connection, await cluster_options.job_name(connection, name))
    if is_json:
        for attempt in found.attempts:
            click.echo(json_output.encode(attempt))
        return
    now, width = datetime.now(UTC), tables.terminal_width()
    click.echo(
        "\n".join((*lines(found.framework, now, width, found.view), "", _attempts_table(found, now, width)))
    )


def _attempts_table(found: "JobHistory", now: datetime, width: int | None) -> str:
    rows = []
    for each in found.attempts:
        ended = each.ended or now
        took = tables.age(each.started, ended) if each.started is not None else ""
        retry = {None: "", True: "yes", False: "no"}[each.is_retried]
        reason = f"{retry}: {each.retry_reason}" if each.retry_reason else retry
        node = each.failure.node if each.failure is not None else ""
        rows.append(
            [
                str(each.attempt),
                each.state.value,
                tables.age(each.started, now),
                took,
                node,
                each.reason,
                reason,
            ]
        )
    return tables.table(_ATTEMPTS, rows, width)


async def _watch(connection: "Connection", name: str | None) -> None:
    from windlass.cli.terminal import refreshing
    from windlass.client import jobs, wait
    from windlass.client.errors import ObjectDeletedError

    framework = await jobs.find(connection, await cluster_options.job_name(connection, name))
    found: Framework | None = framework

    async def changes(framework: "Framework") -> "AsyncGenerator[None, None]":
        nonlocal found
        async with contextlib.aclosing(wait.watch_framework(connection, framework)) as watched:
            async for changed in watched:
                found = changed
                yield

    async def read() -> "tuple[Framework, JobView]":
        if found is None:
            raise ObjectDeletedError("the job was deleted")
        return found, await _view(connection, found)

    def is_over(shown: "tuple[Framework, JobView]") -> bool:
        status = shown[0].status
        return status is not None and status.state is State.COMPLETED

    await refreshing.show(changes(framework), read, lambda *shown: tuple(_shown(*shown)), is_over)


async def _view(connection: "Connection", framework: "Framework") -> "JobView":
    from windlass.client import views
    from windlass.client.explain import pending

    (view,) = await pending.with_reasons(connection, [(framework, views.job_view(framework))])
    return view


def _shown(job: "tuple[Framework, JobView]", now: datetime, width: int | None) -> Iterator[str]:
    framework, view = job
    for text in lines(framework, now, width, view):
        yield from text.splitlines() or [""]


async def _status(connection: "Connection", name: str | None, *, is_json: bool) -> None:
    import msgspec

    from windlass.cli import json_output
    from windlass.client import jobs, lookup, plain_jobs
    from windlass.client.companions import status as companion_status
    from windlass.wire import codec

    name = await cluster_options.job_name(connection, name)
    framework = await jobs.find_or_none(connection, name)
    if is_json:
        framework = framework or await jobs.find(connection, name)
        body = (
            msgspec.Raw(codec.encode_framework(framework))
            if plain_jobs.is_plain(framework)
            else msgspec.Raw(await lookup.read_raw(connection, framework))
        )
        view = await _view(connection, framework)
        body = json_output.with_fields(body, verdict=view.verdict, message=view.message)
        click.echo(json_output.indented(body))
        return
    notes: list[str] = []
    found = await companion_status.read(connection, name, notes.append)
    if framework is None and not found:
        raise await jobs.not_found_error(connection, name)
    if framework is None:
        click.echo(
            f"the job {name} does not exist in the namespace {connection.namespace}, but its companions do:"
        )
    else:
        view = await _view(connection, framework)
        click.echo("\n".join(lines(framework, datetime.now(UTC), tables.terminal_width(), view)))
    if found:
        click.echo("\n".join(("", *companion_lines(found, tables.terminal_width()))))
    for note in dict.fromkeys(notes if found else ()):
        click.echo(note, err=True)


def lines(
    framework: "Framework", now: datetime, width: int | None, view: "JobView | None" = None
) -> Iterator[str]:
    """Yield the status of a job. `view` is that of a deleted job, or has the reasons of pending tasks."""
    from windlass.client import views

    view = view or views.job_view(framework)
    yield from head(framework, view, now, width)
    if view.tasks:
        yield ""
        yield tasks_table(view, width)


def head(framework: "Framework", view: "JobView", now: datetime, width: int | None) -> Iterator[str]:
    """Yield the lines about the job itself."""
    from windlass.client import task_files

    state_age = tables.age(view.changed, now)
    state = f"{view.state} for {state_age}" if state_age else f"{view.state}"
    yield from textwrap.wrap(
        terminal_text.printable(view.message), width or tables.MAX_PARAGRAPH_WIDTH, break_on_hyphens=False
    )
    for title, text in (
        ("job", f"{view.name} in the namespace {view.namespace}"),
        ("state", state),
        ("tasks", tables.task_counts(view.running, view.succeeded, view.failed, view.total, view.retrying)),
        ("attempt", f"{view.attempt} (counted from 0)" if view.attempt else ""),
        ("age", tables.age(view.created, now)),
        *(("output", each.describe(view.name)) for each in task_files.outputs(framework)),
        ("hint", _hint(framework, view, now)),
    ):
        if text:
            yield tables.paragraph(title, text, width)
    for condition in framework.status.conditions if framework.status is not None else ():
        if (
            condition.is_true
            and condition.type not in _STATE_CONDITIONS
            and condition.message not in view.reason
        ):
            yield tables.paragraph("condition", f"{condition.type}: {condition.message}", width)


def _hint(framework: "Framework", view: "JobView", now: datetime) -> str:
    """Return the next step for the user, if the job does not progress on its own."""
    created = view.created
    is_unseen = framework.status is None and created is not None and (now - created).total_seconds() > 5
    if is_unseen:
        return "no controller has processed this job. Install one with `windlass install --apply`"
    return {
        "Suspended": f"windlass resume {view.name}",
        "Failed": f"windlass why {view.name}",
    }.get(view.state, "")


def tasks_table(view: "JobView", width: int | None) -> str:
    return tables.table(_TASKS, [_row(task) for task in view.tasks], width)


def companion_lines(found: "Sequence[CompanionView]", width: int | None) -> Iterator[str]:
    """Yield the table of companions, and the commands that open those that are not exposed."""
    rows = [[str(each.companion), each.state.value, each.url, each.reason] for each in found]
    yield tables.table(_COMPANIONS, rows, width)
    for each in found:
        if not each.is_exposed:
            yield tables.paragraph("hint", f"{each.open_command} -n {each.namespace}", width)


def _row(task: "TaskView") -> list[str]:
    code = "" if task.code is None else str(task.code)
    return [task.name, task.state.value, str(task.attempt), code, task.node, task.ip, task.reason]
