"""kubectl with Jobs, Deployments and StatefulSets, on a cluster that runs them."""

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pods import commands, daemons
from pods.daemons import Daemon
from pods.place import SECONDS, Place

from conformance import objects
from conformance.waiting import wait_for

pytestmark = pytest.mark.kubernetes

SLEEP = [{"name": "main", "image": "windlass/test:1", "command": ["sleep", "100000"]}]
Run = Callable[..., str]


@pytest.fixture(scope="module")
def running() -> Iterator[Daemon]:
    with daemons.running(commands.best(), is_ephemeral=True) as daemon:
        yield daemon


@pytest.fixture
def place(running: Daemon) -> Iterator[Place]:
    place = running.new_place()
    yield place
    running.client.delete(f"/api/v1/namespaces/{place.namespace}")


@pytest.fixture
def kubectl(program: Path, running: Daemon, place: Place) -> Run:
    environment = {**os.environ, "KUBECONFIG": str(running.folder / "kubeconfig")}

    def run(*words: str, stdin: Any = None) -> str:
        """Return the output of a command, which must succeed within some time."""
        done = subprocess.run(  # noqa: S603
            [program, "--namespace", place.namespace, *words],
            input=None if stdin is None else json.dumps(stdin),
            capture_output=True,
            text=True,
            check=False,
            env=environment,
            timeout=2 * SECONDS,
        )
        assert done.returncode == 0, f"{words}: {done}"
        return done.stdout.strip()

    return run


def job(*command: str, **spec: Any) -> Any:
    containers = [{"name": "main", "image": "windlass/test:1", "command": [*command]}]
    return objects.job("j", template={"spec": {"containers": containers, "restartPolicy": "Never"}}, **spec)


def lasting(made: Callable[..., Any], **spec: Any) -> Any:
    """Return a workload whose pods run until they are deleted, and then stop at once."""
    template = objects.template("w", containers=SLEEP, terminationGracePeriodSeconds=0)
    return made("w", template=template, **spec)


def test_wait_for_completed_job(kubectl: Run) -> None:
    kubectl("create", "-f", "-", stdin=job("echo", "hello", completions=2))
    said = kubectl("wait", "--for=condition=complete", "job/j", f"--timeout={SECONDS:.0f}s")
    assert said == "job.batch/j condition met"
    assert kubectl("logs", "job/j") == "hello"
    assert "Completed" in kubectl("describe", "job/j")


def test_wait_for_failed_job(kubectl: Run) -> None:
    kubectl("create", "-f", "-", stdin=job("false", backoffLimit=0))
    kubectl("wait", "--for=condition=failed", "job/j", f"--timeout={SECONDS:.0f}s")
    assert "BackoffLimitExceeded" in kubectl("describe", "job/j")


ROLLOUTS = {
    "deployment": (lasting(objects.deployment, replicas=2), 'deployment "w" successfully rolled out'),
    "statefulset": (
        lasting(objects.stateful_set, replicas=2),
        "partitioned roll out complete: 2 new pods",
    ),
}


@pytest.mark.parametrize(("kind", "body", "last"), [(kind, *rest) for kind, rest in ROLLOUTS.items()])
def test_rollout_of_new_image(kubectl: Run, place: Place, kind: str, body: Any, last: str) -> None:
    status = ("rollout", "status", f"{kind}/w", f"--timeout={SECONDS:.0f}s")
    kubectl("create", "-f", "-", stdin=body)
    kubectl(*status)
    before = {pod.seen().uid for pod in place.pods(app="w")}
    kubectl("rollout", "restart", f"{kind}/w")
    assert kubectl(*status).splitlines()[-1].startswith(last)
    wait_for("others", lambda: not before & {pod.seen().uid for pod in place.pods(app="w")}, SECONDS)
    kubectl("scale", f"{kind}/w", "--replicas=1")
    kubectl(*status)
    wait_for("one pod", lambda: len(place.pods(app="w")) == 1, SECONDS)
    kubectl("delete", kind, "w")
    wait_for("no pods", lambda: not place.pods(app="w"), SECONDS)


def test_rollout_undo(kubectl: Run, place: Place) -> None:
    kubectl("create", "-f", "-", stdin=lasting(objects.deployment, replicas=1))
    kubectl("rollout", "status", "deployment/w")
    kubectl("set", "image", "deployment/w", "main=windlass/test:2")
    kubectl("rollout", "status", "deployment/w")
    assert [line.split()[0] for line in kubectl("rollout", "history", "deployment/w").splitlines()[2:]] == [
        "1",
        "2",
    ]
    kubectl("rollout", "undo", "deployment/w")
    kubectl("rollout", "status", "deployment/w")
    image = "jsonpath={.items[*].spec.containers[0].image}"
    wait_for(
        "the first image", lambda: kubectl("get", "pods", "--output", image) == "windlass/test:1", SECONDS
    )
    rows = [line.split()[1:4] for line in kubectl("get", "replicasets", "--no-headers").splitlines()]
    assert sorted(rows) == [["0", "0", "0"], ["1", "1", "1"]]
