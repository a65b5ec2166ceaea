"""Shared storage on real nodes: an NFS server and a client in pods, uploads, and loaded data.

Whether a node can mount NFS depends on its kernel, so the client speaks NFS in its own process.
"""

import hashlib
import json
import os
import platform
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from live import claim_volumes, jobs
from live.clusters import Cluster
from live.command_line import Console
from live.kubectl_process import Kubectl
from live.place import Place

from conformance.client import Json

CLIENT: Final = "trap 'exit 0' TERM; echo 'Hello, NFS' > /hello; sleep 100000 & wait"
NOBODY: Final = "192.0.2.1"
"""An address without a server (RFC 5737)."""


# The NFS server


@pytest.fixture
def server(
    cluster: Cluster, place: Place, console: Console, kubectl: Kubectl, nfs_image: str
) -> Iterator[str]:
    """Apply the `nfs` part of the rendered objects and return the address of the ready server."""
    job = console.write_job(
        "mnist",
        command="true",
        nfsServer={"size": claim_volumes.SIZE, "image": nfs_image},
        volumes={"data": {"share": "/data", "at": "/data"}},
    )
    console("render", job, "--only", "nfs", "--out", "nfs.yaml")
    with claim_volumes.for_claim(cluster, place, "mnist-nfs"):
        kubectl("create", f"--filename={console.folder / 'nfs.yaml'}")
        kubectl("rollout", "status", "deployment/mnist-nfs")
        yield kubectl("get", "service", "mnist-nfs", "--output=jsonpath={.spec.clusterIP}")


def test_served_file_outlives_its_server(place: Place, kubectl: Kubectl, server: str, nfs_image: str) -> None:
    pod = {"metadata": {"name": "client"}, **jobs.template(CLIENT, container={"image": nfs_image})}
    place.client.post(place.path("pods"), {"apiVersion": "v1", "kind": "Pod", **pod}).expect(201)
    kubectl("wait", "--for=condition=Ready", "pod/client", "--timeout=300s")

    def address(path: str) -> str:
        return f"nfs://{server}{path}?version=4&nfsport=2049"

    folders = kubectl("exec", "client", "--", "nfs-ls", address("/"))
    assert sorted(line.split()[-1] for line in folders.splitlines()) == ["data", "output"]
    kubectl("exec", "client", "--", "nfs-cp", "/hello", address("/data/hello"))
    read = ("exec", "client", "--", "nfs-cat", address("/data/hello"))
    assert kubectl(*read) == "Hello, NFS\n"
    # Owners are numbers, which are the same on every node.
    [file] = kubectl("exec", "client", "--", "nfs-ls", address("/data")).splitlines()
    assert file.split()[2:4] == ["0", "0"]

    kubectl("delete", "pod", "--selector=app.kubernetes.io/name=nfs-ganesha")
    # After a restart, former clients have a grace period.
    assert place.wait_for("the server to be back", lambda: kubectl.tried(*read)) == "Hello, NFS\n"


def test_failed_mount_names_the_server(
    cluster: Cluster, place: Place, console: Console, kubectl: Kubectl, nfs_image: str
) -> None:
    """The server runs, and its address is written into the objects that mount it."""
    cluster.breakable()
    if _may_mount_nfs():
        pytest.skip("the kernel of this machine may have NFS")
    job = console.write_job(
        "mnist",
        command="true",
        nfsServer={"size": claim_volumes.SIZE, "image": nfs_image},
        volumes={"output": {"share": "/output", "at": "/output"}},
    )
    with claim_volumes.for_claim(cluster, place, "mnist-nfs"):
        message = console("submit", job, code=1).errors
        server = kubectl("get", "service", "mnist-nfs", "--output=jsonpath={.spec.clusterIP}")
    assert f"/output on the job's NFS server at {server}" in message
    assert f"{server}:/output" in message, "the message does not name the volume that the node mounts"
    assert "Deployment mnist-nfs" in message, "it does not say what stays"
    assert place.client.get(place.framework_path("mnist")).code == 404


def _may_mount_nfs() -> bool:
    modules = Path("/lib/modules", platform.release())
    return "nfs" in Path("/proc/filesystems").read_text() or any(modules.rglob("nfs.ko*"))


# Missing shares


def test_missing_share_stops_the_job_before_it_starts(console: Console, place: Place) -> None:
    volumes = {"data": {"nfs": {"server": NOBODY, "path": "/exports/data"}, "at": "/data"}}
    job = console.write_job("job", command="true", volumes=volumes)
    message = console("submit", job, "--preflight-timeout", "15s", code=1).errors
    assert NOBODY in message
    assert "/exports/data" in message
    assert place.client.get(place.framework_path("job")).code == 404
    assert not place.pods()


# Data


def test_data_is_loaded_before_the_tasks_start(cluster: Cluster, console: Console) -> None:
    cluster.breakable()  # the folder is on its node
    folder = tempfile.mkdtemp(prefix="windlass-live-data-")
    console.write({"digits/one.txt": "1\n"})
    job = console.write_job(
        "job",
        command=["sh", "-c", "cat /data/made/two.txt /data/digits/one.txt"],
        roles={"worker": {"tasks": 1}},
        volumes={"data": {"hostPath": folder, "at": "/data"}},
        loadData=[
            {"to": "/data/digits", "folder": "./digits"},
            {"to": "/data/made", "command": "echo 2 > two.txt"},
        ],
        needs=["/data/digits/one.txt"],
    )
    try:
        console("submit", job, "--wait")
        assert console("logs", "job", "worker-0").text == "2\n1\n"
    finally:
        shutil.rmtree(folder)


def test_uploaded_files_are_in_the_claim(cluster: Cluster, console: Console, place: Place) -> None:
    console.write({"src/train.py": "print('hello')\n", "src/parts/model.py": ""})
    data = os.urandom(3 << 20)
    (console.folder / "mnist.npz").write_bytes(data)
    words = ("--code", "src", "--data", "mnist.npz", "--share", "pvc://share", "--image", jobs.IMAGE)
    with claim_volumes.for_claim(cluster, place, "share"):
        place.client.post(place.path("persistentvolumeclaims"), claim_volumes.claim("share")).expect(201)
        first = _told(console("upload", "digits", *words, "--output", "json").text)
        assert (first["files"], first["sent"], first["skipped"]) == (3, 3, 0)
        second = _told(console("upload", "digits", *words, "--output", "json").text)
        assert (second["files"], second["sent"], second["skipped"]) == (3, 0, 3)
        place.wait_for("the loaders to go", lambda: not place.pods())
        job = console.write_job(
            "reader",
            command=["sh", "-c", "cd /share && find * -type f | sort | xargs sha256sum"],
            roles={"worker": {"tasks": 1}},
            volumes={"share": {"pvc": "share", "at": "/share"}},
        )
        console("submit", job, "--wait")
        lines = [line.split() for line in console("logs", "reader", "worker-0").lines]
    found = {path: digest for digest, path in lines}
    assert found == {
        "data/digits/mnist.npz": hashlib.sha256(data).hexdigest(),
        "src/digits/parts/model.py": hashlib.sha256(b"").hexdigest(),
        "src/digits/train.py": hashlib.sha256(b"print('hello')\n").hexdigest(),
    }


def _told(text: str) -> Json:
    told: Json = json.loads(text)
    return told
