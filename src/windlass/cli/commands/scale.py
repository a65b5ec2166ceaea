"""The command `windlass scale`."""

import click

from windlass.cli import cluster_options, name_completion
from windlass.cli.cluster_options import ClusterOptions


@click.command()
@click.argument("name", metavar="NAME", shell_complete=name_completion.jobs)
@click.argument("roles", metavar="ROLE=NUMBER...", nargs=-1, required=True)
@cluster_options.options
def scale(name: str, roles: tuple[str, ...], cluster: ClusterOptions) -> None:
    """Change the number of tasks of a job's roles.

    The completion policy is updated in the same request: if it required all tasks of a role to
    succeed, it then requires all tasks of the scaled role.

    \b
        windlass scale digits worker=4
        windlass scale digits worker=4 ps=2

    Running tasks keep the TF_CONFIG or WORLD_SIZE with which they started, and most libraries never read it again. To
    restart all tasks with the new numbers, use `windlass suspend`, `scale` and `resume`. Elastic jobs adapt to
    the new numbers by themselves.
    """
    # Slow imports are here, so that `windlass --help` stays fast.
    from windlass.client import scale as client_scale

    numbers = dict(map(_parse_role, roles))
    if len(numbers) < len(roles):
        raise click.UsageError("a role is given twice")
    click.echo(cluster_options.run(cluster, client_scale.scale, name, numbers).message)


def _parse_role(text: str) -> tuple[str, int]:
    role, _, number = text.partition("=")
    is_number = number.isascii() and number.isdecimal() and len(number) < 10
    if not role or not is_number:
        raise click.UsageError(f"found {text!r}, expected ROLE=NUMBER, e.g. worker=4")
    return role, int(number)
