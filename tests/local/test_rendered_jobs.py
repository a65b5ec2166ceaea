"""A job rendered to plain objects runs on a cluster without Frameworks."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner
from pods import daemons, levels
from pods.daemons import Daemon, Network
from pods.place import Place
from pods.specs import IMAGE

from conformance.client import Json
from conformance.waiting import wait_for
from windlass.cli.main import main

SECONDS = 300.0
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
KINDS = {
    "ConfigMap": ("/api/v1", "configmaps"),
    "Service": ("/api/v1", "services"),
    "Job": ("/apis/batch/v1", "jobs"),
    "StatefulSet": ("/apis/apps/v1", "statefulsets"),
}


@pytest.fixture(params=["isolated", "shared"])
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    network: Network = request.param
    if reason := levels.why_not("root"):
        pytest.skip(reason)
    with daemons.running(levels.level("root"), network, is_ephemeral=True) as daemon:
        yield _place(daemon)


def _place(daemon: Daemon) -> Place:
    return daemon.new_place()


def path(place: Place, kind: str, name: str = "") -> str:
    root, plural = KINDS[kind]
    return f"{root}/namespaces/{place.namespace}/{plural}/{name}".rstrip("/")


def rendered(folder: Path, place: Place, job: Json) -> list[Json]:
    file = folder / "job.yaml"
    file.write_text(yaml.safe_dump(job))
    words = ["render", str(file), "--target", "plain", "-n", place.namespace]
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 0, result.output
    return list(yaml.safe_load_all(result.stdout))


def log_of(place: Place, selector: str) -> str:
    answer = place.client.get(place.path("pods"), labelSelector=selector).expect(200)
    names = sorted(each["metadata"]["name"] for each in answer.body["items"])
    return "".join(
        place.client.get(f"{place.path('pods', name)}/log", headers={"Accept": "*/*"}).raw.decode()
        for name in names
    )


def completed(place: Place, name: str) -> None:
    """Wait for the success of a Job."""

    def is_complete() -> bool:
        status = place.client.get(path(place, "Job", name)).expect(200).body.get("status") or {}
        conditions = {each["type"]: each["status"] for each in status.get("conditions") or ()}
        assert conditions.get("Failed") != "True", json.dumps(status)
        return conditions.get("Complete") == "True"

    try:
        wait_for(f"the Job {name}", is_complete, SECONDS)
    except AssertionError as error:
        raise AssertionError(f"{error}\n{log_of(place, 'windlass.dev/job=digits')}") from None


def test_rendered_tasks_find_each_other(place: Place, tmp_path: Path) -> None:
    """Servers that keep running, two workers of an Indexed Job, and a single chief."""
    job = {
        "name": "digits",
        "runtime": "tensorflow",
        "image": IMAGE,
        "command": ["python3", "-c", PROGRAM, "$(PS_HOSTS)"],
        "roles": {"ps": {"tasks": 2}, "chief": {}, "worker": {"tasks": 2}},
    }
    for body in rendered(tmp_path, place, job):
        place.client.post(path(place, body["kind"]), body).expect(201)
    for role, tasks in (("worker", 2), ("chief", 1)):
        completed(place, f"digits-{role}")
        lines = log_of(place, f"windlass.dev/role={role}").splitlines()
        assert sorted(lines) == [
            f"{role} {task} served by {server}" for task in range(tasks) for server in range(2)
        ]
    servers = place.client.get(path(place, "StatefulSet", "digits-ps")).expect(200).body
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
    for body in reversed(rendered(tmp_path, place, job)):
        place.client.post(path(place, body["kind"]), body).expect(201)
    completed(place, "digits-load-data")
    completed(place, "digits-worker")
    assert log_of(place, "windlass.dev/role=worker") == "1,2,3\n1,2,3\n"
