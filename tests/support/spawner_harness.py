"""A real spawner with real supervisors at each isolation level, and their messages.

The test replaces the daemon: it sends messages and reads responses synchronously.
"""

import contextlib
import itertools
import os
import shlex
import shutil
import signal
import sys
import tempfile
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, TypeVar
from unittest import mock

import msgspec
from pods import levels

from conformance.waiting import wait_for
from windlass.localcluster.kubelet.sandbox_connection import connect
from windlass.localcluster.sandbox import messages
from windlass.localcluster.sandbox.channel import Channel
from windlass.localcluster.sandbox.messages import (
    ContainerPlan,
    Ended,
    Execute,
    Exited,
    FromSupervisor,
    Hello,
    NotStarted,
    Opened,
    Rejected,
    Started,
)
from windlass.localcluster.sandbox.process import container_init, launcher, processes

PATIENCE_SECONDS = 60
FOREVER = "while true; do sleep 1000; done"

MessageType = TypeVar("MessageType", bound=msgspec.Struct)
_numbers = itertools.count(1)


class Shell:
    """An exec process in a container: its output and exit code."""

    def __init__(self, pod: "Pod", call: int, descriptors: list[int]) -> None:
        self.call = call
        self.descriptors = descriptors
        self._pod = pod

    def write(self, data: bytes) -> None:
        os.write(self.descriptors[0], data)

    def close_stdin(self) -> None:
        os.close(self.descriptors.pop(0))

    def close(self) -> None:
        while self.descriptors:
            os.close(self.descriptors.pop())

    def output(self) -> list[bytes]:
        """Return the complete output of each stream."""
        readers = self.descriptors if len(self.descriptors) < 3 else self.descriptors[1:]
        return [b"".join(iter(lambda each=each: read(each), b"")) for each in readers]  # type: ignore[misc]

    def exit_code(self) -> int:
        return self._pod.hear(Exited, lambda heard: heard.call == self.call).exit_code


class Pod:
    """The supervisor of a pod and the connection to it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.received: list[Any] = []
        self._came_with: dict[int, list[int]] = {}
        self.connect()

    def connect(self) -> None:
        self.channel: Channel[FromSupervisor] = connect(self.folder / "socket", messages.FromSupervisor)
        self.channel.socket.settimeout(PATIENCE_SECONDS)
        self.received.clear()
        self.hello = self.hear(Hello)

    def disconnect(self) -> None:
        self.channel.close()
        for descriptors in self._came_with.values():
            for descriptor in descriptors:
                os.close(descriptor)
        self._came_with.clear()

    def hear(
        self, kind: type[MessageType], is_it: Callable[[MessageType], bool] = lambda _: True
    ) -> MessageType:
        """Return the first message of a kind, received or to come. All messages are kept."""
        for heard in self.received:
            if isinstance(heard, kind) and is_it(heard):
                return heard
        while True:
            found = None
            for heard, descriptors in self.channel.receive():
                self.received.append(heard)
                if isinstance(heard, Opened):
                    self._came_with[heard.call] = descriptors
                if found is None and isinstance(heard, kind) and is_it(heard):
                    found = heard
            if found is not None:
                return found

    def hear_the_end(self) -> None:
        """Wait for the end of the connection."""
        with contextlib.suppress(EOFError):
            while True:
                self.channel.receive()

    # Containers

    def plan(self, *argv: str | bytes, **other: Any) -> ContainerPlan:
        words = tuple(word if isinstance(word, bytes) else word.encode() for word in argv)
        run_id = uuid.uuid4().hex
        given = {
            "environment": {b"PATH": levels.SYSTEM_PATH.encode()},
            "working_directory": "/",
            "mounts": (),
            "log": str(self.folder / f"{run_id}.log"),
        }
        return ContainerPlan(run_id, "main", words, **{**given, **other})

    def begin(self, *argv: str | bytes, **other: Any) -> str:
        """Start a container and return its id, without waiting for the result."""
        plan = self.plan(*argv, **other)
        self.channel.send(messages.Start(plan))
        return plan.id

    def start(self, script: str, **other: Any) -> str:
        run_id = self.begin("sh", "-c", script, **other)
        self.hear(Started, lambda heard: heard.run_id == run_id)
        return run_id

    def signal(self, run_id: str, number: int) -> None:
        self.channel.send(messages.Signal(run_id, number))

    def ended(self, run_id: str) -> Ended:
        return self.hear(Ended, lambda heard: heard.run_id == run_id)

    def not_started(self, run_id: str) -> NotStarted:
        return self.hear(NotStarted, lambda heard: heard.run_id == run_id)

    def log(self, run_id: str) -> list[tuple[str, str]]:
        """Return stream and text of each complete line."""
        path = self.folder / f"{run_id}.log"
        text = path.read_text(errors="surrogateescape") if path.exists() else ""
        words = [line.split(" ", 3) for line in text.split("\n")[:-1]]
        return [(stream, rest) for _, stream, _, rest in words]

    def wait_for_line(self, run_id: str, text: str) -> None:
        wait_for(f"{text!r} in the log", lambda: text in [line for _, line in self.log(run_id)])

    # Calls

    def ask(self, make: Callable[[int], msgspec.Struct]) -> tuple[int, list[int]]:
        """Return the number of the call and the opened descriptors. Raise AssertionError with the text of a
        rejection."""
        call = next(_numbers)
        self.channel.send(make(call))

        def is_answer(heard: Any) -> bool:
            return isinstance(heard, Opened | Rejected) and heard.call == call

        answer = self.hear(msgspec.Struct, is_answer)
        assert isinstance(answer, Opened), answer
        return call, self._came_with.pop(call)

    def refusal(self, make: Callable[[int], msgspec.Struct]) -> str:
        call = next(_numbers)
        self.channel.send(make(call))
        return self.hear(Rejected, lambda heard: heard.call == call).message

    def execute(self, run_id: str, *argv: str, is_terminal: bool = False) -> Shell:
        words = tuple(word.encode() for word in argv)
        return Shell(self, *self.ask(lambda call: Execute(call, run_id, words, is_terminal)))

    def attach(self, run_id: str) -> Shell:
        """Return the descriptors for output and, if there is one, input."""
        return Shell(self, *self.ask(lambda call: messages.Attach(call, run_id)))


class Spawner:
    """The spawner. `lifeline` is the descriptor that keeps all pods alive."""

    def __init__(self, folder: Path, launched: launcher.Launched, lifeline: int) -> None:
        self.folder = folder
        self.process = launched.process
        self.channel = launched.channel
        self.channel.socket.settimeout(PATIENCE_SECONDS)
        self.lifeline: int | None = lifeline
        self.pods: list[Pod] = []
        ((ready, namespaces),) = self.channel.receive()
        assert isinstance(ready, messages.Ready), ready
        self.ready: messages.Ready = ready
        for descriptor in namespaces:
            os.close(descriptor)

    def ask(self, make: Callable[[int], msgspec.Struct]) -> messages.FromSpawner:
        self.channel.send(make(next(_numbers)))
        ((answer, _),) = self.channel.receive()
        return answer

    def plan(self, **other: Any) -> messages.PodPlan:
        uid = uuid.uuid4().hex
        folder = self.folder / uid
        folder.mkdir()
        shutil.chown(folder, self.folder.stat().st_uid, self.folder.stat().st_gid)
        link = None
        if self.ready.gateway:
            address = f"10.86.1.{len(self.pods) + 1}"
            link = messages.Link(address, self.ready.prefix_length, self.ready.gateway)
        given = {"folder": str(folder), "hostname": f"host-{uid[:8]}", "link": link}
        return messages.PodPlan(uid, **{**given, **other})

    def pod(self, plan: messages.PodPlan | None = None) -> Pod:
        plan = plan or self.plan()
        answer = self.spawn(plan)
        assert isinstance(answer, messages.Done), answer
        self.pods.append(Pod(Path(plan.folder)))
        return self.pods[-1]

    def spawn(self, plan: messages.PodPlan) -> messages.FromSpawner:
        return self.ask(lambda call: messages.Spawn(call, plan))

    def complaints(self) -> str:
        return (self.folder / launcher.LOG).read_text()

    def cut_lifeline(self) -> None:
        if self.lifeline is not None:
            os.close(self.lifeline)
            self.lifeline = None

    def leave(self) -> None:
        """Disconnect, like a daemon that ends."""
        for pod in self.pods:
            pod.disconnect()
        self.channel.close()
        self.process.wait(PATIENCE_SECONDS)


def read(descriptor: int) -> bytes:
    """Return the next bytes; empty at the end, which a terminal reports as an error."""
    try:
        return os.read(descriptor, 1 << 16)
    except OSError:
        return b""


def family(pid: int) -> list[str]:
    """Return the process and its descendants, identified independently of PIDs."""
    found = [processes.identity(each) for each in (pid, *processes.descendants(pid))]
    return [each for each in found if each is not None]


def wait_until_gone(identities: list[str]) -> None:
    def are_gone() -> bool:
        return not any(map(processes.is_alive, identities))

    wait_for("no process to be left", are_gone)


def words_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def with_word(word: str) -> list[int]:
    """Return the processes with this word in their command line, except our own."""
    return [
        int(each.name)
        for each in Path("/proc").glob("[0-9]*")
        if int(each.name) != os.getpid() and word in words_of(int(each.name))
    ]


def marked(run_id: str) -> list[int]:
    return processes.pids_with_variable(container_init.RUN_ID_VARIABLE, run_id.encode())


def init_of(run_id: str) -> int:
    """Return the init process above the container's command."""
    inside = marked(run_id)
    parents = {parent for pid in inside for parent in processes.ancestors(pid)[:1]}
    (init,) = parents - {*inside, 1}
    return init


def supervisor_of(run_id: str) -> int:
    return processes.ancestors(init_of(run_id))[0]


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)


# Levels


WITH_NAMESPACES: Final[tuple[levels.Name, ...]] = ("root", "nobody")
"""The levels at which a pod has its own mounts, processes and network."""


def python() -> str:
    """Return an interpreter that containers can run at every level that this machine allows."""
    return levels.interpreter_for_anybody() or sys.executable


@contextlib.contextmanager
def spawner(level: levels.Level, **overrides: Any) -> Iterator[Spawner]:
    """Run a spawner. Its processes end with the lifeline, and nothing may be left then."""
    folder = Path(tempfile.mkdtemp(prefix="windlass-supervised-"))
    with contextlib.ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        user = os.getuid() if level.user is None else level.user
        os.chown(folder, user, -1)
        reader, writer = os.pipe()
        sandbox = level.environment.get(levels.PLAIN, "auto")
        options = {"lifeline": reader, "level": sandbox, "cluster": folder.name, **overrides}
        # Containers do not need the daemon's environment.
        before = os.umask(0o077)
        with mock.patch.object(sys, "executable", _interpreter(level, folder)):
            launched = launcher.launch(launcher.SpawnerOptions(folder=folder, **options))
        os.umask(before)
        os.close(reader)
        launched_family = Spawner(folder, launched, writer)
        stack.callback(_end, launched_family)
        yield launched_family


def _end(spawner: Spawner) -> None:
    processes = family(spawner.process.pid)
    for pod in spawner.pods:
        pod.disconnect()
    spawner.cut_lifeline()
    spawner.channel.close()
    spawner.process.wait(PATIENCE_SECONDS)
    wait_until_gone(processes)


def _interpreter(level: levels.Level, folder: Path) -> str:
    """Return a program that runs Python as available at this level."""
    surroundings = [f"{name}={value}" for name, value in level.surroundings(folder).items()]
    words = shlex.join(["env", "-i", *surroundings, *level.command()])
    script = folder / "python"
    script.write_text(f'#!/bin/sh\nexec {words} "$@"\n')
    script.chmod(0o755)
    return str(script)
