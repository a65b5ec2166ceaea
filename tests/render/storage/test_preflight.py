"""The preflight: the paths that it checks, and its messages about missing ones."""

import subprocess
from pathlib import Path

import pytest

from windlass.localcluster.kubelet.containers import expansion
from windlass.model.job import CephFs, Job, Nfs, Role, Volume
from windlass.render.storage import preflight
from windlass.render.storage.nfs_shares import Direct, Served, Share

SECONDS = 60
VARIABLES = {"to": "x", "c": "x", "b": "x"}
"""Characters that must not be interpreted."""
CEPH = CephFs(cluster_id="c1", fs_name="fs", path="/p", secret="key")  # noqa: S106 — a name


def job(*needs: str, **volumes: Volume) -> Job:
    return Job(
        name="digits", image="i:1", command="x", needs=needs, volumes=volumes, roles={"worker": Role()}
    )


NEEDED: dict[str, tuple[Job, bool]] = {
    "nothing": (job(), False),
    "a folder on the node": (job(v=Volume(at="/v", host_path="/v")), False),
    "a folder of its own": (job(v=Volume(at="/v", empty_dir={})), False),
    "a file": (job("/v/x", v=Volume(at="/v", host_path="/v")), True),
    "a server": (job(v=Volume(at="/v", nfs=Nfs(server="s", path="/p"))), True),
    "a claim": (job(v=Volume(at="/v", pvc="c")), True),
    "Ceph": (job(v=Volume(at="/v", cephfs=CEPH)), True),
    "a share": (job(v=Volume(at="/v", share="/data")), True),
}


@pytest.mark.parametrize(("made", "expected"), NEEDED.values(), ids=NEEDED.keys())
def test_preflight_is_needed_for_files_and_network_volumes(made: Job, expected: bool) -> None:
    assert preflight.is_needed(made) is expected


PLACES: dict[str, tuple[Volume, Share | None, str]] = {
    "nfs": (
        Volume(at="/v", nfs=Nfs(server="nfs.example", path="/exports/data"), sub_path="s"),
        None,
        "/exports/data/s/a/x on the NFS server nfs.example",
    ),
    "share": (
        Volume(at="/v", share="/data"),
        Served("10.0.0.9"),
        "/data/a/x on the job's NFS server at 10.0.0.9",
    ),
    "a share on one machine": (
        Volume(at="/v", share="/data"),
        Direct("digits-nfs"),
        "/data/a/x on the job's NFS server",
    ),
    "cephfs": (Volume(at="/v", cephfs=CEPH), None, "/p/a/x on the Ceph file system fs (cluster c1)"),
    "hostPath": (Volume(at="/v", host_path="/srv/"), None, "/srv/a/x on the node"),
    "pvc": (Volume(at="/v", pvc="results"), None, "/a/x in the claim results"),
    "configMap": (Volume(at="/v", config_map="c"), None, "/a/x in the ConfigMap c"),
}


@pytest.mark.parametrize(("volume", "share", "expected"), PLACES.values(), ids=PLACES.keys())
def test_missing_file_is_described_with_its_location(
    volume: Volume, share: Share | None, expected: str
) -> None:
    words = preflight.command(job("/v/a/x", data=volume), share)
    assert words[-2:] == ["/v/a/x", f"/v/a/x does not exist: expected {expected}"]


def test_preflight_pod_has_nodes_and_volumes_of_tasks() -> None:
    own = {
        "spec": {
            "securityContext": {"fsGroup": 5},
            "containers": [{"name": "main", "securityContext": {"runAsUser": 7}}],
        }
    }
    made = Job(
        name="digits",
        namespace="team",
        image="i:1",
        command="x",
        volumes={
            "data": Volume(at="/data", nfs=Nfs(server="s", path="/p"), read_only=True),
            "home": Volume(at="/home", host_path="/h", nodes=("n1",)),
        },
        needs=("/data/x",),
        shm_size="1Gi",
        node_selector={"a": "b"},
        tolerations=({"key": "t"},),
        pod=own,
        roles={"worker": Role(image="i:2")},
    )
    pod = preflight.pod(made)
    assert pod["metadata"]["labels"] == {"windlass.dev/job": "digits"}
    assert (pod["metadata"]["name"], pod["metadata"]["namespace"]) == ("digits-preflight", "team")
    spec = pod["spec"]
    assert (spec["nodeSelector"], spec["tolerations"]) == ({"a": "b"}, [{"key": "t"}])
    assert spec["securityContext"] == {"fsGroup": 5}
    assert "n1" in str(spec["affinity"]["nodeAffinity"])
    assert [volume["name"] for volume in spec["volumes"]] == ["data", "home"]
    (container,) = spec["containers"]
    assert (container["image"], container["securityContext"]) == ("i:2", {"runAsUser": 7})
    assert container["volumeMounts"][0] == {"name": "data", "mountPath": "/data", "readOnly": True}
    assert "resources" not in container


def run(made: Job, seconds: int = 0) -> subprocess.CompletedProcess[str]:
    words = [expansion.expand(word, VARIABLES) for word in preflight.command(made, seconds=seconds)]
    return subprocess.run(words, capture_output=True, text=True, timeout=SECONDS, check=False)  # noqa: S603


def test_script_reports_all_missing_files(tmp_path: Path) -> None:
    odd = tmp_path / 'a "b" $(c)'
    odd.mkdir()
    volume = Volume(at=str(tmp_path), nfs=Nfs(server="nfs.example", path="/exports"))
    there = run(job(str(odd), data=volume))
    assert (there.returncode, there.stderr) == (0, "")
    missing = run(job(str(odd), f"{tmp_path}/x", f"{odd}/y", data=volume))
    assert missing.returncode == 1
    first, second = missing.stderr.splitlines()
    assert first.startswith(f"{tmp_path}/x does not exist: expected /exports/x on the NFS server nfs.example")
    assert '/exports/a "b" $(c)/y on the NFS server' in second, "all missing files are reported"


def test_script_reports_missing_mount(tmp_path: Path) -> None:
    volume = Volume(at=f"{tmp_path}/x", nfs=Nfs(server="nfs.example", path="/exports"))
    missing = run(job(data=volume))
    assert missing.returncode == 1
    assert "does not respond: it is /exports on the NFS server nfs.example" in missing.stderr


def test_script_waits_for_missing_file(tmp_path: Path) -> None:
    """The file is created while the script waits, by a shell that is started first and waits for the script."""
    volume = Volume(at=str(tmp_path), host_path="/h")
    words = preflight.command(job(f"{tmp_path}/x", data=volume), seconds=SECONDS)
    with subprocess.Popen([expansion.expand(word, VARIABLES) for word in words]) as waiting:  # noqa: S603
        with pytest.raises(subprocess.TimeoutExpired):
            waiting.wait(0.3)
        (tmp_path / "x").touch()
        assert waiting.wait(SECONDS) == 0
