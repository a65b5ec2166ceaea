"""`windlass tf-server`: an idle TensorFlow server, as a task without a command runs one."""

import os
import sys

import click

from windlass.discovery import tf_server as program


@click.command()
def tf_server() -> None:
    """Be a TensorFlow server that a notebook or a client drives.

    Reads TF_CONFIG, or CLUSTER_CONFIG or PS_HOSTS and WORKER_HOSTS with JOB_NAME and TASK_INDEX. Ends by a signal.
    """
    os.execv(sys.executable, [sys.executable, "-c", program.PROGRAM])  # noqa: S606
