"""Linux system calls that Python 3.11 does not provide: namespaces, mounts, capabilities, and process attributes.

The module can be imported on any system; a system call that does not exist there fails with ENOSYS. The message of an
OSError names the call.
"""

import ctypes
import errno
import functools
import os
import pathlib
import re
import signal
import struct
import sys

CLONE_NEWNS = 0x00020000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000

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

CAP_NET_ADMIN = 12
CAP_SYS_ADMIN = 21

_MNT_DETACH = 2
_PR_SET_PDEATHSIG = 1
_PR_SET_SECCOMP = 22
_PR_CAPBSET_DROP = 24
_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_NO_NEW_PRIVS = 38
_PR_CAP_AMBIENT = 47
_PR_CAP_AMBIENT_RAISE = 2
_SECCOMP_MODE_FILTER = 2
_SECCOMP_INSTRUCTION_BYTES = 8
_AT_FDCWD = -100
_AT_RECURSIVE = 0x8000
_MOUNT_ATTR_RDONLY = 1
# System call numbers, since the C library has no wrapper.
_PIVOT_ROOT = {"aarch64": 41, "x86_64": 155}
_MOUNT_SETATTR = 442

_CAPABILITY_VERSION = 0x20080522
# Version and PID.
_CapabilityHeader = ctypes.c_uint32 * 2
# Effective, permitted and inheritable capabilities: the lower halves, then the upper halves.
_CapabilitySets = ctypes.c_uint32 * 6


class _SeccompFilter(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_void_p))


_Argument = str | int | None | ctypes.Array[ctypes.c_uint32]


def unshare(flags: int) -> None:
    _call("unshare", flags)


def set_namespace(fd: int, flag: int = 0) -> None:
    """Join the namespace of the descriptor. `flag` restricts its type."""
    _call("setns", fd, flag)


def mount(source: str | None, target: str, filesystem: str | None, flags: int = 0, options: str = "") -> None:
    _call("mount", source, target, filesystem, flags, options or None)


def make_read_only(target: str) -> None:
    """Make a mount and its submounts read-only. Requires Linux 5.12."""
    attributes = struct.pack("=4Q", _MOUNT_ATTR_RDONLY, 0, 0, 0)
    buffer = ctypes.create_string_buffer(attributes, len(attributes))
    arguments = (_AT_FDCWD, target, _AT_RECURSIVE, ctypes.addressof(buffer), len(attributes))
    _call("syscall", _MOUNT_SETATTR, *arguments, label=f"mount_setattr({target})")


def detach(target: str) -> None:
    """Unmount lazily: the kernel cleans up when the mount is no longer in use."""
    _call("umount2", target, _MNT_DETACH)


def pivot_root(new: str, old: str) -> None:
    machine = os.uname().machine
    number = _PIVOT_ROOT.get(machine)
    if number is None:
        raise OSError(errno.ENOSYS, f"pivot_root({new}, {old}): not supported on {machine}")
    _call("syscall", number, new, old, label=f"pivot_root({new}, {old})")


def set_hostname(name: str) -> None:
    _call("sethostname", name, len(os.fsencode(name)))


def set_parent_death_signal() -> None:
    """Kill this process when the thread that forked it ends. A parent that has already ended sends no signal."""
    _call("prctl", _PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0, label="prctl(PR_SET_PDEATHSIG)")


def become_subreaper() -> None:
    """Make orphaned descendants children of this process instead of PID 1."""
    _call("prctl", _PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0, label="prctl(PR_SET_CHILD_SUBREAPER, 1)")


def drop_capabilities() -> None:
    _call("capset", _CapabilityHeader(_CAPABILITY_VERSION, 0), _CapabilitySets(), label="capset")


def bounding_set() -> int:
    """Return the capabilities that this process and its children can have, as a bit mask."""
    status = pathlib.Path("/proc/self/status").read_text(encoding="ascii", errors="replace")
    found = re.search(r"^CapBnd:\s*([0-9a-f]+)$", status, re.MULTILINE)
    return int(found[1], 16) if found else 0


def limit_bounding_set(capabilities: int) -> None:
    """Remove all capabilities but these from the bounding set. Raises PermissionError without CAP_SETPCAP."""
    excess = bounding_set() & ~capabilities
    for number in range(excess.bit_length()):
        if excess >> number & 1:
            _call("prctl", _PR_CAPBSET_DROP, number, 0, 0, 0, label=f"prctl(PR_CAPBSET_DROP, {number})")


def limit_capabilities(capabilities: int) -> None:
    """Drop all capabilities of this process but these, and all inheritable capabilities."""
    header, sets = _CapabilityHeader(_CAPABILITY_VERSION, 0), _CapabilitySets()
    _call("capget", header, sets, label="capget")
    for half in (0, 1):
        kept = capabilities >> 32 * half & 0xFFFFFFFF
        effective, permitted, inheritable = range(3 * half, 3 * half + 3)
        sets[effective] &= kept
        sets[permitted] &= kept
        sets[inheritable] = 0
    _call("capset", header, sets, label="capset")


def forbid_new_privileges() -> None:
    """Prevent programs that this process or its children execute from gaining privileges, e.g. by setuid."""
    _call("prctl", _PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0, label="prctl(PR_SET_NO_NEW_PRIVS, 1)")


def install_seccomp_filter(program: bytes) -> None:
    """Filter the system calls of this process and its children.

    Raises PermissionError without CAP_SYS_ADMIN, unless `forbid_new_privileges` was called.
    """
    instructions = ctypes.create_string_buffer(program, len(program))
    filter_ = _SeccompFilter(len(program) // _SECCOMP_INSTRUCTION_BYTES, ctypes.addressof(instructions))
    arguments = (_SECCOMP_MODE_FILTER, ctypes.addressof(filter_), 0, 0)
    _call("prctl", _PR_SET_SECCOMP, *arguments, label="prctl(PR_SET_SECCOMP)")


def make_ambient(*capabilities: int) -> None:
    """Keep these capabilities across execve. Unless the user is root, execve drops all other capabilities."""
    header, sets = _CapabilityHeader(_CAPABILITY_VERSION, 0), _CapabilitySets()
    _call("capget", header, sets, label="capget")
    sets[2], sets[5] = sets[1], sets[4]
    _call("capset", header, sets, label="capset")
    for capability in capabilities:
        arguments = (_PR_CAP_AMBIENT_RAISE, capability, 0, 0)
        _call("prctl", _PR_CAP_AMBIENT, *arguments, label="prctl(PR_CAP_AMBIENT)")


def map_own_user(uid: int, gid: int, pid: int | str = "self") -> None:
    """Map one user and one group to themselves in a new user namespace. Mapping others requires privileges."""
    for name, line in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
        path = f"/proc/{pid}/{name}"
        try:
            _write(path, line)
        except OSError as error:
            number = error.errno or 0
            raise OSError(number, f"writing {line!r} to {path}: {os.strerror(number)}") from error


def _write(path: str, line: str) -> None:
    # The kernel accepts only a single write to these files.
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, line.encode())
    finally:
        os.close(fd)


@functools.cache
def _library() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _call(name: str, *arguments: _Argument, label: str = "") -> None:
    # On other systems a function of the same name has other arguments (mount on macOS).
    function = getattr(_library(), name, None) if sys.platform == "linux" else None
    number = errno.ENOSYS
    if function is not None:
        if function(*map(_argument, arguments)) == 0:
            return
        number = ctypes.get_errno()
    shown = ", ".join(str(each) for each in arguments if each is not None)
    raise OSError(number, f"{label or f'{name}({shown})'}: {os.strerror(number)}")


def _argument(argument: _Argument) -> ctypes.c_long | bytes | ctypes.Array[ctypes.c_uint32] | None:
    """Convert an argument for ctypes. An integer fills a register, so that the kernel reads no undefined bits."""
    if isinstance(argument, int):
        return ctypes.c_long(argument)
    return os.fsencode(argument) if isinstance(argument, str) else argument


def read_text(file: pathlib.Path) -> str:
    """Return the text of a system file; empty if it does not exist or is not readable."""
    try:
        return file.read_text(errors="replace")
    except OSError:
        return ""
