"""The seccomp filter, interpreted as the kernel does."""

import errno
import struct

import pytest

from windlass.localcluster.sandbox import seccomp

X86_64, AARCH64, I386 = 0xC000003E, 0xC00000B7, 0x40000003
SYS_ADMIN, SYS_TIME = 1 << 21, 1 << 25
CLONE_NEWUSER, CLONE_THREAD_FLAGS = 0x10000000, 0x3D0F00
ALLOWED = 0


def result(machine: str, capabilities: int, *, arch: int, number: int, argument: int = 0) -> int:
    """Return the error number of a system call, or 0 if it is allowed."""
    data = struct.pack("=IIQQ", number, arch, 0, argument)
    instructions = list(struct.iter_unpack("=HBBI", seccomp.program(machine, capabilities)))
    at = accumulator = 0
    while True:
        operation, if_true, if_false, operand = instructions[at]
        at += 1
        match operation:
            case 0x20:
                (accumulator,) = struct.unpack_from("=I", data, operand)
            case 0x15:
                at += if_true if accumulator == operand else if_false
            case 0x35:
                at += if_true if accumulator >= operand else if_false
            case 0x45:
                at += if_true if accumulator & operand else if_false
            case 0x06 if operand == 0x7FFF0000:
                return ALLOWED
            case 0x06:
                return int(operand & 0xFFFF)


@pytest.mark.parametrize(
    ("machine", "arch", "capabilities", "number", "argument", "expected"),
    [
        *(("x86_64", X86_64, 0, number, 0, ALLOWED) for number in (0, 1, 59, 101, 157, 310)),
        *(("x86_64", X86_64, 0, number, 0, errno.EPERM) for number in (165, 166, 272, 308, 321, 425, 250)),
        *(("aarch64", AARCH64, 0, number, 0, errno.EPERM) for number in (40, 39, 97, 268, 280, 425, 219)),
        *(("aarch64", AARCH64, 0, number, 0, ALLOWED) for number in (63, 64, 165, 166, 221)),
        ("x86_64", X86_64, SYS_ADMIN, 165, 0, ALLOWED),
        ("x86_64", X86_64, SYS_ADMIN, 435, 0, ALLOWED),
        ("x86_64", X86_64, SYS_ADMIN, 56, CLONE_NEWUSER, ALLOWED),
        ("x86_64", X86_64, SYS_ADMIN, 227, 0, errno.EPERM),
        ("x86_64", X86_64, SYS_TIME, 227, 0, ALLOWED),
        ("x86_64", X86_64, (1 << 41) - 1, 246, 0, errno.EPERM),
        ("x86_64", X86_64, 0, 435, 0, errno.ENOSYS),
        ("x86_64", X86_64, 0, 56, CLONE_THREAD_FLAGS, ALLOWED),
        ("x86_64", X86_64, 0, 56, CLONE_NEWUSER | 17, errno.EPERM),
        ("aarch64", AARCH64, 0, 220, CLONE_NEWUSER | 17, errno.EPERM),
        ("aarch64", AARCH64, 0, 56, CLONE_NEWUSER, ALLOWED),
        ("x86_64", I386, 0, 1, 0, errno.ENOSYS),
        ("x86_64", X86_64, 0, 0x40000000 | 1, 0, errno.ENOSYS),
    ],
)
def test_system_calls_are_denied_unless_a_capability_allows_them(
    machine: str, arch: int, capabilities: int, number: int, argument: int, expected: int
) -> None:
    assert result(machine, capabilities, arch=arch, number=number, argument=argument) == expected


def test_other_machines_have_no_filter() -> None:
    with pytest.raises(OSError, match="no seccomp filter for riscv64"):
        seccomp.program("riscv64", 0)
