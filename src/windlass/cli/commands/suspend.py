"""The command `windlass suspend`."""

import click

from windlass.cli import cluster_options, job_changes, name_completion
from windlass.cli.cluster_options import ClusterOptions


@click.command()
@click.argument("names", metavar="NAME...", nargs=-1, required=True, shell_complete=name_completion.jobs)
@cluster_options.options
def suspend(names: tuple[str, ...], cluster: ClusterOptions) -> None:
    """Suspend jobs: delete their pods, keep the jobs.

    `windlass resume` starts a new attempt, which does not count as a retry.

    \b
        windlass suspend digits
    """
    from windlass.client import lifecycle

    cluster_options.run(cluster, job_changes.change, names, lifecycle.suspend)
