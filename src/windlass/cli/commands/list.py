"""The command `windlass list`."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from windlass.cli import cluster_options, parameters
from windlass.cli.cluster_options import ClusterOptions
from windlass.cli.terminal import tables
from windlass.cli.terminal.tables import Column

if TYPE_CHECKING:
    from windlass.client.connection import Connection
    from windlass.client.views import JobView

_NAMESPACE = Column("NAMESPACE", 3, can_shrink=True)
_COLUMNS = (
    Column("NAME", 6, can_shrink=True),
    Column("STATE", 5),
    Column("TASKS", 4, can_shrink=True),
    Column("ATTEMPT", 1),
    Column("AGE", 2),
)
_WIDE_COLUMNS = (Column("ROLES", 0, can_shrink=True), Column("REASON", 0, can_shrink=True))


@click.command()
@click.option("--all-namespaces", "-A", is_flag=True, help="List the jobs of all namespaces.")
@parameters.output("text", "wide", "json")
@cluster_options.options
def list(all_namespaces: bool, output: str, cluster: ClusterOptions) -> None:  # noqa: A001 — the command's name
    """List jobs and their status.

    \b
        windlass list
        windlass list -A -o wide      # all namespaces, with roles and reasons
    """
    cluster_options.run(cluster, _list, output, in_all_namespaces=all_namespaces)


async def _list(connection: "Connection", output: str, *, in_all_namespaces: bool) -> None:
    import msgspec

    from windlass.client import lookup, views
    from windlass.wire import codec

    items = await lookup.list_raw_frameworks(connection, in_all_namespaces=in_all_namespaces)
    if output == "json":
        body = msgspec.json.encode({"apiVersion": "v1", "kind": "List", "items": items})
        click.echo(msgspec.json.format(body))
        return
    jobs = [views.job_view(codec.read_framework(item)) for item in items]
    if not jobs:
        place = "any namespace" if in_all_namespaces else f"the namespace {connection.namespace}"
        click.echo(f"no jobs found in {place}", err=True)
        return
    text = table(
        jobs,
        datetime.now(UTC),
        tables.terminal_width(),
        has_namespaces=in_all_namespaces,
        is_wide=output == "wide",
    )
    click.echo(text)


def table(
    jobs: "Sequence[JobView]", now: datetime, width: int | None, *, has_namespaces: bool, is_wide: bool
) -> str:
    columns = (*([_NAMESPACE] if has_namespaces else ()), *_COLUMNS, *(_WIDE_COLUMNS if is_wide else ()))
    rows = [_row(job, now, has_namespaces=has_namespaces, is_wide=is_wide) for job in jobs]
    return tables.table(columns, rows, width)


def _row(job: "JobView", now: datetime, *, has_namespaces: bool, is_wide: bool) -> tuple[str, ...]:
    roles = " ".join(f"{name}={number}" for name, number in job.roles.items())
    return (
        *((job.namespace,) if has_namespaces else ()),
        job.name,
        job.state.value,
        tables.task_counts(job.running, job.succeeded, job.failed, job.total),
        str(job.attempt),
        tables.age(job.created, now),
        *((roles, job.reason) if is_wide else ()),
    )
