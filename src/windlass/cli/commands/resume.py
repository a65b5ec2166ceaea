"""The command `windlass resume`."""

import click

from windlass.cli import cluster_options, job_changes, name_completion
from windlass.cli.cluster_options import ClusterOptions


@click.command()
@click.argument("names", metavar="NAME...", nargs=-1, required=True, shell_complete=name_completion.jobs)
@cluster_options.options
def resume(names: tuple[str, ...], cluster: ClusterOptions) -> None:
    """Resume suspended jobs.

    A new attempt starts the tasks from the beginning. They continue training only from checkpoints that they saved.

    \b
        windlass resume digits
    """
    from windlass.client import lifecycle

    cluster_options.run(cluster, job_changes.change, names, lifecycle.resume)
