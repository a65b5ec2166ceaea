"""A cluster without containers: watches its objects by namespace, and plays kubelet, scheduler and users.

All pods are bound and run at once; they end only by what a case says. A deleted pod ends with the exit code of SIGTERM
before it is removed, as with a real kubelet. Controllers have time to see each state in between: an operator that sees
only the last one decides otherwise, so that a case would have no definite outcome.
"""

import asyncio
import contextlib
import itertools
import secrets
from collections.abc import Callable, Coroutine, Iterable
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from agreement.cases import Happening
from windlass.kubeapi import errors, requests
from windlass.kubeapi.reflector import Changed, Deleted, Listed, Reflector, ResourceEvent
from windlass.kubeapi.requests import Request, Verb
from windlass.kubeapi.resources import PODS, Resource
from windlass.kubeapi.transport import Transport
from windlass.model.base import Json

SECONDS: Final = 60.0
TICK: Final = 0.02
TERMINATED: Final = 143
KILLED: Final = 137
NODE: Final = "hollow"
ENDED: Final = ("Succeeded", "Failed")


class Namespace:
    """The objects of a namespace, as the watches have shown them."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self.objects: dict[str, dict[str, Json]] = {}
        """Existing objects by UID, by plural."""
        self.pods_seen: dict[str, Json] = {}
        """The last state of every pod that ever existed, by UID, in the order of creation."""
        self.last_seen: dict[str, Json] = {}
        """The last state of every object of another kind, by plural and name; kept after its deletion."""
        self.changed_at = clock()
        self.change = asyncio.Event()
        self.busy = 0
        """Number of requests of the kubelet in progress."""

    def of(self, plural: str) -> list[Json]:
        return list(self.objects.get(plural, {}).values())

    @property
    def pods(self) -> list[Json]:
        return self.of(PODS.plural)

    @property
    def quiet_seconds(self) -> float:
        return self._clock() - self.changed_at

    def touch(self) -> None:
        self.changed_at = self._clock()
        self.change.set()

    def see(self, plural: str, body: Json) -> None:
        uid = body["metadata"]["uid"]
        self.objects.setdefault(plural, {})[uid] = body
        if plural == PODS.plural:
            self.pods_seen[uid] = body
        else:
            self.last_seen[f"{plural}/{body['metadata']['name']}"] = body
        self.touch()

    def lose(self, plural: str, uid: str) -> None:
        self.objects.get(plural, {}).pop(uid, None)
        self.touch()


class Hollow:
    """Runs on one event loop. `watched` are the resources besides pods. `stop_seconds` is the time that a deleted pod
    needs to end, and then to be removed."""

    def __init__(self, transport: Transport, watched: Iterable[Resource], stop_seconds: float) -> None:
        self._stop_seconds = stop_seconds
        self.time = 0.0
        """Seconds in which the event loop has run. They pass only while this process has a CPU."""
        self.transport = transport
        self.namespaces: dict[str, Namespace] = {}
        self._watched = (PODS, *watched)
        self._started: set[str] = set()
        self._ending: set[str] = set()
        self._addresses = itertools.count(1)
        self._tasks: asyncio.TaskGroup | None = None

    async def run(self) -> None:
        async with asyncio.TaskGroup() as self._tasks:
            self._tasks.create_task(self._count_seconds())
            for resource in self._watched:
                self._tasks.create_task(self._reflector(resource).run())

    async def _count_seconds(self) -> None:
        while True:
            await asyncio.sleep(TICK)
            self.time += TICK

    def namespace(self, name: str) -> Namespace:
        return self.namespaces.setdefault(name, Namespace(lambda: self.time))

    def _reflector(self, resource: Resource) -> Reflector:
        def receive(news: ResourceEvent) -> None:
            match news:
                case Listed(items=items):
                    listed = [msgspec.json.decode(item) for item in items]
                    there = {body["metadata"]["uid"] for body in listed}
                    for namespace in self.namespaces.values():
                        for uid in namespace.objects.get(resource.plural, {}).keys() - there:
                            namespace.lose(resource.plural, uid)
                    for body in listed:
                        self._see(resource, body)
                case Changed(object=changed):
                    self._see(resource, msgspec.json.decode(changed))
                case Deleted(object=deleted):
                    metadata = msgspec.json.decode(deleted)["metadata"]
                    self.namespace(metadata.get("namespace", "")).lose(resource.plural, metadata["uid"])

        return Reflector(self.transport, resource, receive=receive)

    def _see(self, resource: Resource, body: Json) -> None:
        namespace = self.namespace(body["metadata"].get("namespace", ""))
        namespace.see(resource.plural, body)
        if resource is PODS and self._tasks is not None:
            uid = body["metadata"]["uid"]
            if is_deleting(body):
                if uid not in self._ending:
                    self._ending.add(uid)
                    self._tasks.create_task(self._doing(namespace, self._end_deleted(body)))
            elif uid not in self._started and phase_of(body) == "Pending" and not _is_gated(body):
                self._started.add(uid)
                self._tasks.create_task(self._doing(namespace, self._start(body)))

    async def _doing(self, namespace: Namespace, work: Coroutine[Any, Any, None]) -> None:
        namespace.busy += 1
        try:
            with contextlib.suppress(errors.NotFoundError, errors.ConflictError):
                await work
        finally:
            namespace.busy -= 1
            namespace.touch()

    async def send(self, request: Request) -> None:
        """Send a request, again and again while the server is too busy."""
        is_repeated = False
        while True:
            try:
                await self.transport.send(request, SECONDS)
                return
            except errors.AlreadyExistsError:
                if is_repeated:
                    return  # the answer to the first request was lost
                raise
            except (errors.NoValidResponseError, errors.TooManyRequestsError, errors.ServerError):
                is_repeated = True
                await asyncio.sleep(1)

    # The kubelet

    async def _start(self, pod: Json) -> None:
        if not pod["spec"].get("nodeName"):
            await self.send(_binding(pod))
        number = next(self._addresses)
        address = f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"
        status = {
            "phase": "Running",
            "hostIP": "192.0.2.1",
            "podIP": address,
            "podIPs": [{"ip": address}],
            "startTime": _now(),
            "conditions": [_condition(kind, True) for kind in ("Initialized", "ContainersReady", "Ready")],
            "initContainerStatuses": [
                _container(each, _terminated(0), 0, is_ready=True)
                for each in pod["spec"].get("initContainers") or ()
            ],
            "containerStatuses": [
                _container(each, _running(), 0, is_ready=True) for each in pod["spec"]["containers"]
            ],
        }
        await self._patch(pod, status)

    async def _end_deleted(self, pod: Json) -> None:
        if phase_of(pod) not in ENDED and pod["spec"].get("nodeName"):
            await asyncio.sleep(self._stop_seconds)
            await self._end(pod, TERMINATED)
            await asyncio.sleep(self._stop_seconds)
        await self._remove(pod, grace=0)

    async def _end(self, pod: Json, code: int, reason: str = "", conditions: Iterable[Json] = ()) -> None:
        status: Json = {
            "phase": "Failed" if code or reason else "Succeeded",
            "conditions": [
                *(_condition(kind, False) for kind in ("ContainersReady", "Ready")),
                *_disruptions(pod),
                *conditions,
            ],
            "containerStatuses": [
                _container(each, _terminated(code), restarts_of(pod), is_ready=False)
                for each in pod["spec"]["containers"]
            ],
        }
        await self._patch(pod, {**status, "reason": reason} if reason else status)

    async def _crash(self, pod: Json, code: int) -> None:
        """End the containers of a pod that restarts them. It is not ready until `restart`."""
        number = restarts_of(pod)
        waiting = {"reason": "CrashLoopBackOff", "message": f"restart {number + 1}"}
        await self._patch(pod, _restarting(pod, {"waiting": waiting}, number, code, is_ready=False))

    async def restart(self, pod: Json, code: int) -> None:
        """Start the containers of a pod again after they have ended with a code."""
        status = _restarting(pod, _running(), restarts_of(pod) + 1, code, is_ready=True)
        await self._shown(pod, self._patch(pod, status))

    async def remove_lost(self, pod: Json) -> None:
        """Remove a pod whose node is gone, unless the controller has removed it."""
        namespace = self.namespace(pod["metadata"]["namespace"])
        await self._doing(namespace, self._remove(pod, grace=0))
        if pod["metadata"]["uid"] in namespace.objects.get(PODS.plural, {}):
            await self._until_shown(namespace, pod)

    # What happens to a pod

    async def play(self, pod: Json, what: Happening, code: int) -> None:
        """Let something happen to a pod. Containers that exit and are restarted wait for `restart`."""
        await self._shown(pod, self._played(pod, what, code))
        if what in (Happening.PREEMPT, Happening.DELETE):
            await self._until_shown(self.namespace(pod["metadata"]["namespace"]), pod, is_deleting)

    async def _shown(self, pod: Json, work: Coroutine[Any, Any, None]) -> None:
        namespace = self.namespace(pod["metadata"]["namespace"])
        await self._doing(namespace, work)
        await self._until_shown(namespace, pod)

    async def touch(self, pod: Json) -> None:
        """Report the pod again, with a condition that nobody reads."""
        namespace = self.namespace(pod["metadata"]["namespace"])
        conditions = [each for each in pod["status"].get("conditions", ()) if each["type"] != "Reported"]
        reported = {**_condition("Reported", True), "message": secrets.token_hex(4)}
        await self._doing(namespace, self._patch(pod, {"conditions": [*conditions, reported]}))

    async def _played(self, pod: Json, what: Happening, code: int) -> None:
        match what:
            case Happening.EXIT if is_restarted(pod, code):
                await self._crash(pod, code)
            case Happening.EXIT:
                await self._end(pod, code)
            case Happening.EVICT:
                await self._end(pod, KILLED, "Evicted", [_disruption("TerminationByKubelet")])
            case Happening.PREEMPT:
                conditions = [*pod["status"].get("conditions", ()), _disruption("PreemptionByScheduler")]
                await self._patch(pod, {"conditions": conditions})
                await self._remove(pod)
            case Happening.LOSE_NODE:
                conditions = [*pod["status"].get("conditions", ()), _disruption("DeletionByPodGC")]
                await self._patch(pod, {"phase": "Failed", "conditions": conditions})
            case Happening.DELETE:
                await self._remove(pod)
            case Happening.VANISH:
                self._ending.add(pod["metadata"]["uid"])
                await self._remove(pod, grace=0)
                await asyncio.sleep(self._stop_seconds)
                namespace = self.namespace(pod["metadata"]["namespace"])
                if pod["metadata"]["uid"] in namespace.objects.get(PODS.plural, {}):
                    # A finalizer keeps the pod until the kubelet has reported its end.
                    await self._end(pod, KILLED)

    async def _until_shown(
        self, namespace: Namespace, before: Json, is_expected: Callable[[Json], bool] = lambda _: True
    ) -> None:
        """Wait until the watch has shown the expected change of the pod, or its removal."""
        metadata = before["metadata"]
        async with asyncio.timeout(SECONDS):
            while True:
                namespace.change.clear()
                now = namespace.objects.get(PODS.plural, {}).get(metadata["uid"])
                if now is None:
                    return
                if now["metadata"]["resourceVersion"] != metadata["resourceVersion"] and is_expected(now):
                    return
                await namespace.change.wait()

    async def _remove(self, pod: Json, grace: int | None = None) -> None:
        metadata = pod["metadata"]
        request = requests.delete(
            PODS, metadata["namespace"], metadata["name"], uid=metadata["uid"], grace_seconds=grace
        )
        await self.send(request)

    async def _patch(self, pod: Json, status: Json) -> None:
        # The UID is a precondition, because another pod may have the same name.
        metadata = pod["metadata"]
        body = msgspec.json.encode({"metadata": {"uid": metadata["uid"]}, "status": status})
        request = requests.merge_patch(
            PODS, metadata["namespace"], metadata["name"], body, subresource="status"
        )
        try:
            await self.send(request)
        except errors.InvalidError as error:
            if "metadata.uid" not in str(error):
                raise
            # The pod is gone, and another one has its name.


# Views of a pod


def phase_of(pod: Json) -> str:
    return str(pod.get("status", {}).get("phase", "Pending"))


def is_deleting(body: Json) -> bool:
    return "deletionTimestamp" in body["metadata"]


def is_running(pod: Json) -> bool:
    return phase_of(pod) == "Running" and not is_deleting(pod)


def is_ended(pod: Json) -> bool:
    return phase_of(pod) in ENDED


def is_ready(pod: Json) -> bool:
    conditions = pod.get("status", {}).get("conditions") or ()
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def is_restarted(pod: Json, code: int) -> bool:
    policy = pod["spec"].get("restartPolicy", "Always")
    return policy == "Always" or (policy == "OnFailure" and code != 0)


def restarts_of(pod: Json) -> int:
    statuses = pod.get("status", {}).get("containerStatuses") or ()
    return max((int(each.get("restartCount", 0)) for each in statuses), default=0)


def _is_gated(pod: Json) -> bool:
    return bool(pod["spec"].get("schedulingGates"))


def _disruptions(pod: Json) -> list[Json]:
    conditions = pod.get("status", {}).get("conditions") or ()
    return [each for each in conditions if each["type"] == "DisruptionTarget"]


# Parts of a status


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _condition(kind: str, is_true: bool) -> Json:
    return {"type": kind, "status": "True" if is_true else "False", "lastTransitionTime": _now()}


def _disruption(reason: str) -> Json:
    return {**_condition("DisruptionTarget", True), "reason": reason}


def _running() -> Json:
    return {"running": {"startedAt": _now()}}


def _terminated(code: int) -> Json:
    times = {"startedAt": _now(), "finishedAt": _now()}
    return {"terminated": {"exitCode": code, "reason": "Error" if code else "Completed", **times}}


def _restarting(pod: Json, state: Json, count: int, code: int, *, is_ready: bool) -> Json:
    return {
        "conditions": [
            _condition("Initialized", True),
            *(_condition(kind, is_ready) for kind in ("ContainersReady", "Ready")),
        ],
        "containerStatuses": [
            {**_container(each, state, count, is_ready=is_ready), "lastState": _terminated(code)}
            for each in pod["spec"]["containers"]
        ],
    }


def _container(container: Json, state: Json, restarts: int, *, is_ready: bool) -> Json:
    return {
        "name": container["name"],
        "image": container.get("image", ""),
        "imageID": "",
        "ready": is_ready,
        "restartCount": restarts,
        "state": state,
    }


def _binding(pod: Json) -> Request:
    metadata = pod["metadata"]
    body = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": metadata["name"], "uid": metadata["uid"]},
        "target": {"apiVersion": "v1", "kind": "Node", "name": NODE},
    }
    return Request(
        verb=Verb.CREATE,
        method="POST",
        resource=PODS,
        path=PODS.path(metadata["namespace"], metadata["name"], "binding"),
        body=msgspec.json.encode(body),
        content_type=requests.JSON,
        namespace=metadata["namespace"],
        subresource="binding",
    )
