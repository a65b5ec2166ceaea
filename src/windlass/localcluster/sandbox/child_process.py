"""Run functions in forked child processes. The caller must be single-threaded."""

import contextlib
import errno
import os
import signal
import socket
import sys
from collections.abc import Callable, Sequence
from typing import NoReturn

_DONE = b"+"
_MAX_RESULT_BYTES = 1 << 16
_MAX_DESCRIPTORS = 4


def call(work: Callable[[], tuple[bytes, Sequence[int]]]) -> tuple[bytes, list[int]]:
    """Run `work` in a child process, and return its result: bytes and open descriptors. Raises OSError if it fails."""
    ours, theirs = socket.socketpair()
    with ours:
        with theirs:
            child = os.fork()
            if child == 0:
                _send_result(theirs, work)
        result, descriptors, _, _ = socket.recv_fds(ours, _MAX_RESULT_BYTES, _MAX_DESCRIPTORS)
    with contextlib.suppress(ChildProcessError):
        # Where SIGCHLD is ignored, the child is reaped automatically.
        os.waitpid(child, 0)
    if result.startswith(_DONE):
        return result[len(_DONE) :], descriptors
    number, _, text = result.decode(errors="replace").partition(" ")
    raise OSError(int(number or errno.ECHILD), text or "the child process has crashed")


def _send_result(connection: socket.socket, work: Callable[[], tuple[bytes, Sequence[int]]]) -> NoReturn:
    try:
        content, descriptors = work()
        socket.send_fds(connection, [_DONE + content], descriptors)
    except OSError as error:
        connection.send(f"{error.errno or 0} {error.strerror or error}".encode())
    except Exception as error:
        connection.send(f"0 {error!r}".encode())
    finally:
        os._exit(0)


def run_and_exit(work: Callable[[], object]) -> NoReturn:
    """Run `work` and exit without the exit handlers of the parent process. An exception is printed."""
    code = 1
    try:
        work()
        code = 0
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(code)


def restore_signals() -> None:
    """Undo the signal handling of the parent, and of shells, which ignore SIGINT and SIGQUIT in background jobs."""
    signal.set_wakeup_fd(-1)
    for name in ("CHLD", "PIPE", "XFSZ", "INT", "QUIT", "TERM", "HUP"):
        signal.signal(signal.Signals[f"SIG{name}"], signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def close_all_except(kept: set[int]) -> None:
    """Close all descriptors but these and 0, 1 and 2."""
    low = 3
    for descriptor in sorted(number for number in kept if number >= low):
        os.closerange(low, descriptor)
        low = descriptor + 1
    os.closerange(low, os.sysconf("SC_OPEN_MAX"))
