"""The environment of a test: an API server, a fake kubelet, and controllers as processes behind a proxy each."""

import asyncio
import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

from fake_kubelet.history import History
from fake_kubelet.kubelet import FakeKubelet, Shown
from fake_kubelet.lifecycle import Life
from operated import loop_thread
from operated.clusters import Cluster
from operated.controllers import Controller
from operated.loop_thread import LoopThread
from operated.place import Place
from operated.proxy import Proxy, Upstream

from conformance.waiting import wait_for
from windlass.kubeapi import access
from windlass.kubeapi.transport import Transport

T = TypeVar("T")


class World:
    def __init__(self, cluster: Cluster, stage: LoopThread) -> None:
        self.cluster = cluster
        self.stage = stage
        self.controllers: dict[str, Controller] = {}
        self.kubelet: FakeKubelet | None = None
        self._places: list[Place] = []

    @property
    def history(self) -> History:
        """The history of the fake kubelet."""
        assert self.kubelet is not None
        return self.kubelet.history

    def new_place(self) -> Place:
        self._places.append(Place(self.cluster.client, self.cluster.new_namespace(), self))
        return self._places[-1]

    def leave_places(self) -> None:
        """Delete the namespaces without waiting for their contents."""
        for place in self._places:
            place.client.delete(f"/api/v1/namespaces/{place.name}")
        self._places.clear()

    def start_kubelet(self) -> None:
        """Its bursts come to every controller as one."""
        self.stage.start(self._kubelet())
        self.wait_for("the kubelet to start", lambda: self.kubelet)

    async def _kubelet(self) -> None:
        found = await access.load(kubeconfig=str(self.cluster.kubelets_kubeconfig))
        async with Transport(found, user_agent="hollow-kubelet") as transport:
            self.kubelet = FakeKubelet(transport, around_burst=self._as_one)
            await self.kubelet.run()

    @contextlib.contextmanager
    def _as_one(self) -> Iterator[Shown]:
        """Each proxy lets go when it has all of it: the server tells one client of a change earlier than another."""
        with contextlib.ExitStack() as stack:
            proxies = [controller.proxy for controller in self.controllers.values()]
            for proxy in proxies:
                stack.enter_context(proxy.holding())

            async def shown(version: int) -> None:
                await asyncio.gather(*(proxy.holds_pods_of(version) for proxy in proxies))

            yield shown

    def override_life(self, place: Place, framework: str, life: Life) -> None:
        assert self.kubelet is not None
        self.stage.call(functools.partial(self.kubelet.override, place.name, framework, life))

    def controller(
        self,
        name: str,
        *options: str,
        environment: Mapping[str, str] | None = None,
        is_forked: bool = False,
        upstream: Upstream | None = None,
    ) -> Controller:
        """A new process, behind a proxy of its own."""
        proxy = Proxy(upstream or self.cluster.upstream(), self.cluster.folder, name)
        self.stage.wait(proxy.start())
        self.controllers[name] = Controller(
            name, proxy, self.cluster.folder, options, environment or {}, is_forked=is_forked
        )
        return self.controllers[name]

    def require_no_exceptions(self) -> None:
        for controller in self.controllers.values():
            controller.require_no_exceptions()

    def stop_controllers(self) -> None:
        for controller in self.controllers.values():
            controller.process.kill()
            self.stage.wait(controller.proxy.stop())
        self.controllers.clear()

    def wait_for(self, what: str, look: Callable[[], T | None]) -> T:
        """Return the result of `look` as soon as it is true. Fail at once if a process has ended."""

        def look_around() -> T | None:
            self.stage.raise_errors()
            return look()

        return wait_for(what, look_around)


@contextlib.contextmanager
def on(cluster: Cluster) -> Iterator[World]:
    with loop_thread.running() as stage:
        world = World(cluster, stage)
        try:
            yield world
        finally:
            world.stop_controllers()
