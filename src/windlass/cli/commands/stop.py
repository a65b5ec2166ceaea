"""The command `windlass stop`."""

import click

from windlass.cli import cluster_options, job_changes, name_completion
from windlass.cli.cluster_options import ClusterOptions


@click.command()
@click.argument("names", metavar="NAME...", nargs=-1, required=True, shell_complete=name_completion.jobs)
@cluster_options.options
def stop(names: tuple[str, ...], cluster: ClusterOptions) -> None:
    """Stop jobs permanently. Their pods are deleted with their grace period.

    A stopped job cannot be resumed. To resume a job later, use `windlass suspend` instead.

    \b
        windlass stop digits
    """
    from windlass.client import lifecycle

    cluster_options.run(cluster, job_changes.change, names, lifecycle.stop)
