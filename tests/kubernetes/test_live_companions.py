"""Companions of a job on real nodes: pods, Services, and forwarding through the API server."""

import contextlib
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from hub_client import HubUser
from live import command_line
from live.clusters import Cluster
from live.command_line import Console
from live.kubectl_process import Kubectl
from live.place import Place
from notebook_client import NotebookServer

from windlass.model import names

JOB: Final = "digits"
PASSWORD: Final = " pass wörd: ☃'\"#%&+=\\"  # noqa: S105
KINDS: Final = "deployments,replicasets,pods,services,secrets,configmaps,serviceaccounts,roles,rolebindings"
WRITE_A_SCALAR: Final = """
with tf.summary.create_file_writer("/output/run").as_default():
    tf.summary.scalar("loss", 0.25, step=7)
"""


@pytest.fixture
def output(cluster: Cluster) -> Iterator[Path]:
    """A folder of the node."""
    cluster.breakable()
    folder = Path(tempfile.mkdtemp(prefix="windlass-live-output-"))
    yield folder
    # A pod that mounts it may still be terminating.
    shutil.rmtree(folder, ignore_errors=True)


def written(console: Console, image: str, output: Path, **companions: Any) -> str:
    """Write a job file with idle TensorFlow servers and these companions; return the name."""
    job = {
        "name": JOB,
        "runtime": "tensorflow",
        "image": image,
        "idle": True,
        "roles": {"ps": {"tasks": 1}, "worker": {"tasks": 1}},
        "volumes": {"output": {"hostPath": str(output), "at": "/output"}},
        "env": {"TF_CPP_MIN_LOG_LEVEL": "2"},
        "pod": command_line.SHORT_GRACE,
        **companions,
    }
    console.write({"job.yaml": yaml.safe_dump(job), "password": f"{PASSWORD}\n"})
    return "job.yaml"


@contextlib.contextmanager
def opened(console: Console, companion: str) -> Iterator[str]:
    """Return the URL of a forwarding command, which runs until Ctrl-C."""
    with console.started(companion, JOB, "--port", "0") as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith(f"{companion} of {JOB}: http://127.0.0.1:"), line
        yield line.split()[3].rstrip("/")
        process.send_signal(signal.SIGINT)
        assert process.wait(command_line.SECONDS) == 0


@pytest.mark.smoke
def test_notebook_and_tensorboard_of_a_job(
    console: Console, place: Place, kubectl: Kubectl, tensorflow: str, output: Path
) -> None:
    job = written(
        console,
        tensorflow,
        output,
        tensorboard={"logdir": "/output"},
        jupyter={"passwordFrom": {"file": "password"}, "folder": "/output/notebooks", "service": "NodePort"},
    )
    console("submit", job)
    console("wait", JOB, "--for", "running")
    with opened(console, "jupyter") as url, NotebookServer(url) as server:
        drive(server)
    assert (output / "notebooks/start.ipynb").is_file()
    with opened(console, "tensorboard") as url, NotebookServer(url) as server:
        place.wait_for("the run", lambda: "run" in server.get("/data/plugin/scalars/tags").json)
        [point] = server.get("/data/plugin/scalars/scalars?run=run&tag=loss").json
        assert point[1:] == [7, 0.25]

    described = kubectl("describe", "services", "tensorboard")
    assert f"{names.JOB_LABEL}={JOB}" in described
    assert "6006/TCP" in described
    shown = {line.split()[0]: line.split() for line in console("status", JOB).lines if line.strip()}
    assert "Running" in shown["tensorboard"]
    [url] = [word for word in shown["jupyter"] if word.startswith("http://")]
    with NotebookServer(url) as server:
        assert server.log_in(PASSWORD), "the port of the node does not lead to it"

    console("delete", JOB)
    place.wait_for("nothing to be left", lambda: not left(kubectl))


def drive(server: NotebookServer) -> None:
    """Run the starter notebook on the servers of the job, and write something for TensorBoard."""
    assert not server.log_in("another one")
    assert server.log_in(PASSWORD)
    assert "jupyter-config-data" in server.get("/lab").text, "the image has no pages of JupyterLab"
    assert {"notebooks", "output"} <= set(server.names())
    notebook = "notebooks/start.ipynb"
    executed = server.execute(*server.cells(notebook), WRITE_A_SCALAR, path=notebook)
    assert not [cell.error for cell in executed if cell.error]
    said = "\n".join(cell.output for cell in executed)
    for task in ("/job:ps/task:0", "/job:worker/task:0"):
        assert f"{task} at " in said, said
    assert "2 servers added 4 each: 8, stored on /job:ps/task:0" in said, said
    assert "worker-0: TensorFlow 2." in said, "it does not see the logs"


def test_users_of_a_hub_get_pods(
    console: Console, place: Place, kubectl: Kubectl, tensorflow: str, hub_image: str, output: Path
) -> None:
    """With the data of a job that does not exist."""
    (output / "result").write_text("accuracy 0.97")
    wanted = {
        "users": ["ana"],
        "passwordFrom": {"file": "password"},
        "folder": "/output/people",
        "image": hub_image,
    }
    console("submit", written(console, tensorflow, output, hub=wanted), "--companions-only")
    with opened(console, "hub") as url:
        for name, password in (("ana", "another one"), ("eve", PASSWORD)):
            with HubUser(url, name) as somebody:
                assert not somebody.log_in(password), name
        with HubUser(url, "ana") as ana:
            assert ana.log_in(PASSWORD)
            ana.start_server()
            [executed] = ana.execute('print(open("/output/result").read())')
            assert executed.output == "accuracy 0.97\n"
    assert (output / "people/ana").is_dir()
    assert f"{JOB}-hub-ana" in place.pods()

    console("delete", JOB)
    place.wait_for("nothing to be left", lambda: not left(kubectl))


def left(kubectl: Kubectl) -> list[str]:
    return kubectl("get", KINDS, f"--selector={names.JOB_LABEL}={JOB}", "--output=name").split()
