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
_MESSAGE = Column("MESSAGE", 0, can_shrink=True)
_WIDE_COLUMNS = (Column("ROLES", 0, can_shrink=True),)


@click.command()
@click.option("--all-namespaces", "-A", is_flag=True, help="List the jobs of all namespaces.")
@click.option("--watch", "-w", "watches", is_flag=True, help="Update the list until Ctrl-C.")
@click.option(
    "--finished", is_flag=True, help="List only completed jobs, including deleted ones that have records."
)
@parameters.output("text", "wide", "json")
@cluster_options.options
def list(  # noqa: A001 — the command's name
    all_namespaces: bool, watches: bool, finished: bool, output: str, cluster: ClusterOptions
) -> None:
    """List jobs and their status.

    \b
        windlass list
        windlass list -w
        windlass list -A -o wide      # all namespaces, with roles
        windlass list --finished      # completed jobs, including deleted ones
    """
    if watches and output == "json":
        raise click.UsageError("--watch and --output json are mutually exclusive")
    if watches and finished:
        raise click.UsageError("--watch and --finished are mutually exclusive")
    if watches:
        cluster_options.run(cluster, _watch, output, in_all_namespaces=all_namespaces)
    else:
        cluster_options.run(
            cluster, _list, output, in_all_namespaces=all_namespaces, is_finished_only=finished
        )


async def _watch(connection: "Connection", output: str, *, in_all_namespaces: bool) -> None:
    from windlass.cli.terminal import refreshing
    from windlass.client import jobs as client_jobs
    from windlass.client import views
    from windlass.client.explain import pending

    async def read() -> "Sequence[JobView]":
        found = await client_jobs.list_jobs(connection, in_all_namespaces=in_all_namespaces)
        jobs = [(each, views.job_view(each)) for each in found]
        return await pending.with_reasons(connection, jobs, in_all_namespaces=in_all_namespaces)

    def lines(jobs: "Sequence[JobView]", now: datetime, width: int | None) -> Sequence[str]:
        is_wide = output == "wide"
        return table(jobs, now, width, has_namespaces=in_all_namespaces, is_wide=is_wide).splitlines()

    changes = client_jobs.watch_changes(connection, in_all_namespaces=in_all_namespaces)
    await refreshing.show(changes, read, lines)


async def _list(
    connection: "Connection", output: str, *, in_all_namespaces: bool, is_finished_only: bool
) -> None:
    import msgspec

    from windlass.cli import json_output
    from windlass.client import history, views
    from windlass.client import jobs as client_jobs
    from windlass.client.explain import pending
    from windlass.k8s import metadata
    from windlass.wire import codec

    found = tuple(await client_jobs.list_raw(connection, in_all_namespaces=in_all_namespaces))
    frameworks = map(codec.read_framework, found)
    jobs = await pending.with_reasons(
        connection,
        [(each, views.job_view(each)) for each in frameworks],
        in_all_namespaces=in_all_namespaces,
    )
    if is_finished_only:
        uids = {metadata.decode_identity(item).metadata.uid for item in found}
        finished = [each for each in zip(found, jobs, strict=True) if each[1].is_completed]
        deleted = await history.deleted_jobs(connection, uids, in_all_namespaces=in_all_namespaces)
        finished += [(msgspec.Raw(codec.encode_framework(each.framework)), each.view) for each in deleted]
        found, jobs = tuple(item for item, _ in finished), [job for _, job in finished]
    if output == "json":
        listed = [
            json_output.with_fields(item, verdict=job.verdict, message=job.message)
            for item, job in zip(found, jobs, strict=True)
        ]
        click.echo(json_output.indented({"apiVersion": "v1", "kind": "List", "items": listed}))
        return
    if not jobs:
        place = "any namespace" if in_all_namespaces else f"the namespace {connection.namespace}"
        kind = "finished jobs" if is_finished_only else "jobs"
        click.echo(f"no {kind} found in {place}", err=True)
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
    columns = (
        *([_NAMESPACE] if has_namespaces else ()),
        *_COLUMNS,
        *(_WIDE_COLUMNS if is_wide else ()),
        _MESSAGE,
    )
    rows = [_row(job, now, has_namespaces=has_namespaces, is_wide=is_wide) for job in jobs]
    return tables.table(columns, rows, width)


def _row(job: "JobView", now: datetime, *, has_namespaces: bool, is_wide: bool) -> tuple[str, ...]:
    roles = " ".join(f"{name}={number}" for name, number in job.roles.items())
    return (
        *((job.namespace,) if has_namespaces else ()),
        job.name,
        job.state.value,
        tables.task_counts(job.running, job.succeeded, job.failed, job.total, job.retrying),
        str(job.attempt),
        tables.age(job.created, now),
        *((roles,) if is_wide else ()),
        job.message if job.reason or job.is_completed else "",
    )
