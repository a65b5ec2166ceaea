"""`kubectl top`, on a cluster that runs pods."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from pods import commands, daemons
from pods.daemons import Daemon
from pods.place import Place

from conformance.waiting import wait_for

pytestmark = pytest.mark.kubernetes

BUSY = "while true; do :; done"


@pytest.fixture(scope="module")
def running() -> Iterator[Daemon]:
    with daemons.running(commands.best(), is_ephemeral=True) as daemon:
        yield daemon


@pytest.fixture
def place(running: Daemon) -> Iterator[Place]:
    place = running.new_place()
    yield place
    running.client.delete(f"/api/v1/namespaces/{place.namespace}")


def top_rows(program: Path, running: Daemon, *words: str) -> list[list[str]]:
    """Return the words of each line below the header; nothing while there are no metrics."""
    environment = {**os.environ, "KUBECONFIG": str(running.folder / "kubeconfig")}
    done = subprocess.run(  # noqa: S603
        [program, "top", *words], capture_output=True, text=True, check=False, env=environment
    )
    return [line.split() for line in done.stdout.splitlines()[1:]]


def test_top_pods_and_nodes(program: Path, running: Daemon, place: Place) -> None:
    for name in ("a", "b"):
        place.start(BUSY, name=name, metadata={"labels": {"name": name}}).running()
    mine = ("pods", "-n", place.namespace)

    def all_are_busy() -> bool:
        rows = top_rows(program, running, *mine)
        return [row[0] for row in rows] == ["a", "b"] and all(_cores(row[1]) for row in rows)

    wait_for("both pods", all_are_busy)
    assert [row[0] for row in top_rows(program, running, *mine, "-l", "name=b")] == ["b"]
    assert [row[:2] for row in top_rows(program, running, *mine, "--containers")] == [
        ["a", "main"],
        ["b", "main"],
    ]
    ((node, cores, *_),) = top_rows(program, running, "nodes")
    assert node
    assert _cores(cores)


def _cores(text: str) -> int:
    """Return the CPU usage in millicores."""
    assert text.endswith("m"), text
    return int(text.removesuffix("m"))
