"""Helper processes that hold resources, e.g. a network uplink, at most as long as the spawner lives."""

import os
import select
import signal
from collections.abc import Callable, Iterable
from typing import NoReturn

import msgspec

from windlass.localcluster.sandbox import child_process, kernel


class HelperProcess(msgspec.Struct, frozen=True):
    pid: int
    # Read end of a pipe that the helper holds open: readable (end of file) when the helper has ended.
    lifeline: int
    # File with the output of the helper and its program.
    output: int

    def has_ended(self, timeout: float = 0) -> bool:
        return bool(select.select([self.lifeline], [], [], timeout)[0])

    def end(self) -> None:
        try:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        except (ProcessLookupError, ChildProcessError):
            pass
        os.close(self.lifeline)
        os.close(self.output)

    def last_line(self) -> str:
        """Return the last non-empty line of the output."""
        text = os.pread(self.output, 1 << 16, 0).decode(errors="replace")
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        return lines[-1] if lines else ""


def start(work: Callable[[], object], needed: Iterable[int] = ()) -> HelperProcess:
    """Start a helper process that calls `work`, and keeps a reference to the result until the helper ends.

    After the call, the helper waits for its first child process to end, or forever if it has none.

    This function returns when `work` has returned, and raises the OSError of `work`. `needed` are the descriptors that
    `work` uses.
    """
    output = os.memfd_create("output")
    ours, theirs = os.pipe()
    parent = os.getpid()
    child = os.fork()
    if child == 0:
        _run_helper(work, parent, output, theirs, {*needed, theirs})
    os.close(theirs)
    helper = HelperProcess(pid=child, lifeline=ours, output=output)
    result = os.read(ours, 1 << 16)
    if result == b"done":
        return helper
    number, _, text = result.decode(errors="replace").partition(" ")
    failure = OSError(int(number or 0), text or helper.last_line() or "the helper process has crashed")
    helper.end()
    raise failure


def run_in_pid_namespace(command: list[str], start_descriptor: int) -> None:
    """Start a program in a PID namespace of its own, so that it ends with the helper, see `_run_as_pid_1`.

    The program starts when `start_descriptor` becomes readable.
    """
    kernel.unshare(kernel.CLONE_NEWPID)
    if os.fork() == 0:
        _run_as_pid_1(command, start_descriptor)


def _run_helper(
    work: Callable[[], object], parent: int, output: int, lifeline: int, needed: Iterable[int]
) -> NoReturn:
    try:
        _detach(parent, output, needed)
        _held = work()
        os.write(lifeline, b"done")
        _wait_for_child_or_forever()
    except OSError as error:
        os.write(lifeline, f"{error.errno or 0} {error.strerror or error}".encode())
    finally:
        os._exit(0)


def _detach(parent: int, output: int, needed: Iterable[int]) -> None:
    """Detach from the descriptors, signal handlers and terminal of the spawner, but end with the spawner."""
    kernel.set_parent_death_signal()
    if os.getppid() != parent:
        os._exit(0)
    os.setsid()
    child_process.restore_signals()
    null = os.open(os.devnull, os.O_RDWR)
    for target, source in enumerate((null, output, output)):
        os.dup2(source, target)
    child_process.close_all_except({*needed})


def _run_as_pid_1(command: list[str], start_descriptor: int) -> NoReturn:
    """Run as PID 1 of a PID namespace: when this process ends, the kernel kills the program.

    The program itself would lose its parent-death signal when it changes its user or capabilities.
    """
    try:
        kernel.set_parent_death_signal()
        child_process.close_all_except({start_descriptor})
        os.read(start_descriptor, 1)
        if os.fork() == 0:
            kernel.make_ambient(kernel.CAP_NET_ADMIN, kernel.CAP_SYS_ADMIN)
            os.execv(command[0], command)
        _wait_for_child_or_forever()
    except OSError as error:
        os.write(2, f"{error}\n".encode())
    finally:
        os._exit(0)


def _wait_for_child_or_forever() -> None:
    try:
        os.wait()
    except ChildProcessError:
        signal.pause()
