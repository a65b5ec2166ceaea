"""`windlass upload` where pods really run: what is in the volume then, and that nothing else stays."""

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from pods import commands
from pods.commands import Done, Home, Local

from conformance.client import Json
from conformance.waiting import wait_for

FRAMEWORKS = "/apis/frameworkcontroller.microsoft.com/v1/namespaces/default/frameworks"
CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
CLAIM: Json = {
    "apiVersion": "v1",
    "kind": "PersistentVolumeClaim",
    "metadata": {"name": "my-data"},
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
}
READER = """
name: reader
image: none
command: sleep 100000
roles: {worker: {}}
volumes: {data: {pvc: my-data, at: /data}}
pod: {spec: {terminationGracePeriodSeconds: 0}}
"""


class Cluster:
    def __init__(self, home: Home, local: Local) -> None:
        self.home = home
        self.local = local

    def windlass(self, command: str, *arguments: str | Path) -> Done:
        kubeconfig = self.local.status()["kubeconfig"]
        return self.home.windlass(command, "--kubeconfig", kubeconfig, *arguments)

    def seen(self, command: str) -> str:
        """What a job sees that has mounted the volume."""
        return self.windlass("exec", "reader/worker-0", "--", "sh", "-c", command).expect(0).stdout

    @property
    def jobs(self) -> set[str]:
        listed = self.local.client.get(FRAMEWORKS).expect(200).body["items"]
        return {item["metadata"]["name"] for item in listed}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with commands.home(commands.best()) as home, commands.local(home) as local:
        local.client.post(CLAIMS, CLAIM).expect(201)
        made = Cluster(home, local)
        made.windlass("submit", home.file(READER)).expect(0)
        made.windlass("wait", "reader", "--for", "running").expect(0)
        yield made


@pytest.fixture
def folder(cluster: Cluster) -> Path:
    """Where whoever runs the commands can read it."""
    made = cluster.home.folder / "data"
    (made / "deep" / "er").mkdir(parents=True, exist_ok=True)
    (made / "a file").write_text("hello")
    (made / "deep" / "er" / "large").write_bytes(bytes(range(256)) * 8192)
    return made


def test_a_folder(cluster: Cluster, folder: Path) -> None:
    done = cluster.windlass("upload", folder, "my-data").expect(0)
    assert done.stdout == "2 files, 2 MiB, are in my-data:/\n"
    assert cluster.seen("cat '/data/a file'") == "hello"
    sent = hashlib.sha256((folder / "deep" / "er" / "large").read_bytes()).hexdigest()
    assert cluster.seen("sha256sum < /data/deep/er/large").split()[0] == sent
    wait_for("its job to be gone", lambda: cluster.jobs == {"reader"})


def test_one_file_into_a_folder_of_the_volume(cluster: Cluster, folder: Path) -> None:
    (folder / "a file").write_text("hello again")
    done = cluster.windlass("upload", folder / "a file", "my-data:/models/one/").expect(0)
    assert done.stdout == "1 file, 11 B, are in my-data:/models/one\n"
    assert cluster.seen("cat '/data/models/one/a file'") == "hello again"


WRONG = {
    "no such claim": (
        "FOLDER",
        "your-data",
        1,
        "there is no PersistentVolumeClaim your-data in the namespace default",
    ),
    "no such folder": ("/nowhere", "my-data", 2, "Path '/nowhere' does not exist"),
    "out of the volume": ("FOLDER", "my-data:../etc", 2, "expected CLAIM or CLAIM:FOLDER"),
    "no claim": ("FOLDER", ":models", 2, "expected CLAIM or CLAIM:FOLDER"),
}


@pytest.mark.parametrize(("source", "target", "code", "words"), WRONG.values(), ids=WRONG.keys())
def test_what_is_wrong(
    cluster: Cluster, folder: Path, source: str, target: str, code: int, words: str
) -> None:
    done = cluster.windlass("upload", str(folder) if source == "FOLDER" else source, target).expect(code)
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_tar_cannot_write(cluster: Cluster, folder: Path) -> None:
    cluster.seen("echo no folder > /data/taken")
    done = cluster.windlass("upload", folder, "my-data:taken").expect(1)
    assert "not all files are in my-data:/taken" in done.stderr
    wait_for("its job to be gone", lambda: cluster.jobs == {"reader"})


def test_a_volume_that_cannot_be_had_in_time(cluster: Cluster, folder: Path) -> None:
    never = {**CLAIM, "metadata": {"name": "never"}, "spec": {**CLAIM["spec"], "storageClassName": "nobodys"}}
    cluster.local.client.post(CLAIMS, never).expect(201)
    done = cluster.windlass("upload", folder, "never", "--timeout", "1s").expect(124)
    assert "the volume could not be had in time" in done.stderr
    wait_for("its job to be gone", lambda: cluster.jobs == {"reader"})
