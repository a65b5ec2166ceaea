"""Mounts of the folders of a job's own NFS server: by the address of the server or, on one machine, from
its PersistentVolumeClaim."""

import msgspec

from windlass.model import names
from windlass.model.base import Json
from windlass.model.job import Job


class Served(msgspec.Struct, frozen=True):
    """Folders mounted from the NFS server."""

    address: str
    """Address of its Service, preferably the ClusterIP: most nodes cannot resolve the names of Services."""


class Direct(msgspec.Struct, frozen=True):
    """Folders mounted from the claim. On one machine no server is needed."""

    claim: str


Share = Served | Direct


def server_name(job: str) -> str:
    """Return the name of the Deployment, the Service, the ConfigMap and the claim."""
    return f"{job}-nfs"


def share_with_dns_name(job: Job) -> Served:
    """Return a share with the DNS name of the Service, for use while its ClusterIP is unknown."""
    namespace = job.namespace or names.DEFAULT_NAMESPACE
    return Served(f"{server_name(job.name)}.{namespace}.svc.cluster.local")


def source(folder: str, share: Share) -> tuple[Json, str]:
    """Return the volume source and the subPath of its mounts. The subPath may be empty."""
    match share:
        case Served(address=address):
            return {"nfs": {"server": address, "path": folder}}, ""
        case Direct(claim=claim):
            return {"persistentVolumeClaim": {"claimName": claim}}, folder.strip("/")
