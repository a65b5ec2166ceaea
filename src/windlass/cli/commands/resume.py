"""`windlass resume`: see `windlass.client.lifecycle`."""

import click

from windlass.cli import cluster_options, job_changes, name_completion
from windlass.cli.cluster_options import Where


@click.command()
@click.argument("names", metavar="NAME...", nargs=-1, required=True, shell_complete=name_completion.jobs)
@cluster_options.options
def resume(names: tuple[str, ...], where: Where) -> None:
    """Let jobs that were suspended run again.

    A new attempt begins, from the start of the tasks' commands: what was trained before is there if the tasks saved it.

    \b
        windlass resume digits
    """
    from windlass.client import lifecycle

    cluster_options.run(where, lambda connection: job_changes.change(connection, names, lifecycle.resume))
