"""The command `windlass scale`."""

from typing import TYPE_CHECKING

import click

from windlass.cli import cluster_options, name_completion
from windlass.cli.cluster_options import ClusterOptions

if TYPE_CHECKING:
    from windlass.client.connection import Connection

EXPECTED = "ROLE=NUMBER, e.g. worker=4"


@click.command()
@click.argument("name", metavar="NAME", shell_complete=name_completion.jobs)
@click.argument("roles", metavar="ROLE=NUMBER...", nargs=-1, required=True)
@cluster_options.options
def scale(name: str, roles: tuple[str, ...], cluster: ClusterOptions) -> None:
    """Change the number of tasks of a job's roles while it runs.

    The completion policy is updated in the same request: if all workers had to succeed, all workers of the new number
    have to succeed.

    \b
        windlass scale digits worker=4
        windlass scale digits worker=4 ps=2

    Running tasks keep the TF_CONFIG or WORLD_SIZE with which they started, and most libraries never read it again. To
    restart all tasks with the new numbers, use `windlass suspend`, `scale` and `resume`.
    """
    numbers = dict(map(_parse_role, roles))
    if len(numbers) < len(roles):
        raise click.UsageError("a role is given twice")
    cluster_options.run(cluster, lambda connection: _scale(connection, name, numbers))


async def _scale(connection: "Connection", name: str, numbers: dict[str, int]) -> None:
    from windlass.client import scale

    click.echo((await scale.scale(connection, name, numbers)).message)


def _parse_role(written: str) -> tuple[str, int]:
    role, _, number = written.partition("=")
    is_number = number.isascii() and number.isdecimal() and len(number) < 10
    if not role or not is_number:
        raise click.UsageError(f"found {written!r}, expected {EXPECTED}")
    return role, int(number)
