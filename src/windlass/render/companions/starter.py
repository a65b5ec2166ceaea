"""The first notebook of a job: it lists the tasks, computes on their TensorFlow servers, and reads logs.

Without Windlass in its image, it uses the addresses that were known before the job started.
"""

import msgspec

from windlass.model import names
from windlass.model.base import Json
from windlass.model.feature_annotations import Runtime
from windlass.model.job import Job

FILE = "start.ipynb"

_BEGINNING = """\
# The job {job}

Run the cells one after the other, with Shift+Enter. The folders beside that of this notebook are the volumes of the
job. The notebook is yours: it is not written again while it is here.
"""
_WHO = """\
## Who its tasks are
"""
_ASK = """\
import json
import os

job = os.environ["WINDLASS_JOB"]
try:
    from windlass import Client, ClientError
except ImportError:
    Client = None


def told(task):
    \"\"\"What a task is told of the others, as the cluster has it now.\"\"\"
    if Client is None:
        return {{}}
    try:
        with Client() as client:
            return client.env(job, task)
    except ClientError as error:
        print(error, "What follows was known before the job began.")
        return {{}}


variables = {{"CLUSTER_CONFIG": os.environ["CLUSTER_CONFIG"], **told("{task}")}}
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
## A step on each of its TensorFlow servers

Each server is asked by itself first, so that one that does not answer is known by its name. Then a variable is kept by
one of them, a ps where there is one, and every server adds its part.

Idle servers (tasks without a command, which run `windlass tf-server`) do what this notebook says. Tasks that run a
program of their own, as those of a ps/worker training do, are servers as well, for as long as they run: they take these
steps beside their training, and the variable is in a container of its own, so that nothing of the training is touched.
Tasks that never start a server do not answer.
"""
_STEPS = """\
SECONDS = 20  # so long a server may take to answer

try:
    import tensorflow as tf
except ImportError as error:
    raise SystemExit(f"TensorFlow is not installed here ({error}): pip install tensorflow") from None

servers = {
    f"/job:{role}/task:{index}": address
    for role, addresses in cluster.items()
    for index, address in enumerate(addresses)
}


def run(address, graph, fetches, devices, first=()):
    \"\"\"What comes out, or None: then it is said why. Only the servers of these devices are asked.\"\"\"
    options = tf.compat.v1.ConfigProto(operation_timeout_in_ms=SECONDS * 1000, device_filters=list(devices))
    try:
        with tf.compat.v1.Session(f"grpc://{address}", graph=graph, config=options) as session:
            for each in first:
                session.run(each)
            return session.run(fetches)
    except (tf.errors.DeadlineExceededError, tf.errors.UnavailableError):
        reason = f"no answer within {SECONDS} seconds"
    except tf.errors.OpError as error:
        reason = f"{type(error).__name__}: {' '.join(str(error.message).split())}"
    print(f"{' '.join(devices)} at {address}: {reason}")
    return None


answering = {}
for device, address in servers.items():
    with tf.Graph().as_default() as graph:
        with tf.device(device):
            product = tf.matmul([[1.0, 2.0]], [[3.0], [4.0]])
        found = run(address, graph, product, [device])
    if found is not None:
        print(f"{device} at {address}: [1 2]·[3 4] = {found.item():g}")
        answering[device] = address
"""
_TOGETHER = """\
if answering:
    keeper = next((device for device in answering if device.startswith("/job:ps/")), next(iter(answering)))
    with tf.Graph().as_default() as graph, graph.container("windlass-notebook"):
        with tf.device(keeper):
            kept = tf.compat.v1.get_variable("kept", [], initializer=tf.compat.v1.zeros_initializer())
        added = []
        for device in answering:
            with tf.device(device):
                part = tf.square(tf.constant(2.0))
            added.append(kept.assign_add(part))
        total = run(answering[keeper], graph, kept, list(answering), [kept.initializer, added])
    if total is not None:
        print(f"{len(answering)} servers have added 4 each: {total:g}, kept on {keeper}")
else:
    print("No server answers: `windlass status` says whether the job runs.")
"""
_LOGS = """\
## What they wrote
"""
_READ_LOGS = """\
if Client is None:
    print("Windlass is not installed here, and reads no logs: pip install windlass")
else:
    try:
        with Client() as client:
            for line in client.logs(job, tail=5):
                print(f"{line.task}: {line.data.decode(errors='replace')}")
    except ClientError as error:
        print(error)
"""


def notebook(job: Job) -> str:
    """Return the notebook as text, which is deterministic."""
    is_tensorflow = job.runtime is Runtime.TENSORFLOW
    ask = _ASK.format(task=_first_task(job))
    cells = [
        _markdown(_BEGINNING.format(job=job.name)),
        _markdown(_WHO),
        _code(f"{ask}{_SHOW_CLUSTER if is_tensorflow else _SHOW_VARIABLES}"),
        *((_markdown(_COMPUTE), _code(_STEPS), _code(_TOGETHER)) if is_tensorflow else ()),
        _markdown(_LOGS),
        _code(_READ_LOGS),
    ]
    written = {
        "cells": [{"id": f"windlass-{number}", **cell} for number, cell in enumerate(cells)],
        "metadata": {
            "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
            "language_info": {"name": "python"},
        },
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return msgspec.json.format(msgspec.json.encode(written), indent=1).decode() + "\n"


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
