"""A process that keeps something alive for as long as the spawner lives, and not a moment longer."""

import os
import select
import signal
from collections.abc import Callable, Iterable
from typing import NoReturn

import msgspec

from windlass.localcluster.sandbox import kernel, poll_loop
from windlass.localcluster.sandbox.process import capabilities

_RESET = (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGCHLD, signal.SIGPIPE)


class Keeper(msgspec.Struct, frozen=True):
    pid: int
    # At its end when the keeper is.
    lifeline: int
    # A file that holds what it, and the program it runs, have printed.
    printed: int

    def has_ended(self, timeout: float = 0) -> bool:
        return bool(select.select([self.lifeline], [], [], timeout)[0])

    def end(self) -> None:
        try:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        except (ProcessLookupError, ChildProcessError):
            pass
        os.close(self.lifeline)
        os.close(self.printed)

    def last_words(self) -> str:
        """Of the lines printed, the last one that says something."""
        text = os.pread(self.printed, 1 << 16, 0).decode(errors="replace")
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        return lines[-1] if lines else ""


def keep(work: Callable[[], object], needed: Iterable[int] = ()) -> Keeper:
    """A child that does the work and then waits: for its own children, if it has made any, else for ever.

    This returns when the work is done; an OSError in it is raised here. `needed` are the descriptors that it uses.
    What the work returns is held until the end.
    """
    printed = os.memfd_create("printed")
    ours, theirs = os.pipe()
    parent = os.getpid()
    child = os.fork()
    if child == 0:
        _keep(work, parent, printed, theirs, {*needed, theirs})
    os.close(theirs)
    keeper = Keeper(pid=child, lifeline=ours, printed=printed)
    said = os.read(ours, 1 << 16)
    if said == b"done":
        return keeper
    number, _, text = said.decode(errors="replace").partition(" ")
    failure = OSError(int(number or 0), text or keeper.last_words() or "the keeper ended without a word")
    keeper.end()
    raise failure


def run_in_cell(command: list[str], may_start: int) -> None:
    """In a keeper: a program that ends with it, whatever identity it takes on, for which see `_guard`.

    It starts when `may_start` can be read.
    """
    kernel.unshare(kernel.NEW_PID)
    if os.fork() == 0:
        _guard(command, may_start)


def _keep(
    work: Callable[[], object], parent: int, printed: int, lifeline: int, needed: Iterable[int]
) -> NoReturn:
    try:
        _settle(parent, printed, needed)
        _held = work()
        os.write(lifeline, b"done")
        _wait_for_children_or_for_ever()
    except OSError as error:
        os.write(lifeline, f"{error.errno or 0} {error.strerror or error}".encode())
    finally:
        os._exit(0)


def _settle(parent: int, printed: int, needed: Iterable[int]) -> None:
    """Nothing of the spawner's is held or heard: not its descriptors, nor its handlers, nor a terminal's Ctrl-C."""
    kernel.end_with_parent()
    if os.getppid() != parent:
        os._exit(0)
    os.setsid()
    signal.set_wakeup_fd(-1)
    for number in _RESET:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    null = os.open(os.devnull, os.O_RDWR)
    for target, source in enumerate((null, printed, printed)):
        os.dup2(source, target)
    poll_loop.close_all_but({*needed})


def _guard(command: list[str], may_start: int) -> NoReturn:
    """The first process of a PID namespace: when it ends, the kernel ends all others there.

    A program that changes its user or its capabilities loses the signal at its parent's end; this one never does.
    """
    try:
        kernel.end_with_parent()
        poll_loop.close_all_but({may_start})
        os.read(may_start, 1)
        if os.fork() == 0:
            capabilities.keep_over_execution(
                capabilities.NETWORK_ADMINISTRATION, capabilities.SYSTEM_ADMINISTRATION
            )
            os.execv(command[0], command)
        _wait_for_children_or_for_ever()
    except OSError as error:
        os.write(2, f"{error}\n".encode())
    finally:
        os._exit(0)


def _wait_for_children_or_for_ever() -> None:
    try:
        os.wait()
    except ChildProcessError:
        signal.pause()
