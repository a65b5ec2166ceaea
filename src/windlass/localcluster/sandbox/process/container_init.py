"""The init process of a container: sets up the root, starts the command, and reaps processes.

With PID namespaces it is PID 1, so that the kernel kills all other processes when it ends. Otherwise it adopts orphans
and kills them itself. It communicates only with the supervisor.
"""

import contextlib
import errno
import fcntl
import os
import resource
import select
import signal
import sys
import termios
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from windlass.localcluster.sandbox import child_process, kernel, messages, poll_loop, seccomp
from windlass.localcluster.sandbox.channel import Channel
from windlass.localcluster.sandbox.messages import (
    ContainerPlan,
    Done,
    Ended,
    Execute,
    Exited,
    NotStarted,
    Rejected,
    Signal,
    Started,
)
from windlass.localcluster.sandbox.process import processes
from windlass.localcluster.sandbox.process.cgroups import Group
from windlass.localcluster.sandbox.rootfs import root

RUN_ID_VARIABLE = b"WINDLASS_RUN"
"""Environment variable of every process of a container, with the id of the run."""

ToInit = Signal | Execute | messages.Abandon
FromInit = Started | NotStarted | Ended | Done | Exited | Rejected
_SIGNAL_BASE = 128
_NOT_FOUND = (errno.ENOENT, errno.ENOTDIR)


class CommandError(Exception):
    """The command could not be run. Most messages are those of container runtimes."""


class Init:
    """`has_namespaces`: this process is PID 1 of a PID namespace, and must create a mount namespace."""

    def __init__(
        self,
        plan: ContainerPlan,
        group: Group | None,
        control: Channel[ToInit],
        scratch: str,
        *,
        has_namespaces: bool,
    ) -> None:
        self._plan = plan
        self._group = group
        self._control = control
        self._scratch = scratch
        self._has_namespaces = has_namespaces
        self._main = 0
        # PID → number of the call that started the process.
        self._executed: dict[int, int] = {}

    def run(self, stdin: int, stdout: int, stderr: int) -> None:
        """Run the container to its end."""
        child_exits = poll_loop.child_exit_descriptor()
        try:
            self._set_up()
        except (root.RootError, OSError) as error:
            self._send(NotStarted(self._plan.id, str(error), time.time()))
            return
        try:
            self._main = self._start(self._plan.argv, (stdin, stdout, stderr), self._plan.is_terminal)
        except CommandError as error:
            self._send(NotStarted(self._plan.id, str(error), time.time()))
            return
        for descriptor in {stdin, stdout, stderr}:
            os.close(descriptor)
        self._send(Started(self._plan.id, time.time()))
        self._serve(child_exits)

    def _set_up(self) -> None:
        if self._group is not None:
            self._group.join(0)
        if self._has_namespaces:
            kernel.unshare(kernel.CLONE_NEWNS)
            root.build_and_enter(self._plan, self._scratch)
        elif sys.platform == "linux":
            kernel.become_subreaper()

    def _serve(self, child_exits: int) -> None:
        poll = select.poll()
        poll.register(self._control.fileno(), select.POLLIN)
        poll.register(child_exits, select.POLLIN)
        while self._main:
            for descriptor, _ in poll.poll():
                if descriptor == child_exits:
                    poll_loop.drain(child_exits)
                    self._reap()
                elif not self._handle_messages():
                    # The supervisor has ended: all processes of the container must end, too.
                    self._kill_all()
                    return

    def _handle_messages(self) -> bool:
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

    def _execute(self, request: Execute, descriptors: list[int]) -> None:
        stdin, stdout, stderr = descriptors if len(descriptors) == 3 else descriptors * 3
        try:
            pid = self._start(request.argv, (stdin, stdout, stderr), request.is_terminal)
        except CommandError as error:
            self._send(Rejected(request.call, str(error)))
        else:
            self._executed[pid] = request.call
            self._send(Done(request.call))
        finally:
            for descriptor in descriptors:
                os.close(descriptor)

    def _abandon(self, call: int) -> None:
        for pid, executed_call in self._executed.items():
            if executed_call == call:
                # The process is the leader of a process group.
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
                self._send(Exited(self._executed.pop(pid), code if code >= 0 else _SIGNAL_BASE - code))
            elif pid == self._main:
                self._finish(os.waitstatus_to_exitcode(status))
                return

    def _finish(self, code: int) -> None:
        self._main = 0
        now = time.time()
        self._kill_all()
        self._send(Ended(self._plan.id, now, max(code, 0), max(-code, 0)))

    def _kill_all(self) -> None:
        if self._has_namespaces:
            with contextlib.suppress(ProcessLookupError):
                os.kill(-1, signal.SIGKILL)
            return
        processes.kill_all(lambda: processes.descendants(os.getpid()))

    def _send(self, message: FromInit) -> None:
        with contextlib.suppress(OSError):
            self._control.send(message)

    # Starting

    def _start(self, argv: Sequence[bytes], streams: tuple[int, int, int], is_terminal: bool) -> int:
        """Start a process, and return its PID. Raises CommandError."""
        reader, writer = os.pipe()
        try:
            pid = os.fork()
        except OSError as error:
            os.close(reader)
            os.close(writer)
            raise CommandError(f"cannot fork: {error.strerror}") from error
        if pid == 0:
            self._run_in_child(argv, streams, is_terminal, writer)
        os.close(writer)
        with os.fdopen(reader, "rb") as failures:
            failure = failures.read()
        if failure:
            os.waitpid(pid, 0)
            raise CommandError(failure.decode(errors="replace"))
        return pid

    def _run_in_child(
        self, argv: Sequence[bytes], streams: tuple[int, int, int], is_terminal: bool, failures: int
    ) -> NoReturn:
        try:
            child_process.restore_signals()
            os.setsid()
            if is_terminal:
                fcntl.ioctl(streams[0], termios.TIOCSCTTY, 0)
            for number, descriptor in enumerate(streams):
                os.dup2(descriptor, number)
            os.umask(0o022)
            self._set_process_limit()
            self._restrict()
            self._change_user()
            self._change_directory()
            if self._plan.security.capabilities is not None:
                kernel.limit_capabilities(self._plan.security.capabilities)
            environment = {**self._plan.environment, RUN_ID_VARIABLE: self._plan.id.encode()}
            _exec(argv, environment)
        except CommandError as error:
            os.write(failures, str(error).encode())
        except BaseException as error:
            os.write(failures, f"{type(error).__name__}: {error}".encode())
        os._exit(_SIGNAL_BASE)

    def _set_process_limit(self) -> None:
        limit = self._plan.limits.processes
        is_enforced = self._group is not None and self._group.enforced.processes is not None
        if limit is None or is_enforced or sys.platform != "linux":
            return
        _, hard = resource.getrlimit(resource.RLIMIT_NPROC)
        limit = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
        resource.setrlimit(resource.RLIMIT_NPROC, (limit, limit))

    def _restrict(self) -> None:
        """Apply the restrictions that require privileges or, without these, no_new_privs."""
        security = self._plan.security
        if security.no_new_privileges:
            kernel.forbid_new_privileges()
        if security.capabilities is not None:
            try:
                kernel.limit_bounding_set(security.capabilities)
            except PermissionError:
                # Instead, prevent programs from gaining capabilities.
                kernel.forbid_new_privileges()
        if security.has_seccomp_filter:
            program = seccomp.program(os.uname().machine, security.capabilities or 0)
            try:
                kernel.install_seccomp_filter(program)
            except PermissionError:
                kernel.forbid_new_privileges()
                kernel.install_seccomp_filter(program)

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

    def _change_directory(self) -> None:
        folder = self._plan.working_directory
        try:
            if self._has_namespaces:
                # Container runtimes create a missing directory. If `layout` could not create it, do so here.
                Path(folder).mkdir(parents=True, exist_ok=True)
            os.chdir(folder)
        except OSError as error:
            raise CommandError(
                f'chdir to cwd ("{folder}") set in config.json failed: {error.strerror}'
            ) from error


def _exec(argv: Sequence[bytes], environment: dict[bytes, bytes]) -> NoReturn:
    """Execute a program. A name without a slash is searched in the container's PATH. Raises CommandError."""
    name = os.fsdecode(argv[0])
    if not name:
        candidates = []
    elif b"/" in argv[0]:
        candidates = [argv[0]]
    else:
        candidates = [
            b"/".join((folder or b".", argv[0])) for folder in environment.get(b"PATH", b"").split(b":")
        ]
    failure: OSError | None = None
    for candidate in candidates:
        try:
            os.execve(candidate, list(argv), environment)
        except OSError as error:
            if error.errno not in _NOT_FOUND:
                failure = error
    if failure is not None:
        raise CommandError(f'exec: "{name}": {(failure.strerror or str(failure)).lower()}')
    missing = "no such file or directory" if b"/" in argv[0] else "executable file not found in $PATH"
    raise CommandError(f'exec: "{name}": {"stat " + name + ": " if b"/" in argv[0] else ""}{missing}')
