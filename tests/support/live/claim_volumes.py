"""Volumes for claims: on our cluster, which has no provisioner, a folder of the node."""

import contextlib
import shutil
import tempfile
from collections.abc import Iterator

from live.clusters import Cluster
from live.place import Place

from conformance.client import Json

SIZE = "1Gi"


def claim(name: str) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": SIZE}}},
    }


@contextlib.contextmanager
def for_claim(cluster: Cluster, place: Place, name: str) -> Iterator[None]:
    """Create a volume for a claim of that name; other clusters have provisioners."""
    if cluster.node is None:
        yield
        return
    folder = tempfile.mkdtemp(prefix="windlass-live-disk-")
    body = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": place.name},
        "spec": {
            "capacity": {"storage": SIZE},
            "accessModes": ["ReadWriteOnce"],
            "claimRef": {"namespace": place.name, "name": name},
            "hostPath": {"path": folder, "type": "Directory"},
        },
    }
    place.client.post("/api/v1/persistentvolumes", body).expect(201)
    try:
        yield
    finally:
        place.client.delete(f"/api/v1/persistentvolumes/{place.name}")
        # A pod that mounts it may still be terminating.
        shutil.rmtree(folder, ignore_errors=True)
