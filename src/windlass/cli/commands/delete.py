"""The command `windlass delete`."""

from typing import TYPE_CHECKING

import click

from windlass.cli import cluster_options, job_changes, name_completion, parameters
from windlass.cli.cluster_options import ClusterOptions

if TYPE_CHECKING:
    from windlass.client.connection import Connection


@click.command()
@click.argument("names", metavar="NAME...", nargs=-1, required=True, shell_complete=name_completion.jobs)
@click.option("--no-wait", is_flag=True, help="Return before the objects are deleted.")
@click.option(
    "--keep-companions",
    is_flag=True,
    help="Keep the companions (TensorBoard, Jupyter, hub) of the jobs.",
)
@parameters.timeout
@cluster_options.options
def delete(
    names: tuple[str, ...],
    no_wait: bool,
    keep_companions: bool,
    timeout: float | None,
    cluster: ClusterOptions,
) -> None:
    """Delete jobs and the objects they own: pods, code and companions. A running job is stopped.

    NAME is the name of a Framework, or of a Job if there is no such Framework. All objects with the label
    windlass.dev/job=NAME are deleted too, except volumes and the job's own NFS server. The command waits until the
    objects are deleted.

    \b
        windlass delete digits
        windlass delete web-predict-ckpt-198d -n research     # a Job rendered by `windlass template`
        windlass delete digits letters --no-wait
        windlass delete digits --keep-companions
    """
    cluster_options.run(cluster, _delete, names, timeout, waits=not no_wait, keep_companions=keep_companions)


async def _delete(
    connection: "Connection",
    names: tuple[str, ...],
    timeout: float | None,
    *,
    waits: bool,
    keep_companions: bool,
) -> None:
    """Request the deletion of all jobs before waiting for any of them."""
    from windlass.client import delete

    deletions, errors = await job_changes.apply_to_each(
        names, lambda name: delete.request_deletion(connection, name, keep_companions=keep_companions)
    )
    for each in deletions:
        if waits:
            await delete.wait_for_deletion(connection, each, timeout)
        click.echo(f"{each.name} {'deleted' if waits else 'is being deleted'}")
        if each.kept_companions:
            click.echo(delete.kept_companions_message(each.kept_companions, each.name, connection.namespace))
        if each.kept_storage:
            click.echo(delete.kept_storage_message(each.kept_storage, connection.namespace))
        if each.unlistable:
            kinds = ", ".join(each.unlistable)
            click.echo(f"no permission to list {kinds}: such objects of {each.name} are kept", err=True)
    job_changes.raise_errors(errors)
