"""The plan of one run of a container: what its supervisor must know to start it, as a `messages.ContainerPlan`.

Planning creates the few files and directories that a run needs, and starts nothing.
"""

import os
import posixpath
from collections.abc import Iterable, Mapping
from decimal import ROUND_CEILING
from pathlib import Path, PurePosixPath

import msgspec

from windlass.k8s import quantities
from windlass.localcluster.kubelet.containers import environment as variables
from windlass.localcluster.kubelet.containers import errors, expansion, users
from windlass.localcluster.kubelet.containers.errors import SetupError
from windlass.localcluster.kubelet.containers.facts import Facts, Lookup
from windlass.localcluster.kubelet.host import Host
from windlass.localcluster.kubelet.pods import directory
from windlass.localcluster.kubelet.pods.directory import PodFolder
from windlass.localcluster.kubelet.volumes import mounts, service_account
from windlass.localcluster.kubelet.volumes.setup import PodVolumes
from windlass.localcluster.sandbox.messages import ContainerPlan, Limits, Mount, User
from windlass.localcluster.sandbox.rootfs import sub_paths
from windlass.model.base import Json

MARKER = "WINDLASS_POD"
"""Environment variable with the pod's UID. It identifies processes whose supervisor was killed."""


class Setting(msgspec.Struct, frozen=True):
    """Values that all containers of a pod have in common."""

    folder: PodFolder
    volumes: PodVolumes
    facts: Facts
    lookup: Lookup
    hostname: str
    host: Host


def plan(
    pod: Json, container: Json, setting: Setting, *, run_id: str, restart_count: int, image: str = ""
) -> ContainerPlan:
    """Return the plan of a run. `image` is the directory of the container's local image, if it has one."""
    host, folder, name = setting.host, setting.folder, container["name"]
    if host.can_mount:
        pod = service_account.with_access(pod)
        container = service_account.container_of(pod, container)
    user = users.user(pod, container, host)
    own = variables.environment(pod, container, setting.lookup, setting.facts)
    argv = arguments(container, own)
    workdir = working_directory(container)
    if image and not host.can_mount:
        raise _cannot_mount(f'the files of image "{container.get("image", "")}"', container, host)
    directory.make_run(folder, run_id, name)
    environment = _environment(pod, container, own, user, setting)
    return ContainerPlan(
        id=run_id,
        name=name,
        argv=tuple(map(_bytes, argv)),
        environment={_bytes(key): _bytes(value) for key, value in environment.items()},
        working_directory=workdir,
        mounts=_mounts(pod, container, own, setting, run_id),
        log=str(folder.log(name, restart_count)),
        image=image,
        user=user,
        limits=_limits(container, host),
        has_stdin=bool(container.get("stdin")),
        ends_stdin=bool(container.get("stdinOnce")),
        is_terminal=bool(container.get("tty")),
    )


def arguments(container: Json, environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return `command` and `args` with variables expanded. Images are not pulled: there is no ENTRYPOINT."""
    words = (*(container.get("command") or ()), *(container.get("args") or ()))
    name = container["name"]
    if not words:
        message = (
            f'no command specified for container "{name}": images are not pulled on this cluster, so there is no'
            " entrypoint. Set command."
        )
        raise SetupError(message, errors.CREATE_ERROR)
    expanded = tuple(expansion.expand(word, environment) for word in words)
    if any("\0" in word for word in expanded):
        raise SetupError(f'the command of container "{name}" contains a NUL byte', errors.CREATE_ERROR)
    return expanded


def working_directory(container: Json) -> str:
    """Return `workingDir` or the root directory. Variables in it are not expanded."""
    written: str = container.get("workingDir") or "/"
    if not written.startswith("/"):
        message = f'workingDir "{written}" of container "{container["name"]}" is not an absolute path'
        raise SetupError(message, errors.CREATE_ERROR)
    return posixpath.normpath(f"/{written.lstrip('/')}")


def _environment(
    pod: Json, container: Json, own: dict[str, str], user: User, setting: Setting
) -> dict[str, str]:
    terminal = {"TERM": "xterm"} if container.get("tty") else {}
    return {
        **terminal,
        **setting.host.environment,
        **users.environment(user, setting.host),
        "HOSTNAME": setting.hostname,
        **own,
        **variables.gpu_environment(pod, container, own, setting.host.gpu_ids),
        MARKER: pod["metadata"]["uid"],
    }


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _limits(container: Json, host: Host) -> Limits:
    limits = (container.get("resources") or {}).get("limits") or {}
    memory = int(quantities.parse(limits.get("memory", "0")))
    milli = int(quantities.parse(limits.get("cpu", "0")).scaleb(3).to_integral_value(ROUND_CEILING))
    return Limits(memory if memory > 0 else None, host.pids_limit, milli or None)


# Mounts


def _mounts(
    pod: Json, container: Json, environment: dict[str, str], setting: Setting, run_id: str
) -> tuple[Mount, ...]:
    requested = mounts.mounts(pod, container, environment)
    if not setting.host.can_mount:
        for mount in requested:
            _check_is_in_place(mount, container, setting)
        return ()
    own = [_with_source(mount, container, setting.volumes) for mount in requested]
    # A mount inside another one comes after it.
    ordered = sorted((*_shared_files(setting.folder, own), *own), key=lambda mount: _depth(mount.target))
    message = Mount(str(setting.folder.termination_log(run_id)), mounts.termination_message_path(container))
    return (*ordered, message)


def _shared_files(folder: PodFolder, own: Iterable[Mount]) -> list[Mount]:
    """Return the mounts of the pod's files in /etc, except where the container mounts something else."""
    taken = {mount.target for mount in own}
    files = {
        "/etc/hosts": folder.hosts,
        "/etc/resolv.conf": folder.resolv_conf,
        "/etc/hostname": folder.hostname,
    }
    return [Mount(str(path), target) for target, path in files.items() if target not in taken]


def _depth(target: str) -> int:
    return len(PurePosixPath(target).parts)


def _with_source(mount: mounts.Mount, container: Json, volumes: PodVolumes) -> Mount:
    if volumes.is_mounted(mount.source_volume):
        return Mount(volumes.paths[mount.source_volume], mount.target, mount.read_only, mount.sub_path)
    return Mount(_source(mount, container, volumes), mount.target, mount.read_only)


def _source(mount: mounts.Mount, container: Json, volumes: PodVolumes) -> str:
    volume = volumes.paths[mount.source_volume]
    if not mount.sub_path:
        return volume
    try:
        return str(sub_paths.inside(Path(volume), mount.sub_path))
    except sub_paths.OutsideError as error:
        what = f'volumeMount "{mount.source_volume}" of container "{container["name"]}"'
        raise SetupError(f"failed to prepare subPath for {what}: {error}") from error


def _check_is_in_place(mount: mounts.Mount, container: Json, setting: Setting) -> None:
    """Accept a mount only if source and target are the same path: it needs no mount, though it stays writable."""
    source = os.path.realpath(Path(setting.volumes.paths[mount.source_volume]) / mount.sub_path)
    if source != os.path.realpath(mount.target):
        raise _cannot_mount(f'volume "{mount.source_volume}" at {mount.target}', container, setting.host)
    _source(mount, container, setting.volumes)


def _cannot_mount(what: str, container: Json, host: Host) -> SetupError:
    message = (
        f'cannot mount {what} in container "{container["name"]}": this machine does not allow mounts for pods'
        f" ({host.no_mounts_because}). Mount a hostPath volume at its own path, or run the cluster on Linux as root or"
        " with user namespaces enabled."
    )
    return SetupError(message, errors.CREATE_ERROR)
