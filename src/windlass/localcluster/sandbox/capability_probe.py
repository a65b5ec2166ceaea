"""Find out which isolation this machine allows: namespaces with or without a user namespace, and a new /proc.

A short-lived child process tries it out, since a kernel, a distribution or a surrounding container can forbid it in
many ways.
"""

import os
import pathlib
import sys
from collections.abc import Callable

import msgspec

from windlass.localcluster.sandbox import kernel

_NAMESPACES = kernel.NEW_MOUNTS | kernel.NEW_PID | kernel.NEW_HOSTNAME | kernel.NEW_IPC
Unshare = Callable[[int], None]

# Any directory that exists on every machine. Only the child process sees the mount on it.
_SOME_FOLDER = "/dev"
# Kernel settings that forbid user namespaces, and their value in that case.
_SWITCHES = {
    "user.max_user_namespaces": "0",
    "kernel.unprivileged_userns_clone": "0",
    "kernel.apparmor_restrict_unprivileged_userns": "1",
}


class Capabilities(msgspec.Struct, frozen=True):
    """`can_isolate`: pods can have their own mounts, PIDs and hostname. Otherwise `reason` says why not."""

    can_isolate: bool = False
    needs_user_namespace: bool = False
    can_mount_proc: bool = False
    reason: str = ""


def find_out(unshare: Unshare = kernel.unshare) -> Capabilities:
    """Return what the machine allows. This forks: call it in a process with one thread."""
    if sys.platform != "linux":
        return Capabilities(reason=f"{sys.platform} has no namespaces")
    return _in_child(lambda: _try_namespaces(unshare))


def _try_namespaces(unshare: Unshare) -> Capabilities:
    needs_user_namespace = _enter_namespaces(unshare)
    # The new PID namespace starts with the next child.
    found = _in_child(_try_root)
    return (
        msgspec.structs.replace(found, needs_user_namespace=needs_user_namespace)
        if found.can_isolate
        else found
    )


def _enter_namespaces(unshare: Unshare) -> bool:
    """Enter new namespaces, and return whether a user namespace was needed."""
    uid, gid = os.geteuid(), os.getegid()
    try:
        unshare(_NAMESPACES)
    except PermissionError:
        unshare(_NAMESPACES | kernel.NEW_USER)
        kernel.map_own_user(uid, gid)
        return True
    return False


def _try_root() -> Capabilities:
    kernel.end_with_parent()
    kernel.set_hostname("windlass")
    kernel.mount(None, "/", None, kernel.MS_REC | kernel.MS_PRIVATE)
    kernel.mount("tmpfs", _SOME_FOLDER, "tmpfs")
    proc = pathlib.Path(_SOME_FOLDER, "proc")
    proc.mkdir()
    try:
        kernel.mount("proc", str(proc), "proc")
        can_mount_proc = True
    except OSError:
        can_mount_proc = False
    os.chdir(_SOME_FOLDER)
    kernel.pivot_root(".", ".")
    return Capabilities(can_isolate=True, can_mount_proc=can_mount_proc)


def _in_child(attempt: Callable[[], Capabilities]) -> Capabilities:
    """Return the result of an attempt in a child process, so that its changes do not persist."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        # No clean-up and no flushing of what belongs to the parent.
        try:
            os.write(writing, msgspec.msgpack.encode(_result(attempt)))
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        answer = pipe.read()
    os.waitpid(child, 0)
    if not answer:
        return Capabilities(reason="the process that tests namespaces has crashed")
    return msgspec.msgpack.decode(answer, type=Capabilities)


def _result(attempt: Callable[[], Capabilities]) -> Capabilities:
    try:
        return attempt()
    except OSError as error:
        return Capabilities(reason="; ".join((error.strerror or str(error), *_switches())))


def _switches() -> list[str]:
    return [f"{name} is {value}" for name, value in _SWITCHES.items() if _setting(name) == value]


def _setting(name: str) -> str:
    try:
        return pathlib.Path("/proc/sys", name.replace(".", "/")).read_text(encoding="utf-8").strip()
    except OSError:
        return ""
