"""The calls of the Linux kernel that Python 3.11 does not have: namespaces, mounts, and a few words about processes.

Each call is the kernel's own, no more; what they are used for lives elsewhere. The module can be imported anywhere; a
call that a system does not have fails there as on a kernel without it. A failure says what was called on what.
"""

import ctypes
import errno
import functools
import os
import signal
import sys

NEW_MOUNTS = 0x00020000
NEW_HOSTNAME = 0x04000000
NEW_IPC = 0x08000000
NEW_USER = 0x10000000
NEW_PID = 0x20000000
NEW_NETWORK = 0x40000000

MS_RDONLY = 1
MS_NOSUID = 2
MS_NODEV = 4
MS_NOEXEC = 8
MS_REMOUNT = 32
MS_BIND = 4096
MS_REC = 16384
MS_UNBINDABLE = 1 << 17
MS_PRIVATE = 1 << 18
MS_SLAVE = 1 << 19

_MNT_DETACH = 2
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
# The C library has no function of its own for this one.
_PIVOT_ROOT = {"aarch64": 41, "x86_64": 155}


def unshare(flags: int) -> None:
    _call("unshare", flags)


def set_namespace(fd: int, flag: int = 0) -> None:
    """Join the namespace that `fd` is of; with a flag, only if it is of that kind."""
    _call("setns", fd, flag)


def mount(source: str | None, target: str, kind: str | None, flags: int = 0, options: str = "") -> None:
    _call("mount", source, target, kind, flags, options or None)


def unmount(target: str, lazily: bool = False) -> None:
    """Lazily: gone from view at once, and gone indeed when nobody uses it any more."""
    _call("umount2", target, _MNT_DETACH if lazily else 0)


def pivot_root(new: str, old: str) -> None:
    machine = os.uname().machine
    number = _PIVOT_ROOT.get(machine)
    if number is None:
        raise OSError(errno.ENOSYS, f"pivot_root({new}, {old}): its number on {machine} is not known")
    _call("syscall", number, new, old, said=f"pivot_root({new}, {old})")


def set_hostname(name: str) -> None:
    _call("sethostname", name, len(os.fsencode(name)))


def end_with_parent(number: int = signal.SIGKILL) -> None:
    """The signal comes when the thread that forked this process ends; a parent that has ended already sends none."""
    _call("prctl", _PR_SET_PDEATHSIG, int(number), 0, 0, 0, said=f"prctl(PR_SET_PDEATHSIG, {number})")


def adopt_orphans() -> None:
    """Descendants whose parent ends become children of this process, and not of the machine's first."""
    _call("prctl", _PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0, said="prctl(PR_SET_CHILD_SUBREAPER, 1)")


def map_own_user(uid: int, gid: int, pid: int | str = "self") -> None:
    """In a new user namespace: one user and one group, each itself. An unprivileged process may map no others."""
    for name, line in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
        path = f"/proc/{pid}/{name}"
        try:
            _write(path, line)
        except OSError as error:
            number = error.errno or 0
            raise OSError(number, f"writing {line!r} to {path}: {os.strerror(number)}") from error


def _write(path: str, line: str) -> None:
    # One write, as the kernel wants of these files.
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, line.encode())
    finally:
        os.close(fd)


@functools.cache
def _library() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _call(name: str, *arguments: str | int | None, said: str = "") -> None:
    # A function of the same name elsewhere (mount on macOS) takes other arguments.
    function = getattr(_library(), name, None) if sys.platform == "linux" else None
    number = errno.ENOSYS
    if function is not None:
        if function(*map(_word, arguments)) == 0:
            return
        number = ctypes.get_errno()
    words = ", ".join(str(each) for each in arguments if each is not None)
    raise OSError(number, f"{said or f'{name}({words})'}: {os.strerror(number)}")


def _word(argument: str | int | None) -> ctypes.c_long | bytes | None:
    """In a whole register: what the kernel reads of it is never more than what was meant."""
    if argument is None:
        return None
    return os.fsencode(argument) if isinstance(argument, str) else ctypes.c_long(argument)
