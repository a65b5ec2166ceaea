"""Run functions in another network namespace, in a child process.

An unprivileged process cannot return to the host network after it has entered another namespace. The spawner must stay
in the host network, where pods with hostNetwork start.
"""

import contextlib
import errno
import os
import socket
from collections.abc import Callable
from typing import NoReturn

from windlass.localcluster.sandbox import kernel

_DONE = b"done"
_MAX_ANSWER = 1 << 16
_MAX_DESCRIPTORS = 4


def run_in_namespace(namespace: int | None, work: Callable[[], list[int]]) -> list[int]:
    """Run `work` in the namespace (None: a new one), and return the descriptors that it opened. Raises its OSError."""
    ours, theirs = socket.socketpair()
    child = os.fork()
    if child == 0:
        ours.close()
        _run_child(theirs, namespace, work)
    theirs.close()
    with ours:
        answer, descriptors, _, _ = socket.recv_fds(ours, _MAX_ANSWER, _MAX_DESCRIPTORS)
    with contextlib.suppress(ChildProcessError):
        # Where SIGCHLD is ignored, the child is reaped automatically.
        os.waitpid(child, 0)
    if answer == _DONE:
        return descriptors
    number, _, text = answer.decode(errors="replace").partition(" ")
    raise OSError(int(number or errno.ECHILD), text or "the child process has crashed")


def _run_child(theirs: socket.socket, namespace: int | None, work: Callable[[], list[int]]) -> NoReturn:
    try:
        if namespace is None:
            kernel.unshare(kernel.NEW_NETWORK)
        else:
            kernel.set_namespace(namespace, kernel.NEW_NETWORK)
        socket.send_fds(theirs, [_DONE], work())
    except OSError as error:
        theirs.send(f"{error.errno or 0} {error.strerror or error}".encode())
    except Exception as error:
        theirs.send(f"0 {error!r}".encode())
    finally:
        os._exit(0)
