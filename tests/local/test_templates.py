"""The templates, edited and rendered, run on a cluster without Frameworks and are deleted."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result
from pods import daemons, levels
from pods.daemons import Daemon, Network
from pods.place import Place

from conformance.client import Json
from conformance.waiting import wait_for
from windlass.cli.main import main

SECONDS = 300.0
PROGRAM = """
import json, os, socket, time

config = json.loads(os.environ.get("TF_CONFIG", '{"cluster": {}, "task": {"type": "single", "index": 0}}'))
kind, index = config["task"]["type"], config["task"]["index"]

def eventually(act, *given):
    while True:
        try:
            return act(*given)
        except OSError:
            time.sleep(0.2)

if kind == "ps":
    host, port = config["cluster"]["ps"][index].rsplit(":", 1)
    with socket.create_server((eventually(socket.gethostbyname, host), int(port)), reuse_port=True) as server:
        while True:
            with server.accept()[0] as connection:
                connection.sendall(b"ps %d" % index)
heard = []
for address in config["cluster"].get("ps", ()):
    host, port = address.rsplit(":", 1)
    with eventually(socket.create_connection, (host, int(port))) as connection:
        heard.append(connection.makefile().read())
with open(os.environ["TRAIN_DATA_FILE"]) as data:
    line = ", ".join([data.read(), *heard])
with open(f"{os.environ['OUTPUT_DIR']}/{kind}-{index}", "w") as output:
    output.write(line)
"""
KINDS = {
    "Service": ("/api/v1", "services"),
    "Job": ("/apis/batch/v1", "jobs"),
    "StatefulSet": ("/apis/apps/v1", "statefulsets"),
}
WAYS: dict[str, tuple[tuple[str, ...], dict[str, str]]] = {
    "single": ((), {"single-0": "numbers"}),
    "cluster": (
        ("2", "2"),
        {"worker-0": "numbers, ps 0, ps 1", "worker-1": "numbers, ps 0, ps 1"},
    ),
}


@pytest.fixture(params=["isolated", "shared"])
def daemon(request: pytest.FixtureRequest) -> Iterator[Daemon]:
    network: Network = request.param
    if reason := levels.why_not("root"):
        pytest.skip(reason)
    with daemons.running(levels.level("root"), network, is_ephemeral=True) as daemon:
        yield daemon


def windlass(*words: str) -> Result:
    result = CliRunner().invoke(main, list(words))
    assert result.exit_code == 0, result.output
    return result


def rendered(mode: str, numbers: tuple[str, ...], folder: Path, namespace: str) -> list[Json]:
    """Replace the NFS server, which cannot be mounted here, by a folder of this machine."""
    template = folder / "t.jinja"
    windlass("init", "--template", mode, "--out", str(template))
    text = template.read_text().replace('namespace = "default"', f'namespace = "{namespace}"')
    served = (
        "          nfs:\n            server: {{ nfs_server | yaml }}\n            path: {{ nfs_path | yaml }}"
    )
    assert served in text
    template.write_text(text.replace(served, f"          hostPath: {{path: {folder}}}"))
    return list(yaml.safe_load_all(windlass("template", mode, str(template), "web", *numbers).stdout))


def path(place: Place, kind: str, name: str = "") -> str:
    root, plural = KINDS[kind]
    return f"{root}/namespaces/{place.namespace}/{plural}/{name}".rstrip("/")


def job_ends(place: Place) -> Json:
    """Return its conditions."""

    def look() -> Json | None:
        status = place.client.get(path(place, "Job", "web-ckpt-1")).expect(200).body.get("status") or {}
        found = {each["type"]: each["status"] == "True" for each in status.get("conditions") or ()}
        return found if found.get("Complete") or found.get("Failed") else None

    return wait_for("the end of the Job", look, SECONDS)


def put_files(folder: Path) -> None:
    for file, content in (("src/web/train.py", PROGRAM), ("data/web/train.csv", "numbers")):
        (folder / file).parent.mkdir(parents=True)
        (folder / file).write_text(content)


@pytest.mark.parametrize("mode", WAYS)
def test_template_runs_and_is_deleted(mode: str, daemon: Daemon, tmp_path: Path) -> None:
    numbers, expected = WAYS[mode]
    place = daemon.new_place()
    put_files(tmp_path)
    for body in rendered(mode, numbers, tmp_path, place.namespace):
        place.client.post(path(place, body["kind"]), body).expect(201)

    assert job_ends(place).get("Complete"), json.dumps(
        place.client.get(place.path("pods")).expect(200).body["items"]
    )
    output = tmp_path / "output" / "web" / "ckpt-1"
    assert {each.name: each.read_text() for each in output.iterdir()} == expected

    kubeconfig = str(daemon.folder / "kubeconfig")
    said = windlass("delete", "web-ckpt-1", "--kubeconfig", kubeconfig, "-n", place.namespace).stdout
    assert said == "web-ckpt-1 deleted\n"
    for kind in KINDS:
        answer = place.client.get(path(place, kind)).expect(200)
        assert answer.names == [], kind
    assert place.client.get(place.path("pods")).expect(200).names == []


def test_missing_file_is_reported(daemon: Daemon, tmp_path: Path) -> None:
    place = daemon.new_place()
    put_files(tmp_path)
    (tmp_path / "data" / "web" / "train.csv").unlink()
    (job,) = rendered("single", (), tmp_path, place.namespace)
    job["spec"]["backoffLimit"] = 0
    place.client.post(path(place, "Job"), job).expect(201)

    assert job_ends(place).get("Failed")
    (pod,) = place.client.get(place.path("pods")).expect(200).body["items"]
    (preflight,) = pod["status"]["initContainerStatuses"]
    assert preflight["state"]["terminated"]["message"].startswith(
        "preflight: data/web/train.csv does not exist on the share nfs.example:/exports/share. "
    )
    assert not (tmp_path / "output").exists()
