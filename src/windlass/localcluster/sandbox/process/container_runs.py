"""One run of a container in its supervisor: the init process, the output, and the end."""

import contextlib
import functools
import os
import signal
import socket
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from windlass.localcluster.sandbox import child_process, kernel, messages, state_file
from windlass.localcluster.sandbox.channel import Channel, close_all
from windlass.localcluster.sandbox.messages import ContainerPlan, RunReports
from windlass.localcluster.sandbox.poll_loop import PollLoop
from windlass.localcluster.sandbox.process import container_init, processes
from windlass.localcluster.sandbox.process.cgroups import Cgroups, Group
from windlass.localcluster.sandbox.process.log_writer import LogWriter, Stream

END_FILE = "end"
_READ_BYTES = 64 * 1024
_SECONDS_BETWEEN_MEMORY_CHECKS = 1.0
# How long to wait for output after the container has ended: an escaped process may keep the pipes open.
_SECONDS_FOR_LAST_OUTPUT = 2.0
_SECONDS_TO_KILL = 2.0
# The default of /proc/sys/fs/pipe-max-size.
_MAX_PIPE_BYTES = 2**20
_SIGKILL_EXIT_CODE = 137


class Isolation(msgspec.Struct, frozen=True):
    """The isolation that the spawner provides, the same for all pods."""

    has_namespaces: bool
    cgroups: Cgroups | None = None
    # Descriptor of the pod network's namespace; None if pods share the host network.
    hub_namespace: int | None = None


class ContainerRun:
    def __init__(
        self,
        plan: ContainerPlan,
        folder: Path,
        isolation: Isolation,
        loop: PollLoop,
        *,
        send: Callable[..., None],
        kill_orphans: Callable[[], None],
    ) -> None:
        """`folder` is the directory of the run, `send` sends a message with descriptors to the daemon, and
        `kill_orphans` kills the descendants of this process that do not belong to a running init process."""
        self.reports = RunReports(plan.id)
        self.is_over = False
        self._plan = plan
        self._folder = folder
        self._isolation = isolation
        self._loop = loop
        self._send = send
        self._kill_orphans = kill_orphans
        self._log = LogWriter(plan.log)
        self._pid = 0
        self._group: Group | None = None
        self._control: Channel[container_init.FromInit] | None = None
        self._outputs: dict[int, Stream] = {}
        self._stdin: int | None = None
        self._attached: dict[int, int] = {}
        # Number of a pending Execute → descriptors for the client.
        self._pending_exec: dict[int, list[int]] = {}
        self._executing: set[int] = set()
        self._end: messages.Ended | messages.NotStarted | None = None
        self._was_out_of_memory = False

    @property
    def init_pid(self) -> int:
        """PID of the init process; 0 if there is none."""
        return 0 if self._control is None else self._pid

    @property
    def is_running(self) -> bool:
        return self.reports.started is not None and self._end is None

    # Starting

    def start(self) -> None:
        try:
            self._start()
        except OSError as error:
            self._on_end(messages.NotStarted(self._plan.id, f"cannot start: {error}", time.time()))

    def _start(self) -> None:
        scratch = self._folder / "root"
        scratch.mkdir(parents=True, exist_ok=True)
        if self._isolation.cgroups is not None:
            self._group = self._isolation.cgroups.create(self._plan.id, self._plan.limits)
        ours, theirs = socket.socketpair()
        streams, outputs = self._open_streams()
        try:
            self._pid = self._fork(theirs, streams, str(scratch))
        except OSError:
            ours.close()
            close_all([descriptor for descriptor, _ in outputs])
            raise
        finally:
            theirs.close()
            close_all({*streams})
        self._control = Channel(ours, container_init.FromInit)
        self._loop.add(ours.fileno(), self._on_message)
        for descriptor, stream in outputs:
            self._outputs[descriptor] = stream
            self._loop.add(descriptor, functools.partial(self._read, descriptor))
        ours.send(b"!")

    def _open_streams(self) -> tuple[tuple[int, int, int], list[tuple[int, Stream]]]:
        """Return the three streams of the process, and the descriptors from which the supervisor reads the output."""
        if self._plan.is_terminal:
            master, slave = os.openpty()
            self._stdin = os.dup(master)
            return (slave, slave, slave), [(master, "stdout")]
        if self._plan.has_stdin:
            stdin, self._stdin = os.pipe()
        else:
            stdin = os.open(os.devnull, os.O_RDONLY)
        (read_out, stdout), (read_err, stderr) = os.pipe(), os.pipe()
        return (stdin, stdout, stderr), [(read_out, "stdout"), (read_err, "stderr")]

    def _fork(self, control: socket.socket, streams: tuple[int, int, int], scratch: str) -> int:
        """Fork the init process, and return its PID.

        With namespaces, an intermediate process forks it as PID 1 of a new PID namespace.
        """

        def fork() -> int:
            pid = os.fork()
            if pid == 0:
                child_process.run_and_exit(lambda: self._run_init(control, streams, scratch))
            return pid

        def fork_in_new_namespace() -> tuple[bytes, tuple[int, ...]]:
            kernel.unshare(kernel.CLONE_NEWPID)
            return str(fork()).encode(), ()

        if not self._isolation.has_namespaces:
            return fork()
        pid, _ = child_process.call(fork_in_new_namespace)
        return int(pid)

    def _run_init(self, control: socket.socket, streams: tuple[int, int, int], scratch: str) -> None:
        child_process.close_all_except({control.fileno(), *streams})
        is_supervisor_ready = bool(control.recv(1))
        if not is_supervisor_ready:
            # The supervisor has ended.
            return
        has_namespaces = self._isolation.has_namespaces
        if has_namespaces:
            # Not earlier: the exit of the intermediate process that forked this process would have killed it.
            kernel.set_parent_death_signal()
        channel: Channel[container_init.ToInit] = Channel(control, container_init.ToInit)
        init = container_init.Init(self._plan, self._group, channel, scratch, has_namespaces=has_namespaces)
        init.run(*streams)

    # Init process

    def _on_message(self) -> None:
        assert self._control is not None  # noqa: S101 — called for this channel
        try:
            received = self._control.receive()
        except (EOFError, OSError):
            self._on_init_end()
            return
        for message, _ in received:
            match message:
                case messages.Started():
                    groups = tuple(map(str, self._group.folders)) if self._group is not None else ()
                    started = msgspec.structs.replace(message, init_pid=self._pid, cgroups=groups)
                    self.reports = msgspec.structs.replace(self.reports, started=started)
                    self._send(started)
                    self._check_memory()
                case messages.Ended() | messages.NotStarted():
                    self._on_end(message)
                case messages.Done() | messages.Rejected():
                    self._answer_exec(message)
                case messages.Exited():
                    self._executing.discard(message.call)
                    self._send(message)

    def _on_init_end(self) -> None:
        """Handle the end of the init process. If it did not report the end of its container, kill the container."""
        if self._control is not None:
            self._loop.remove(self._control.fileno())
            self._control.close()
            self._control = None
        for call in tuple(self._pending_exec):
            self._answer_exec(messages.Rejected(call, "the container has ended"))
        for call in self._executing:
            self._send(messages.Exited(call, _SIGKILL_EXIT_CODE))
        self._executing.clear()
        if self._end is None:
            self._pid = 0
            if not self._isolation.has_namespaces:
                self._kill_orphans()
            self._on_end(messages.Ended(self._plan.id, time.time(), 0, signal.SIGKILL))
        self._finish_if_output_ended()

    def signal(self, number: int) -> None:
        if self._control is None or self._end is not None:
            return
        with contextlib.suppress(OSError):
            self._control.send(messages.Signal(self._plan.id, number))
        if number == signal.SIGKILL:
            # Usually the init process kills its container and reports the end, but not while it is stopped (SIGSTOP).
            self._loop.call_later((self, "kill"), _SECONDS_TO_KILL, self._kill_init)

    def _kill_init(self) -> None:
        if self._control is not None and self._end is None:
            if not self._isolation.has_namespaces:
                processes.kill_all(lambda: processes.descendants(self._pid))
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGKILL)

    def _on_end(self, end: messages.Ended | messages.NotStarted) -> None:
        if isinstance(end, messages.Ended):
            was_out = self._was_out_of_memory or (
                self._group is not None and self._group.has_run_out_of_memory()
            )
            end = msgspec.structs.replace(end, was_out_of_memory=was_out)
        self._end = end
        self._loop.cancel(self)
        if self._control is None:
            self._finish_if_output_ended()
        self._loop.call_later((self, "end"), _SECONDS_FOR_LAST_OUTPUT, self._finish)

    # Output

    def _read(self, descriptor: int) -> None:
        try:
            piece = os.read(descriptor, _READ_BYTES)
        except OSError:
            # Reading a terminal that all processes have closed fails with EIO.
            piece = b""
        stream = self._outputs[descriptor]
        if piece:
            self._log.write(stream, piece)
            self._copy(piece)
            return
        self._loop.remove(descriptor)
        os.close(descriptor)
        del self._outputs[descriptor]
        self._log.end(stream)
        self._finish_if_output_ended()

    def _copy(self, piece: bytes) -> None:
        """Copy output to attached clients. A client that does not read misses output and does not block others."""
        for call, copy in tuple(self._attached.items()):
            try:
                os.write(copy, piece)
            except BlockingIOError:
                continue
            except OSError:
                self.abandon(call)

    # The end

    def _finish_if_output_ended(self) -> None:
        if self._end is not None and self._control is None and not self._outputs:
            self._finish()

    def _finish(self) -> None:
        if self.is_over or self._end is None:
            return
        self.is_over = True
        self._loop.cancel((self, "end"))
        self._loop.cancel((self, "kill"))
        for descriptor, stream in self._outputs.items():
            self._loop.remove(descriptor)
            self._log.write(stream, _available(descriptor))
        close_all({*self._outputs, *self._attached.values()})
        if self._stdin is not None:
            os.close(self._stdin)
        self._outputs.clear()
        self._attached.clear()
        self._stdin = None
        self._log.close()
        if self._group is not None:
            self._group.kill()
            self._group.remove()
        self.reports = msgspec.structs.replace(self.reports, end=self._end)
        # Save the reports before sending the end, so that a daemon that restarts in between can read them.
        with contextlib.suppress(OSError):
            state_file.write(self._folder / END_FILE, self.reports)
        self._send(self._end)

    # Memory without a cgroup limit

    def _check_memory(self) -> None:
        limit = self._plan.limits.memory_bytes
        if limit is None or (self._group is not None and self._group.enforced.memory_bytes is not None):
            return
        if processes.memory_of(processes.descendants(self._pid)) > limit:
            self._was_out_of_memory = True
            self.signal(signal.SIGKILL)
            return
        self._loop.call_later(self, _SECONDS_BETWEEN_MEMORY_CHECKS, self._check_memory)

    # Exec and attach

    def execute(self, request: messages.Execute) -> None:
        theirs: list[int] = []
        ours: list[int] = []
        try:
            _open_ends(theirs, ours, is_terminal=request.is_terminal)
            if self._control is None:
                raise OSError("the container has ended")
            self._control.send(request, *theirs)
            self._pending_exec[request.call] = ours
        except OSError as error:
            close_all(ours)
            self._send(messages.Rejected(request.call, str(error)))
        finally:
            close_all(theirs)

    def _answer_exec(self, answer: messages.Done | messages.Rejected) -> None:
        ours = self._pending_exec.pop(answer.call, [])
        if isinstance(answer, messages.Done):
            self._executing.add(answer.call)
            self._send(messages.Opened(answer.call), *ours)
        else:
            self._send(answer)
        close_all(ours)

    def attach(self, call: int) -> None:
        try:
            reader, writer = os.pipe()
        except OSError as error:
            self._send(messages.Rejected(call, str(error)))
            return
        os.set_blocking(writer, False)
        self._attached[call] = writer
        stdin = () if self._stdin is None else (self._stdin,)
        self._send(messages.Opened(call), reader, *stdin)
        os.close(reader)
        if self._stdin is not None and self._plan.ends_stdin:
            # The container's input ends when the client closes it.
            os.close(self._stdin)
            self._stdin = None

    def abandon(self, call: int) -> None:
        if call in self._attached:
            os.close(self._attached.pop(call))
        elif self._control is not None:
            with contextlib.suppress(OSError):
                self._control.send(messages.Abandon(call))


def _open_ends(theirs: list[int], ours: list[int], *, is_terminal: bool) -> None:
    """Open a terminal, or pipes for stdin, stdout and stderr, and append their ends to the lists.

    After an error, the lists contain the descriptors that were opened before.
    """
    if is_terminal:
        master, slave = os.openpty()
        theirs.append(slave)
        ours.append(master)
        return
    for is_input in (True, False, False):
        reader, writer = os.pipe()
        theirs.append(reader if is_input else writer)
        ours.append(writer if is_input else reader)


def _available(descriptor: int) -> bytes:
    """Return the output that was already written to a pipe or terminal. A process may still hold it open."""
    os.set_blocking(descriptor, False)
    with contextlib.suppress(OSError):
        return os.read(descriptor, _MAX_PIPE_BYTES)
    return b""


def read_run(folder: Path) -> RunReports | None:
    """Return the reports of an ended run, as its supervisor saved them; None if there are none."""
    return state_file.read(folder / END_FILE, RunReports)
