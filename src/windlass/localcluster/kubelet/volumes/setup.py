"""Set up the volumes of a pod: create directories, write files, and list the volumes that the supervisor must mount.

`files` computes the content of volumes, `containers.plan` where containers mount them.
"""

import functools
import os
import stat
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import msgspec

from windlass.k8s import quantities
from windlass.localcluster.kubelet.containers import errors
from windlass.localcluster.kubelet.containers.errors import SetupError
from windlass.localcluster.kubelet.containers.facts import Lookup, PodFacts
from windlass.localcluster.kubelet.host import Host
from windlass.localcluster.kubelet.pods.directory import PodDirectory
from windlass.localcluster.kubelet.volumes import atomic_writer, service_account
from windlass.localcluster.kubelet.volumes import files as volume_files
from windlass.localcluster.sandbox.messages import MemoryFolder, NfsFolder
from windlass.model.base import Json

SHARED_MEMORY_FOLDER = "/dev/shm"  # noqa: S108 — a path in the container
_SHARED_MEMORY_BYTES = 64 * 1024**2
"""The size that container runtimes use."""
_SUPPORTED = "emptyDir, hostPath, configMap, secret, downwardAPI, projected, persistentVolumeClaim and nfs"


class VolumeContext(msgspec.Struct, frozen=True, kw_only=True):
    """A pod, its directory, and the sources of the content of its volumes."""

    pod: Json
    folder: PodDirectory
    host: Host
    now: datetime
    facts: PodFacts
    lookup: Lookup
    token: volume_files.TokenSource
    claim: Callable[[str], Json | None]
    """Function from the name of a claim in the pod's namespace to the claim; None if it does not exist."""
    claim_folder: Callable[[Json], Path]

    @property
    def group(self) -> int | None:
        """The fsGroup if this process runs as root, since only root can change the group of files.

        Otherwise None: the containers then run as the user who owns the volumes.
        """
        group: int | None = (self.pod["spec"].get("securityContext") or {}).get("fsGroup")
        return group if self.host.is_root else None

    @property
    def volumes(self) -> list[Json]:
        pod = service_account.with_volume(self.pod) if self.host.can_mount else self.pod
        return pod["spec"].get("volumes") or []


class PodVolumes(msgspec.Struct, frozen=True, dict=True):
    paths: dict[str, str]
    """Volume name → path on the machine."""
    mounted: tuple[MemoryFolder | NfsFolder, ...] = ()
    """Volumes that the supervisor mounts in the mount namespace of the pod."""

    def is_mounted(self, name: str) -> bool:
        return self.paths[name] in self._mounted_paths

    @functools.cached_property
    def _mounted_paths(self) -> frozenset[str]:
        return frozenset(each.path for each in self.mounted)


_VolumeSource = str | MemoryFolder | NfsFolder
"""A path on the machine, or a volume that the supervisor mounts."""


def prepare(context: VolumeContext) -> PodVolumes:
    """Create the volumes. A running pod can be prepared again: existing volumes stay, generated files are updated."""
    sources = {volume["name"]: _prepare_volume(volume, context) for volume in context.volumes}
    return PodVolumes(
        {name: source if isinstance(source, str) else source.path for name, source in sources.items()},
        tuple(source for source in sources.values() if not isinstance(source, str)),
    )


def refresh(context: VolumeContext) -> bool:
    """Rewrite the volumes whose generated files have changed, and return whether there were any.

    A volume that lacks a required source stays unchanged. The first error is raised after all volumes have been
    refreshed.
    """
    is_changed, first_error = False, None
    for volume in filter(volume_files.has_generated_files, context.volumes):
        try:
            is_changed |= _update(volume, context)
        except SetupError as error:
            first_error = first_error or error
    if first_error is not None:
        raise first_error
    return is_changed


def _prepare_volume(volume: Json, context: VolumeContext) -> _VolumeSource:
    type_ = next((key for key in volume if key != "name"), "emptyDir")
    if type_ not in _VOLUME_TYPES:
        problem = f"volume type {type_} is not supported on this cluster. Use {_SUPPORTED}."
        raise errors.failed_mount(volume["name"], problem)
    with errors.disk_errors_as(lambda problem: errors.failed_mount(volume["name"], problem)):
        return _VOLUME_TYPES[type_](volume, context)


def _empty_folder(volume: Json, context: VolumeContext) -> _VolumeSource:
    path = context.folder.volume(volume["name"])
    if not path.is_dir():
        path.mkdir()
        path.chmod(0o777)
        _give_to_group(path, context.group)
    if not is_in_memory(volume) or not context.host.can_mount:
        return str(path)
    return MemoryFolder(str(path), memory_size(volume, context.pod, context.facts))


def shared_memory(pod: Json, folder: PodDirectory, host: Host) -> MemoryFolder | None:
    """Return the folder that the containers of the pod share as their /dev/shm; None if they use that of the
    machine."""
    # A pod of an earlier version does not have the folder.
    is_own = host.can_mount and not pod["spec"].get("hostIPC") and folder.shared_memory.is_dir()
    return MemoryFolder(str(folder.shared_memory), _SHARED_MEMORY_BYTES, 0o1777) if is_own else None


def is_in_memory(volume: Json) -> bool:
    return (volume.get("emptyDir") or {}).get("medium") == "Memory"


def memory_size(volume: Json, pod: Json, facts: PodFacts) -> int | None:
    """Return the minimum of the volume's sizeLimit, the pod's memory limit and the node's memory, as far as known."""
    bounds = [
        _bytes((volume.get("emptyDir") or {}).get("sizeLimit")),
        _memory_limit(pod),
        _bytes(facts.allocatable.get("memory")),
    ]
    return min((bound for bound in bounds if bound), default=None)


def _memory_limit(pod: Json) -> int:
    """Return the effective memory limit of the pod; 0 if one of its containers has no limit."""
    limits = [_limit(container) for container in pod["spec"]["containers"]]
    init_limits = [_limit(container) for container in pod["spec"].get("initContainers") or ()]
    return max(sum(limits), *init_limits, 0) if all((*limits, *init_limits)) else 0


def _limit(container: Json) -> int:
    return _bytes(((container.get("resources") or {}).get("limits") or {}).get("memory"))


def _bytes(written: str | None) -> int:
    return int(quantities.parse(written or "0"))


def _host_path(volume: Json, _: VolumeContext) -> _VolumeSource:
    path = Path(volume["hostPath"]["path"])
    mode = host_path_mode_to_create(volume, _mode)
    if mode is not None:
        if stat.S_ISDIR(mode):
            path.mkdir(parents=True, exist_ok=True)
        else:
            path.touch()
        path.chmod(stat.S_IMODE(mode))
    written: str = volume["hostPath"]["path"]
    return written


def _mode(path: str) -> int | None:
    try:
        return Path(path).stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return None


def host_path_mode_to_create(volume: Json, mode_of: Callable[[str], int | None]) -> int | None:
    """Return the `st_mode` of the directory or file to create; None if the path exists.

    `mode_of` returns the `st_mode` of the target of a path; None if nothing exists there. Raises SetupError for an
    invalid path, and for a path that does not have the type in the field `type`.
    """
    path, path_type = volume["hostPath"]["path"], volume["hostPath"].get("type") or ""
    if ".." in path.split("/"):
        raise errors.failed_mount(volume["name"], f"invalid HostPath `{path}`: must not contain '..'")
    mode = mode_of(path)
    if mode is None and path_type in _CREATED_MODES:
        return _CREATED_MODES[path_type]
    if not path_type:
        return None
    expected = path_type.removesuffix("OrCreate") if path_type in _CREATED_MODES else path_type
    if expected not in _PATH_TYPES:
        raise errors.failed_mount(volume["name"], f"{path_type} is an invalid volume type")
    is_expected_type, description = _PATH_TYPES[expected]
    if mode is None or not is_expected_type(mode):
        raise errors.failed_mount(volume["name"], _type_mismatch(path, description, mode))
    return None


def _type_mismatch(path: str, expected: str, mode: int | None) -> str:
    """Return the message of the kubelet for a path that is missing or has another type."""
    types = (name for name, (is_type, _) in _PATH_TYPES.items() if mode is not None and is_type(mode))
    found = next(types, None)
    if found:
        return f"hostPath type check failed: {path} is not a {expected}, it's a {found}"
    reason = (
        f'path "{path}" does not exist'
        if mode is None
        else "only recognise file, directory, socket, block device and character device"
    )
    return f"hostPath type check failed, {path} is not a {expected}, unable to determine its type: {reason}"


# Without a type the kubelet checks nothing, and the container runtime creates a directory.
_CREATED_MODES = {
    "": stat.S_IFDIR | 0o755,
    "DirectoryOrCreate": stat.S_IFDIR | 0o755,
    "FileOrCreate": stat.S_IFREG | 0o644,
}
_PATH_TYPES: dict[str, tuple[Callable[[int], bool], str]] = {
    "Directory": (stat.S_ISDIR, "directory"),
    "File": (stat.S_ISREG, "file"),
    "Socket": (stat.S_ISSOCK, "socket file"),
    "CharDevice": (stat.S_ISCHR, "character device"),
    "BlockDevice": (stat.S_ISBLK, "block device"),
}


def _files(volume: Json, context: VolumeContext) -> _VolumeSource:
    _update(volume, context)
    return str(context.folder.volume(volume["name"]))


def _update(volume: Json, context: VolumeContext) -> bool:
    files = volume_files.files(volume, context.pod, context.lookup, context.facts, context.token)
    path = context.folder.volume(volume["name"])
    with errors.disk_errors_as(lambda problem: errors.failed_mount(volume["name"], problem)):
        return atomic_writer.update(path, files, context.now, context.group)


def _claimed(volume: Json, context: VolumeContext) -> _VolumeSource:
    name = volume["persistentVolumeClaim"]["claimName"]
    claim = context.claim(name)
    problem = _claim_problem(name, claim)
    if claim is None or problem:
        volume_name, namespace = volume["name"], context.pod["metadata"]["namespace"]
        message = (
            f"Unable to attach or mount volumes: unmounted volumes=[{volume_name}], unattached volumes=[],"
            f" failed to process volumes=[{volume_name}]: error processing PVC {namespace}/{name}: {problem}"
        )
        raise SetupError(message, errors.FAILED_MOUNT)
    path = context.claim_folder(claim)
    path.stat()
    _give_to_group(path, context.group)
    return str(path)


def _claim_problem(name: str, claim: Json | None) -> str:
    if claim is None:
        return f'failed to fetch PVC from API server: persistentvolumeclaims "{name}" not found'
    if "deletionTimestamp" in claim["metadata"]:
        return "PVC is being deleted"
    is_bound = (claim.get("status") or {}).get("phase") == "Bound"
    return "" if is_bound else "PVC is not bound"


def _nfs(volume: Json, context: VolumeContext) -> _VolumeSource:
    if not context.host.can_mount:
        problem = f"this machine does not allow mounts for pods ({context.host.no_mounts_because})"
        raise errors.failed_mount(volume["name"], problem)
    path, source = context.folder.volume(volume["name"]), volume["nfs"]
    path.mkdir(exist_ok=True)
    return NfsFolder(str(path), source["server"], source["path"], bool(source.get("readOnly")))


def _give_to_group(path: Path, group: int | None) -> None:
    """Give the group full access to the directory. Everything that is created in it inherits the group."""
    if group is None:
        return
    os.chown(path, -1, group)
    path.chmod(stat.S_IMODE(path.stat().st_mode) | stat.S_ISGID | stat.S_IRWXG)


_VOLUME_TYPES: dict[str, Callable[[Json, VolumeContext], _VolumeSource]] = {
    "emptyDir": _empty_folder,
    "hostPath": _host_path,
    "configMap": _files,
    "secret": _files,
    "downwardAPI": _files,
    "projected": _files,
    "persistentVolumeClaim": _claimed,
    "nfs": _nfs,
}
