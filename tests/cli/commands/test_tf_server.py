"""`windlass tf-server` with a fake TensorFlow: invalid environments, and the server that it starts."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from windlass.discovery import tf_server

SECONDS: Final = 120
FAKE: Final = """\
import json

__version__ = "2.0-fake"

class train:
    class ClusterSpec:
        def __init__(self, cluster):
            self.cluster = cluster

class distribute:
    class Server:
        def __init__(self, cluster, job_name, task_index):
            print(json.dumps([cluster.cluster, job_name, task_index]), flush=True)
"""
CLUSTER: Final = {"ps": ["ps-0.digits:2222"], "worker": ["worker-0.digits:2222", "worker-1.digits:2222"]}
BY_LISTS: Final = {
    "PS_HOSTS": "ps-0.digits:2222",
    "WORKER_HOSTS": "worker-0.digits:2222,worker-1.digits:2222",
}


def tf_config(cluster: Any, task: Any) -> dict[str, str]:
    return {"TF_CONFIG": json.dumps({"cluster": cluster, "task": task})}


@pytest.fixture
def packages(tmp_path: Path) -> Path:
    """A folder with a fake TensorFlow that prints its arguments."""
    (tmp_path / "tensorflow.py").write_text(FAKE)
    return tmp_path


Begin = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def begin(packages: Path) -> Iterator[Begin]:
    """Start a process that ends with the test."""
    begun = []

    def start(environment: dict[str, str], *command: str) -> "subprocess.Popen[str]":
        process = subprocess.Popen(  # noqa: S603
            command or [sys.executable, "-m", "windlass.cli.main", "tf-server"],
            env={"PATH": os.defpath, "PYTHONPATH": str(packages), **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        begun.append(process)
        return process

    yield start
    for process in begun:
        process.kill()
        process.communicate()


TASK: Final = {"JOB_NAME": "worker", "TASK_INDEX": "1"}
WAYS: Final[dict[str, tuple[dict[str, str], Any]]] = {
    "tf-config": (tf_config(CLUSTER, {"type": "worker", "index": 1}), [CLUSTER, "worker", 1]),
    "tf-config-comes-first": (
        {**tf_config(CLUSTER, {"type": "ps", "index": 0}), "CLUSTER_CONFIG": "{}", **BY_LISTS, **TASK},
        [CLUSTER, "ps", 0],
    ),
    "index-as-text": (tf_config(CLUSTER, {"type": "worker", "index": "1"}), [CLUSTER, "worker", 1]),
    "cluster-config": ({"CLUSTER_CONFIG": json.dumps(CLUSTER), **TASK}, [CLUSTER, "worker", 1]),
    "cluster-config-comes-before-lists": (
        {"CLUSTER_CONFIG": json.dumps(CLUSTER), "PS_HOSTS": "elsewhere:1", **TASK},
        [CLUSTER, "worker", 1],
    ),
    "lists": ({**BY_LISTS, **TASK}, [CLUSTER, "worker", 1]),
    "index-defaults-to-0": ({**BY_LISTS, "JOB_NAME": "ps"}, [CLUSTER, "ps", 0]),
    "empty-list-is-ignored": ({**BY_LISTS, "CHIEF_HOSTS": "", **TASK}, [CLUSTER, "worker", 1]),
    "invalid-list-of-addresses": (
        {**BY_LISTS, "ALLOWED_HOSTS": "*", "NO_PROXY_HOSTS": "a.example,b.example", **TASK},
        [CLUSTER, "worker", 1],
    ),
}


@pytest.mark.parametrize(("environment", "asked"), WAYS.values(), ids=WAYS.keys())
def test_server_is_started_from_the_environment(
    environment: dict[str, str], asked: Any, begin: Begin
) -> None:
    """It runs until it receives a signal."""
    process = begin(environment)
    assert process.stdout is not None
    assert process.stderr is not None
    first = process.stdout.readline()
    assert first, process.stderr.read()
    assert json.loads(first) == asked
    assert process.stdout.readline().startswith(f"TensorFlow 2.0-fake: server {asked[1]}:{asked[2]} of ")
    assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=SECONDS)
    assert (process.returncode, out, err) == (0, "", "")


def test_program_runs_as_the_command_of_a_container(begin: Begin) -> None:
    """It is the same program, with any Python."""
    interpreter, option, program = tf_server.COMMAND
    assert interpreter == "python3"
    process = begin({**BY_LISTS, **TASK}, sys.executable, option, program)
    assert process.stdout is not None
    assert json.loads(process.stdout.readline()) == [CLUSTER, "worker", 1]
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=SECONDS)
    assert process.returncode == 0


BAD: Final[dict[str, tuple[dict[str, str], str]]] = {
    "nothing": ({}, "the servers of the cluster are not known"),
    "no-cluster": (tf_config({}, {"type": "worker", "index": 0}), "the servers of the cluster"),
    "not-json": ({"TF_CONFIG": "{"}, "the environment cannot be read"),
    "a-list": ({"TF_CONFIG": "[]"}, "the environment cannot be read"),
    "cluster-config-not-json": ({"CLUSTER_CONFIG": "ps"}, "the environment cannot be read"),
    "cluster-config-a-list": ({"CLUSTER_CONFIG": '["ps-0:2222"]', **TASK}, "the environment cannot be read"),
    "cluster-a-string": (
        tf_config("ps-0:2222", {"type": "ps", "index": 0}),
        "the environment cannot be read",
    ),
    "cluster-of-numbers": (
        tf_config({"ps": 1}, {"type": "ps", "index": 0}),
        "the environment cannot be read",
    ),
    "task-a-list": (tf_config(CLUSTER, ["ps", 0]), "the environment cannot be read"),
    "type-a-list": (tf_config(CLUSTER, {"type": ["ps"], "index": 0}), "the environment cannot be read"),
    "no-task": (tf_config(CLUSTER, None), "the environment cannot be read"),
    "index-a-word": ({**BY_LISTS, "JOB_NAME": "ps", "TASK_INDEX": "first"}, "the environment cannot be read"),
    "index-too-high": (
        {**BY_LISTS, "JOB_NAME": "ps", "TASK_INDEX": "1"},
        "this is ps:1, which is not in the cluster",
    ),
    "index-negative": ({**BY_LISTS, "JOB_NAME": "ps", "TASK_INDEX": "-1"}, "this is ps:-1, which is not in"),
    "another-job": ({**BY_LISTS, "JOB_NAME": "jupyter"}, "this is jupyter:0, which is not in the cluster"),
    "no-job": ({**BY_LISTS}, "JOB_NAME"),
}


@pytest.mark.parametrize(("environment", "words"), BAD.values(), ids=BAD.keys())
def test_invalid_environment_is_one_line(environment: dict[str, str], words: str, begin: Begin) -> None:
    """TensorFlow is not called."""
    out, err = (process := begin(environment)).communicate(timeout=SECONDS)
    assert (process.returncode, out) == (1, "")
    (line,) = err.splitlines()
    assert line.startswith("windlass tf-server: ")
    assert words in line
    assert "Set TF_CONFIG" in line


def test_missing_tensorflow_is_reported(packages: Path, begin: Begin) -> None:
    (packages / "tensorflow.py").write_text("raise ImportError('there is none')")
    out, err = (process := begin({**BY_LISTS, **TASK})).communicate(timeout=SECONDS)
    assert (process.returncode, out) == (1, "")
    assert err == (
        "windlass tf-server: TensorFlow is not installed (there is none): pip install tensorflow\n"
    )
