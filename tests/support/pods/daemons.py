"""An embedded cluster that runs pods: started as one of the levels, killed, started again, and never left behind."""

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Literal

import msgspec
from pods import machine
from pods.levels import Level, Name
from pods.machine import Process, Traces
from pods.place import Place

from conformance.client import Access, Client
from conformance.waiting import wait_for

Network = Literal["auto", "isolated", "shared"]


class Kind(msgspec.Struct, frozen=True):
    """A level and the network that its pods have."""

    level: Name
    network: Network

    def __str__(self) -> str:
        return f"{self.level}-{self.network}"


WITH_MOUNTS: Final = (
    Kind("root", "isolated"),
    Kind("root", "shared"),
    Kind("nobody", "isolated"),
    Kind("nobody", "shared"),
)
WITHOUT_MOUNTS: Final = (Kind("unnamespaced", "shared"), Kind("plain", "shared"))


class Daemon:
    """`python -m windlass.localcluster --pods`, in a folder that belongs to its user."""

    def __init__(
        self,
        level: Level,
        network: Network = "auto",
        *options: str,
        is_ephemeral: bool = False,
        before: tuple[str, ...] = (),
        data: str = "",
    ) -> None:
        self.level = level
        self.network = network
        self.mark = uuid.uuid4().hex
        self.folder = Path(tempfile.mkdtemp(prefix="windlass-pods-"))
        self.data = Path(data) if data else self.folder / "data"
        self.log = self.folder / "log"
        self._kubeconfig = self.folder / "kubeconfig"
        self._options = ["--network", network, *options, *(["--ephemeral"] if is_ephemeral else [])]
        self._before = before
        self._clients: list[Client] = []
        self._process: subprocess.Popen[bytes] | None = None
        if level.user is not None:
            os.chown(self.folder, level.user, level.user)
        try:
            self.start()
        except BaseException:
            self.remove()
            raise

    def start(self) -> None:
        self._kubeconfig.unlink(missing_ok=True)
        command = self.level.command(
            *("-m", "windlass.localcluster", "--pods"),
            *("--data", str(self.data), "--kubeconfig", str(self._kubeconfig)),
            *self._options,
        )
        with self.log.open("ab") as output:
            self._process = subprocess.Popen(  # noqa: S603
                [*self._before, *command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**self.level.surroundings(self.folder), machine.MARKER: self.mark},
                cwd=self.folder,
                start_new_session=True,
            )
        wait_for("the cluster to be ready", self._is_ready)
        self.client = Client(Access.of_kubeconfig(self._kubeconfig))
        self._clients.append(self.client)
        wait_for("a node to be ready", self._has_nodes)

    def _is_ready(self) -> bool:
        assert self.is_alive, f"the cluster ended with {self.code}:\n{self.tail()}"
        return self._kubeconfig.exists() and "is ready" in self.log.read_text(errors="replace")

    def _has_nodes(self) -> bool:
        return has_ready_node(self.client)

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def code(self) -> int | None:
        return None if self._process is None else self._process.poll()

    @property
    def is_alive(self) -> bool:
        return self._process is not None and self.code is None

    def tail(self, lines: int = 60) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])

    def new_place(self) -> Place:
        return new_place(self.client, {machine.MARKER: self.mark})

    def delete_all_pods(self) -> None:
        for each in self.client.get("/api/v1/pods").expect(200).body["items"]:
            metadata = each["metadata"]
            self.client.delete(f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}")
        wait_for("all pods to be gone", lambda: not self.client.get("/api/v1/pods").expect(200).names)

    # Its processes

    def processes(self) -> list[Process]:
        return machine.marked(self.mark)

    def traces(self) -> Traces:
        return machine.traces(self.mark, self.folder)

    def inside(self, name: str) -> Process:
        """The first process of a container that has CONTAINER=name in its environment."""
        return wait_for(f"a process of {name}", lambda: self._inside(name))

    def _inside(self, name: str) -> Process | None:
        found = self.all_inside(name)
        own = {each.pid for each in found}
        return next((each for each in found if each.parent not in own), None)

    def all_inside(self, name: str) -> list[Process]:
        return machine.marked(name, "CONTAINER")

    def ancestors(self, process: Process) -> list[Process]:
        """From the spawner down to the process that started this one."""
        line = machine.lineage(process, self.processes())
        return [each for each in line[:-1] if each.pid != self.pid]

    # Its end

    def kill(self) -> None:
        """With -9, and this process alone."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def kill_everything(self) -> None:
        machine.kill_all(self.processes())
        assert self._process is not None
        self._process.wait()

    def stop(self, number: int = signal.SIGTERM) -> int:
        assert self._process is not None
        self._process.send_signal(number)
        code = wait_for("the cluster to end", lambda: None if self.code is None else (self.code,))
        return code[0]

    def remove(self) -> None:
        """Whatever happened before: no process and no file stays."""
        for client in self._clients:
            client.close()
        if self.is_alive:
            with contextlib.suppress(AssertionError):
                self.stop()
        wait_for("all processes to be killed", self._kill_marked)
        if self._process is not None:
            self._process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _kill_marked(self) -> bool:
        left = self.processes()
        machine.kill_all(left)
        return not left


def has_ready_node(client: Client) -> bool:
    nodes = client.get("/api/v1/nodes").expect(200).body["items"]
    conditions = [each for node in nodes for each in node.get("status", {}).get("conditions", ())]
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def new_place(client: Client, environment: dict[str, str] | None = None, minor: int = 0) -> Place:
    name = f"t-{uuid.uuid4().hex[:10]}"
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    client.post("/api/v1/namespaces", body).expect(201)
    return Place(client, name, environment, minor)


@contextlib.contextmanager
def running(
    level: Level,
    network: Network = "auto",
    *options: str,
    is_ephemeral: bool = False,
    before: tuple[str, ...] = (),
    data: str = "",
) -> Iterator[Daemon]:
    """`before` is a command that starts it, and `data` where its data are, if not in a folder of its own."""
    daemon = Daemon(level, network, *options, is_ephemeral=is_ephemeral, before=before, data=data)
    try:
        yield daemon
    except AssertionError as error:
        error.add_note(f"the cluster's log ends with:\n{daemon.tail()}")
        raise
    finally:
        daemon.remove()
