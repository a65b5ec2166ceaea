"""`windlass stop`: see `windlass.client.lifecycle`."""

import click

from windlass.cli import cluster_options, job_changes, name_completion
from windlass.cli.cluster_options import Where


@click.command()
@click.argument("names", metavar="NAME...", nargs=-1, required=True, shell_complete=name_completion.jobs)
@cluster_options.options
def stop(names: tuple[str, ...], where: Where) -> None:
    """End jobs for good, with the grace period of their pods.

    A job that was stopped cannot go on: `windlass suspend` keeps one for later.

    \b
        windlass stop digits
    """
    from windlass.client import lifecycle

    cluster_options.run(where, lambda connection: job_changes.change(connection, names, lifecycle.stop))
