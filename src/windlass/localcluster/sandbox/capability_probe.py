"""What this machine lets us have: namespaces, with or without one for users, and a /proc of our own.

It is found out by trying, in processes that end at once: what a kernel, a distribution or a container around us forbids
shows nowhere as well as in a refusal.
"""

import os
import pathlib
import sys
from collections.abc import Callable

import msgspec

from windlass.localcluster.sandbox import kernel

_NAMESPACES = kernel.NEW_MOUNTS | kernel.NEW_PID | kernel.NEW_HOSTNAME | kernel.NEW_IPC
Unshare = Callable[[int], None]

# Any folder that every machine has; it is covered for none but the process that tries.
_SOME_FOLDER = "/dev"
# How a machine says that it forbids user namespaces: the setting, and what it is then.
_SWITCHES = {
    "user.max_user_namespaces": "0",
    "kernel.unprivileged_userns_clone": "0",
    "kernel.apparmor_restrict_unprivileged_userns": "1",
}


class Abilities(msgspec.Struct, frozen=True):
    """`can_isolate`: mounts, PIDs and a hostname of one's own; otherwise `reason` says in words why not, and the rest
    means nothing."""

    can_isolate: bool = False
    needs_user_namespace: bool = False
    can_mount_proc: bool = False
    reason: str = ""


def find_out(unshare: Unshare = kernel.unshare) -> Abilities:
    """Forks, so it is for a process with one thread."""
    if sys.platform != "linux":
        return Abilities(reason=f"{sys.platform} has no namespaces")
    return _in_child(lambda: _try_namespaces(unshare))


def _try_namespaces(unshare: Unshare) -> Abilities:
    needs_user_namespace = _enter_namespaces(unshare)
    # A PID namespace begins with the next child.
    found = _in_child(_try_root)
    return (
        msgspec.structs.replace(found, needs_user_namespace=needs_user_namespace)
        if found.can_isolate
        else found
    )


def _enter_namespaces(unshare: Unshare) -> bool:
    """Whether it took a user namespace."""
    uid, gid = os.geteuid(), os.getegid()
    try:
        unshare(_NAMESPACES)
    except PermissionError:
        unshare(_NAMESPACES | kernel.NEW_USER)
        kernel.map_own_user(uid, gid)
        return True
    return False


def _try_root() -> Abilities:
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
    return Abilities(can_isolate=True, can_mount_proc=can_mount_proc)


def _in_child(attempt: Callable[[], Abilities]) -> Abilities:
    """What came of it, in a process that is gone afterwards with all that it changed."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        # Nothing of the parent's may be done twice: no clean-up, no flushing.
        try:
            os.write(writing, msgspec.msgpack.encode(_outcome(attempt)))
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        answer = pipe.read()
    os.waitpid(child, 0)
    if not answer:
        return Abilities(reason="the process that was to try out namespaces ended without an answer")
    return msgspec.msgpack.decode(answer, type=Abilities)


def _outcome(attempt: Callable[[], Abilities]) -> Abilities:
    try:
        return attempt()
    except OSError as error:
        return Abilities(reason="; ".join((error.strerror or str(error), *_switches())))


def _switches() -> list[str]:
    return [f"{name} is {value}" for name, value in _SWITCHES.items() if _setting(name) == value]


def _setting(name: str) -> str:
    try:
        return pathlib.Path("/proc/sys", name.replace(".", "/")).read_text(encoding="utf-8").strip()
    except OSError:
        return ""
