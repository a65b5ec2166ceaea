"""Where the folders of a job's own NFS server are: behind its address, or, on one machine, in the claim itself."""

import msgspec

from windlass.model import names
from windlass.model.base import Json
from windlass.model.job import Job


class Served(msgspec.Struct, frozen=True):
    """By the NFS server."""

    address: str
    """Of its Service. Nodes mount it, and most of them cannot resolve the names of Services: the ClusterIP is best."""


class Direct(msgspec.Struct, frozen=True):
    """On one machine there is nobody to serve: tasks have the disk of the server."""

    claim: str


Share = Served | Direct


def server_name(job: str) -> str:
    """Of the Deployment, the Service, the ConfigMap and the claim."""
    return f"{job}-nfs"


def by_name(job: Job, namespace: str = "") -> Served:
    """For as long as nobody knows its address."""
    place = job.namespace or namespace or names.DEFAULT_NAMESPACE
    return Served(f"{server_name(job.name)}.{place}.svc.cluster.local")


def source(folder: str, share: Share) -> tuple[Json, str]:
    """The volume's source, and the path in it, for a mount's subPath."""
    match share:
        case Served(address=address):
            return {"nfs": {"server": address, "path": folder}}, ""
        case Direct(claim=claim):
            return {"persistentVolumeClaim": {"claimName": claim}}, folder.strip("/")
