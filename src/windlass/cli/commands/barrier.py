"""The command `windlass barrier`."""

import os
import signal
import sys
from types import FrameType

import click

from windlass.barrier import run as barriers


@click.command()
@click.option(
    "--framework",
    default="",
    metavar="NAME",
    help="Name of the Framework (default: the Framework of this pod).",
)
@click.option(
    "--print-hosts", is_flag=True, help="Print the addresses as shell variables instead of writing files."
)
@click.option(
    "--configfile",
    default="",
    metavar="FILE",
    help="Additional output file: the workers' addresses in the first line, the parameter servers' in the last.",
)
def barrier(framework: str, print_hosts: bool, configfile: str) -> None:
    """Wait until every task of the Framework has an address.

    The command runs in a pod of a Framework. It writes framework.json, injector.sh, cluster.env, hostfile and
    tf_config.json into the working directory. The exit code is 0 on success, 201 after a timeout, 210 if the Framework
    does not exist or an environment variable is missing or invalid, and 1 after any other error.
    """
    signal.signal(signal.SIGTERM, _exit)
    code = barriers.run(
        os.environ, _log, framework=framework, prints_hosts=print_hosts, configfile=configfile
    )
    # Exit without the interpreter's cleanup: it slows down a small machine when hundreds of barriers end at once.
    sys.stdout.flush()
    os._exit(code)


def _log(message: str) -> None:
    os.write(sys.stderr.fileno(), f"windlass barrier: {message}\n".encode())


def _exit(_number: int, _frame: FrameType | None) -> None:
    """Exit on SIGTERM, which has no default effect on PID 1 of a container."""
    _log("stopped: this pod is being deleted")
    os._exit(128 + signal.SIGTERM)
