"""Determine which isolation this machine allows: namespaces, with or without a user namespace, and restrictions.

A short-lived child process tries to create them, since a kernel, a distribution or a surrounding container can forbid
them in many ways.
"""

import os
import pathlib
import sys
from collections.abc import Callable

import msgspec

from windlass.localcluster.sandbox import child_process, kernel, messages, seccomp

_NAMESPACES = kernel.CLONE_NEWNS | kernel.CLONE_NEWPID | kernel.CLONE_NEWUTS | kernel.CLONE_NEWIPC
Unshare = Callable[[int], None]

# Any directory that exists on every machine. Only the child process sees the mount on it.
_MOUNT_POINT = "/dev"
# Kernel settings that forbid user namespaces, and their value in that case.
_FORBIDDING_SETTINGS = {
    "user.max_user_namespaces": "0",
    "kernel.unprivileged_userns_clone": "0",
    "kernel.apparmor_restrict_unprivileged_userns": "1",
}


class Capabilities(msgspec.Struct, frozen=True):
    """`can_isolate`: whether pods can have their own mounts, PIDs and hostname. If not, `reason` is the cause."""

    can_isolate: bool = False
    needs_user_namespace: bool = False
    reason: str = ""


def probe(unshare: Unshare = kernel.unshare) -> Capabilities:
    """Return the isolation that the machine allows. This forks: call it in a single-threaded process."""
    if sys.platform != "linux":
        return Capabilities(reason=f"{sys.platform} has no namespaces")
    try:
        needs_user_namespace, _ = child_process.call(lambda: (_try_namespaces(unshare), ()))
    except OSError as error:
        settings = [
            f"{name} is {value}" for name, value in _FORBIDDING_SETTINGS.items() if _setting(name) == value
        ]
        return Capabilities(reason="; ".join((error.strerror or str(error), *settings)))
    return Capabilities(can_isolate=True, needs_user_namespace=bool(needs_user_namespace))


def _try_namespaces(unshare: Unshare) -> bytes:
    """Create namespaces and a root directory in them. Return b"user" if a user namespace was needed, otherwise b""."""
    uid, gid, extra = os.geteuid(), os.getegid(), b""
    try:
        unshare(_NAMESPACES)
    except PermissionError:
        unshare(_NAMESPACES | kernel.CLONE_NEWUSER)
        kernel.map_own_user(uid, gid)
        extra = b"user"
    # The new PID namespace starts with the next child.
    child_process.call(lambda: (_try_root(), ()))
    return extra


def probe_security(*, has_namespaces: bool) -> messages.Security:
    """Return the restrictions that this machine can apply. This forks: call it in a single-threaded process."""
    if sys.platform != "linux":
        return messages.Security()
    return messages.Security(
        no_new_privileges=True,
        read_only_root=has_namespaces and _works(_try_read_only_mount),
        has_seccomp_filter=_works(_try_seccomp_filter),
        # Programs of other users have no capabilities.
        capabilities=kernel.bounding_set() if os.geteuid() == 0 else 0,
    )


def _works(attempt: Callable[[], None]) -> bool:
    def work() -> tuple[bytes, tuple[int, ...]]:
        attempt()
        return b"", ()

    try:
        child_process.call(work)
    except OSError:
        return False
    return True


def _try_read_only_mount() -> None:
    kernel.unshare(kernel.CLONE_NEWNS)
    kernel.mount(None, "/", None, kernel.MS_REC | kernel.MS_PRIVATE)
    kernel.mount("tmpfs", _MOUNT_POINT, "tmpfs")
    kernel.make_read_only(_MOUNT_POINT)


def _try_seccomp_filter() -> None:
    kernel.forbid_new_privileges()
    kernel.install_seccomp_filter(seccomp.program(os.uname().machine, 0))


def _try_root() -> bytes:
    kernel.set_parent_death_signal()
    kernel.set_hostname("windlass")
    kernel.mount(None, "/", None, kernel.MS_REC | kernel.MS_PRIVATE)
    kernel.mount("tmpfs", _MOUNT_POINT, "tmpfs")
    os.chdir(_MOUNT_POINT)
    kernel.pivot_root(".", ".")
    return b""


def _setting(name: str) -> str:
    try:
        return pathlib.Path("/proc/sys", name.replace(".", "/")).read_text(encoding="utf-8").strip()
    except OSError:
        return ""
