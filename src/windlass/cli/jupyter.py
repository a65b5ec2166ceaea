"""`windlass jupyter`: a way to the JupyterLab of a job."""

from typing import TYPE_CHECKING

import click

from windlass.cli import companion_doors
from windlass.cli.companion_doors import Door
from windlass.model.companions import Companion

if TYPE_CHECKING:
    from windlass.client.companions import CompanionView
    from windlass.client.connection import Connection


@click.command()
@companion_doors.options(Companion.JUPYTER)
@click.option("--new-password", is_flag=True, help="Make up another password first, and show it once.")
def jupyter(door: Door, new_password: bool) -> None:
    """Lead a port of this machine to the JupyterLab of a job, until Ctrl-C. Of a FILE, it is started here, without the
    job.

    \b
        windlass jupyter digits
        windlass jupyter digits --new-password
        windlass jupyter job.yaml
    """
    if new_password and door.is_of_a_file:
        raise click.UsageError(
            "--new-password is for a job of a cluster: one that is started here has a new one"
        )
    companion_doors.open_it(door, _renew if new_password else None)


async def _renew(connection: "Connection", view: "CompanionView") -> None:
    from windlass.client import companion_passwords

    password = await companion_passwords.renew(connection, view)
    companion_doors.say(
        f"the new password of jupyter is {password}: it is shown this once, and kept as a hash"
    )
