"""`windlass jupyter`: a way to the JupyterLab of a job."""

import click

from windlass.cli import companion_forward
from windlass.cli.companion_forward import Door
from windlass.model.companions import Companion


@click.command()
@companion_forward.options(Companion.JUPYTER)
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
    companion_forward.open_it(door, companion_forward.renewal() if new_password else None)
