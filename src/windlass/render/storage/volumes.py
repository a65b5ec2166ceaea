"""Render the volumes of a job for its pods."""

from windlass.jobfile import volumes as jobfile_volumes
from windlass.k8s import quantities
from windlass.model.base import Json
from windlass.model.job import Job, Role, Volume
from windlass.model.resources import Quantity, Resources
from windlass.render.storage import nfs_shares
from windlass.render.storage.nfs_shares import Share

SHM = "windlass-shm"
SHM_FOLDER = "/dev/shm"  # noqa: S108 — a path in the container
_DEFAULT_SHM_SIZE = "1Gi"
STATE = "windlass-state"
STATE_FOLDER = "/windlass/state"
"""Folder of a task for its progress file."""


def volumes_of(job: Job, role: Role, share: Share | None, *, has_own_mounts: bool) -> list[Json]:
    """Return the volumes of a task's pod. A pod without its own mounts gets no volumes beyond those of the job."""
    found = job_file_volumes(job, share)
    if not has_own_mounts:
        return found
    size = job.shm_size if role.shm_size is None else role.shm_size
    shm = [] if _uses_host_ipc(job, role) else shm_volumes(job, role.resources or job.resources, size)
    return [*found, *shm, {"name": STATE, "emptyDir": {}}]


def mounts_of(job: Job, role: Role, share: Share | None, *, has_own_mounts: bool) -> list[Json]:
    found = job_file_mounts(job, share)
    if not has_own_mounts:
        return found
    shm = [] if _uses_host_ipc(job, role) else shm_mounts(job)
    return [*found, *shm, {"name": STATE, "mountPath": STATE_FOLDER}]


def shm_volumes(job: Job, resources: Resources | None, size: Quantity | None) -> list[Json]:
    """Return the volume for /dev/shm, unless a volume of the job is there. `size` is the requested size; the default
    depends on the resources."""
    if _has_shm_folder(job):
        return []
    memory = None if resources is None else resources.memory
    default = _DEFAULT_SHM_SIZE if memory is None else quantities.half(memory)
    return [
        {"name": SHM, "emptyDir": {"medium": "Memory", "sizeLimit": str(default if size is None else size)}}
    ]


def shm_mounts(job: Job) -> list[Json]:
    return [] if _has_shm_folder(job) else [{"name": SHM, "mountPath": SHM_FOLDER}]


def _uses_host_ipc(job: Job, role: Role) -> bool:
    """Return whether tasks share the memory of the node's processes, which needs the node's /dev/shm."""
    return any((pod.get("spec") or {}).get("hostIPC") for pod in (job.pod, role.pod))


def _has_shm_folder(job: Job) -> bool:
    return any(jobfile_volumes.normalize(volume.at) == SHM_FOLDER for volume in job.volumes.values())


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
