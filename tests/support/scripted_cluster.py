"""An `in_process_cluster` with namespaces in which tests write the logs and run `windlass`."""

import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from typing import Any, TypeVar

import fake_cluster
import in_process_cluster
from click.testing import CliRunner, Result
from in_process_cluster import ClusterNamespace, InProcessCluster
from scripted_logs import Restart, ScriptedLogs

from windlass.cli.main import main
from windlass.client import connection as connections
from windlass.client.connection import Connection

T = TypeVar("T")


class ScriptedCluster(InProcessCluster):
    def __init__(self, hollow: InProcessCluster, scribe: ScriptedLogs) -> None:
        super().__init__(hollow.stage, hollow.kubeconfig, hollow.client)
        self.scribe = scribe

    def new_scripted_place(self) -> "Place":
        place = Place(self, self.new_place().name)
        place.on_scribe(lambda scribe: scribe.scripted.add(place.name))
        return place


class Place(ClusterNamespace):
    """A namespace and the commands of a user."""

    def __init__(self, world: ScriptedCluster, name: str) -> None:
        super().__init__(world, world.client, name)
        self.stage = world.stage
        self.scribe = world.scribe

    def windlass(self, command: str, *arguments: str) -> Result:
        """Run a command in this process."""
        return CliRunner().invoke(main, [command, *self.options, *arguments])

    def use(self, work: Callable[[Connection], Coroutine[Any, Any, T]]) -> T:
        """Return the result of a client function, on the loop of the cluster."""

        async def used() -> T:
            async with self.connected() as connection:
                return await work(connection)

        return self.stage.wait(used())

    @contextlib.asynccontextmanager
    async def connected(self) -> AsyncIterator[Connection]:
        async with connections.connected(str(self.kubeconfig), "", self.name) as connection:
            yield connection

    def on_scribe(self, act: Callable[[ScriptedLogs], T]) -> T:
        return self.stage.call(lambda: act(self.scribe))

    def write(self, pod: str, text: str | bytes, **more: Any) -> None:
        self.on_scribe(lambda scribe: scribe.write(f"{self.name}/{pod}", text, **more))

    def end_log(self, pod: str) -> None:
        """End the log."""
        self.on_scribe(lambda scribe: scribe.end(f"{self.name}/{pod}"))

    def lose_log(self, pod: str) -> None:
        """Remove the log from the node."""
        self.on_scribe(lambda scribe: scribe.lose(f"{self.name}/{pod}"))

    def forget_log(self, pod: str) -> None:
        """Forget the log: a new pod of the same name follows."""
        self.on_scribe(lambda scribe: scribe.forget(f"{self.name}/{pod}"))

    def restart_container(self, pod: str, count: int = 1, code: int = 1) -> None:
        """Restart a container that exited with this code."""
        self.on_scribe(lambda scribe: scribe.restart(f"{self.name}/{pod}"))
        status = {"containerStatuses": [Restart(count, code).status()]}
        self.client.patch(self.path("pods", pod, "status"), {"status": status}).expect(200)

    def finish(self, *pods: str, code: int = 0) -> None:
        """End the pods that run forever, and their logs."""
        for pod in pods:
            self.end_log(pod)
            self.end_pod(pod, code)


@contextlib.contextmanager
def running(*, has_controller: bool = True) -> Iterator[ScriptedCluster]:
    scribe = ScriptedLogs(fake_cluster.Logs())
    with in_process_cluster.opened(has_controller=has_controller, logs=scribe) as hollow:
        yield ScriptedCluster(hollow, scribe)
