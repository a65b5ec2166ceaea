"""`windlass delete`: see `windlass.client.deleting`."""

from typing import TYPE_CHECKING

import click

from windlass.cli import cluster, completing, job_changes, parameters
from windlass.cli.cluster import Where

if TYPE_CHECKING:
    from windlass.client.connection import Connection


@click.command()
@click.argument("names", metavar="NAME...", nargs=-1, required=True, shell_complete=completing.jobs)
@click.option("--no-wait", is_flag=True, help="Do not wait until they are gone.")
@parameters.timeout
@cluster.options
def delete(names: tuple[str, ...], no_wait: bool, timeout: float | None, where: Where) -> None:
    """Delete jobs with all that belongs to them: a running one is ended, its pods and its code go.

    Returns when they are gone.

    \b
        windlass delete digits
        windlass delete digits letters --no-wait
    """
    cluster.run(where, lambda connection: _delete(connection, names, timeout, waits=not no_wait))


async def _delete(
    connection: "Connection", names: tuple[str, ...], timeout: float | None, *, waits: bool
) -> None:
    """All of them begin to go before one is waited for."""
    from windlass.client import deleting

    going, refusals = await job_changes.each(names, lambda name: deleting.begin_all(connection, name))
    for found in going:
        for each in found if waits else ():
            await deleting.until_gone(connection, each, timeout)
        click.echo(f"{found[0].metadata.name} is {'deleted' if waits else 'being deleted'}")
    job_changes.insist(refusals)
