"""The command `windlass tf-server`: runs the program that is the default command of TensorFlow tasks."""

import os
import sys

import click

from windlass.discovery import tf_server as program


@click.command()
def tf_server() -> None:
    """Run a TensorFlow server that only executes the operations of a notebook or another client.

    The server reads TF_CONFIG. If that is not set, it reads JOB_NAME, TASK_INDEX, and the addresses in CLUSTER_CONFIG
    or in variables such as PS_HOSTS and WORKER_HOSTS. It runs until it receives a signal.
    """
    os.execv(sys.executable, [sys.executable, "-c", program.PROGRAM])  # noqa: S606
