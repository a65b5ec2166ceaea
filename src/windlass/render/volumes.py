"""The volumes of a job, as pods have them."""

from windlass.model.base import Json
from windlass.model.job import Job, Quantity, Volume

SHM = "windlass-shm"
SHM_FOLDER = "/dev/shm"  # noqa: S108 — that is where programs look for it
STATE = "windlass-state"
STATE_FOLDER = "/windlass/state"
"""What a task says about itself, such as how far it is. Each has its own."""


def volumes_of(job: Job, *, has_mounts: bool) -> list[Json]:
    """Without mounts of its own, a pod has the folders of the machine, and nothing is added to them."""
    found = [{"name": name, **_source(volume)} for name, volume in job.volumes.items()]
    if has_mounts and job.shm_size is not None:
        found.append({"name": SHM, "emptyDir": {"medium": "Memory", "sizeLimit": amount(job.shm_size)}})
    if has_mounts:
        found.append({"name": STATE, "emptyDir": {}})
    return found


def mounts_of(job: Job, *, has_mounts: bool) -> list[Json]:
    found = [_mount(name, volume) for name, volume in job.volumes.items()]
    if has_mounts and job.shm_size is not None:
        found.append({"name": SHM, "mountPath": SHM_FOLDER})
    if has_mounts:
        found.append({"name": STATE, "mountPath": STATE_FOLDER})
    return found


def amount(quantity: Quantity) -> str:
    """As the API server writes it: never a number, which would come back as a text."""
    return str(quantity)


def _mount(name: str, volume: Volume) -> Json:
    mount: Json = {"name": name, "mountPath": volume.at}
    if volume.sub_path:
        mount["subPath"] = volume.sub_path
    if volume.read_only:
        mount["readOnly"] = True
    return mount


def _source(volume: Volume) -> Json:
    if volume.host_path:
        return {"hostPath": {"path": volume.host_path, "type": "DirectoryOrCreate"}}
    if volume.nfs is not None:
        return {"nfs": {"server": volume.nfs.server, "path": volume.nfs.path}}
    if volume.pvc:
        return {"persistentVolumeClaim": {"claimName": volume.pvc}}
    if volume.cephfs is not None:
        secret = {"secretRef": {"name": volume.cephfs.secret}} if volume.cephfs.secret else {}
        monitors = list(volume.cephfs.monitors)
        return {
            "cephfs": {"monitors": monitors, "path": volume.cephfs.path, "user": volume.cephfs.user, **secret}
        }
    if volume.config_map:
        return {"configMap": {"name": volume.config_map}}
    if volume.secret:
        return {"secret": {"secretName": volume.secret}}
    return {"emptyDir": volume.empty_dir or {}}
