"""Claims are folders: bound at once, kept while a pod uses them, deleted with the claim."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from deep_folders import make_deep_folder

from conformance.waiting import wait_for
from windlass.localcluster.apiserver import bodies
from windlass.localcluster.apiserver.options import DeleteOptions, WriteOptions
from windlass.localcluster.server import ApiServer


class Cluster:
    def __init__(self, data: Path) -> None:
        self.server = ApiServer(data)
        self.claims = self.server.registry.find("", "v1", "persistentvolumeclaims")
        self.pods = self.server.registry.find("", "v1", "pods")

    def claim(self, name: str = "data", **spec: Any) -> dict[str, Any]:
        assert self.claims is not None
        given = {
            "metadata": {"name": name},
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1Gi"}},
                **spec,
            },
        }
        self.server.lifecycle.create(self.claims, "default", given, WriteOptions())
        return self.read(name)

    def read(self, name: str = "data") -> dict[str, Any]:
        assert self.claims is not None
        return self.server.lifecycle.read(self.claims, "default", name)

    def delete(self, name: str = "data") -> None:
        assert self.claims is not None
        self.server.lifecycle.delete(self.claims, "default", name, DeleteOptions())

    def exists(self, name: str = "data") -> bool:
        return self.server.store.get("persistentvolumeclaims", f"default/{name}") is not None

    def pod(self) -> None:
        assert self.pods is not None
        volume = {"name": "v", "persistentVolumeClaim": {"claimName": "data"}}
        spec = {"containers": [{"name": "c", "image": "i"}], "volumes": [volume], "nodeName": "n"}
        given = {"metadata": {"name": "user"}, "spec": spec}
        self.server.lifecycle.create(self.pods, "default", given, WriteOptions())

    def change_pod(self, phase: str) -> None:
        assert self.pods is not None
        self.server.lifecycle.amend(
            self.pods, "default", "user", lambda pod: {**pod, "status": {"phase": phase}}
        )

    def remove_pod(self) -> None:
        assert self.pods is not None
        self.server.lifecycle.delete(self.pods, "default", "user", DeleteOptions(grace_seconds=0))


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    one = Cluster(tmp_path)
    yield one
    one.server.store.close()


@pytest.mark.parametrize("spec", [{}, {"storageClassName": "local"}, {"storageClassName": ""}])
def test_claim_is_bound_to_its_own_folder(cluster: Cluster, spec: dict[str, Any]) -> None:
    claim = cluster.claim(**spec)
    folder = cluster.server.volumes.folder_of(claim)

    assert claim["status"] == {
        "phase": "Bound",
        "accessModes": ["ReadWriteOnce"],
        "capacity": {"storage": "1Gi"},
    }
    assert claim["spec"]["volumeName"] == f"pvc-{claim['metadata']['uid']}"
    assert folder.is_dir()
    assert folder.stat().st_mode & 0o777 == 0o777, "a container may run as any user"
    assert folder.parent.stat().st_mode & 0o777 == 0o700, "other users have no access"


def test_claim_of_another_storage_class_stays_pending(cluster: Cluster) -> None:
    claim = cluster.claim(storageClassName="fast")

    assert claim["status"] == {"phase": "Pending"}
    assert not cluster.server.volumes.folder_of(claim).exists()


def test_claim_with_longest_name_gets_a_folder(cluster: Cluster) -> None:
    claim = cluster.claim("x" * 253)
    assert cluster.server.volumes.folder_of(claim).is_dir()


def test_folder_is_deleted_with_the_claim(cluster: Cluster) -> None:
    folder = cluster.server.volumes.folder_of(cluster.claim())
    (folder / "deep").mkdir()
    (folder / "deep" / "file").write_text("data")
    cluster.delete()

    assert not cluster.exists()
    assert not folder.exists()


def test_folder_of_a_deleted_claim_may_have_any_depth(cluster: Cluster) -> None:
    folder = cluster.server.volumes.folder_of(cluster.claim())
    make_deep_folder(folder, 1500)
    cluster.delete()

    wait_for("an empty folder", lambda: not [*folder.parent.iterdir()])


@pytest.mark.parametrize("end", ["Succeeded", "Failed", "removed"])
def test_claim_in_use_stays_until_the_pod_has_ended(cluster: Cluster, end: str) -> None:
    folder = cluster.server.volumes.folder_of(cluster.claim())
    cluster.pod()
    cluster.delete()
    assert "deletionTimestamp" in cluster.read()["metadata"]
    assert folder.is_dir()
    cluster.change_pod("Running")
    assert folder.is_dir()

    if end == "removed":
        cluster.remove_pod()
    else:
        cluster.change_pod(end)

    assert not cluster.exists()
    assert not folder.exists()


def test_restart_finishes_binding_and_deletion(tmp_path: Path) -> None:
    """One claim was stored but not bound when the server was killed, another one was being deleted."""
    first = Cluster(tmp_path)
    first.server.store._listeners.clear()
    first.claim("unbound")
    first.claim("going")
    first.delete("going")
    assert first.read("unbound")["status"]["phase"] == "Pending"
    first.server.store.close()

    second = Cluster(tmp_path)
    assert second.read("unbound")["status"]["phase"] == "Bound"
    assert not second.exists("going")
    second.server.store.close()


def test_dry_run_creates_no_folder(cluster: Cluster, tmp_path: Path) -> None:
    assert cluster.claims is not None
    given = bodies.decode_stored(
        b'{"metadata":{"name":"dry"},"spec":{"accessModes":["ReadWriteOnce"],'
        b'"resources":{"requests":{"storage":"1"}}}}'
    )
    cluster.server.lifecycle.create(cluster.claims, "default", given, WriteOptions(is_dry_run=True))

    assert not cluster.exists("dry")
    assert not [*(tmp_path / "volumes").glob("*")]
