"""A job rendered to plain objects runs on a cluster without Frameworks."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pods import daemons, levels, rendered_jobs
from pods.daemons import Daemon, Network
from pods.place import Place
from pods.specs import IMAGE

PROGRAM = """
import json, os, socket, sys, time

config = json.loads(os.environ["TF_CONFIG"])
kind, index = config["task"]["type"], config["task"]["index"]
host, port = config["cluster"][kind][index].rsplit(":", 1)

def eventually(act, *given):
    while True:
        try:
            return act(*given)
        except OSError:
            time.sleep(0.2)

if kind == "ps":
    own = eventually(socket.gethostbyname, host)
    with socket.create_server((own, int(port)), reuse_port=True) as server:
        while True:
            with server.accept()[0] as connection:
                connection.sendall(b"served by %d" % index)
for server in sys.argv[1].split(","):
    peer, _, number = server.rpartition(":")
    with eventually(socket.create_connection, (peer, int(number))) as connection:
        print(kind, index, connection.makefile().read(), flush=True)
"""


@pytest.fixture(params=["isolated", "shared"])
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    network: Network = request.param
    if reason := levels.why_not("root"):
        pytest.skip(reason)
    with daemons.running(levels.level("root"), network, is_ephemeral=True) as daemon:
        yield _place(daemon)


def _place(daemon: Daemon) -> Place:
    return daemon.new_place()


def test_rendered_tasks_find_each_other(place: Place, tmp_path: Path) -> None:
    """Servers that keep running, two workers of an Indexed Job, and a single chief."""
    job = {
        "name": "digits",
        "runtime": "tensorflow",
        "image": IMAGE,
        "command": ["python3", "-c", PROGRAM, "$(PS_HOSTS)"],
        "roles": {"ps": {"tasks": 2}, "chief": {}, "worker": {"tasks": 2}},
    }
    for body in rendered_jobs.rendered(tmp_path, place, job):
        place.client.post(rendered_jobs.path(place, body["kind"]), body).expect(201)
    for role, tasks in (("worker", 2), ("chief", 1)):
        rendered_jobs.completed(place, f"digits-{role}")
        lines = rendered_jobs.log_of(place, f"windlass.dev/role={role}").splitlines()
        assert sorted(lines) == [
            f"{role} {task} served by {server}" for task in range(tasks) for server in range(2)
        ]
    servers = place.client.get(rendered_jobs.path(place, "StatefulSet", "digits-ps")).expect(200).body
    assert servers["status"]["readyReplicas"] == 2


def test_rendered_tasks_wait_for_their_data(place: Place, tmp_path: Path) -> None:
    """All objects are created at once, and those with the files last."""
    (tmp_path / "files").mkdir(mode=0o777)
    job = {
        "name": "digits",
        "image": IMAGE,
        "command": "cat /data/digits.csv",
        "roles": {"worker": {"tasks": 2}},
        "volumes": {"data": {"hostPath": str(tmp_path / "files"), "at": "/data"}},
        "loadData": [{"command": "echo 1,2,3 > digits.csv", "to": "/data"}],
        "needs": ["/data/digits.csv"],
    }
    for body in reversed(rendered_jobs.rendered(tmp_path, place, job)):
        place.client.post(rendered_jobs.path(place, body["kind"]), body).expect(201)
    rendered_jobs.completed(place, "digits-load-data")
    rendered_jobs.completed(place, "digits-worker")
    assert rendered_jobs.log_of(place, "windlass.dev/role=worker") == "1,2,3\n1,2,3\n"
