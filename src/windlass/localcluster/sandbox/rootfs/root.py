"""Build and enter the root of a container, as computed by `layout`.

The calling process must have its own mount namespace and be PID 1 of a PID namespace: when it ends, the kernel kills
the other processes and removes the mounts.
"""

import contextlib
import errno
import os
import pathlib
import stat
from collections.abc import Iterable

import msgspec

from windlass.localcluster.sandbox import kernel, messages
from windlass.localcluster.sandbox.rootfs import layout, sub_paths

# Errors for entries that have vanished, that belong to another user's mount, or that cannot be bind-mounted, like the
# new root itself.
_UNAVAILABLE = {
    errno.ENOENT,
    errno.ENOTDIR,
    errno.EACCES,
    errno.EPERM,
    errno.EINVAL,
    errno.ENOTCONN,
    errno.ESTALE,
}
# Flags that are locked on mounts from a more privileged namespace: a remount without them fails.
_LOCKED = kernel.MS_NOSUID | kernel.MS_NODEV | kernel.MS_NOEXEC


class RootError(Exception):
    """The root of a container cannot be built."""


def build_and_enter(plan: messages.ContainerPlan, scratch: str) -> None:
    """Build the root on the empty directory `scratch`, and make it the root of this process."""
    # New directories must be accessible to any user of the container.
    umask = os.umask(0o022)
    try:
        _build(plan, scratch)
        _enter(scratch)
    except layout.LayoutError as error:
        raise RootError(str(error)) from error
    except OSError as error:
        raise RootError(f"cannot create the root of container {plan.name}: {error}") from error
    finally:
        os.umask(umask)


def _build(plan: messages.ContainerPlan, scratch: str) -> None:
    mounts = tuple(_resolved(mount) for mount in plan.mounts)
    operations = layout.operations(_Machine(), mounts, plan.image, plan.working_directory)
    kernel.mount(None, "/", None, kernel.MS_REC | kernel.MS_PRIVATE)
    kernel.mount("tmpfs", scratch, "tmpfs", kernel.MS_NOSUID | kernel.MS_NODEV, "mode=755")
    # Otherwise the new root would contain itself.
    kernel.mount(None, scratch, None, kernel.MS_UNBINDABLE)
    _mount_proc(scratch + "/proc")
    for operation in operations:
        _apply(operation, scratch)


def _resolved(mount: messages.Mount) -> messages.Mount:
    if not mount.sub_path:
        return mount
    try:
        source = sub_paths.resolve(pathlib.Path(mount.source), mount.sub_path)
    except sub_paths.SubPathError as error:
        raise RootError(f"mounting {mount.sub_path} at {mount.target}: {error}") from error
    return msgspec.structs.replace(mount, source=str(source), sub_path="")


def _apply(operation: layout.Operation, scratch: str) -> None:
    match operation:
        case layout.MakeFolder(path, like):
            _make_folder(pathlib.Path(scratch + path), like)
        case layout.MakeFile(path):
            with contextlib.suppress(FileExistsError):
                os.mknod(scratch + path, stat.S_IFREG | 0o644)
        case layout.MakeLink(path, target):
            pathlib.Path(scratch + path).symlink_to(target)
        case layout.MountTerminals(path):
            _mount_terminals(scratch + path)
        case layout.Bind(source, target, read_only, is_required):
            try:
                _bind(source, scratch + target, read_only)
            except OSError as error:
                if is_required:
                    raise RootError(
                        f"mounting {source} at {target}: {os.strerror(error.errno or 0)}"
                    ) from error
                _leave_out(pathlib.Path(scratch + target), error)


def _make_folder(path: pathlib.Path, like: str) -> None:
    path.mkdir(0o755, exist_ok=True)
    if not like:
        return
    # In a user namespace most owners do not exist.
    with contextlib.suppress(OSError):
        model = pathlib.Path(like).stat()
        path.chmod(stat.S_IMODE(model.st_mode))
        os.chown(path, model.st_uid, model.st_gid)


def _bind(source: str, target: str, read_only: bool) -> None:
    kernel.mount(source, target, None, kernel.MS_BIND | kernel.MS_REC)
    if not read_only:
        return
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
