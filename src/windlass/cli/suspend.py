"""`windlass suspend`: see `windlass.client.changing`."""

import click

from windlass.cli import cluster, completing, job_changes
from windlass.cli.cluster import Where


@click.command()
@click.argument("names", metavar="NAME...", nargs=-1, required=True, shell_complete=completing.jobs)
@cluster.options
def suspend(names: tuple[str, ...], where: Where) -> None:
    """Take the pods of jobs away, and keep the jobs.

    `windlass resume` starts them anew: a new attempt, which counts as no retry. Until then they wait, and need nothing.

    \b
        windlass suspend digits
    """
    from windlass.client import changing

    cluster.run(where, lambda connection: job_changes.change(connection, names, changing.suspend))
