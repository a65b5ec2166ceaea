"""Build and enter the root of a container, as computed by `layout`.

The calling process must have its own mount namespace and be PID 1 of a PID namespace: when it ends, the kernel kills
the other processes and removes the mounts.

Other containers can change volumes and files of the host at any time. `layout` has resolved all links. A link in a path
is therefore a later change: paths are opened without following links, and their descriptors are mounted.
"""

import contextlib
import errno
import os
import pathlib
import posixpath
import stat
from collections.abc import Iterable, Iterator

import msgspec

from windlass.localcluster.sandbox import kernel, messages
from windlass.localcluster.sandbox.rootfs import descriptors, layout, sub_paths

# Errors for entries that have vanished, that belong to another user's mount, or that cannot be bind-mounted, like the
# new root itself.
_UNAVAILABLE = {
    errno.ENOENT,
    errno.ENOTDIR,
    errno.EACCES,
    errno.EPERM,
    errno.EINVAL,
    errno.ELOOP,
    errno.ENOTCONN,
    errno.ESTALE,
}
# Flags that are locked on mounts from a more privileged namespace: a remount without them fails.
_LOCKED = kernel.MS_NOSUID | kernel.MS_NODEV | kernel.MS_NOEXEC
_ROOT_FLAGS = kernel.MS_NOSUID | kernel.MS_NODEV
# Settings of the machine. Container runtimes make the same paths read-only.
_READ_ONLY_IN_PROC = ("bus", "fs", "irq", "sys", "sysrq-trigger")


class RootError(Exception):
    """The root of a container cannot be built."""


def build_and_enter(plan: messages.ContainerPlan, scratch: str) -> None:
    """Build the root on the empty directory `scratch`, and make it the root of this process."""
    # New directories must be accessible to any user of the container.
    umask = os.umask(0o022)
    try:
        _build(plan, scratch)
        _enter(scratch)
        if plan.security.read_only_root:
            kernel.mount(None, "/", None, kernel.MS_REMOUNT | kernel.MS_BIND | kernel.MS_RDONLY | _ROOT_FLAGS)
    except layout.LayoutError as error:
        raise RootError(str(error)) from error
    except OSError as error:
        raise RootError(f"cannot create the root of container {plan.name}: {error}") from error
    finally:
        os.umask(umask)


def _build(plan: messages.ContainerPlan, scratch: str) -> None:
    with contextlib.ExitStack() as opened:
        volumes = [_opened_volume(mount, opened) for mount in plan.mounts]
        is_restricted = plan.security.capabilities is not None
        operations = layout.operations(
            _Machine(),
            [mount for mount, _ in volumes],
            plan.image and os.path.realpath(plan.image),
            plan.working_directory,
            is_read_only=plan.security.read_only_root,
            is_restricted=is_restricted,
            hidden_devices=plan.hidden_devices,
        )
        kernel.mount(None, "/", None, kernel.MS_REC | kernel.MS_PRIVATE)
        kernel.mount("tmpfs", scratch, "tmpfs", _ROOT_FLAGS, "mode=755")
        # Otherwise the new root would contain itself.
        kernel.mount(None, scratch, None, kernel.MS_UNBINDABLE)
        _mount_proc(scratch + "/proc")
        if is_restricted or plan.security.read_only_root:
            _protect_proc(scratch + "/proc")
        new_root = _NewRoot(scratch, {mount.source: path for mount, path in volumes}, opened)
        for operation in operations:
            new_root.apply(operation)


def _opened_volume(mount: messages.Mount, opened: contextlib.ExitStack) -> tuple[messages.Mount, str]:
    """Return the mount with its full source, and the path to mount."""
    if not mount.sub_path:
        return mount, mount.source
    try:
        descriptor = sub_paths.open_path(mount.source, mount.sub_path)
    except sub_paths.SubPathError as error:
        raise RootError(f"mounting {mount.sub_path} at {mount.target}: {error}") from error
    opened.callback(os.close, descriptor)
    full = msgspec.structs.replace(mount, source=f"{mount.source}/{mount.sub_path}", sub_path="")
    return full, _path(descriptor)


class _NewRoot:
    """The root that is being built. `volumes` contains the path to mount for each source."""

    def __init__(self, scratch: str, volumes: dict[str, str], opened: contextlib.ExitStack) -> None:
        self._scratch = scratch
        self._volumes = volumes
        self._root = os.open("/", descriptors.FLAGS)
        opened.callback(os.close, self._root)
        self._top = os.open(scratch, descriptors.FLAGS)
        opened.callback(os.close, self._top)

    def apply(self, operation: layout.Operation) -> None:
        match operation:
            case layout.MakeFolder(path, like):
                self._make_folder(path, like)
            case layout.MakeFile(path):
                with self._parent(path) as folder, contextlib.suppress(FileExistsError):
                    os.mknod(posixpath.basename(path), stat.S_IFREG | 0o644, dir_fd=folder)
            case layout.MakeLink(path, target):
                pathlib.Path(self._scratch + path).symlink_to(target)
            case layout.MountTerminals(path):
                _mount_terminals(self._scratch + path)
            case layout.Bind(source, target, read_only, is_required):
                try:
                    self._bind(source, target, read_only)
                except OSError as error:
                    if is_required:
                        raise RootError(
                            f"mounting {source} at {target}: {os.strerror(error.errno or 0)}"
                        ) from error
                    _leave_out(pathlib.Path(self._scratch + target), error)

    def _make_folder(self, path: str, like: str) -> None:
        with self._parent(path) as folder, contextlib.suppress(FileExistsError):
            os.mkdir(posixpath.basename(path), 0o755, dir_fd=folder)
        if like:
            _copy_attributes(like, self._scratch + path)

    def _bind(self, source: str, target: str, read_only: bool) -> None:
        with contextlib.ExitStack() as opened:
            path = self._volumes.get(source)
            if path is None:
                path = _path(opened.enter_context(_opened(self._root, source)))
            place = opened.enter_context(_opened(self._top, target))
            kernel.mount(path, _path(place), None, kernel.MS_BIND | kernel.MS_REC)
            if read_only:
                # Open the path again: it leads to the new mount now, or else the kernel reports EINVAL.
                _make_read_only(_path(opened.enter_context(_opened(self._top, target))))

    def _parent(self, path: str) -> contextlib.AbstractContextManager[int]:
        return _opened(self._top, posixpath.dirname(path))


@contextlib.contextmanager
def _opened(top: int, path: str) -> Iterator[int]:
    descriptor = descriptors.open_without_links(top, path)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _path(descriptor: int) -> str:
    """Return a path for system calls that accept no descriptor."""
    return f"/proc/self/fd/{descriptor}"


def _copy_attributes(like: str, path: str) -> None:
    # In a user namespace most owners do not exist.
    with contextlib.suppress(OSError):
        model = pathlib.Path(like).stat()
        pathlib.Path(path).chmod(stat.S_IMODE(model.st_mode))
        os.chown(path, model.st_uid, model.st_gid)


def _make_read_only(target: str) -> None:
    try:
        kernel.make_read_only(target)
        return
    except OSError as error:
        # EPERM: Windlass itself runs in a container whose seccomp filter does not know the system call.
        if error.errno not in (errno.ENOSYS, errno.EPERM):
            raise
    # On kernels before 5.12, submounts stay writable.
    locked = os.statvfs(target).f_flag & _LOCKED
    kernel.mount(None, target, None, kernel.MS_REMOUNT | kernel.MS_BIND | kernel.MS_RDONLY | locked)


def _leave_out(path: pathlib.Path, error: OSError) -> None:
    if error.errno not in _UNAVAILABLE:
        raise error
    if path.is_dir():
        path.rmdir()
    else:
        path.unlink()


def _mount_proc(path: str) -> None:
    pathlib.Path(path).mkdir(0o755)
    try:
        kernel.mount("proc", path, "proc", kernel.MS_NOSUID | kernel.MS_NODEV | kernel.MS_NOEXEC)
    except OSError:
        # A container in which the cluster runs may forbid this. The host's /proc shows too many processes, but works.
        kernel.mount("/proc", path, None, kernel.MS_BIND | kernel.MS_REC)


def _protect_proc(path: str) -> None:
    for name in _READ_ONLY_IN_PROC:
        with contextlib.suppress(FileNotFoundError):
            kernel.mount(f"{path}/{name}", f"{path}/{name}", None, kernel.MS_BIND | kernel.MS_REC)
            _make_read_only(f"{path}/{name}")


def _mount_terminals(path: str) -> None:
    flags = kernel.MS_NOSUID | kernel.MS_NOEXEC
    try:
        kernel.mount("devpts", path, "devpts", flags, "newinstance,ptmxmode=0666,mode=0620")
    except OSError:
        # Use the terminals of the host.
        kernel.mount("/dev/pts", path, None, kernel.MS_BIND | kernel.MS_REC)


def _enter(scratch: str) -> None:
    os.chdir(scratch)
    # The old root is stacked on the new one and unmounted, so that it needs no directory.
    kernel.pivot_root(".", ".")
    kernel.detach(".")
    os.chdir("/")
    kernel.mount(None, "/", None, kernel.MS_PRIVATE)


class _Machine:
    """The real file system, as a layout.Host."""

    def kind(self, path: str) -> layout.Kind | None:
        try:
            return _kind(os.lstat(path).st_mode)
        except OSError:
            return None

    def kind_following_links(self, path: str) -> layout.Kind | None:
        try:
            return _kind(pathlib.Path(path).stat().st_mode)
        except OSError:
            return None

    def read_link(self, path: str) -> str:
        try:
            return str(pathlib.Path(path).readlink())
        except OSError:
            return ""

    def entries(self, folder: str) -> Iterable[tuple[str, layout.Kind]]:
        with os.scandir(folder) as found:
            return [(entry.name, _kind_of_entry(entry)) for entry in found]


def _kind(mode: int) -> layout.Kind:
    if stat.S_ISDIR(mode):
        return layout.Kind.FOLDER
    return layout.Kind.LINK if stat.S_ISLNK(mode) else layout.Kind.FILE


def _kind_of_entry(entry: os.DirEntry[str]) -> layout.Kind:
    # The directory entry contains the type: no stat is needed.
    if entry.is_symlink():
        return layout.Kind.LINK
    return layout.Kind.FOLDER if entry.is_dir(follow_symlinks=False) else layout.Kind.FILE
