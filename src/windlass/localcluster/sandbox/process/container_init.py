"""The first process of a container: makes its place, starts the command in it, and reaps what it leaves behind.

Where there are PID namespaces it is number 1 of one, so that all others end with it; elsewhere it adopts orphans and
ends them itself. It never runs anything but this file, and speaks to the supervisor alone.
"""

import contextlib
import errno
import fcntl
import os
import resource
import select
import signal
import socket
import sys
import termios
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from windlass.localcluster.sandbox import kernel, messages, poll_loop
from windlass.localcluster.sandbox.channel import Channel
from windlass.localcluster.sandbox.messages import (
    ContainerPlan,
    Done,
    Ended,
    Execute,
    Exited,
    NotStarted,
    Refused,
    Signal,
    Started,
)
from windlass.localcluster.sandbox.process import processes
from windlass.localcluster.sandbox.process.cgroups import Group
from windlass.localcluster.sandbox.rootfs import root

MARKER = b"WINDLASS_RUN"
"""The environment variable that every process of a container starts with; its value is the id of the run."""

ToInit = Signal | Execute | messages.Abandon
FromInit = Started | NotStarted | Ended | Done | Exited | Refused
_SIGNAL_BASE = 128
_NOT_FOUND = (errno.ENOENT, errno.ENOTDIR)


class CommandError(Exception):
    """The message says what could not be run, as container runtimes put it."""


class Init:
    """`isolates`: it stands in a PID namespace of its own and is to make mounts of its own."""

    def __init__(
        self,
        plan: ContainerPlan,
        group: Group | None,
        control: Channel[ToInit],
        scratch: str,
        *,
        isolates: bool,
    ) -> None:
        self._plan = plan
        self._group = group
        self._control = control
        self._scratch = scratch
        self._isolates = isolates
        self._main = 0
        # The numbers of the calls that started them.
        self._executed: dict[int, int] = {}

    def run(self, stdin: int, stdout: int, stderr: int) -> None:
        """Returns when the container is over."""
        woken = poll_loop.children_ended()
        try:
            self._enter()
        except (root.RootError, OSError) as error:
            self._say(NotStarted(self._plan.id, str(error), time.time()))
            return
        try:
            self._main = self._start(self._plan.argv, (stdin, stdout, stderr), self._plan.is_terminal)
        except CommandError as error:
            self._say(NotStarted(self._plan.id, str(error), time.time(), is_command=True))
            return
        for descriptor in {stdin, stdout, stderr}:
            os.close(descriptor)
        self._say(Started(self._plan.id, time.time()))
        self._tend(woken)

    def _enter(self) -> None:
        if self._group is not None:
            self._group.join(0)
        if self._isolates:
            kernel.unshare(kernel.NEW_MOUNTS)
            root.build_and_enter(self._plan, self._scratch)
        elif sys.platform == "linux":
            kernel.adopt_orphans()

    def _tend(self, woken: int) -> None:
        poll = select.poll()
        poll.register(self._control.fileno(), select.POLLIN)
        poll.register(woken, select.POLLIN)
        while self._main:
            for descriptor, _ in poll.poll():
                if descriptor == woken:
                    poll_loop.drain(woken)
                    self._reap()
                elif not self._obey():
                    # The supervisor has gone, and nothing may outlive it.
                    self._kill_all()
                    return

    def _obey(self) -> bool:
        try:
            received = self._control.receive()
        except EOFError:
            return False
        for message, descriptors in received:
            match message:
                case Signal(number=signal.SIGKILL):
                    self._kill_all()
                case Signal(number=number):
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(self._main, number)
                case Execute():
                    self._execute(message, descriptors)
                case messages.Abandon(call=call):
                    self._abandon(call)
        return True

    def _execute(self, wanted: Execute, descriptors: list[int]) -> None:
        stdin, stdout, stderr = descriptors if len(descriptors) == 3 else descriptors * 3
        try:
            pid = self._start(wanted.argv, (stdin, stdout, stderr), wanted.is_terminal)
        except CommandError as error:
            self._say(Refused(wanted.call, str(error)))
        else:
            self._executed[pid] = wanted.call
            self._say(Done(wanted.call))
        finally:
            for descriptor in descriptors:
                os.close(descriptor)

    def _abandon(self, call: int) -> None:
        for pid, known in self._executed.items():
            if known == call:
                # It leads a group of its own.
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(pid, signal.SIGKILL)

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                return
            if pid in self._executed:
                code = os.waitstatus_to_exitcode(status)
                self._say(Exited(self._executed.pop(pid), code if code >= 0 else _SIGNAL_BASE - code))
            elif pid == self._main:
                self._finish(os.waitstatus_to_exitcode(status))
                return

    def _finish(self, code: int) -> None:
        self._main = 0
        now = time.time()
        self._kill_all()
        self._say(Ended(self._plan.id, now, max(code, 0), max(-code, 0)))

    def _kill_all(self) -> None:
        if self._isolates:
            with contextlib.suppress(ProcessLookupError):
                os.kill(-1, signal.SIGKILL)
            return
        processes.kill_all(lambda: processes.descendants(os.getpid()))

    def _say(self, message: FromInit) -> None:
        with contextlib.suppress(OSError):
            self._control.send(message)

    # Starting

    def _start(self, argv: Sequence[bytes], streams: tuple[int, int, int], is_terminal: bool) -> int:
        """The new process. Raises CommandError."""
        reader, writer = os.pipe()
        try:
            pid = os.fork()
        except OSError as error:
            os.close(reader)
            os.close(writer)
            raise CommandError(f"cannot fork: {error.strerror}") from error
        if pid == 0:
            self._become(argv, streams, is_terminal, writer)
        os.close(writer)
        with os.fdopen(reader, "rb") as failures:
            failure = failures.read()
        if failure:
            os.waitpid(pid, 0)
            raise CommandError(failure.decode(errors="replace"))
        return pid

    def _become(
        self, argv: Sequence[bytes], streams: tuple[int, int, int], is_terminal: bool, failures: int
    ) -> NoReturn:
        try:
            _restore_signals()
            os.setsid()
            if is_terminal:
                fcntl.ioctl(streams[0], termios.TIOCSCTTY, 0)
            for number, descriptor in enumerate(streams):
                os.dup2(descriptor, number)
            os.umask(0o022)
            self._limit()
            self._change_user()
            self._go_to_working_directory()
            environment = {**self._plan.environment, MARKER: self._plan.id.encode()}
            _exec(argv, environment)
        except CommandError as error:
            os.write(failures, str(error).encode())
        except BaseException as error:
            os.write(failures, f"{type(error).__name__}: {error}".encode())
        os._exit(_SIGNAL_BASE)

    def _limit(self) -> None:
        wanted = self._plan.limits.processes
        is_held = self._group is not None and self._group.enforced.processes is not None
        if wanted is None or is_held or sys.platform != "linux":
            return
        _, hard = resource.getrlimit(resource.RLIMIT_NPROC)
        bound = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NPROC, (bound, bound))

    def _change_user(self) -> None:
        user = self._plan.user
        try:
            if user.groups or user.gid is not None or user.uid is not None:
                with contextlib.suppress(PermissionError):
                    os.setgroups(user.groups)
            if user.gid is not None and user.gid != os.getgid():
                os.setgid(user.gid)
            if user.uid is not None and user.uid != os.getuid():
                os.setuid(user.uid)
        except OSError as error:
            raise CommandError(
                f"cannot run as user {user.uid}, group {user.gid}: {error.strerror}"
            ) from error

    def _go_to_working_directory(self) -> None:
        folder = self._plan.working_directory
        try:
            if self._isolates:
                # A container runtime makes it where it is missing, and so does the layout; this is what it could not.
                Path(folder).mkdir(parents=True, exist_ok=True)
            os.chdir(folder)
        except OSError as error:
            raise CommandError(
                f'chdir to cwd ("{folder}") set in config.json failed: {error.strerror}'
            ) from error


def _exec(argv: Sequence[bytes], environment: dict[bytes, bytes]) -> NoReturn:
    """As `exec` in a shell finds it, with the container's own PATH."""
    name = os.fsdecode(argv[0])
    if not name:
        candidates = []
    elif b"/" in argv[0]:
        candidates = [argv[0]]
    else:
        candidates = [
            b"/".join((folder or b".", argv[0])) for folder in environment.get(b"PATH", b"").split(b":")
        ]
    refused: OSError | None = None
    for candidate in candidates:
        try:
            os.execve(candidate, list(argv), environment)
        except OSError as error:
            if error.errno not in _NOT_FOUND:
                refused = error
    if refused is not None:
        raise CommandError(f'exec: "{name}": {(refused.strerror or str(refused)).lower()}')
    missing = "no such file or directory" if b"/" in argv[0] else "executable file not found in $PATH"
    raise CommandError(f'exec: "{name}": {"stat " + name + ": " if b"/" in argv[0] else ""}{missing}')


def _restore_signals() -> None:
    signal.set_wakeup_fd(-1)
    for number in (
        signal.SIGCHLD,
        signal.SIGPIPE,
        signal.SIGXFSZ,
        signal.SIGINT,
        signal.SIGQUIT,  # a shell ignores both in what it starts with `&`
        signal.SIGTERM,
        signal.SIGHUP,
    ):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def wait_for_go(control: socket.socket) -> bool:
    """The supervisor says so once it has done its part; False when it is gone."""
    return bool(control.recv(1))
