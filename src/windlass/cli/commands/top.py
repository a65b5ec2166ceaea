"""The command `windlass top`."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from windlass.cli import cluster_options, name_completion
from windlass.cli.cluster_options import ClusterOptions
from windlass.cli.terminal import tables
from windlass.cli.terminal.tables import Column

if TYPE_CHECKING:
    from windlass.client.connection import Connection

_COLUMNS = (
    Column("JOB", 5, can_shrink=True),
    Column("TASK", 6, can_shrink=True),
    Column("CPU", 4),
    Column("MEMORY", 4),
    Column("GPU", 3),
    Column("GPU MEM", 2),
    Column("NODE", 1, can_shrink=True),
)
_OPTIONAL = ("GPU", "GPU MEM")
"""Columns that are shown only if a task has a value."""


@click.command()
@click.argument("name", metavar="[NAME]", default="", shell_complete=name_completion.jobs)
@cluster_options.options
def top(name: str, cluster: ClusterOptions) -> None:
    """Show the CPU and memory usage of the tasks of a job (default: of all jobs), from the metrics API of the cluster.

    \b
        windlass top
        windlass top digits
    """
    cluster_options.run(cluster, _top, name)


async def _top(connection: "Connection", name: str) -> None:
    # Slow imports are here, so that `windlass --help` stays fast.
    from windlass.cli.terminal import live_view
    from windlass.client import jobs, plain_jobs, tasks, usage
    from windlass.model.framework import Framework

    listed = [await jobs.find(connection, name)] if name else await jobs.list_jobs(connection)
    found = [each for each in listed if isinstance(each, Framework)]
    all_tasks = {usage.TASKS, plain_jobs.pod_selector()}
    selectors = {tasks.pod_selector(each) for each in found} if name else all_tasks
    used: dict[str, usage.Usage] = {}
    for selector in sorted(selectors):
        used |= await usage.read(connection, selector)
    rows = []
    for job in found:
        for pod in await tasks.list_pods(connection, job):
            if (each := used.get(pod.name)) is not None:
                gpus = "" if each.gpus is None else f"{each.gpus:.0%}"
                gpu_memory = "" if each.gpu_memory is None else live_view.format_memory(each.gpu_memory)
                memory = live_view.format_memory(each.memory)
                rows.append(
                    (job.name, str(pod.task), f"{each.cpu:.0%}", memory, gpus, gpu_memory, pod.spec.node_name)
                )
    if not rows:
        subject = f"{name} has" if name else f"the namespace {connection.namespace} has"
        click.echo(f"{subject} no running tasks with metrics", err=True)
        return
    click.echo(table(rows, tables.terminal_width()))


def table(rows: Sequence[Sequence[str]], width: int | None) -> str:
    shown = [
        at
        for at, column in enumerate(_COLUMNS)
        if column.title not in _OPTIONAL or any(row[at] for row in rows)
    ]
    return tables.table([_COLUMNS[at] for at in shown], [[row[at] for at in shown] for row in rows], width)
