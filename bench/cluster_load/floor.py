"""The minimal writer ("floor"): sends the writes that a controller has to send for each Framework, in the same order,
without decisions. The objects are prepared: Frameworks differ only in their names.

    python -m cluster_load.floor --kubeconfig FILE --tasks 2 [--tasks 500] --pods kept|removed
"""

import argparse
import asyncio
import signal
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, NamedTuple

import builders
import msgspec

from cluster_load import workloads
from cluster_load.workloads import Pods
from windlass.decide import decide
from windlass.decide.types import Observed
from windlass.k8s.protobuf import encoding, views
from windlass.k8s.protobuf.messages import MAGIC
from windlass.kubeapi import access, requests
from windlass.kubeapi.reflector import Deleted, Listed, Reflector, ResourceEvent
from windlass.kubeapi.requests import METADATA_ONLY, Request
from windlass.kubeapi.resources import CONFIG_MAPS, PODS
from windlass.kubeapi.transport import Transport
from windlass.model import names
from windlass.model.base import Json
from windlass.model.framework import Framework
from windlass.model.pods import PodPhase, PodView
from windlass.model.status import FrameworkStatus
from windlass.objects.attempt import config_map
from windlass.objects.pod import PodFactory
from windlass.wire import codec

AT_ONCE = 50
REQUEST_SECONDS = 60.0
_ENDED = ("Succeeded", "Failed")


class Written(msgspec.Struct, frozen=True):
    """All writes for a Framework with a number of tasks. The statuses follow each other."""

    preparing: bytes
    pods_created: bytes
    running: bytes
    ending: bytes
    """The status before the pods are removed, if they are."""
    completed: bytes
    config_map: Json
    pods: tuple[Json, ...]


def prepare(tasks: int, pods: Pods) -> Written:
    """Prepare the writes by simulating one Framework."""
    body = workloads.framework("floor", tasks, pods=pods)
    framework = codec.decode_framework(body)
    metadata = msgspec.structs.replace(
        framework.metadata, uid="floor", resource_version="1", namespace=workloads.NAMESPACE
    )
    framework = msgspec.structs.replace(framework, metadata=metadata)
    statuses: list[bytes] = []

    def step(observed: Observed, seconds: float) -> Framework:
        status = decide(framework, observed, builders.at(seconds)).status
        assert status is not None
        statuses.append(_patch(status))
        return framework.with_status(status, "1")

    framework = step(Observed(), 0)
    statuses.clear()  # this status need not be stored before the ConfigMap exists
    attempt = builders.config_map(framework)
    manifest = config_map(framework, None)
    framework = step(Observed(config_map=attempt, known={attempt.uid}), 1)
    factory = PodFactory(framework)
    manifests = tuple(factory.pod("worker", index) for index in range(tasks))
    for seconds, phase in enumerate((PodPhase.PENDING, PodPhase.RUNNING, PodPhase.SUCCEEDED), start=2):
        views = _pods(framework, phase)
        known = {attempt.uid, *(pod.uid for pod in views.values())}
        framework = step(Observed(config_map=attempt, pods=views, known=known), seconds)
    if pods is Pods.REMOVED:
        framework = step(Observed(known=known), 6)
    preparing, pods_created, running, *ending, completed = statuses
    return Written(preparing, pods_created, running, b"".join(ending), completed, manifest, manifests)


def _patch(status: FrameworkStatus) -> bytes:
    operation = {"op": "add", "path": "/status", "value": codec.compress_status(status)}
    return msgspec.json.encode([operation])


def _pods(framework: Framework, phase: PodPhase) -> dict[str, PodView]:
    assert framework.status is not None
    tasks = framework.status.attempt_status.roles[0].task_statuses
    code = 0 if phase is PodPhase.SUCCEEDED else None
    return {
        task.attempt_status.pod_name: builders.pod(framework, task, phase=phase, exit_code=code)
        for task in tasks
    }


class _Attempt:
    """The progress of a Framework's pods."""

    def __init__(self, tasks: int) -> None:
        self._tasks = tasks
        self._running: set[str] = set()
        self._ended: set[str] = set()
        self._gone: set[str] = set()
        self.newest = 0
        """The version of the pod that changed last."""
        self.are_running = asyncio.Event()
        self.have_ended = asyncio.Event()
        self.are_gone = asyncio.Event()

    def see(self, pod: str, phase: str, version: int, *, is_gone: bool) -> None:
        self.newest = max(self.newest, version)
        if phase != "Pending":
            self._running.add(pod)
        if phase in _ENDED:
            self._ended.add(pod)
        if is_gone:
            self._gone.add(pod)
        for seen, event in (
            (self._running, self.are_running),
            (self._ended, self.have_ended),
            (self._gone, self.are_gone),
        ):
            if len(seen) == self._tasks:
                event.set()


class Owner(NamedTuple):
    name: str
    uid: str


class Floor:
    def __init__(self, transport: Transport, tasks: Iterable[int], pods: Pods) -> None:
        """Prepared writes by number of tasks."""
        self._transport = transport
        self._pods = pods
        self._written = {number: prepare(number, pods) for number in tasks}
        self._attempts: dict[str, _Attempt] = {}
        self._group: asyncio.TaskGroup | None = None

    async def run(self) -> None:
        async with asyncio.TaskGroup() as self._group:
            for resource, label, receive, is_built_in in (
                (workloads.FRAMEWORKS, "", self._receive_framework, False),
                (PODS, workloads.LABEL, self._receive_pod, True),
            ):
                follower = Reflector(
                    self._transport,
                    resource,
                    namespace=workloads.NAMESPACE,
                    label_selector=label,
                    receive=receive,
                    accepts_protobuf=is_built_in,
                )
                self._group.create_task(follower.run())

    def _receive_framework(self, news: ResourceEvent) -> None:
        for item in news.items if isinstance(news, Listed) else (news.object,):
            found = _decode(item)
            name, tasks = found.metadata.name, sum(role.number for role in found.spec.roles)
            if name not in self._attempts and self._group is not None:
                attempt = self._attempts[name] = _Attempt(tasks)
                self._group.create_task(
                    self._carry_through(Owner(name, found.metadata.uid), attempt, self._written[tasks])
                )

    def _receive_pod(self, news: ResourceEvent) -> None:
        for item in news.items if isinstance(news, Listed) else (news.object,):
            found = _decode(item)
            attempt = self._attempts[found.metadata.labels[workloads.LABEL]]
            name, version = found.metadata.name, int(found.metadata.version)
            attempt.see(name, found.status.phase, version, is_gone=isinstance(news, Deleted))

    async def _carry_through(self, framework: Owner, attempt: _Attempt, written: Written) -> None:
        name = framework.name
        answer = await self._send(
            requests.create_object(
                CONFIG_MAPS,
                workloads.NAMESPACE,
                named(written.config_map, name, f"{name}-attempt", framework),
            )
        )
        owner = Owner(f"{name}-attempt", _decode(answer, _decode_config_map).metadata.uid)
        await self._store(name, written.preparing)
        await self._create_pods(name, owner, written.pods)
        await self._store(name, written.pods_created)
        await attempt.are_running.wait()
        await self._store(name, written.running)
        await attempt.have_ended.wait()
        if self._pods is Pods.REMOVED:
            await self._store(name, written.ending)
            selector = f"{names.ATTEMPT_LABEL}={owner.uid}"
            await self._send(
                requests.delete_collection(
                    PODS, workloads.NAMESPACE, selector, not_older_than=str(attempt.newest)
                )
            )
            await attempt.are_gone.wait()
            await self._send(
                requests.delete(
                    CONFIG_MAPS, workloads.NAMESPACE, owner.name, uid=owner.uid, propagation="Background"
                )
            )
        await self._store(name, written.completed)

    async def _create_pods(self, name: str, owner: Owner, manifests: Sequence[Json]) -> None:
        slots = asyncio.Semaphore(AT_ONCE)
        memo: encoding.Memo = {}

        async def create(index: int, manifest: Json) -> None:
            async with slots:
                pod = named(manifest, name, f"{name}-worker-{index}", owner)
                request = requests.create_object(PODS, workloads.NAMESPACE, pod, memo=memo)
                await self._send(request.with_accept(METADATA_ONLY))

        await asyncio.gather(*(create(*each) for each in enumerate(manifests)))

    async def _store(self, name: str, patch: bytes) -> None:
        request = requests.json_patch(
            workloads.FRAMEWORKS,
            workloads.NAMESPACE,
            name,
            patch,
            subresource="status",
            field_manager="floor",
        )
        await self._send(request.with_accept(METADATA_ONLY))

    def _send(self, request: Request) -> Awaitable[bytes]:
        return self._transport.send(request, REQUEST_SECONDS)


def named(manifest: Json, job: str, name: str, owner: Owner) -> Json:
    """Return the same object for another job."""
    of_all = manifest["metadata"]
    ours = {names.FRAMEWORK_NAME: job, names.ATTEMPT_LABEL: owner.uid, workloads.LABEL: job}
    metadata: dict[str, Any] = {
        **of_all,
        "name": name,
        "labels": {key: ours.get(key, value) for key, value in of_all["labels"].items()},
        "ownerReferences": [{**each, **owner._asdict()} for each in of_all["ownerReferences"]],
    }
    return {**manifest, "metadata": metadata}


class _Metadata(msgspec.Struct, frozen=True):
    name: str
    uid: str = ""
    version: str = msgspec.field(name="resourceVersion", default="0")
    labels: dict[str, str] = {}


class _Role(msgspec.Struct, frozen=True):
    number: int = msgspec.field(name="taskNumber")


class _Spec(msgspec.Struct, frozen=True):
    roles: tuple[_Role, ...] = msgspec.field(name="taskRoles", default=())


class _Status(msgspec.Struct, frozen=True):
    phase: str = ""


class _Object(msgspec.Struct, frozen=True):
    metadata: _Metadata
    spec: _Spec = _Spec()
    status: _Status = _Status()


_decode_json = msgspec.json.Decoder(_Object).decode
_decode_pod = views.Decoder(_Object, "v1", "Pod").decode
_decode_config_map = views.Decoder(_Object, "v1", "ConfigMap").decode


def _decode(data: bytes | msgspec.Raw, of_protobuf: Callable[[bytes], _Object] = _decode_pod) -> _Object:
    body = bytes(data)
    return of_protobuf(body) if body.startswith(MAGIC) else _decode_json(body)


async def _serve(arguments: argparse.Namespace) -> None:
    loop, stopped = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    async with Transport(await access.load(arguments.kubeconfig), user_agent="floor") as transport:
        running = asyncio.create_task(Floor(transport, arguments.tasks, Pods(arguments.pods)).run())
        stopping = asyncio.create_task(stopped.wait())
        await asyncio.wait((running, stopping), return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        running.cancel()
        await asyncio.gather(running, stopping, return_exceptions=not running.done())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kubeconfig", required=True)
    parser.add_argument(
        "--tasks", type=int, action="append", required=True, help="of a Framework that may come"
    )
    parser.add_argument("--pods", choices=list(Pods), required=True)
    asyncio.run(_serve(parser.parse_args()))


if __name__ == "__main__":
    main()
