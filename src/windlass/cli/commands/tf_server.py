"""The command `windlass tf-server`, which a TensorFlow task without a command runs."""

import os
import sys

import click

from windlass.discovery import tf_server as program


@click.command()
def tf_server() -> None:
    """Run a TensorFlow server that only executes the operations of a notebook or another client.

    The server reads TF_CONFIG, CLUSTER_CONFIG, or PS_HOSTS and WORKER_HOSTS with JOB_NAME and TASK_INDEX. It runs until
    it receives a signal.
    """
    os.execv(sys.executable, [sys.executable, "-c", program.PROGRAM])  # noqa: S606
