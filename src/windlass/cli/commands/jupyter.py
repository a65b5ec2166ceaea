"""The command `windlass jupyter`."""

import click

from windlass.cli import companion_forward
from windlass.cli.companion_forward import ForwardRequest
from windlass.model.companions import Companion


@click.command()
@companion_forward.options(Companion.JUPYTER)
@click.option("--new-password", is_flag=True, help="Replace the password and print the new one once.")
def jupyter(request: ForwardRequest, new_password: bool) -> None:
    """Forward a local port to the JupyterLab of a job, until Ctrl-C. With FILE, start the JupyterLab of a job file on
    this machine, without the job.

    \b
        windlass jupyter digits
        windlass jupyter digits --new-password
        windlass jupyter job.yaml
    """
    if new_password and request.is_file:
        raise click.UsageError(
            "--new-password requires the name of a job: with FILE, the password is set at each start"
        )
    companion_forward.open_companion(request, companion_forward.password_renewal() if new_password else None)
