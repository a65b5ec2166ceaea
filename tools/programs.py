"""Start server programs, wait until they serve, and end them with this process, however it ends."""

import contextlib
import dataclasses
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final, TypeVar

T = TypeVar("T")

LIMIT: Final = 120.0
"""Seconds until a program must serve. The slowest takes about five on an idle machine."""

# Linux ends the program with the thread that started it. Setting that in the new process, rather than between
# fork and exec, is safe with threads.
UNTIL_PARENT_ENDS: Final = """
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # 1: PR_SET_PDEATHSIG
if os.getppid() == int(sys.argv[1]):
    os.execv(sys.argv[2], sys.argv[2:])
"""


class StartError(Exception):
    """A program does not serve. The message contains the cause and the end of its log."""


class PortTakenError(StartError):
    """Another process took the port before the program bound it. Try again."""


@dataclasses.dataclass(frozen=True)
class Program:
    path: Path
    arguments: Sequence[str]
    folder: Path
    """A program, its folder and its log."""

    @property
    def log(self) -> Path:
        return self.folder / f"{self.path.name}.log"


@dataclasses.dataclass(frozen=True)
class Running:
    program: Program
    process: subprocess.Popen[bytes]

    def wait_until(self, probe: Callable[[], T | None]) -> T:
        """Return the first result of the probe."""
        deadline = time.monotonic() + LIMIT
        while (found := probe()) is None:
            code = self.process.poll()
            if code is not None:
                raise self._failure(f"ended with exit code {code}")
            if time.monotonic() > deadline:
                raise self._failure(f"did not serve within {LIMIT:.0f} s")
            time.sleep(0.05)
        return found

    def _failure(self, how: str) -> StartError:
        log = self.program.log
        is_port_taken = "address already in use" in log.read_text(errors="replace")
        kind = PortTakenError if is_port_taken else StartError
        return kind(f"{self.program.path} {how}. The end of its log:\n{tail(log)}")


@contextlib.contextmanager
def running(program: Program) -> Iterator[Running]:
    """Run the program until the end of the block, and kill it then."""
    command = [str(program.path), *program.arguments]
    if sys.platform == "linux":
        command = [sys.executable, "-I", "-S", "-c", UNTIL_PARENT_ENDS, str(os.getpid()), *command]
    with program.log.open("wb") as log:
        process = subprocess.Popen(  # noqa: S603
            command,
            cwd=program.folder,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # Ctrl-C is for this process, which then ends it
        )
    try:
        yield Running(program, process)
    finally:
        process.kill()
        process.wait()


def exit_code(command: Callable[[], None], *refusals: type[Exception]) -> int:
    """Return the exit code of a tool: 1 after an expected error, of which only the message is printed."""
    try:
        with cleaning_up_on_sigterm():
            command()
    except refusals as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


@contextlib.contextmanager
def cleaning_up_on_sigterm() -> Iterator[None]:
    """Make SIGTERM leave `with` blocks like an exception, unless there is another handler."""
    is_ours = threading.current_thread() is threading.main_thread() and (
        signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    )
    if not is_ours:
        yield
        return
    signal.signal(signal.SIGTERM, _leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


@contextlib.contextmanager
def signals_held() -> Iterator[None]:
    """Delay SIGTERM and Ctrl-C until the end of the block, when the started process is known."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    handlers = {each: signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)}
    for each in handlers:
        signal.signal(each, lambda signum, _frame: came.append(signum))
    try:
        yield
    finally:
        for each, handler in handlers.items():
            signal.signal(each, handler)
    for number in came:
        signal.raise_signal(number)


def _leave(signum: int, _frame: object) -> None:
    raise SystemExit(128 + signum)


def free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def tail(log: Path, lines: int = 15) -> str:
    """Return the last lines of a log for a message."""
    return "\n".join(f"    {line}" for line in log.read_text(errors="replace").splitlines()[-lines:])
