"""The seccomp filter of the profile RuntimeDefault, as a BPF program.

Like the filters of container runtimes, it denies system calls that change the machine or that reach rarely used parts
of the kernel, unless the process has the capability that they require. All other system calls are allowed, so that new
ones work.
"""

import errno
import struct
from collections.abc import Iterator

from windlass.localcluster.sandbox import kernel

_SYS_ADMIN = 1 << kernel.CAP_SYS_ADMIN
_CLONE3 = 435
# The flags of clone that create namespaces (CLONE_NEW…).
_CLONE_NAMESPACES = 0x7E020000
# On x86_64, the system calls of the x32 ABI have this bit.
_X32_BIT = 0x40000000

# Machine → value of `arch` in seccomp_data, number of clone, column in `_DENIED`.
_MACHINES = {"x86_64": (0xC000003E, 56, 0), "aarch64": (0xC00000B7, 220, 1)}

# Capability that allows the system calls (None: they are always denied) → name → numbers on x86_64 and on aarch64.
_DENIED: dict[int | None, dict[str, tuple[int | None, int | None]]] = {
    None: {
        "_sysctl": (156, None),
        "add_key": (248, 217),
        "create_module": (174, None),
        "get_kernel_syms": (177, None),
        "io_uring_enter": (426, 426),
        "io_uring_register": (427, 427),
        "io_uring_setup": (425, 425),
        "kexec_file_load": (320, 294),
        "kexec_load": (246, 104),
        "keyctl": (250, 219),
        "nfsservctl": (180, 42),
        "pivot_root": (155, 41),
        "query_module": (178, None),
        "request_key": (249, 218),
        "swapoff": (168, 225),
        "swapon": (167, 224),
        "sysfs": (139, None),
        "uselib": (134, None),
        "userfaultfd": (323, 282),
        "ustat": (136, None),
    },
    2: {"open_by_handle_at": (304, 265)},  # CAP_DAC_READ_SEARCH
    16: {  # CAP_SYS_MODULE
        "delete_module": (176, 106),
        "finit_module": (313, 273),
        "init_module": (175, 105),
    },
    17: {"ioperm": (173, None), "iopl": (172, None)},  # CAP_SYS_RAWIO
    20: {"acct": (163, 89)},  # CAP_SYS_PACCT
    kernel.CAP_SYS_ADMIN: {
        "bpf": (321, 280),
        "fanotify_init": (300, 262),
        "fsconfig": (431, 431),
        "fsmount": (432, 432),
        "fsopen": (430, 430),
        "fspick": (433, 433),
        "lookup_dcookie": (212, 18),
        "mount": (165, 40),
        "mount_setattr": (442, 442),
        "move_mount": (429, 429),
        "open_tree": (428, 428),
        "open_tree_attr": (467, 467),
        "perf_event_open": (298, 241),
        "quotactl": (179, 60),
        "quotactl_fd": (443, 443),
        "setdomainname": (171, 162),
        "sethostname": (170, 161),
        "setns": (308, 268),
        "syslog": (103, 116),
        "umount2": (166, 39),
        "unshare": (272, 97),
    },
    22: {"reboot": (169, 142)},  # CAP_SYS_BOOT
    25: {"clock_settime": (227, 112), "settimeofday": (164, 170)},  # CAP_SYS_TIME
    26: {"vhangup": (153, 58)},  # CAP_SYS_TTY_CONFIG
}

# Offsets in seccomp_data.
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT = 0, 4, 16
# Operations of BPF.
_LOAD, _RETURN = 0x20, 0x06
_IF_EQUAL, _IF_GREATER_OR_EQUAL, _IF_ANY_BIT = 0x15, 0x35, 0x45
_ALLOW, _FAIL = 0x7FFF0000, 0x00050000


def program(machine: str, capabilities: int) -> bytes:
    """Return the filter for processes with these capabilities (a bit mask). Raises OSError for an unknown machine."""
    if machine not in _MACHINES:
        raise OSError(errno.ENOSYS, f"no seccomp filter for {machine}")
    return b"".join(_instructions(*_MACHINES[machine], capabilities))


def _instructions(architecture: int, clone: int, column: int, capabilities: int) -> Iterator[bytes]:
    yield _instruction(_LOAD, _ARCHITECTURE)
    # Other ABIs, e.g. that of 32-bit programs, number system calls differently.
    yield _instruction(_IF_EQUAL, architecture, if_true=1)
    yield _instruction(_RETURN, _FAIL | errno.ENOSYS)
    yield _instruction(_LOAD, _NUMBER)
    yield _instruction(_IF_GREATER_OR_EQUAL, _X32_BIT, if_false=1)
    yield _instruction(_RETURN, _FAIL | errno.ENOSYS)
    for capability, calls in _DENIED.items():
        if capability is not None and capabilities >> capability & 1:
            continue
        for numbers in calls.values():
            number = numbers[column]
            if number is not None:
                yield _instruction(_IF_EQUAL, number, if_false=1)
                yield _instruction(_RETURN, _FAIL | errno.EPERM)
    if not capabilities & _SYS_ADMIN:
        # The flags of clone3 are in memory, which a filter cannot read. C libraries use clone after ENOSYS.
        yield _instruction(_IF_EQUAL, _CLONE3, if_false=1)
        yield _instruction(_RETURN, _FAIL | errno.ENOSYS)
        yield _instruction(_IF_EQUAL, clone, if_false=3)
        yield _instruction(_LOAD, _FIRST_ARGUMENT)
        yield _instruction(_IF_ANY_BIT, _CLONE_NAMESPACES, if_false=1)
        yield _instruction(_RETURN, _FAIL | errno.EPERM)
    yield _instruction(_RETURN, _ALLOW)


def _instruction(operation: int, operand: int, *, if_true: int = 0, if_false: int = 0) -> bytes:
    """Return an instruction. A conditional one skips `if_true` or `if_false` instructions."""
    return struct.pack("=HBBI", operation, if_true, if_false, operand)
