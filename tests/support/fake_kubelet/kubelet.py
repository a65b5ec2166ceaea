"""A hollow kubelet: a simulated part. It says of the pods of Frameworks that they run and end, and nothing runs.

It speaks the Kubernetes API like any kubelet, so that the controller can be tested and measured against the embedded
API server and against a real one: pods get a node, run, succeed or fail, and go when they are deleted. What becomes of
a pod is data (`hollow_lives`), what was seen of it is kept (`hollow_history`). It holds no decision of the controller's
and minds nothing but pods that have a label, by default a Framework's.

    python -m fake_kubelet.kubelet --kubeconfig FILE [--runs-for 10]
"""

import argparse
import asyncio
import contextlib
import itertools
import json
import signal
import time
from collections.abc import Awaitable, Callable, Iterable
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from enum import Enum, auto

import msgspec

from fake_kubelet import lifecycle
from fake_kubelet.history import History, Sighting
from fake_kubelet.lifecycle import Life, Play, Pod
from windlass.kubeapi import access, errors, requests, resources
from windlass.kubeapi.reflector import Changed, Deleted, Listed, Reflector, ResourceEvent
from windlass.kubeapi.requests import Request, Verb
from windlass.kubeapi.transport import Transport
from windlass.model import names
from windlass.model.base import Json

REQUEST_SECONDS = 30.0
FIRST_PAUSE = 0.05
LONGEST_PAUSE = 1.0

Shown = Callable[[int], Awaitable[None]]
"""Returns when those who matter have been shown pods of that version."""

_decode = msgspec.json.Decoder(Pod).decode


class Step(Enum):
    START = auto()
    END = auto()
    REMOVE = auto()


class Stage(Enum):
    WAITING = auto()
    STARTING = auto()
    RUNNING = auto()
    ENDING = auto()
    ENDED = auto()


class _Minded:
    """A pod, and how far it has come."""

    def __init__(self, pod: Pod, life: Life, sighting: Sighting) -> None:
        self.pod = pod
        self.life = life
        self.sighting = sighting
        self.stage = Stage.WAITING
        self.timer: asyncio.TimerHandle | None = None
        self.is_removal_planned = False

    @property
    def is_phase_shown(self) -> bool:
        """The watch has shown what the last step led to."""
        phase = self.pod.status.phase
        return phase != "Pending" if self.stage is Stage.RUNNING else self.pod.is_ended

    def set_out(self, step: Step) -> None:
        """From here on and not from the first request on: what the watch says meanwhile plans no second one."""
        self.stop_timer()
        self.stage = {Step.START: Stage.STARTING, Step.END: Stage.ENDING}.get(step, self.stage)

    def stop_timer(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None


class _Gang:
    """The pods of one attempt that start and end in one step."""

    def __init__(self) -> None:
        self.waiting: set[str] = set()
        self.starting: set[str] = set()
        self.running: set[str] = set()
        self.due: set[str] = set()

    def lose(self, uid: str) -> None:
        for pods in (self.waiting, self.starting, self.running, self.due):
            pods.discard(uid)

    @property
    def is_due_to_end(self) -> bool:
        return bool(self.due) and not self.starting and self.due == self.running


class FakeKubelet:
    """Everything happens on one event loop, that of `run`."""

    def __init__(
        self,
        transport: Transport,
        *,
        play: Play | None = None,
        namespace: str = "",
        label: str = names.FRAMEWORK_NAME,
        node: str = "hollow",
        connections: int = 16,
        around_burst: Callable[[], AbstractContextManager[Shown]] | None = None,
    ) -> None:
        """With an empty `node` pods are not bound: their deletion then needs nobody's consent. `around_burst` is
        entered while a gang is on the move, and left when the watch has shown all of it, here and to whomever its
        function waits for."""
        self.history = History()
        self._transport = transport
        self._play = play or lifecycle.by_annotations(Life())
        self._namespace = namespace
        self._label = label
        self._node = node
        self._around_burst = around_burst
        self._connections = asyncio.Semaphore(connections)
        self._pods: dict[str, _Minded] = {}
        self._gangs: dict[tuple[str, str], _Gang] = {}
        self._told: dict[tuple[str, str], Life] = {}
        self._addresses = itertools.count(1)
        self._tasks: asyncio.TaskGroup | None = None

    async def run(self) -> None:
        """Until it is cancelled. A server that is away is waited for."""
        follower = Reflector(
            self._transport,
            resources.PODS,
            namespace=self._namespace,
            label_selector=self._label,
            receive=self._receive,
        )
        try:
            async with asyncio.TaskGroup() as self._tasks:
                self._tasks.create_task(follower.run())
        finally:
            self._tasks = None
            for minded in self._pods.values():
                minded.stop_timer()

    def tell(self, namespace: str, framework: str, life: Life) -> None:
        """From now on all pods of that Framework live so, whatever they say themselves."""
        self._told[namespace, framework] = life
        for minded in tuple(self._pods.values()):
            if _framework_of(minded.pod) == (namespace, framework):
                self._live(minded, life)

    # What the watch says

    def _receive(self, news: ResourceEvent) -> None:
        match news:
            case Listed(items=items):
                pods = [_decode(item) for item in items]
                for uid in self._pods.keys() - {pod.uid for pod in pods}:
                    self._lose(uid)
                for pod in pods:
                    self._see(pod)
            case Changed(object=changed):
                self._see(_decode(changed))
            case Deleted(object=deleted):
                self._lose(_decode(deleted).uid)

    def _see(self, pod: Pod) -> None:
        life = self._told.get(_framework_of(pod)) or self._play(pod)
        minded = self._pods.get(pod.uid)
        if minded is None:
            sighting = self.history.saw(pod, time.monotonic())
            minded = self._pods[pod.uid] = _Minded(pod, life, sighting)
            self._adopt(minded)
        minded.pod = pod
        self._live(minded, life)

    def _adopt(self, minded: _Minded) -> None:
        """It may have come far before this kubelet saw it."""
        if minded.pod.is_ended:
            minded.stage = Stage.ENDED
        elif minded.pod.status.phase == "Running":
            minded.stage = Stage.RUNNING
            minded.sighting.started = minded.sighting.created

    def _lose(self, uid: str) -> None:
        minded = self._pods.pop(uid, None)
        if minded is None:
            return
        minded.stop_timer()
        minded.sighting.removed = time.monotonic()
        minded.sighting.ended = minded.sighting.ended or minded.sighting.removed
        self._leave_gang(minded)

    # What comes next

    def _live(self, minded: _Minded, life: Life) -> None:
        if life != minded.life:
            minded.stop_timer()
            minded.life = life
        if minded.pod.is_deleting:
            self._leave_gang(minded)
            self._plan_removal(minded)
        elif minded.timer is None and minded.stage is Stage.WAITING and life.starts_after is not None:
            self._plan(minded, life.starts_after)
        elif minded.timer is None and minded.stage is Stage.RUNNING:
            if life.gang > 1 and life.runs_for is not None:
                self._gang_of(minded).running.add(minded.pod.uid)
            if life.runs_for is not None:
                self._plan(minded, life.runs_for)

    def _plan(self, minded: _Minded, seconds: float) -> None:
        minded.timer = asyncio.get_running_loop().call_later(seconds, self._due, minded)

    def _plan_removal(self, minded: _Minded) -> None:
        if minded.is_removal_planned:
            return
        minded.stop_timer()
        if minded.life.stops_after is None:
            return
        minded.is_removal_planned = True
        minded.timer = asyncio.get_running_loop().call_later(
            minded.life.stops_after, self._do, minded, Step.REMOVE
        )

    def _due(self, minded: _Minded) -> None:
        step = Step.START if minded.stage is Stage.WAITING else Step.END
        if minded.life.gang <= 1:
            self._do(minded, step)
            return
        gang, uid = self._gang_of(minded), minded.pod.uid
        if step is Step.START:
            gang.waiting.add(uid)
            if len(gang.waiting) >= minded.life.gang:
                gang.starting, gang.waiting = gang.waiting, set()
                self._do_together(gang.starting, step)
        else:
            gang.due.add(uid)
            self._end_if_all_are_due(gang)

    def _end_if_all_are_due(self, gang: _Gang) -> None:
        if gang.is_due_to_end:
            ending, gang.running, gang.due = gang.due, set(), set()
            self._do_together(ending, Step.END)

    def _gang_of(self, minded: _Minded) -> _Gang:
        key = (minded.pod.metadata.namespace, minded.pod.owner_uid)
        return self._gangs.setdefault(key, _Gang())

    def _leave_gang(self, minded: _Minded) -> None:
        key = (minded.pod.metadata.namespace, minded.pod.owner_uid)
        gang = self._gangs.get(key)
        if gang is not None:
            gang.lose(minded.pod.uid)
            self._end_if_all_are_due(gang)

    # Doing it

    def _do(self, minded: _Minded, step: Step) -> None:
        minded.set_out(step)
        if self._tasks is not None:
            self._tasks.create_task(self._carry_out(minded, step))

    def _do_together(self, uids: Iterable[str], step: Step) -> None:
        together = [minded for uid in uids if (minded := self._pods.get(uid)) is not None]
        for minded in together:
            minded.set_out(step)
        if self._tasks is not None:
            self._tasks.create_task(self._move(together, step))

    async def _move(self, together: list[_Minded], step: Step) -> None:
        if self._around_burst is None:
            await asyncio.gather(*(self._carry_out(minded, step) for minded in together))
            return
        with self._around_burst() as shown:
            await asyncio.gather(*(self._carry_out(minded, step) for minded in together))
            while any(self._is_unshown(minded) for minded in together):
                await asyncio.sleep(FIRST_PAUSE)
            await shown(max((int(minded.pod.metadata.resource_version) for minded in together), default=0))

    def _is_unshown(self, minded: _Minded) -> bool:
        return minded.pod.uid in self._pods and not minded.pod.is_deleting and not minded.is_phase_shown

    async def _carry_out(self, minded: _Minded, step: Step) -> None:
        """Again and again, until the server has done it or the pod is another's or gone."""
        pause = FIRST_PAUSE
        while self._is_wanted(minded, step):
            try:
                async with self._connections:
                    await self._perform(minded, step)
                return
            except (errors.NotFoundError, errors.ConflictError):
                return
            except (errors.UnansweredError, errors.TooManyRequestsError, errors.ServerError):
                await asyncio.sleep(pause)
                pause = min(2 * pause, LONGEST_PAUSE)

    def _is_wanted(self, minded: _Minded, step: Step) -> bool:
        is_there = self._pods.get(minded.pod.uid) is minded
        return is_there and (step is Step.REMOVE or not minded.pod.is_deleting)

    async def _perform(self, minded: _Minded, step: Step) -> None:
        match step:
            case Step.START:
                await self._start(minded)
            case Step.END:
                await self._end(minded)
            case Step.REMOVE:
                await self._remove(minded)

    async def _start(self, minded: _Minded) -> None:
        pod = minded.pod
        if self._node and not pod.spec.node_name:
            # It has its node already where an earlier answer got lost.
            with contextlib.suppress(errors.ConflictError):
                await self._transport.send(_binding(pod, self._node), REQUEST_SECONDS)
        # A container runs before its kubelet says so, and even if nobody ever hears of it.
        minded.sighting.started = minded.sighting.started or time.monotonic()
        address = _address(next(self._addresses))
        await self._patch(pod, lifecycle.running_status(pod, address, _now()))
        minded.stage = Stage.RUNNING
        if minded.life.gang > 1:
            self._gang_of(minded).starting.discard(pod.uid)
        self._live(minded, minded.life)

    async def _end(self, minded: _Minded) -> None:
        minded.sighting.ended = minded.sighting.ended or time.monotonic()
        minded.sighting.exit_code = minded.life.exit_code
        await self._patch(minded.pod, lifecycle.ended_status(minded.pod, minded.life, _now()))
        minded.stage = Stage.ENDED

    async def _remove(self, minded: _Minded) -> None:
        minded.sighting.ended = minded.sighting.ended or time.monotonic()
        metadata = minded.pod.metadata
        request = requests.delete(
            resources.PODS, metadata.namespace, metadata.name, uid=metadata.uid, grace_seconds=0
        )
        await self._transport.send(request, REQUEST_SECONDS)

    async def _patch(self, pod: Pod, status: Json) -> None:
        # The UID is a precondition: a pod of the same name that came later is another one.
        body = msgspec.json.encode({"metadata": {"uid": pod.uid}, "status": status})
        metadata = pod.metadata
        request = requests.merge_patch(
            resources.PODS, metadata.namespace, metadata.name, body, subresource="status"
        )
        await self._transport.send(request, REQUEST_SECONDS)


def _framework_of(pod: Pod) -> tuple[str, str]:
    return pod.metadata.namespace, pod.metadata.labels.get(names.FRAMEWORK_NAME, "")


def _binding(pod: Pod, node: str) -> Request:
    metadata = pod.metadata
    body = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": metadata.name, "uid": metadata.uid},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }
    return Request(
        verb=Verb.CREATE,
        method="POST",
        resource=resources.PODS,
        path=resources.PODS.path(metadata.namespace, metadata.name, "binding"),
        body=msgspec.json.encode(body),
        content_type="application/json",
        namespace=metadata.namespace,
        subresource="binding",
    )


def _address(number: int) -> str:
    return f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


# The command


async def _serve(arguments: argparse.Namespace) -> FakeKubelet:
    loop, stopped = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    runs_for = None if arguments.runs_for == lifecycle.NEVER else float(arguments.runs_for)
    play = lifecycle.by_annotations(Life(runs_for=runs_for))
    found = await access.load(kubeconfig=arguments.kubeconfig)
    async with Transport(found, user_agent="hollow-kubelet") as transport:
        kubelet = FakeKubelet(
            transport,
            play=play,
            namespace=arguments.namespace,
            label=arguments.label,
            node=arguments.node,
            connections=arguments.connections,
        )
        running = asyncio.create_task(kubelet.run())
        stopping = asyncio.create_task(stopped.wait())
        await asyncio.wait((running, stopping), return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running
    return kubelet


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m fake_kubelet.kubelet", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("--kubeconfig", default="", help="default: as kubectl finds it")
    parser.add_argument("--namespace", default="", help="default: all of them")
    parser.add_argument(
        "--runs-for", default="0", help="seconds that a pod runs, or never, unless it says so itself"
    )
    parser.add_argument(
        "--label", default=names.FRAMEWORK_NAME, help="pods without it are left alone (default: %(default)s)"
    )
    parser.add_argument("--node", default="hollow", help="that pods are bound to; empty: they are not")
    parser.add_argument("--connections", type=int, default=16, help="how many requests at a time")
    kubelet = asyncio.run(_serve(parser.parse_args()))
    pods = kubelet.history.pods
    started = sum(pod.started is not None for pod in pods)
    print(json.dumps({"pods": len(pods), "started": started, "alive": len(kubelet.history.alive)}))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
