"""Work in another network namespace, done by a child.

An unprivileged process that has entered a namespace cannot come back to that of the machine; so the spawner stays
where it is, where pods on the machine's network start, and sends a child.
"""

import contextlib
import errno
import os
import socket
from collections.abc import Callable
from typing import NoReturn

from windlass.localcluster.sandbox import kernel

_DONE = b"done"
_LONGEST_WORD = 1 << 16
_MOST_DESCRIPTORS = 4


def visit(namespace: int | None, work: Callable[[], list[int]]) -> list[int]:
    """What `work` opened in the namespace, None being a new one. An OSError of the child is raised here."""
    ours, theirs = socket.socketpair()
    child = os.fork()
    if child == 0:
        ours.close()
        _visit(theirs, namespace, work)
    theirs.close()
    with ours:
        said, descriptors, _, _ = socket.recv_fds(ours, _LONGEST_WORD, _MOST_DESCRIPTORS)
    with contextlib.suppress(ChildProcessError):
        # It is gone already where nobody waits for children.
        os.waitpid(child, 0)
    if said == _DONE:
        return descriptors
    number, _, text = said.decode(errors="replace").partition(" ")
    raise OSError(int(number or errno.ECHILD), text or "the child ended without a word")


def _visit(theirs: socket.socket, namespace: int | None, work: Callable[[], list[int]]) -> NoReturn:
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
