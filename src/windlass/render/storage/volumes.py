"""Render the volumes of a job for its pods."""

from windlass.model.base import Json
from windlass.model.job import Job, Volume
from windlass.render.storage import nfs_shares
from windlass.render.storage.nfs_shares import Share

SHM = "windlass-shm"
SHM_FOLDER = "/dev/shm"  # noqa: S108 — a path in the container
STATE = "windlass-state"
STATE_FOLDER = "/windlass/state"
"""Folder of a task for its progress file."""


def volumes_of(job: Job, share: Share | None, *, has_own_mounts: bool) -> list[Json]:
    """Return the volumes of a pod. A pod without its own mounts gets no volumes beyond those of the job."""
    found = job_file_volumes(job, share)
    if has_own_mounts and job.shm_size is not None:
        found.append({"name": SHM, "emptyDir": {"medium": "Memory", "sizeLimit": str(job.shm_size)}})
    if has_own_mounts:
        found.append({"name": STATE, "emptyDir": {}})
    return found


def mounts_of(job: Job, share: Share | None, *, has_own_mounts: bool) -> list[Json]:
    found = job_file_mounts(job, share)
    if has_own_mounts and job.shm_size is not None:
        found.append({"name": SHM, "mountPath": SHM_FOLDER})
    if has_own_mounts:
        found.append({"name": STATE, "mountPath": STATE_FOLDER})
    return found


def job_file_volumes(job: Job, share: Share | None = None) -> list[Json]:
    """Return the volumes that the job file lists. Without `share`, the job's NFS server is addressed by
    its DNS name."""
    return [
        {"name": name, **_source(job, name, volume, share or nfs_shares.share_with_dns_name(job))}
        for name, volume in job.volumes.items()
    ]


def job_file_mounts(job: Job, share: Share | None = None) -> list[Json]:
    return [
        _mount(name, volume, share or nfs_shares.share_with_dns_name(job))
        for name, volume in job.volumes.items()
    ]


def claim_name(job: str, volume: str) -> str:
    """Return the name of the claim that is created for a volume."""
    return f"{job}-{volume}"


def _mount(name: str, volume: Volume, share: Share) -> Json:
    mount: Json = {"name": name, "mountPath": volume.at}
    folder = nfs_shares.source(volume.share, share)[1] if volume.share else ""
    path = "/".join(part for part in (folder, volume.sub_path) if part)
    if path:
        mount["subPath"] = path
    if volume.read_only:
        mount["readOnly"] = True
    return mount


def _source(job: Job, name: str, volume: Volume, share: Share) -> Json:
    if volume.host_path:
        return {"hostPath": {"path": volume.host_path, "type": "DirectoryOrCreate"}}
    if volume.share:
        return nfs_shares.source(volume.share, share)[0]
    if volume.nfs is not None:
        return {"nfs": {"server": volume.nfs.server, "path": volume.nfs.path}}
    if volume.pvc:
        return {"persistentVolumeClaim": {"claimName": volume.pvc}}
    if volume.cephfs is not None:
        return {"persistentVolumeClaim": {"claimName": claim_name(job.name, name)}}
    if volume.config_map:
        return {"configMap": {"name": volume.config_map}}
    if volume.secret:
        return {"secret": {"secretName": volume.secret}}
    return {"emptyDir": volume.empty_dir or {}}
