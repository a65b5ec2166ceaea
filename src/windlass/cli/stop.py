"""`windlass stop`: see `windlass.client.changing`."""

import click

from windlass.cli import cluster, completing, job_changes
from windlass.cli.cluster import Where


@click.command()
@click.argument("names", metavar="NAME...", nargs=-1, required=True, shell_complete=completing.jobs)
@cluster.options
def stop(names: tuple[str, ...], where: Where) -> None:
    """End jobs for good, with the grace period of their pods.

    A job that was stopped cannot go on: `windlass suspend` keeps one for later.

    \b
        windlass stop digits
    """
    from windlass.client import changing

    cluster.run(where, lambda connection: job_changes.change(connection, names, changing.stop))
