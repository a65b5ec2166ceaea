"""The first notebook of a job: it lists the tasks, reads logs and, with TensorFlow, computes on the tasks' servers.

If the image of the notebook does not contain Windlass, or Windlass cannot read the job, the notebook uses the addresses
that were known before the job started.
"""

import msgspec

from windlass.model import names
from windlass.model.base import Json
from windlass.model.feature_annotations import Runtime
from windlass.model.job import Job

FILE = "start.ipynb"

_BEGINNING = """\
# The job {job}

Run the cells in order with Shift+Enter. The folders next to the folder of this notebook are the volumes of the job.
You can edit this notebook: Windlass does not overwrite it.
"""
_TASKS = """\
## Tasks
"""
_READ_VARIABLES = """\
import json
import os

job = os.environ["WINDLASS_JOB"]
try:
    from windlass import Client, ClientError
except ImportError:
    Client = None


def variables_of(task):
    \"\"\"Return the current variables of a task, e.g. the addresses of its peers.\"\"\"
    if Client is None:
        return {{}}
    try:
        with Client() as client:
            return client.env(job, task)
    except ClientError as error:
        print(error, "Using the addresses that were known before the job started.")
        return {{}}


variables = {{"CLUSTER_CONFIG": os.environ["CLUSTER_CONFIG"], **variables_of("{task}")}}
"""
_SHOW_VARIABLES = """\
cluster = json.loads(variables.pop("CLUSTER_CONFIG"))
for role, addresses in cluster.items():
    print(role, *addresses)
for name, value in sorted(variables.items()):
    print(f"{name}={value}")
"""
_SHOW_CLUSTER = """\
cluster = json.loads(variables["CLUSTER_CONFIG"])
for role, addresses in cluster.items():
    print(role, *addresses)
"""
_COMPUTE = """\
## Compute on the TensorFlow servers

The first cell runs a step on each server by itself, to find servers that do not respond. The second one stores a
variable on one of them, a ps if there is one, and every server adds to it.

Idle servers (tasks without a command, which run a TensorFlow server) only run the steps of notebooks. Tasks with a
training program are servers too while they run: they execute these steps in addition to the training. The variable is
in a resource container of its own and does not affect the training. Tasks that never start a server do not respond.
"""
_CHECK_SERVERS_CELL = """\
SECONDS = 20  # timeout of a server

try:
    import tensorflow as tf
except ImportError as error:
    raise SystemExit(f"TensorFlow is not installed ({error}): pip install tensorflow") from None

servers = {
    f"/job:{role}/task:{index}": address
    for role, addresses in cluster.items()
    for index, address in enumerate(addresses)
}


def run(address, graph, fetches, devices, first=()):
    \"\"\"Run a graph on the servers of these devices. Print the error and return None if it fails.\"\"\"
    options = tf.compat.v1.ConfigProto(operation_timeout_in_ms=SECONDS * 1000, device_filters=list(devices))
    try:
        with tf.compat.v1.Session(f"grpc://{address}", graph=graph, config=options) as session:
            for each in first:
                session.run(each)
            return session.run(fetches)
    except (tf.errors.DeadlineExceededError, tf.errors.UnavailableError):
        reason = f"no response within {SECONDS} seconds"
    except tf.errors.OpError as error:
        reason = f"{type(error).__name__}: {' '.join(str(error.message).split())}"
    print(f"{' '.join(devices)} at {address}: {reason}")
    return None


responding = {}
for device, address in servers.items():
    with tf.Graph().as_default() as graph:
        with tf.device(device):
            product = tf.matmul([[1.0, 2.0]], [[3.0], [4.0]])
        found = run(address, graph, product, [device])
    if found is not None:
        print(f"{device} at {address}: [1 2]·[3 4] = {found.item():g}")
        responding[device] = address
"""
_SHARED_VARIABLE_CELL = """\
if responding:
    owner = next((device for device in responding if device.startswith("/job:ps/")), next(iter(responding)))
    with tf.Graph().as_default() as graph, graph.container("windlass-notebook"):
        with tf.device(owner):
            sum_ = tf.compat.v1.get_variable("sum", [], initializer=tf.compat.v1.zeros_initializer())
        added = []
        for device in responding:
            with tf.device(device):
                part = tf.square(tf.constant(2.0))
            added.append(sum_.assign_add(part))
        total = run(responding[owner], graph, sum_, list(responding), [sum_.initializer, added])
    if total is not None:
        print(f"{len(responding)} servers added 4 each: {total:g}, stored on {owner}")
else:
    print("No server responds: run `windlass status` to see whether the job is running.")
"""
_LOGS = """\
## Logs
"""
_READ_LOGS = """\
if Client is None:
    print("Windlass is not installed, which is needed to read logs: pip install windlass")
else:
    try:
        with Client() as client:
            for line in client.logs(job, tail=5):
                print(f"{line.task}: {line.data.decode(errors='replace')}")
    except ClientError as error:
        print(error)
"""


def notebook(job: Job) -> str:
    """Return the notebook as JSON text. The same job always yields the same text."""
    is_tensorflow = job.runtime is Runtime.TENSORFLOW
    reading = _READ_VARIABLES.format(task=_first_task(job))
    cells = [
        _markdown(_BEGINNING.format(job=job.name)),
        _markdown(_TASKS),
        _code(f"{reading}{_SHOW_CLUSTER if is_tensorflow else _SHOW_VARIABLES}"),
        *(
            (_markdown(_COMPUTE), _code(_CHECK_SERVERS_CELL), _code(_SHARED_VARIABLE_CELL))
            if is_tensorflow
            else ()
        ),
        _markdown(_LOGS),
        _code(_READ_LOGS),
    ]
    document = {
        "cells": [{"id": f"windlass-{number}", **cell} for number, cell in enumerate(cells)],
        "metadata": {
            "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
            "language_info": {"name": "python"},
        },
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return msgspec.json.format(msgspec.json.encode(document), indent=1).decode() + "\n"


def _first_task(job: Job) -> str:
    role = next((name for name, role in job.roles.items() if role.tasks > 0), "worker")
    return names.host_name(role, 0)


def _markdown(text: str) -> Json:
    return {"cell_type": "markdown", "metadata": {}, "source": _lines(text)}


def _code(text: str) -> Json:
    return {
        "cell_type": "code",
        "execution_count": None,
        "metadata": {},
        "outputs": [],
        "source": _lines(text),
    }


def _lines(text: str) -> list[str]:
    return text.rstrip("\n").splitlines(keepends=True)
