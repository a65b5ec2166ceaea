"""The command `windlass tensorboard`."""

from typing import TYPE_CHECKING

import click

from windlass.cli import companion_forward
from windlass.cli.companion_forward import ForwardRequest
from windlass.model.companions import Companion

if TYPE_CHECKING:
    from windlass.client.companions.status import CompanionView


@click.command()
@companion_forward.options(Companion.TENSORBOARD)
def tensorboard(request: ForwardRequest) -> None:
    """Forward a local port to the TensorBoard of a job, until Ctrl-C. With FILE, start the TensorBoard of a job file on
    this machine, without the job.

    \b
        windlass tensorboard digits
        windlass tensorboard digits --port 8080 --browser
        windlass tensorboard job.yaml
    """
    companion_forward.open_companion(request, while_forwarding=_report_runs)


async def _report_runs(url: str, view: "CompanionView") -> None:
    from windlass.runner import companions

    await companions.report_tensorboard_runs(url, view.logdir, companion_forward.print_line)
