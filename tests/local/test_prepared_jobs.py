"""Jobs with prerequisites and running pods: storage, data and preflight checks."""

import base64
import functools
import hashlib
import http.server
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from pods import commands
from pods.commands import Done, Home, Local

from conformance.client import Json
from conformance.waiting import wait_for

FRAMEWORKS = "/apis/frameworkcontroller.microsoft.com/v1/namespaces/default/frameworks"
JOBS = "/apis/batch/v1/namespaces/default/jobs"
CORE = "/api/v1/namespaces/default"
READS = (
    "test $(cat /data/digits/here.csv) = here && test $(cat /data/web/far.csv) = far && test $TOKEN = 's:#3'"
)
"""The exit code tells what it found."""


class Web:
    """A server with one file that counts its downloads."""

    def __init__(self, url: str, asked: list[str]) -> None:
        self.url = url
        self.asked = asked


@pytest.fixture
def web(tmp_path: Path) -> Iterator[Web]:
    (tmp_path / "far.csv").write_text("far")
    asked: list[str] = []

    class Handler(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            asked.append(self.path)

    with http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), functools.partial(Handler, directory=str(tmp_path))
    ) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield Web(f"http://127.0.0.1:{server.server_port}/far.csv", asked)
        finally:
            server.shutdown()
            thread.join()


class Cluster:
    def __init__(self, home: Home, local: Local) -> None:
        self.home = home
        self.local = local

    @property
    def options(self) -> tuple[str, str]:
        return "--kubeconfig", self.local.status()["kubeconfig"]

    def submit(self, file: Path, *arguments: str) -> Done:
        return self.home.windlass("submit", *self.options, file, *arguments)

    def names(self, path: str, name: str) -> set[str]:
        """Return the objects created for that job."""
        listed = self.local.client.get(path).expect(200).body["items"]
        return {found for item in listed if (found := item["metadata"]["name"]).startswith(name)}

    def is_clean_but_for_storage(self, name: str) -> None:
        for path in (FRAMEWORKS, JOBS, f"{CORE}/secrets", f"{CORE}/pods"):
            self._wait_until_empty(path, name)
        assert self.names(f"{CORE}/persistentvolumeclaims", name) == {f"{name}-nfs"}

    def _wait_until_empty(self, path: str, name: str) -> None:
        wait_for(f"nothing of {name} in {path}", lambda: not self.names(path, name))


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with commands.home(commands.best()) as home, commands.local(home, "--network", "shared") as local:
        yield Cluster(home, local)


@pytest.fixture
def folder(cluster: Cluster) -> Path:
    return with_folder(cluster.home)


def with_folder(home: Home) -> Path:
    """A folder that the user of the commands can read."""
    made = home.folder / "seed"
    made.mkdir(exist_ok=True)
    (made / "here.csv").write_text("here")
    return made


def job(name: str, url: str, **fields: Json) -> Json:
    return {
        "name": name,
        "image": "none",
        "command": f'sh -c "{READS}"',
        "roles": {"worker": {"tasks": 2}},
        "secrets": {"TOKEN": "s:#3"},
        "nfsServer": {"size": "1Gi"},
        "volumes": {
            "data": {"share": "/data", "at": "/data", "readOnly": True},
            "output": {"share": "/output", "at": "/output"},
        },
        "loadData": [
            {"folder": "seed", "to": "/data/digits"},
            {"url": url, "sha256": hashlib.sha256(b"far").hexdigest(), "to": "/data/web"},
            {"command": "echo once >> times", "to": "/output/made"},
        ],
        "needs": ["/data/digits/here.csv", "/data/web/far.csv", "/output/made/times"],
        **fields,
    }


def written(home: Home, body: Json) -> Path:
    return home.file(yaml.safe_dump(body))


def test_data_is_loaded_once(cluster: Cluster, folder: Path, web: Web) -> None:
    file = written(cluster.home, job("digits", web.url))
    done = cluster.submit(file, "--wait").expect(0)
    told = [line.removeprefix("digits: ") for line in done.lines if line.startswith("digits: ")]
    assert told[:7] == [
        "created Secret digits-secrets",
        "created PersistentVolumeClaim digits-nfs",
        "created Job digits-load-data",
        "loading data",
        "data loaded",
        "preflight: checking required files",
        "preflight: all files exist",
    ]
    (folder / "here.csv").write_text("changed")
    looks = "test $(cat /output/made/times | wc -l) = 1 && test $(cat /data/digits/here.csv) = changed"
    once = job("digits", web.url, command=f"sh -c '{looks}'")
    again = cluster.submit(written(cluster.home, once), "--rerun", "--wait").expect(0)
    assert "digits: reused PersistentVolumeClaim digits-nfs" in again.lines
    assert len(web.asked) == 1
    cluster.home.windlass("delete", *cluster.options, "digits").expect(0)
    cluster.is_clean_but_for_storage("digits")


def test_missing_file_is_reported(cluster: Cluster, folder: Path, web: Web) -> None:
    file = written(cluster.home, job("lacking", web.url, needs=["/data/digits/none.csv"]))
    done = cluster.submit(file).expect(1)
    message = done.stderr.splitlines()[-1]
    assert "the preflight failed: /data/digits/none.csv does not exist" in message
    assert "on the job's NFS server" in message
    assert message.endswith(
        "These objects for the job's files were created and are kept: PersistentVolumeClaim lacking-nfs."
    )
    cluster.is_clean_but_for_storage("lacking")


def test_missing_claim_is_reported(cluster: Cluster) -> None:
    body = {
        "name": "unclaimed",
        "image": "none",
        "command": "true",
        "roles": {"worker": {}},
        "volumes": {"data": {"pvc": "nobodys", "at": "/data"}},
    }
    done = cluster.submit(written(cluster.home, body)).expect(1)
    assert 'persistentvolumeclaim "nobodys" not found' in done.stderr
    assert "Traceback" not in done.stderr
    assert not cluster.names(FRAMEWORKS, "unclaimed")


def test_ctrl_c_while_data_is_loaded(cluster: Cluster, folder: Path, web: Web) -> None:
    endless = [{"command": "sleep 100000", "to": "/data/a"}]
    file = written(cluster.home, job("endless", web.url, loadData=endless))
    going = cluster.home.begin("submit", *cluster.options, file)
    going.says("loading data")
    wait_for("its pod to run", lambda: cluster.names(f"{CORE}/pods", "endless"))
    going.press_ctrl_c()
    done = going.done().expect(130)
    assert (
        done.verdict
        == "endless: These objects for the job's files were created and are kept: PersistentVolumeClaim endless-nfs."
    )
    cluster.is_clean_but_for_storage("endless")


def test_dry_run_shows_everything_and_creates_nothing(cluster: Cluster, folder: Path, web: Web) -> None:
    file = written(cluster.home, job("shown", web.url))
    shown = cluster.submit(file, "--dry-run").expect(0).stdout
    kinds = [body["kind"] for body in yaml.safe_load_all(shown)]
    assert kinds == ["Secret", "PersistentVolumeClaim", "Job", "Pod", "Framework"]
    assert base64.b64encode(b"s:#3").decode() not in shown
    assert not cluster.names(f"{CORE}/secrets", "shown")


def test_run_loads_data_like_submit(web: Web) -> None:
    with commands.home(commands.best()) as home:
        with_folder(home)
        file = written(home, job("digits", web.url))
        done = home.windlass("run", "--network", "shared", "--logs", file).expect(0)
        assert "preflight: all files exist" in done.stdout
        assert "unless --keep is given" in done.stdout
        missing = written(home, job("digits", web.url, needs=["/data/none"]))
        refused = home.windlass("run", "--network", "shared", "--output", "json", missing).expect(1)
        assert refused.json_lines[-1]["event"] == "error"
        assert "/data/none does not exist" in refused.json_lines[-1]["message"]
        assert not home.runs
