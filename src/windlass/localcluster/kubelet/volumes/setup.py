"""Set up the volumes of a pod: create directories, write files, and list what the supervisor must mount.

`files` computes the content of volumes, `mounts` where containers mount them.
"""

import os
import stat
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from windlass.k8s import quantities
from windlass.localcluster.kubelet import disk_errors
from windlass.localcluster.kubelet.containers import errors
from windlass.localcluster.kubelet.containers.errors import SetupError
from windlass.localcluster.kubelet.containers.facts import Facts, Lookup
from windlass.localcluster.kubelet.host import Host
from windlass.localcluster.kubelet.object_lookup import ObjectLookup
from windlass.localcluster.kubelet.pods.directory import PodFolder
from windlass.localcluster.kubelet.volumes import atomic_writer, host_path, service_account
from windlass.localcluster.kubelet.volumes import files as volume_files
from windlass.localcluster.sandbox.messages import MemoryFolder, NfsFolder
from windlass.model.base import Json

_SUPPORTED = "emptyDir, hostPath, configMap, secret, downwardAPI, projected, persistentVolumeClaim and nfs"


class Sources(msgspec.Struct, frozen=True):
    """Sources of the content of volumes."""

    facts: Facts
    lookup: Lookup
    token: volume_files.Token
    claim: Callable[[str], Json | None]
    """Function from the name of a claim in the pod's namespace to the claim."""
    claim_folder: Callable[[Json], Path]


class PodVolumes(msgspec.Struct, frozen=True):
    paths: dict[str, str]
    """Volume name → path on the machine."""
    mounted: tuple[MemoryFolder | NfsFolder, ...] = ()
    """Volumes that the supervisor mounts in the mount namespace of the pod."""

    def is_mounted(self, name: str) -> bool:
        return any(each.path == self.paths[name] for each in self.mounted)


class VolumeManager:
    """Sets up volumes from objects of the API server, the token of the cluster and the directories of claims."""

    def __init__(
        self, objects: ObjectLookup, host: Host, token: str, claim_folder: Callable[[Json], Path]
    ) -> None:
        self._objects = objects
        self._host = host
        self._token = token
        self._claim_folder = claim_folder

    def prepare(self, pod: Json, folder: PodFolder, facts: Facts) -> PodVolumes:
        return prepare(pod, folder, self._sources(pod, facts), self._host, datetime.now(UTC))

    def refresh(self, pod: Json, folder: PodFolder, facts: Facts) -> bool:
        return refresh(pod, folder, self._sources(pod, facts), self._host, datetime.now(UTC))

    def _sources(self, pod: Json, facts: Facts) -> Sources:
        namespace = pod["metadata"]["namespace"]
        return Sources(
            facts=facts,
            lookup=self._objects.lookup(namespace),
            token=lambda *_: self._token,
            claim=self._objects.claim(namespace),
            claim_folder=self._claim_folder,
        )


class _Setting(msgspec.Struct, frozen=True):
    pod: Json
    folder: PodFolder
    sources: Sources
    host: Host
    now: datetime

    @property
    def group(self) -> int | None:
        """The fsGroup. Only root can change the group of files; any other user owns the volumes anyway."""
        group: int | None = (self.pod["spec"].get("securityContext") or {}).get("fsGroup")
        return group if self.host.is_root else None


_Place = str | MemoryFolder | NfsFolder


def prepare(pod: Json, folder: PodFolder, sources: Sources, host: Host, now: datetime) -> PodVolumes:
    """Create the volumes. Existing content stays, so that a running pod can be prepared again."""
    pod = service_account.with_access(pod) if host.can_mount else pod
    setting = _Setting(pod, folder, sources, host, now)
    places = {volume["name"]: _prepared(volume, setting) for volume in pod["spec"].get("volumes") or ()}
    return PodVolumes(
        {name: place if isinstance(place, str) else place.path for name, place in places.items()},
        tuple(place for place in places.values() if not isinstance(place, str)),
    )


def refresh(pod: Json, folder: PodFolder, sources: Sources, host: Host, now: datetime) -> bool:
    """Rewrite files whose content has changed, and return whether there were any.

    A volume with a missing source stays unchanged; its error is raised after all others have been refreshed.
    """
    pod = service_account.with_access(pod) if host.can_mount else pod
    setting = _Setting(pod, folder, sources, host, now)
    is_changed, refused = False, None
    for volume in filter(volume_files.holds_files, pod["spec"].get("volumes") or ()):
        try:
            is_changed |= _update(volume, setting)
        except SetupError as refusal:
            refused = refused or refusal
    if refused is not None:
        raise refused
    return is_changed


def _prepared(volume: Json, setting: _Setting) -> _Place:
    kind = next((key for key in volume if key != "name"), "emptyDir")
    if kind not in _KINDS:
        problem = f"volume type {kind} is not supported on this cluster. Use {_SUPPORTED}."
        raise errors.failed_mount(volume["name"], problem)
    with disk_errors.reported_as(lambda problem: errors.failed_mount(volume["name"], problem)):
        return _KINDS[kind](volume, setting)


def _empty_folder(volume: Json, setting: _Setting) -> _Place:
    path = setting.folder.volume(volume["name"])
    if not path.is_dir():
        path.mkdir()
        path.chmod(0o777)
        _give_to_group(path, setting.group)
    if not is_in_memory(volume) or not setting.host.can_mount:
        return str(path)
    size = memory_size(volume, setting.pod, setting.sources.facts)
    return MemoryFolder(str(path), size)


def is_in_memory(volume: Json) -> bool:
    return (volume.get("emptyDir") or {}).get("medium") == "Memory"


def memory_size(volume: Json, pod: Json, facts: Facts) -> int | None:
    """Return the minimum of the volume's sizeLimit, the pod's memory limit and the node's memory, as far as known."""
    bounds = [
        _bytes((volume.get("emptyDir") or {}).get("sizeLimit")),
        _memory_limit(pod),
        _bytes(facts.allocatable.get("memory")),
    ]
    return min((bound for bound in bounds if bound), default=None)


def _memory_limit(pod: Json) -> int:
    """Return the memory limit of all containers together; 0 if one of them has no limit."""
    limits = [_limit(container) for container in pod["spec"]["containers"]]
    initial = [_limit(container) for container in pod["spec"].get("initContainers") or ()]
    return max(sum(limits), *initial, 0) if all((*limits, *initial)) else 0


def _limit(container: Json) -> int:
    return _bytes(((container.get("resources") or {}).get("limits") or {}).get("memory"))


def _bytes(written: str | None) -> int:
    return int(quantities.parse(written or "0"))


def _host_path(volume: Json, _: _Setting) -> _Place:
    creation = host_path.creation(volume, _mode)
    path: str = volume["hostPath"]["path"]
    if creation is None:
        return path
    made = Path(creation.path)
    if creation.is_folder:
        made.mkdir(parents=True, exist_ok=True)
    else:
        made.touch()
    made.chmod(creation.mode)
    return path


def _mode(path: str) -> int | None:
    try:
        return Path(path).stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return None


def _files(volume: Json, setting: _Setting) -> _Place:
    _update(volume, setting)
    return str(setting.folder.volume(volume["name"]))


def _update(volume: Json, setting: _Setting) -> bool:
    sources = setting.sources
    files = volume_files.files(volume, setting.pod, sources.lookup, sources.facts, sources.token)
    path = setting.folder.volume(volume["name"])
    with disk_errors.reported_as(lambda problem: errors.failed_mount(volume["name"], problem)):
        return atomic_writer.update(path, files, setting.now, setting.group)


def _claimed(volume: Json, setting: _Setting) -> _Place:
    name = volume["persistentVolumeClaim"]["claimName"]
    claim = setting.sources.claim(name)
    problem = _claim_problem(name, claim)
    if claim is None or problem:
        volume_name, namespace = volume["name"], setting.pod["metadata"]["namespace"]
        message = (
            f"Unable to attach or mount volumes: unmounted volumes=[{volume_name}], unattached volumes=[],"
            f" failed to process volumes=[{volume_name}]: error processing PVC {namespace}/{name}: {problem}"
        )
        raise SetupError(message, errors.FAILED_MOUNT)
    path = setting.sources.claim_folder(claim)
    path.stat()
    _give_to_group(path, setting.group)
    return str(path)


def _claim_problem(name: str, claim: Json | None) -> str:
    if claim is None:
        return f'failed to fetch PVC from API server: persistentvolumeclaims "{name}" not found'
    if "deletionTimestamp" in claim["metadata"]:
        return "PVC is being deleted"
    is_bound = (claim.get("status") or {}).get("phase") == "Bound"
    return "" if is_bound else "PVC is not bound"


def _nfs(volume: Json, setting: _Setting) -> _Place:
    if not setting.host.can_mount:
        problem = f"this machine does not allow mounts for pods ({setting.host.no_mounts_because})"
        raise errors.failed_mount(volume["name"], problem)
    path, source = setting.folder.volume(volume["name"]), volume["nfs"]
    path.mkdir(exist_ok=True)
    return NfsFolder(str(path), source["server"], source["path"], bool(source.get("readOnly")))


def _give_to_group(path: Path, group: int | None) -> None:
    """Give the directory to the group, also everything that is created in it."""
    if group is None:
        return
    os.chown(path, -1, group)
    path.chmod(stat.S_IMODE(path.stat().st_mode) | stat.S_ISGID | stat.S_IRWXG)


_KINDS: dict[str, Callable[[Json, _Setting], _Place]] = {
    "emptyDir": _empty_folder,
    "hostPath": _host_path,
    "configMap": _files,
    "secret": _files,
    "downwardAPI": _files,
    "projected": _files,
    "persistentVolumeClaim": _claimed,
    "nfs": _nfs,
}
