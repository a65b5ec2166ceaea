"""The plan of one run of a container: the data that its supervisor needs to start it, as a `messages.ContainerPlan`.

Planning creates the few files and directories that a run needs, and starts nothing.
"""

import os
import posixpath
import pwd
from collections.abc import Iterator, Mapping
from decimal import ROUND_CEILING
from pathlib import Path, PurePosixPath

import msgspec

from windlass.k8s import quantities
from windlass.localcluster.kubelet.containers import environment as variables
from windlass.localcluster.kubelet.containers import errors, expansion, security
from windlass.localcluster.kubelet.containers.errors import SetupError
from windlass.localcluster.kubelet.containers.facts import Lookup, PodFacts
from windlass.localcluster.kubelet.host import Host
from windlass.localcluster.kubelet.lifecycle import specs
from windlass.localcluster.kubelet.pods import directory
from windlass.localcluster.kubelet.pods.directory import PodDirectory
from windlass.localcluster.kubelet.volumes import files, service_account, setup
from windlass.localcluster.kubelet.volumes.setup import PodVolumes
from windlass.localcluster.sandbox.messages import ContainerPlan, Limits, Mount, User
from windlass.localcluster.sandbox.rootfs import sub_paths
from windlass.model.base import Json

POD_UID_VARIABLE = "WINDLASS_POD"
"""Environment variable with the pod's UID. It identifies processes whose supervisor was killed."""


class PodContext(msgspec.Struct, frozen=True):
    """Values that all containers of a pod have in common."""

    folder: PodDirectory
    volumes: PodVolumes
    facts: PodFacts
    lookup: Lookup
    hostname: str
    host: Host


def plan(
    pod: Json, container: Json, context: PodContext, *, run_id: str, restart_count: int, image: str = ""
) -> ContainerPlan:
    """Return the plan of a run. `image` is the directory of the container's local image, if it has one."""
    host, folder, name = context.host, context.folder, container["name"]
    if host.can_mount:
        pod = service_account.with_volume(pod)
        container = service_account.with_mount(pod, container)
    user = container_user(pod, container, host)
    variables_of_container = variables.environment(pod, container, context.lookup, context.facts)
    argv = arguments(container, variables_of_container)
    workdir = working_directory(container)
    if image and not host.can_mount:
        raise _cannot_mount(f'the files of image "{container.get("image", "")}"', container, host)
    directory.make_run(folder, run_id, name)
    gpus = variables.assigned_gpus(pod, container)
    environment = _environment(pod, container, variables_of_container, user, context)
    environment |= variables.gpu_environment(container, variables_of_container, gpus, host.gpus)
    return ContainerPlan(
        id=run_id,
        name=name,
        argv=tuple(map(_bytes, argv)),
        environment={_bytes(key): _bytes(value) for key, value in environment.items()},
        working_directory=workdir,
        mounts=_mounts(pod, container, variables_of_container, context, run_id),
        log=str(folder.log(name, restart_count)),
        image=image,
        user=user,
        limits=_limits(container, host),
        security=security.restrictions(pod, container, host),
        has_stdin=bool(container.get("stdin")),
        ends_stdin=bool(container.get("stdinOnce")),
        is_terminal=bool(container.get("tty")),
        hidden_devices=host.gpus.hidden_files(gpus) if host.can_mount else (),
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
    expanded: list[str] = []
    size = 0
    for word in words:
        expanded.append(expansion.expand(word, environment))
        size += len(expanded[-1])
        expansion.check_size(size)
    if any("\0" in word for word in expanded):
        raise SetupError(f'the command of container "{name}" contains a NUL byte', errors.CREATE_ERROR)
    return tuple(expanded)


def working_directory(container: Json) -> str:
    """Return `workingDir` or the root directory. Variables in it are not expanded."""
    path: str = container.get("workingDir") or "/"
    if not path.startswith("/"):
        message = f'workingDir "{path}" of container "{container["name"]}" is not an absolute path'
        raise SetupError(message, errors.CREATE_ERROR)
    return _absolute(path)


def _environment(
    pod: Json, container: Json, own: dict[str, str], user: User, context: PodContext
) -> dict[str, str]:
    terminal = {"TERM": "xterm"} if container.get("tty") else {}
    return {
        **terminal,
        **context.host.environment,
        **user_environment(user, context.host),
        "HOSTNAME": context.hostname,
        **own,
        POD_UID_VARIABLE: pod["metadata"]["uid"],
    }


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _limits(container: Json, host: Host) -> Limits:
    limits = (container.get("resources") or {}).get("limits") or {}
    memory = int(quantities.parse(limits.get("memory", "0")))
    milli_cpus = int(quantities.parse(limits.get("cpu", "0")).scaleb(3).to_integral_value(ROUND_CEILING))
    return Limits(memory if memory > 0 else None, host.pids_limit, milli_cpus or None)


# User and groups, from the securityContext


def container_user(pod: Json, container: Json, host: Host) -> User:
    """Return the user of a container. The container's securityContext takes precedence over the pod's."""
    uid, gid = security.setting(pod, container, "runAsUser"), security.setting(pod, container, "runAsGroup")
    _check_non_root(pod, container, uid, host)
    pod_context = pod["spec"].get("securityContext") or {}
    supplemental = tuple(pod_context.get("supplementalGroups") or ())
    if not host.is_root:
        _require_own_user(container, uid, gid, supplemental, host)
        # The volumes belong to this user already, so that fsGroup has no effect.
        return User()
    if uid is not None and gid is None:
        account = _account(uid)
        gid = account.pw_gid if account else 0
    groups = (*supplemental, *(() if pod_context.get("fsGroup") is None else (pod_context["fsGroup"],)))
    return User(uid, gid, tuple(dict.fromkeys(groups)))


def user_environment(user: User, host: Host) -> dict[str, str]:
    """Return HOME, USER and LOGNAME, or nothing if the user is the one who runs the cluster."""
    if user.uid is None or user.uid == host.uid:
        return {}
    account = _account(user.uid)
    home, name = (account.pw_dir, account.pw_name) if account else ("/", str(user.uid))
    return {"HOME": home, "USER": name, "LOGNAME": name}


def _check_non_root(pod: Json, container: Json, uid: int | None, host: Host) -> None:
    will_be_root = (host.uid if uid is None else uid) == 0
    if not will_be_root or not security.setting(pod, container, "runAsNonRoot"):
        return
    problem = (
        "container has runAsNonRoot and image will run as root"
        if uid is None
        else "container's runAsUser breaks non-root policy"
    )
    raise SetupError(f'{problem} (pod: "{specs.full_name(pod)}", container: {container["name"]})')


def _require_own_user(
    container: Json, uid: int | None, gid: int | None, supplemental: tuple[int, ...], host: Host
) -> None:
    """Raise SetupError for another user or group: only root can start processes as another user or group."""
    own_groups = {host.gid, *host.groups}
    fields = [
        *(["runAsUser"] if uid not in (None, host.uid) else []),
        *(["runAsGroup"] if gid not in (None, host.gid) else []),
        *(["supplementalGroups"] if not own_groups.issuperset(supplemental) else []),
    ]
    if fields:
        message = (
            f'container "{container["name"]}" sets {", ".join(fields)}, but this cluster runs as user {host.uid}'
            f" (group {host.gid}), and only root can start processes as another user or group. Remove the setting, or"
            " start the cluster as root."
        )
        raise SetupError(message, errors.CREATE_ERROR)


def _account(uid: int) -> pwd.struct_passwd | None:
    try:
        return pwd.getpwuid(uid)
    except KeyError:
        return None


# Mounts


def _mounts(
    pod: Json, container: Json, environment: dict[str, str], context: PodContext, run_id: str
) -> tuple[Mount, ...]:
    requested = volume_mounts(pod, container, environment)
    if not context.host.can_mount:
        for mount in requested:
            if not _is_shared_memory_of_machine(mount, pod):
                _check_is_in_place(mount, container, context)
        return ()
    own = [_with_source(mount, container, context.volumes) for mount in requested]
    is_read_only = security.restrictions(pod, container, context.host).read_only_root
    own_targets = {mount.target for mount in own}
    shared = _shared_by_containers(pod, context, is_read_only=is_read_only)
    defaults = [mount for mount in shared if mount.target not in own_targets]
    ordered = sorted((*defaults, *own, *_hidden_folders(context.host)), key=_depth)
    termination_log = Mount(str(context.folder.termination_log(run_id)), termination_message_path(container))
    return (*ordered, termination_log)


class VolumeMount(msgspec.Struct, frozen=True):
    volume: str
    sub_path: str
    """Path below the volume; empty for the whole volume."""
    target: str
    read_only: bool


def volume_mounts(pod: Json, container: Json, environment: Mapping[str, str]) -> tuple[VolumeMount, ...]:
    """Return the mounts sorted by the depth of their target, so that a mount inside another one comes after it."""
    volumes = {volume["name"]: volume for volume in pod["spec"].get("volumes") or ()}
    found = []
    for mount in container.get("volumeMounts") or ():
        name = mount["name"]
        if name not in volumes:
            raise SetupError(f'cannot find volume "{name}" to mount into container "{container["name"]}"')
        read_only = bool(mount.get("readOnly")) or _is_read_only(volumes[name])
        target = _absolute(mount["mountPath"])
        found.append(VolumeMount(name, _sub_path(mount, environment), target, read_only))
    return tuple(sorted(found, key=_depth))


def termination_message_path(container: Json) -> str:
    """Return the path of the termination log. It is mounted last, since it may be in a volume."""
    return _absolute(container.get("terminationMessagePath") or "/dev/termination-log")


def _is_read_only(volume: Json) -> bool:
    if files.has_generated_files(volume):
        return True
    # A volume can also be read-only as a whole.
    return any(bool(source.get("readOnly")) for source in volume.values() if isinstance(source, dict))


def _sub_path(mount: Json, environment: Mapping[str, str]) -> str:
    path: str = mount.get("subPath", "")
    expression = mount.get("subPathExpr")
    if expression:
        missing = sorted(
            {name for name in expansion.referenced_names(expression) if not environment.get(name)}
        )
        if missing:
            raise SetupError(f"missing value for {', '.join(missing)}")
        path = expansion.expand(expression, environment)
    if path.startswith("/"):
        raise SetupError(f"error SubPath `{path}` must not be an absolute path")
    if ".." in path.split("/"):
        raise SetupError(f"unable to provision SubPath `{path}`: must not contain '..'")
    clean = posixpath.normpath(path)
    return "" if clean == "." else clean


def _absolute(path: str) -> str:
    return posixpath.normpath(f"/{path.lstrip('/')}")


def _depth(mount: Mount | VolumeMount) -> int:
    """Return the sort key of mounts, so that a mount inside another one comes after it."""
    return len(PurePosixPath(mount.target).parts)


def _shared_by_containers(pod: Json, context: PodContext, *, is_read_only: bool) -> Iterator[Mount]:
    """Yield the mounts of the pod's files in /etc and of its shared memory."""
    folder = context.folder
    yield Mount(str(folder.hosts), "/etc/hosts", is_read_only)
    yield Mount(str(folder.resolv_conf), "/etc/resolv.conf", is_read_only)
    yield Mount(str(folder.hostname), "/etc/hostname", is_read_only)
    shared_memory = setup.shared_memory(pod, folder, context.host)
    if shared_memory is not None:
        yield Mount(shared_memory.path, setup.SHARED_MEMORY_FOLDER)


def _hidden_folders(host: Host) -> list[Mount]:
    """Return the mounts that hide folders of the host. They are left out where a volume hides the folder anyway."""
    return [Mount(host.empty_folder, folder, read_only=True, hides=True) for folder in host.hidden_folders]


def _with_source(mount: VolumeMount, container: Json, volumes: PodVolumes) -> Mount:
    if not volumes.is_mounted(mount.volume):
        _prepare_sub_path(mount, container, volumes)
    return Mount(volumes.paths[mount.volume], mount.target, mount.read_only, mount.sub_path)


def _prepare_sub_path(mount: VolumeMount, container: Json, volumes: PodVolumes) -> None:
    """Create the sub path, to report errors early. Each start opens it again, since containers can change it."""
    if not mount.sub_path:
        return
    try:
        sub_paths.prepare(volumes.paths[mount.volume], mount.sub_path)
    except sub_paths.SubPathError as error:
        what = f'volumeMount "{mount.volume}" of container "{container["name"]}"'
        raise SetupError(f"failed to prepare subPath for {what}: {error}") from error


def _is_shared_memory_of_machine(mount: VolumeMount, pod: Json) -> bool:
    """Return whether the mount is a volume in memory at /dev/shm. The container then uses the machine's /dev/shm."""
    is_there = mount.target == setup.SHARED_MEMORY_FOLDER and Path(mount.target).is_dir()
    return is_there and any(
        volume["name"] == mount.volume and setup.is_in_memory(volume) for volume in pod["spec"]["volumes"]
    )


def _check_is_in_place(mount: VolumeMount, container: Json, context: PodContext) -> None:
    """Raise SetupError unless source and target are the same path. Without a mount, `readOnly` has no effect."""
    source = os.path.realpath(Path(context.volumes.paths[mount.volume]) / mount.sub_path)
    if source != os.path.realpath(mount.target):
        raise _cannot_mount(f'volume "{mount.volume}" at {mount.target}', container, context.host)
    _prepare_sub_path(mount, container, context.volumes)


def _cannot_mount(what: str, container: Json, host: Host) -> SetupError:
    message = (
        f'cannot mount {what} in container "{container["name"]}": this machine does not allow mounts for pods'
        f" ({host.no_mounts_because}). Mount a hostPath volume at its own path, or run the cluster on Linux as root or"
        " with user namespaces enabled."
    )
    return SetupError(message, errors.CREATE_ERROR)
