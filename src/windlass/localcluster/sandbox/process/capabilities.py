"""Linux capabilities of the calling process: drop all, or keep some across execve."""

import ctypes
import os

NETWORK_ADMINISTRATION = 12
SYSTEM_ADMINISTRATION = 21

_VERSION = 0x20080522
_PR_CAP_AMBIENT = 47
_RAISE = 2
# Version and PID; then effective, permitted and inheritable sets, lower halves before upper halves.
_Header = ctypes.c_uint32 * 2
_Sets = ctypes.c_uint32 * 6


def drop_all() -> None:
    _set(_Sets())


def keep_over_execution(*capabilities: int) -> None:
    """Make capabilities ambient: users other than root lose all others in execve."""
    library = ctypes.CDLL(None, use_errno=True)
    sets = _Sets()
    _check(library.capget(_Header(_VERSION, 0), sets), "capget")
    sets[2], sets[5] = sets[1], sets[4]
    _set(sets)
    for capability in capabilities:
        rest = [ctypes.c_ulong(each) for each in (_RAISE, capability, 0, 0)]
        _check(library.prctl(ctypes.c_int(_PR_CAP_AMBIENT), *rest), "prctl(PR_CAP_AMBIENT)")


def _set(sets: "ctypes.Array[ctypes.c_uint32]") -> None:
    _check(ctypes.CDLL(None, use_errno=True).capset(_Header(_VERSION, 0), sets), "capset")


def _check(result: int, call: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{call}: {os.strerror(number)}")
