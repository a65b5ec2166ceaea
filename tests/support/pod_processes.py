"""The processes of a pod on this machine, from the spawner down to its command, to be killed or stopped."""

from typing import Any

from pods.daemons import Daemon
from pods.machine import Process
from pods.place import Place, Pod
from pods.specs import FOREVER, container, field

from conformance.waiting import wait_for


class PodProcesses:
    """A running pod whose processes are identifiable."""

    def __init__(
        self,
        daemon: Daemon,
        name: str = "one",
        run: str | list[str] = FOREVER,
        *,
        place: Place | None = None,
        **spec: Any,
    ) -> None:
        self.daemon = daemon
        self.name = f"{name}-{daemon.mark}"
        self.place = place or daemon.new_place()
        env = [{"name": "CONTAINER", "value": self.name}, field("POD_IP", "status.podIP")]
        self.pod = self.place.start(container(run, env=env), **spec)
        self.before = self.pod.running()
        self.process = daemon.inside(self.name)
        line = [each for each in daemon.ancestors(self.process) if each.parent != daemon.pid]
        assert line, f"no process is between the spawner and {self.process}"
        self.supervisor, self.init = line[0], line[-1]

    @property
    def processes(self) -> list[Process]:
        return self.daemon.all_inside(self.name)

    @property
    def is_undisturbed(self) -> bool:
        return self.process.is_alive and self.pod.seen().container() == self.before.container()

    def again(self, daemon: Daemon | None = None) -> Pod:
        """Return the same pod as the next daemon shows it."""
        self.place.client = (daemon or self.daemon).client
        self.pod = Pod(self.place, self.pod.name)
        return self.pod

    def wait_until_nothing_is_left(self) -> None:
        self.pod.wait_until_gone()
        wait_for("no process", lambda: not self.processes)
        wait_for("no helper process", lambda: not self.supervisor.is_alive and not self.init.is_alive)
        folder = self.daemon.data / "pods" / self.before.uid
        wait_for("its folder to be gone", lambda: not folder.exists())


def spawners(daemon: Daemon) -> list[Process]:
    """Return the spawner; none if it was killed and not needed since."""
    children = (each for each in daemon.processes() if each.parent == daemon.pid)
    return [each for each in children if any("spawner" in word for word in each.command)]


def kill_spawner(daemon: Daemon) -> None:
    (spawner,) = spawners(daemon)
    spawner.kill()
    wait_for("its death", lambda: not spawner.is_alive)
