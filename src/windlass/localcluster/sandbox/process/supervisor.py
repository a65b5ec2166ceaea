"""The supervisor of one pod: holds its namespaces, starts its containers, and saves their logs and exit codes.

It executes requests of the daemon, which makes all decisions, e.g. about restarts and grace periods. It keeps running
without a daemon, and reports the state of all runs to the next one.
"""

import contextlib
import errno
import ipaddress
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import msgspec

from windlass.localcluster.sandbox import kernel, messages, poll_loop
from windlass.localcluster.sandbox.channel import Channel
from windlass.localcluster.sandbox.messages import (
    FromSupervisor,
    MemoryFolder,
    NfsFolder,
    PodPlan,
    ToSupervisor,
)
from windlass.localcluster.sandbox.network import bridge
from windlass.localcluster.sandbox.poll_loop import PollLoop
from windlass.localcluster.sandbox.process import processes
from windlass.localcluster.sandbox.process.container_runs import ContainerRun, Isolation

SOCKET = "socket"
PROCESS = "supervisor"
"""File in the pod's directory with the `processes.identity` of the supervisor."""
RUNS = "containers"
_NFS_SECONDS = 60


class CannotMountError(Exception):
    """A volume cannot be mounted. The message names the source of the volume and the cause."""


class Supervisor:
    def __init__(
        self, pod: PodPlan, listener: socket.socket, isolation: Isolation, lifeline: int | None
    ) -> None:
        """`lifeline`: read end of a pipe. The supervisor kills all containers and exits when its write end closes."""
        self._pod = pod
        self._listener = listener
        self._isolation = isolation
        self._lifeline = lifeline
        self._loop = PollLoop()
        self._runs: dict[str, ContainerRun] = {}
        self._daemon: Channel[ToSupervisor] | None = None
        self._calls: dict[int, ContainerRun] = {}
        self._is_ending = False

    def run(self) -> None:
        """Serve requests until the end is requested and all runs have ended."""
        child_exits = poll_loop.child_exit_descriptor()
        self._loop.add(child_exits, lambda: self._reap(child_exits))
        if self._lifeline is not None:
            self._loop.add(self._lifeline, self._end)
        try:
            self._set_up()
            problem = ""
        except (CannotMountError, OSError) as error:
            problem = str(error)
        self._loop.add(self._listener.fileno(), lambda: self._accept(problem))
        while not (self._is_ending and all(run.is_over for run in self._runs.values())):
            self._loop.run_once()
        with contextlib.suppress(OSError):
            (Path(self._pod.folder) / SOCKET).unlink()

    def _set_up(self) -> None:
        if self._pod.link is not None and self._isolation.hub_namespace is not None:
            bridge.join(self._isolation.hub_namespace, self._pod.link)
        if self._isolation.has_namespaces:
            kernel.unshare(kernel.CLONE_NEWNS | kernel.CLONE_NEWUTS | kernel.CLONE_NEWIPC)
            kernel.mount(None, "/", None, kernel.MS_REC | kernel.MS_SLAVE)
            kernel.set_hostname(self._pod.hostname)
        if sys.platform == "linux":
            # Orphans, including the init processes of containers, become children of this process.
            kernel.become_subreaper()
        _mount_volumes(self._pod.volumes, can_mount=self._isolation.has_namespaces)

    def _reap(self, child_exits: int) -> None:
        """Reap zombies. Exit codes come from the init processes."""
        poll_loop.drain(child_exits)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass

    def _kill_orphans(self) -> None:
        """Kill the processes that this process has adopted because their init process was killed."""

        def find() -> set[int]:
            inits = [run.init_pid for run in self._runs.values() if run.init_pid]
            supervised = {pid for init in inits for pid in (init, *processes.descendants(init))}
            return {*processes.descendants(os.getpid())} - supervised

        processes.kill_all(find)

    def _end(self) -> None:
        self._is_ending = True
        if self._lifeline is not None:
            self._loop.remove(self._lifeline)
        for run in self._runs.values():
            run.signal(signal.SIGKILL)

    # The daemon

    def _accept(self, problem: str) -> None:
        connection, _ = self._listener.accept()
        # There is only one daemon: an earlier connection is obsolete.
        self._disconnect_daemon()
        self._daemon = Channel(connection, ToSupervisor)
        self._loop.add(connection.fileno(), self._on_message)
        self._send(messages.Hello(tuple(run.reports for run in self._runs.values()), problem))

    def _disconnect_daemon(self) -> None:
        if self._daemon is not None:
            self._loop.remove(self._daemon.fileno())
            self._daemon.close()
            self._daemon = None
        # The next daemon cannot use these calls, and numbers its own calls from 1.
        calls, self._calls = self._calls, {}
        for call, run in calls.items():
            run.abandon(call)

    def _on_message(self) -> None:
        if self._daemon is None:
            return
        try:
            received = self._daemon.receive()
        except (EOFError, OSError, msgspec.MsgspecError):
            self._disconnect_daemon()
            return
        for message, _ in received:
            self._handle(message)

    def _handle(self, message: ToSupervisor) -> None:
        match message:
            case messages.Start(container=plan):
                if not self._is_ending and plan.id not in self._runs:
                    folder = Path(self._pod.folder) / RUNS / plan.id
                    run = self._runs[plan.id] = ContainerRun(
                        plan,
                        folder,
                        self._isolation,
                        self._loop,
                        send=self._send,
                        kill_orphans=self._kill_orphans,
                    )
                    run.start()
            case messages.Signal(run_id=run_id, number=number):
                if run_id in self._runs:
                    self._runs[run_id].signal(number)
            case messages.Execute() | messages.Attach():
                self._call(message)
            case messages.Connect():
                self._connect(message)
            case messages.Namespaces(call=call):
                self._share_namespaces(call)
            case messages.Abandon(call=call):
                if call in self._calls:
                    self._calls.pop(call).abandon(call)
            case messages.End():
                self._end()

    def _call(self, request: messages.Execute | messages.Attach) -> None:
        run = self._runs.get(request.run_id)
        if run is None or not run.is_running:
            self._send(messages.Rejected(request.call, "the container is not running"))
            return
        self._calls[request.call] = run
        if isinstance(request, messages.Execute):
            run.execute(request)
        else:
            run.attach(request.call)

    def _connect(self, request: messages.Connect) -> None:
        """Start a connection without waiting for it: the client waits on the socket."""
        try:
            # Names are not resolved here, since that would block all containers.
            family = socket.AF_INET6 if ipaddress.ip_address(request.host).version == 6 else socket.AF_INET
            with socket.socket(family, socket.SOCK_STREAM) as connection:
                connection.setblocking(False)
                code = connection.connect_ex((request.host, request.port))
                if code not in (0, errno.EINPROGRESS):
                    raise OSError(code, os.strerror(code))
                self._send(messages.Opened(request.call), connection.fileno())
        except (OSError, OverflowError, ValueError) as error:
            self._send(messages.Rejected(request.call, getattr(error, "strerror", None) or str(error)))

    def _share_namespaces(self, call: int) -> None:
        if self._isolation.hub_namespace is None:
            self._send(messages.Rejected(call, "pods share the host network"))
            return
        own = os.open("/proc/self/ns/user", os.O_RDONLY)
        self._send(messages.Opened(call), own, self._isolation.hub_namespace)
        os.close(own)

    def _send(self, message: FromSupervisor, *descriptors: int) -> None:
        """Send a message to the daemon if one is connected."""
        if isinstance(message, messages.Exited | messages.Rejected):
            self._calls.pop(message.call, None)
        if self._daemon is None:
            return
        try:
            self._daemon.send(message, *descriptors)
        except OSError:
            self._disconnect_daemon()


# Volumes, which are mounted in the mount namespace of the pod and end with it


def _mount_volumes(volumes: Iterable[MemoryFolder | NfsFolder], *, can_mount: bool) -> None:
    for volume in volumes:
        if isinstance(volume, NfsFolder):
            _mount_nfs(volume, can_mount=can_mount)
        elif can_mount:
            # Without mounts, the directory itself is the volume.
            size = "" if volume.size is None else f",size={volume.size}"
            flags = kernel.MS_NOSUID | kernel.MS_NODEV
            kernel.mount("tmpfs", volume.path, "tmpfs", flags, f"mode={volume.mode:o}{size}")


def _mount_nfs(volume: NfsFolder, *, can_mount: bool) -> None:
    what = f"{volume.server}:{volume.export}"
    if not can_mount or os.geteuid() != 0:
        raise CannotMountError(
            f"cannot mount {what}: NFS needs root on this machine. Mount it yourself and use a hostPath volume."
        )
    options = ["-o", "ro"] if volume.read_only else []
    command = ["mount", "-t", "nfs", *options, what, volume.path]
    try:
        done = subprocess.run(command, capture_output=True, timeout=_NFS_SECONDS, check=False)
    except FileNotFoundError as error:
        raise CannotMountError(f"cannot mount {what}: `mount` is not installed on this machine") from error
    except subprocess.TimeoutExpired as error:
        raise CannotMountError(f"cannot mount {what}: timed out after {_NFS_SECONDS} s") from error
    if done.returncode:
        problem = done.stderr.decode(errors="replace").strip().replace("\n", "; ")
        raise CannotMountError(
            f"cannot mount {what}: {problem}. Is an NFS client installed (e.g. `nfs-common`)?"
        )
