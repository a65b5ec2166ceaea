"""The volumes of a pod that are mounts themselves. They live in the pod's own mount namespace, and go with it."""

import os
import subprocess
from collections.abc import Iterable

from windlass.localcluster.sandbox import kernel
from windlass.localcluster.sandbox.messages import MemoryFolder, NfsFolder

_NFS_SECONDS = 60


class CannotMountError(Exception):
    """The message names the volume and says why, and what to do."""


def mount_volumes(volumes: Iterable[MemoryFolder | NfsFolder], *, can_mount: bool) -> None:
    for volume in volumes:
        match volume:
            case MemoryFolder():
                # Where there are no mounts, the folder itself has to do.
                if can_mount:
                    _mount_memory(volume)
            case NfsFolder():
                _mount_nfs(volume, can_mount=can_mount)


def _mount_memory(volume: MemoryFolder) -> None:
    size = "" if volume.size is None else f",size={volume.size}"
    flags = kernel.MS_NOSUID | kernel.MS_NODEV
    kernel.mount("tmpfs", volume.path, "tmpfs", flags, f"mode=777{size}")


def _mount_nfs(volume: NfsFolder, *, can_mount: bool) -> None:
    what = f"{volume.server}:{volume.export}"
    if not can_mount or os.geteuid() != 0:
        raise CannotMountError(
            f"{what} cannot be mounted: NFS needs root on this machine. Mount it yourself and use a hostPath volume."
        )
    options = ["-o", "ro"] if volume.read_only else []
    command = ["mount", "-t", "nfs", *options, what, volume.path]
    try:
        done = subprocess.run(command, capture_output=True, timeout=_NFS_SECONDS, check=False)
    except FileNotFoundError as error:
        raise CannotMountError(f"{what} cannot be mounted: there is no `mount` on this machine") from error
    except subprocess.TimeoutExpired as error:
        raise CannotMountError(f"{what} cannot be mounted: no answer within {_NFS_SECONDS} s") from error
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().replace("\n", "; ")
        raise CannotMountError(
            f"{what} cannot be mounted: {said} (this machine may lack an NFS client, such as Debian's nfs-common)"
        )
