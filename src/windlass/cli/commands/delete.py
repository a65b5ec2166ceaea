"""`windlass delete`: see `windlass.client.deleting`."""

from typing import TYPE_CHECKING

import click

from windlass.cli import cluster_options, job_changes, name_completion, parameters
from windlass.cli.cluster_options import Where

if TYPE_CHECKING:
    from windlass.client.connection import Connection


@click.command()
@click.argument("names", metavar="NAME...", nargs=-1, required=True, shell_complete=name_completion.jobs)
@click.option("--no-wait", is_flag=True, help="Do not wait until they are gone.")
@click.option(
    "--keep-companions",
    is_flag=True,
    help="Its TensorBoard, Jupyter and hub stay, whatever the job file says.",
)
@parameters.timeout
@cluster_options.options
def delete(
    names: tuple[str, ...], no_wait: bool, keep_companions: bool, timeout: float | None, where: Where
) -> None:
    """Delete jobs with all that belongs to them: a running one is ended, its pods, its code and its companions go.

    A job is a Framework, or where there is none of that name, the Job that is called so and all that carries the
    label windlass.dev/job=NAME. Volumes stay, and an NFS server of the job. Returns when the rest is gone.

    \b
        windlass delete digits
        windlass delete web-predict-ckpt-198d -n research     # PROJECT-MODEL of a template
        windlass delete digits letters --no-wait
        windlass delete digits --keep-companions
    """

    async def use(connection: "Connection") -> None:
        await _delete(connection, names, timeout, waits=not no_wait, keeps_companions=keep_companions)

    cluster_options.run(where, use)


async def _delete(
    connection: "Connection",
    names: tuple[str, ...],
    timeout: float | None,
    *,
    waits: bool,
    keeps_companions: bool,
) -> None:
    """All of them begin to go before one is waited for."""
    from windlass.client import deleting

    going, refusals = await job_changes.each(
        names, lambda name: deleting.begin_all(connection, name, keeps_companions=keeps_companions)
    )
    for each in going:
        if waits:
            await deleting.until_all_gone(connection, each, timeout)
        click.echo(f"{each.name} is {'deleted' if waits else 'being deleted'}")
        if each.companions:
            click.echo(deleting.which_stay(each.companions, each.name, connection.namespace))
        if each.staying:
            click.echo(deleting.what_stays(each.staying, connection.namespace))
        if each.hidden:
            unseen = f"you may not list {', '.join(each.hidden)}"
            click.echo(f"{unseen}: what there is of them for {each.name} stays", err=True)
    job_changes.insist(refusals)
