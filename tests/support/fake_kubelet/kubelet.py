"""A fake kubelet: sets the status of pods without running containers.

It uses the Kubernetes API like any kubelet, so that the controller can be tested and measured against the embedded API
server and a real one: pods get a node, run, succeed or fail, and are removed when they are deleted. `lifecycle` has
the behaviour of pods as data, `history` what was observed. It handles only pods with a label, by default a Framework's.

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
from windlass.k8s.protobuf import views
from windlass.k8s.protobuf.messages import MAGIC
from windlass.kubeapi import access, errors, requests, resources
from windlass.kubeapi.reflector import Changed, Deleted, Listed, Reflector, ResourceEvent
from windlass.kubeapi.requests import Request, Verb
from windlass.kubeapi.transport import Transport
from windlass.model import names
from windlass.model.base import Json

REQUEST_SECONDS = 30.0
INITIAL_DELAY = 0.05
MAX_DELAY = 1.0

Shown = Callable[[int], Awaitable[None]]
"""Returns when the relevant watches have received pods of that version."""

_decode_json = msgspec.json.Decoder(Pod).decode
_decode_protobuf = views.Decoder(Pod, "v1", "Pod").decode


def _decode(data: msgspec.Raw) -> Pod:
    body = bytes(data)
    return _decode_protobuf(body) if body.startswith(MAGIC) else _decode_json(body)


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


class _TrackedPod:
    """A pod and its stage."""

    def __init__(self, pod: Pod, life: Life, sighting: Sighting) -> None:
        self.pod = pod
        self.life = life
        self.sighting = sighting
        self.stage = Stage.WAITING
        self.timer: asyncio.TimerHandle | None = None
        self.is_removal_planned = False

    @property
    def is_phase_shown(self) -> bool:
        """Whether the watch has shown the result of the last step."""
        phase = self.pod.status.phase
        return phase != "Pending" if self.stage is Stage.RUNNING else self.pod.is_ended

    def begin(self, step: Step) -> None:
        """Enter the stage before the request is sent, so that watch events do not start the step again."""
        self.stop_timer()
        self.stage = {Step.START: Stage.STARTING, Step.END: Stage.ENDING}.get(step, self.stage)

    def stop_timer(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None


class _Gang:
    """The pods of one attempt that start and end together."""

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
    """Runs on the event loop of `run`."""

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
        """With an empty `node` pods are not bound, so that the server removes them without a kubelet.

        `around_burst` is entered while a gang starts or ends, and left when all watches have received the changes.
        """
        self.history = History()
        self._transport = transport
        self._play = play or lifecycle.by_annotations(Life())
        self._namespace = namespace
        self._label = label
        self._node = node
        self._around_burst = around_burst
        self._connections = asyncio.Semaphore(connections)
        self._pods: dict[str, _TrackedPod] = {}
        self._gangs: dict[tuple[str, str], _Gang] = {}
        self._overrides: dict[tuple[str, str], Life] = {}
        self._addresses = itertools.count(1)
        self._tasks: asyncio.TaskGroup | None = None

    async def run(self) -> None:
        """Run until cancelled. Wait for a server that is down."""
        follower = Reflector(
            self._transport,
            resources.PODS,
            namespace=self._namespace,
            label_selector=self._label,
            receive=self._receive,
            accepts_protobuf=True,
        )
        try:
            async with asyncio.TaskGroup() as self._tasks:
                self._tasks.create_task(follower.run())
        finally:
            self._tasks = None
            for tracked in self._pods.values():
                tracked.stop_timer()

    def override(self, namespace: str, framework: str, life: Life) -> None:
        """Override the life of all pods of the Framework."""
        self._overrides[namespace, framework] = life
        for tracked in tuple(self._pods.values()):
            if _framework_of(tracked.pod) == (namespace, framework):
                self._schedule(tracked, life)

    # Watch events

    def _receive(self, news: ResourceEvent) -> None:
        match news:
            case Listed(items=items):
                pods = [_decode(item) for item in items]
                for uid in self._pods.keys() - {pod.uid for pod in pods}:
                    self._remove_pod(uid)
                for pod in pods:
                    self._see(pod)
            case Changed(object=changed):
                self._see(_decode(changed))
            case Deleted(object=deleted):
                self._remove_pod(_decode(deleted).uid)

    def _see(self, pod: Pod) -> None:
        life = self._overrides.get(_framework_of(pod)) or self._play(pod)
        tracked = self._pods.get(pod.uid)
        if tracked is None:
            sighting = self.history.saw(pod, time.monotonic())
            tracked = self._pods[pod.uid] = _TrackedPod(pod, life, sighting)
            self._adopt(tracked)
        tracked.pod = pod
        self._schedule(tracked, life)

    def _adopt(self, tracked: _TrackedPod) -> None:
        """Set the stage of a pod that was started before this kubelet saw it."""
        if tracked.pod.is_ended:
            tracked.stage = Stage.ENDED
        elif tracked.pod.status.phase == "Running":
            tracked.stage = Stage.RUNNING
            tracked.sighting.started = tracked.sighting.created

    def _remove_pod(self, uid: str) -> None:
        tracked = self._pods.pop(uid, None)
        if tracked is None:
            return
        tracked.stop_timer()
        tracked.sighting.removed = time.monotonic()
        tracked.sighting.ended = tracked.sighting.ended or tracked.sighting.removed
        self._leave_gang(tracked)

    # Scheduling

    def _schedule(self, tracked: _TrackedPod, life: Life) -> None:
        if life != tracked.life:
            tracked.stop_timer()
            tracked.life = life
        if tracked.pod.is_deleting:
            self._leave_gang(tracked)
            self._plan_removal(tracked)
        elif tracked.timer is None and tracked.stage is Stage.WAITING and life.starts_after is not None:
            self._plan(tracked, life.starts_after)
        elif tracked.timer is None and tracked.stage is Stage.RUNNING:
            if life.gang > 1 and life.runs_for is not None:
                self._gang_of(tracked).running.add(tracked.pod.uid)
            if life.runs_for is not None:
                self._plan(tracked, life.runs_for)

    def _plan(self, tracked: _TrackedPod, seconds: float) -> None:
        tracked.timer = asyncio.get_running_loop().call_later(seconds, self._due, tracked)

    def _plan_removal(self, tracked: _TrackedPod) -> None:
        if tracked.is_removal_planned:
            return
        tracked.stop_timer()
        is_removed_by_server = not tracked.pod.metadata.deletion_grace_period_seconds
        if tracked.life.stops_after is None or is_removed_by_server:
            return
        tracked.is_removal_planned = True
        tracked.timer = asyncio.get_running_loop().call_later(
            tracked.life.stops_after, self._start_step, tracked, Step.REMOVE
        )

    def _due(self, tracked: _TrackedPod) -> None:
        step = Step.START if tracked.stage is Stage.WAITING else Step.END
        if tracked.life.gang <= 1:
            self._start_step(tracked, step)
            return
        gang, uid = self._gang_of(tracked), tracked.pod.uid
        if step is Step.START:
            gang.waiting.add(uid)
            if len(gang.waiting) >= tracked.life.gang:
                gang.starting, gang.waiting = gang.waiting, set()
                self._start_step_of_gang(gang.starting, step)
        else:
            gang.due.add(uid)
            self._end_if_all_are_due(gang)

    def _end_if_all_are_due(self, gang: _Gang) -> None:
        if gang.is_due_to_end:
            ending, gang.running, gang.due = gang.due, set(), set()
            self._start_step_of_gang(ending, Step.END)

    def _gang_of(self, tracked: _TrackedPod) -> _Gang:
        key = (tracked.pod.metadata.namespace, tracked.pod.owner_uid)
        return self._gangs.setdefault(key, _Gang())

    def _leave_gang(self, tracked: _TrackedPod) -> None:
        key = (tracked.pod.metadata.namespace, tracked.pod.owner_uid)
        gang = self._gangs.get(key)
        if gang is not None:
            gang.lose(tracked.pod.uid)
            self._end_if_all_are_due(gang)

    # Requests

    def _start_step(self, tracked: _TrackedPod, step: Step) -> None:
        tracked.begin(step)
        if self._tasks is not None:
            self._tasks.create_task(self._apply(tracked, step))

    def _start_step_of_gang(self, uids: Iterable[str], step: Step) -> None:
        together = [tracked for uid in uids if (tracked := self._pods.get(uid)) is not None]
        for tracked in together:
            tracked.begin(step)
        if self._tasks is not None:
            self._tasks.create_task(self._apply_to_gang(together, step))

    async def _apply_to_gang(self, together: list[_TrackedPod], step: Step) -> None:
        if self._around_burst is None:
            await asyncio.gather(*(self._apply(tracked, step) for tracked in together))
            return
        with self._around_burst() as shown:
            await asyncio.gather(*(self._apply(tracked, step) for tracked in together))
            while any(self._is_unshown(tracked) for tracked in together):
                await asyncio.sleep(INITIAL_DELAY)
            await shown(max((int(tracked.pod.metadata.resource_version) for tracked in together), default=0))

    def _is_unshown(self, tracked: _TrackedPod) -> bool:
        return tracked.pod.uid in self._pods and not tracked.pod.is_deleting and not tracked.is_phase_shown

    async def _apply(self, tracked: _TrackedPod, step: Step) -> None:
        """Retry until the request succeeds or the pod is replaced or removed."""
        pause = INITIAL_DELAY
        while self._is_wanted(tracked, step):
            try:
                async with self._connections:
                    await self._perform(tracked, step)
                return
            except (errors.NotFoundError, errors.ConflictError):
                return
            except (errors.NoValidResponseError, errors.TooManyRequestsError, errors.ServerError):
                await asyncio.sleep(pause)
                pause = min(2 * pause, MAX_DELAY)

    def _is_wanted(self, tracked: _TrackedPod, step: Step) -> bool:
        is_there = self._pods.get(tracked.pod.uid) is tracked
        return is_there and (step is Step.REMOVE or not tracked.pod.is_deleting)

    async def _perform(self, tracked: _TrackedPod, step: Step) -> None:
        match step:
            case Step.START:
                await self._start(tracked)
            case Step.END:
                await self._end(tracked)
            case Step.REMOVE:
                await self._remove(tracked)

    async def _start(self, tracked: _TrackedPod) -> None:
        pod = tracked.pod
        if self._node and not pod.spec.node_name:
            # After a lost answer the pod is already bound.
            with contextlib.suppress(errors.ConflictError):
                await self._transport.send(_binding(pod, self._node), REQUEST_SECONDS)
        # A container runs before its kubelet reports it.
        tracked.sighting.started = tracked.sighting.started or time.monotonic()
        address = _address(next(self._addresses))
        await self._patch(pod, lifecycle.running_status(pod, address, _now()))
        tracked.stage = Stage.RUNNING
        if tracked.life.gang > 1:
            self._gang_of(tracked).starting.discard(pod.uid)
        self._schedule(tracked, tracked.life)

    async def _end(self, tracked: _TrackedPod) -> None:
        tracked.sighting.ended = tracked.sighting.ended or time.monotonic()
        tracked.sighting.exit_code = tracked.life.exit_code
        await self._patch(tracked.pod, lifecycle.ended_status(tracked.pod, tracked.life, _now()))
        tracked.stage = Stage.ENDED

    async def _remove(self, tracked: _TrackedPod) -> None:
        tracked.sighting.ended = tracked.sighting.ended or time.monotonic()
        metadata = tracked.pod.metadata
        request = requests.delete(
            resources.PODS, metadata.namespace, metadata.name, uid=metadata.uid, grace_seconds=0
        )
        await self._transport.send(request, REQUEST_SECONDS)

    async def _patch(self, pod: Pod, status: Json) -> None:
        # The UID is a precondition, because another pod may have the same name.
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
    parser.add_argument("--kubeconfig", default="", help="kubeconfig file (default: as in kubectl)")
    parser.add_argument("--namespace", default="", help="namespace (default: all)")
    parser.add_argument(
        "--runs-for", default="0", help="run time of pods in seconds, or never, unless annotated (default: 0)"
    )
    parser.add_argument(
        "--label", default=names.FRAMEWORK_NAME, help="label of the handled pods (default: %(default)s)"
    )
    parser.add_argument(
        "--node",
        default="hollow",
        help="node that pods are bound to; empty to leave them unbound (default: %(default)s)",
    )
    parser.add_argument(
        "--connections",
        type=int,
        default=16,
        help="maximum number of parallel requests (default: %(default)s)",
    )
    kubelet = asyncio.run(_serve(parser.parse_args()))
    pods = kubelet.history.pods
    started = sum(pod.started is not None for pod in pods)
    print(json.dumps({"pods": len(pods), "started": started, "alive": len(kubelet.history.alive)}))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
