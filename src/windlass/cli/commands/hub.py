"""The command `windlass hub`."""

import click

from windlass.cli import companion_forward
from windlass.cli.companion_forward import ForwardRequest
from windlass.model.companions import Companion


@click.command()
@companion_forward.options(Companion.HUB)
@click.option(
    "--new-password",
    "user",
    metavar="USER",
    help="User whose password to replace. The new password is printed once.",
)
def hub(request: ForwardRequest, user: str | None) -> None:
    """Forward a local port to the JupyterHub of a job, until Ctrl-C. With FILE, start the JupyterHub of a job file on
    this machine, without the job.

    \b
        windlass hub digits
        windlass hub digits --new-password ada
        windlass hub job.yaml
    """
    if user is not None and request.is_file:
        raise click.UsageError(
            "--new-password requires the name of a job: with FILE, the passwords are set at each start"
        )
    companion_forward.open_companion(
        request, companion_forward.password_renewal(user) if user is not None else None
    )
