"""`windlass resume`: see `windlass.client.changing`."""

import click

from windlass.cli import cluster, completing, job_changes
from windlass.cli.cluster import Where


@click.command()
@click.argument("names", metavar="NAME...", nargs=-1, required=True, shell_complete=completing.jobs)
@cluster.options
def resume(names: tuple[str, ...], where: Where) -> None:
    """Let jobs that were suspended run again.

    A new attempt begins, from the start of the tasks' commands: what was trained before is there if the tasks saved it.

    \b
        windlass resume digits
    """
    from windlass.client import changing

    cluster.run(where, lambda connection: job_changes.change(connection, names, changing.resume))
