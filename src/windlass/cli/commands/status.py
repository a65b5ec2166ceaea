"""The command `windlass status`."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from windlass.cli import cluster_options, name_completion, parameters
from windlass.cli.cluster_options import ClusterOptions
from windlass.cli.terminal import tables
from windlass.cli.terminal.tables import Column

if TYPE_CHECKING:
    from windlass.client.companions.status import CompanionView
    from windlass.client.connection import Connection
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
_COMPANIONS = (
    Column("COMPANION", 6),
    Column("STATE", 5),
    Column("URL", 4),
    Column("REASON", 0, can_shrink=True),
)
_STATE_CONDITIONS = ("Complete", "Failed", "Suspended")
"""Types of conditions that the state of the job already shows."""


@click.command()
@click.argument("name", metavar="NAME", shell_complete=name_completion.jobs)
@parameters.output("text", "json")
@cluster_options.options
def status(name: str, output: str, cluster: ClusterOptions) -> None:
    """Show the status of a job, its tasks and its companions. With -o json, print the Framework.

    Companions that are left over from a deleted job are shown too. The URL of a companion is valid in the cluster, or
    everywhere if its Service is exposed. The printed command opens a companion from this machine.

    \b
        windlass status digits
        windlass status digits -o json | jq .status.state
    """
    cluster_options.run(cluster, _status, name, is_json=output == "json")


async def _status(connection: "Connection", name: str, *, is_json: bool) -> None:
    import msgspec

    from windlass.client import lookup
    from windlass.client.companions import status as companion_status

    framework = await lookup.find_or_none(connection, name)
    if is_json:
        framework = framework or await lookup.find(connection, name)
        click.echo(msgspec.json.format(await lookup.read_raw(connection, framework)))
        return
    notes: list[str] = []
    found = await companion_status.read(connection, name, notes.append)
    if framework is None and not found:
        raise await lookup.not_found_error(connection, name)
    if framework is None:
        click.echo(
            f"the job {name} does not exist in the namespace {connection.namespace}, but its companions do:"
        )
    else:
        click.echo("\n".join(lines(framework, datetime.now(UTC), tables.terminal_width())))
    if found:
        click.echo("\n".join(("", *companion_lines(found, tables.terminal_width()))))
    for note in dict.fromkeys(notes if found else ()):
        click.echo(note, err=True)


def lines(framework: "Framework", now: datetime, width: int | None) -> Iterator[str]:
    from windlass.client import views

    view = views.job_view(framework)
    yield from head(framework, view, now, width)
    if view.tasks:
        yield ""
        yield tasks_table(view, width)


def head(framework: "Framework", view: "JobView", now: datetime, width: int | None) -> Iterator[str]:
    """Yield the lines about the job itself."""
    state_age = tables.age(view.changed, now)
    state = f"{view.state} for {state_age}" if state_age else f"{view.state}"
    for title, text in (
        ("job", f"{view.name} in the namespace {view.namespace}"),
        ("state", state),
        ("reason", view.reason),
        ("tasks", tables.task_counts(view.running, view.succeeded, view.failed, view.total)),
        ("attempt", f"{view.attempt} (counted from 0)" if view.attempt else ""),
        ("age", tables.age(view.created, now)),
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
