"""`windlass tf-server`: idle TensorFlow servers for a client, and a server in the client's own process."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from examples import SECONDS, needs

WINDLASS = Path(sys.executable).with_name("windlass")

ON_A_CLUSTER = """
import sys
import tensorflow.compat.v1 as tf
tf.disable_eager_execution()
with tf.device("/job:ps/task:0"):
    kept = tf.get_variable("kept", [], initializer=tf.constant_initializer(40.0))
with tf.device("/job:worker/task:0"):
    computed = kept + 2
with tf.Session(sys.argv[1]) as session:
    session.run(tf.global_variables_initializer())
    print("computed", session.run(computed), kept.device, computed.device)
"""
IN_PROCESS = """
import tensorflow.compat.v1 as tf
tf.disable_eager_execution()
c = tf.constant("Hello, distributed TensorFlow!")
server = tf.train.Server.create_local_server()
with tf.Session(server.target) as session:
    print(session.run(c).decode())
"""


@pytest.fixture(autouse=True)
def _tensorflow() -> None:
    needs("tensorflow")


def free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as held:
        taken = [held.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [each.getsockname()[1] for each in taken]


def python(program: str, *arguments: str) -> str:
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-c", program, *arguments],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2"},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@contextlib.contextmanager
def servers(hosts: dict[str, str]) -> Iterator[None]:
    """Start one server per role, configured by the variables of the old launcher."""
    started = []
    try:
        for job in hosts:
            environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2", "JOB_NAME": job, "TASK_INDEX": "0"}
            environment |= {f"{each.upper()}_HOSTS": where for each, where in hosts.items()}
            process = subprocess.Popen(  # noqa: S603
                [WINDLASS, "tf-server"], env=environment, stdout=subprocess.PIPE, text=True
            )
            started.append(process)
            assert process.stdout is not None
            assert f"server {job}:0 of" in process.stdout.readline()
        yield
        for process in started:
            process.send_signal(signal.SIGTERM)
        assert [process.wait(SECONDS) for process in started] == [0] * len(started), (
            "they end when they are asked to"
        )
    finally:
        for process in started:
            process.kill()
            process.wait()
            if process.stdout is not None:
                process.stdout.close()


def test_client_runs_a_graph_on_idle_servers() -> None:
    ps, worker = (f"127.0.0.1:{port}" for port in free_ports(2))
    with servers({"ps": ps, "worker": worker}):
        said = python(ON_A_CLUSTER, f"grpc://{worker}").split()
    assert said == ["computed", "42.0", "/job:ps/task:0", "/job:worker/task:0"]


def test_server_in_the_process_of_its_client() -> None:
    assert python(IN_PROCESS).strip() == "Hello, distributed TensorFlow!"
