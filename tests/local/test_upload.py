"""`windlass upload` with running pods: contents of the volume, retries, and no leftovers."""

import asyncio
import hashlib
import json
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest
from pods import commands
from pods.commands import Done, Home, Local

from conformance.client import Json
from conformance.waiting import wait_for
from windlass.client import connection as connections
from windlass.client.errors import ClientError, TimedOutError
from windlass.client.upload import items as upload_items
from windlass.client.upload import pod_target
from windlass.client.upload.shares import Claim, MountedShare, Nfs
from windlass.client.upload.transfer import ProgressCallbacks, Uploaded

CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
PODS = "/api/v1/namespaces/default/pods"
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
MIB = 1 << 20


class Cluster:
    def __init__(self, home: Home, local: Local) -> None:
        self.home = home
        self.local = local
        self.kubeconfig = str(local.status()["kubeconfig"])

    def windlass(self, command: str, *arguments: str | Path) -> Done:
        return self.home.windlass(command, "--kubeconfig", self.kubeconfig, *arguments)

    def seen(self, command: str) -> str:
        """Return the files that a job with the volume sees."""
        return self.windlass("exec", "reader/worker-0", "--", "sh", "-c", command).expect(0).stdout

    def digest(self, path: str) -> str:
        return self.seen(f"sha256sum < '/data/{path}'").split()[0]

    @property
    def pods(self) -> set[str]:
        return {item["metadata"]["name"] for item in self.local.client.get(PODS).expect(200).body["items"]}

    def wait_until_alone(self) -> None:
        wait_for("its pod to be gone", lambda: self.pods == {"reader-worker-0"})


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
    """A folder that the user of the commands can read."""
    made = cluster.home.folder / "data"
    (made / "deep" / "er").mkdir(parents=True, exist_ok=True)
    (made / "a file").write_text("hello")
    (made / "deep" / "er" / "large").write_bytes(bytes(range(256)) * 8192)
    return made


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def random_file(path: Path, size: int) -> Path:
    """Write a file with distinct pieces."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(os.urandom(size))
    return path


# Complete uploads


def test_folder_in_the_short_form(cluster: Cluster, folder: Path) -> None:
    done = cluster.windlass("upload", folder, "my-data").expect(0)
    assert done.stdout == "uploaded 2 files (2 MiB) to pvc://my-data: 2 sent, 2 MiB transferred\n"
    assert cluster.seen("cat '/data/a file'") == "hello"
    assert cluster.digest("deep/er/large") == digest(folder / "deep" / "er" / "large")
    cluster.wait_until_alone()


def test_file_into_a_folder_of_the_volume(cluster: Cluster, folder: Path) -> None:
    (folder / "a file").write_text("hello again")
    done = cluster.windlass("upload", folder / "a file", "pvc://my-data/models/one/").expect(0)
    assert done.stdout == "uploaded 1 file (11 B) to pvc://my-data/models/one: 1 sent, 11 B transferred\n"
    assert cluster.seen("cat '/data/models/one/a file'") == "hello again"


def test_second_upload_sends_only_changes(cluster: Cluster, folder: Path) -> None:
    script = folder.parent / "train.py"
    script.write_text("print(1)\n")
    script.chmod(0o755)
    words = ("upload", "digits", "--code", script, "--data", folder, "--share", "pvc://my-data/projects")
    first = json.loads(cluster.windlass(*words, "--output", "json").expect(0).stdout)
    assert (first["files"], first["sent"], first["skipped"]) == (3, 3, 0)
    assert cluster.seen("cat /data/projects/src/digits/train.py") == "print(1)\n"
    assert cluster.seen("test -x /data/projects/src/digits/train.py && echo executable") == "executable\n"
    assert cluster.digest("projects/data/digits/deep/er/large") == digest(folder / "deep" / "er" / "large")
    (folder / "a file").write_text("other")
    second = json.loads(cluster.windlass(*words, "--output", "json").expect(0).stdout)
    assert (second["files"], second["sent"], second["skipped"], second["bytes"]) == (3, 1, 2, 5)
    assert cluster.seen("cat '/data/projects/data/digits/a file'") == "other"


def test_file_names_with_shell_characters(cluster: Cluster) -> None:
    names = ["-rf", "a\nb", "$(id)", "'", '"', "\\", "\\0101", " lead", "ünïcode", "*", "x" * 255]
    top = cluster.home.folder / "odd"
    for at, name in enumerate(names):
        (top / name).mkdir(parents=True, exist_ok=True)
        (top / name / name).write_text(str(at))
    done = cluster.windlass("upload", top, "pvc://my-data/odd", "-o", "json").expect(0)
    assert json.loads(done.stdout)["sent"] == len(names)
    again = cluster.windlass("upload", top, "pvc://my-data/odd", "-o", "json").expect(0)
    assert json.loads(again.stdout)["skipped"] == len(names)
    here = sorted(str(each.relative_to(top)) for each in top.rglob("*") if each.is_file())
    there = cluster.seen("cd /data/odd && find . -type f -print0").split("\0")
    assert sorted(each.removeprefix("./") for each in there if each) == here


# Interrupted uploads


KILLED = """
import asyncio, os, signal, sys
from pathlib import Path
from windlass.client import connection
from windlass.client.upload import items, pod_target, shares
from windlass.client.upload.transfer import ProgressCallbacks

kubeconfig, source, share, most = sys.argv[1:]
gone = 0

def moved(name, size):
    global gone
    gone += size
    if gone >= int(most):
        os.kill(os.getpid(), signal.SIGKILL)

async def main():
    async with connection.connected(kubeconfig) as here:
        to_upload = items.gather({"": [Path(source)]})
        to = shares.parse(share)
        await pod_target.upload(here, to, to_upload, name="upload-killed", callbacks=ProgressCallbacks(on_sent=moved))

asyncio.run(main())
"""


def test_killed_client_is_resumed(cluster: Cluster) -> None:
    large = random_file(cluster.home.folder / "cut" / "large", 24 * MIB)
    killed = subprocess.run(  # noqa: S603
        [
            sys.executable,
            "-c",
            textwrap.dedent(KILLED),
            cluster.kubeconfig,
            large,
            "pvc://my-data",
            str(12 * MIB),
        ],
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL
    assert cluster.seen("ls /data/large 2>/dev/null || echo nothing") == "nothing\n"
    # Its pod, which no client deletes, has nothing left to do.
    cluster.local.client.delete(f"{PODS}/upload-killed").expect(200)
    cluster.wait_until_alone()
    done = cluster.windlass("upload", large, "pvc://my-data", "-o", "json").expect(0)
    told = json.loads(done.stdout)
    assert (told["resumed"], told["sent"], told["skipped"]) == (1, 0, 0)
    assert 0 < told["bytes"] < 24 * MIB
    assert cluster.digest("large") == digest(large)
    assert "part" not in cluster.seen("ls -A /data")


def upload(
    cluster: Cluster,
    source: Path,
    share: MountedShare,
    name: str,
    callbacks: ProgressCallbacks,
    timeout: float,
) -> Uploaded:
    async def work() -> Uploaded:
        async with connections.connected(cluster.kubeconfig) as here:
            to_upload = upload_items.gather({"": [source]})
            return await pod_target.upload(
                here, share, to_upload, name=name, callbacks=callbacks, timeout=timeout
            )

    return asyncio.run(work())


def test_deleted_pod_is_replaced(cluster: Cluster) -> None:
    large = random_file(cluster.home.folder / "taken" / "bulk", 24 * MIB)
    gone: list[int] = []

    def moved(_: str, size: int) -> None:
        gone.append(size)
        if sum(gone) == 12 * MIB:
            cluster.local.client.delete(f"{PODS}/upload-lost").expect(200)
            cluster.wait_until_alone()

    with pytest.raises(ClientError, match="to resume the upload"):
        upload(cluster, large, Claim("my-data"), "upload-lost", ProgressCallbacks(on_sent=moved), 60)
    assert cluster.seen("ls /data/bulk 2>/dev/null || echo nothing") == "nothing\n"
    done = cluster.windlass("upload", large, "pvc://my-data", "-o", "json").expect(0)
    told = json.loads(done.stdout)
    assert told["resumed"] == 1
    assert 0 < told["bytes"] < 24 * MIB
    assert cluster.digest("bulk") == digest(large)


def test_ctrl_c_deletes_the_pod(cluster: Cluster, folder: Path) -> None:
    never = {**CLAIM, "metadata": {"name": "later"}, "spec": {**CLAIM["spec"], "storageClassName": "nobodys"}}
    cluster.local.client.post(CLAIMS, never).expect(201)
    running = cluster.home.begin("upload", "--kubeconfig", cluster.kubeconfig, folder, "later")
    wait_for("its pod", lambda: len(cluster.pods) == 2)
    running.press_ctrl_c()
    assert running.done().code == 130
    cluster.wait_until_alone()


# Rejected uploads

WRONG = {
    "no such claim": (
        ("FOLDER", "your-data"),
        1,
        "there is no PersistentVolumeClaim your-data in the namespace default",
    ),
    "no such folder": (("/nowhere", "my-data"), 2, "/nowhere does not exist"),
    "out of the volume": (("FOLDER", "my-data:../etc"), 2, "outside of the share"),
    "no claim": (("FOLDER", ":models"), 2, "expected one of"),
    "a file where a folder is needed": (
        ("FOLDER", "my-data:taken"),
        1,
        "pvc://my-data/taken must be a directory",
    ),
    "a folder where a file is to be": (
        ("FOLDER/a file", "my-data:full"),
        1,
        "pvc://my-data/full/a file is a directory",
    ),
}


def test_invalid_uploads_are_rejected(cluster: Cluster, folder: Path) -> None:
    cluster.seen("echo no folder > /data/taken; mkdir -p '/data/full/a file'")
    before = cluster.seen("find /data | sort")
    for case, (arguments, code, message) in WRONG.items():
        done = cluster.windlass("upload", *(each.replace("FOLDER", str(folder)) for each in arguments))
        assert message in done.expect(code).stderr, case
        assert "Traceback" not in done.stderr, case
    assert cluster.seen("find /data | sort") == before
    cluster.wait_until_alone()


def test_volume_timeout_is_reported(cluster: Cluster, folder: Path) -> None:
    never = {**CLAIM, "metadata": {"name": "never"}, "spec": {**CLAIM["spec"], "storageClassName": "nobodys"}}
    cluster.local.client.post(CLAIMS, never).expect(201)
    done = cluster.windlass("upload", folder, "never", "--timeout", "1s").expect(124)
    assert "cannot mount the claim never within 1 s" in done.stderr
    cluster.wait_until_alone()


def test_unreachable_nfs_server_is_reported(cluster: Cluster, folder: Path) -> None:
    noted: list[str] = []
    with pytest.raises(TimedOutError) as late:
        upload(
            cluster,
            folder,
            Nfs("127.0.0.9", "/exports/data"),
            "upload-nfs",
            ProgressCallbacks(on_warning=noted.append),
            10,
        )
    named = "cannot mount /exports/data on the NFS server 127.0.0.9"
    assert str(late.value).startswith(f"{named} within 10 s: ")
    assert "reports no reason" not in str(late.value)
    assert noted[0].startswith("cannot mount /exports/data on the NFS server 127.0.0.9 yet: ")
    cluster.wait_until_alone()
