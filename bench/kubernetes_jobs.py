"""Compare a job on Kubernetes with bare pods that run the same command without a controller.

The cluster is that of KUBECONFIG, with Windlass installed. Jobs and bare pods alternate, and all objects are deleted
before the next round.
"""

import argparse
import asyncio
import contextlib
import json
import os
import statistics
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any

import msgspec

from windlass.kubeapi import access, requests
from windlass.kubeapi.errors import NotFoundError
from windlass.kubeapi.reflector import Changed, Deleted, Reflector, ResourceEvent
from windlass.kubeapi.resources import NAMESPACES, PODS, Resource, frameworks
from windlass.kubeapi.transport import Transport
from windlass.model import names

FRAMEWORKS = frameworks(names.CONTROLLER_GROUP)
IMAGE = os.environ.get("WINDLASS_TEST_IMAGE", "windlass/test:1")
LONGEST_WAIT = 300.0
AIM_SECONDS = 2.0

Measure = Callable[["Place", str, int], Awaitable[float]]


class Place:
    """A namespace, and when each of its objects was first seen in a phase or state."""

    def __init__(self, transport: Transport, namespace: str) -> None:
        self._transport = transport
        self._namespace = namespace
        self._seen: dict[tuple[Resource, str, str], float] = {}
        self._there: set[tuple[Resource, str]] = set()
        self._news = asyncio.Event()

    def receiver(self, resource: Resource) -> Callable[[ResourceEvent], None]:
        def receive(news: ResourceEvent) -> None:
            now = time.perf_counter()
            if isinstance(news, Changed | Deleted):
                body = msgspec.json.decode(news.object)
                self._note(resource, body, now, is_there=isinstance(news, Changed))

        return receive

    def _note(self, resource: Resource, body: dict[str, Any], now: float, *, is_there: bool) -> None:
        name, status = body["metadata"]["name"], body.get("status") or {}
        stage = status.get("phase") or status.get("state") or ""
        self._seen.setdefault((resource, name, stage), now)
        (self._there.add if is_there else self._there.discard)((resource, name))
        self._news.set()

    async def create(self, resource: Resource, body: Mapping[str, object]) -> None:
        await self._transport.send(
            requests.create(resource, self._namespace, json.dumps(body).encode()), LONGEST_WAIT
        )

    async def seen(self, resource: Resource, object_names: list[str], stage: str) -> float:
        """Return when the last of the objects was seen in the phase."""
        keys = [(resource, name, stage) for name in object_names]
        await self._until(lambda: all(key in self._seen for key in keys))
        return max(self._seen[key] for key in keys)

    async def clear(self) -> None:
        for resource, name in tuple(self._there):
            with contextlib.suppress(NotFoundError):  # a pod may have been deleted with its Framework
                await self._transport.send(requests.delete(resource, self._namespace, name), LONGEST_WAIT)
        await self._until(lambda: not self._there)

    async def _until(self, is_true: Callable[[], bool]) -> None:
        async with asyncio.timeout(LONGEST_WAIT):
            while not is_true():
                self._news.clear()
                await self._news.wait()


@contextlib.asynccontextmanager
async def place() -> AsyncIterator[Place]:
    name = f"bench-{uuid.uuid4().hex[:10]}"
    async with Transport(await access.load()) as transport:
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        await transport.send(requests.create(NAMESPACES, "", json.dumps(body).encode()), LONGEST_WAIT)
        new_place = Place(transport, name)
        followers = [
            Reflector(transport, resource, namespace=name, receive=new_place.receiver(resource))
            for resource in (PODS, FRAMEWORKS)
        ]
        following = [asyncio.create_task(follower.run()) for follower in followers]
        try:
            await asyncio.gather(*(follower.listed.wait() for follower in followers))
            yield new_place
        finally:
            for task in following:
                task.cancel()
            await asyncio.gather(*following, return_exceptions=True)
            await transport.send(requests.delete(NAMESPACES, "", name), LONGEST_WAIT)


# Measurements


async def bare_pods(where: Place, name: str, tasks: int) -> float:
    """Return the seconds from before the first creation until all have succeeded."""
    object_names = [f"{name}-{index}" for index in range(tasks)]
    bodies = [
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": each}, "spec": pod_spec()}
        for each in object_names
    ]
    began = time.perf_counter()
    await asyncio.gather(*(where.create(PODS, body) for body in bodies))
    return await where.seen(PODS, object_names, "Succeeded") - began


def job(completed_pods: str) -> Measure:
    async def measure(where: Place, name: str, tasks: int) -> float:
        """Return the seconds from before the submission until it is Completed."""
        began = time.perf_counter()
        await where.create(FRAMEWORKS, framework(name, tasks, completed_pods))
        return await where.seen(FRAMEWORKS, [name], "Completed") - began

    return measure


def pod_spec() -> dict[str, object]:
    container = {"name": "main", "image": IMAGE, "imagePullPolicy": "IfNotPresent", "command": ["true"]}
    return {"restartPolicy": "Never", "containers": [container]}


def framework(name: str, tasks: int, completed_pods: str) -> dict[str, object]:
    role = {"name": "worker", "taskNumber": tasks, "task": {"pod": {"spec": pod_spec()}}}
    return {
        "apiVersion": names.api_version(names.CONTROLLER_GROUP),
        "kind": names.KIND,
        "metadata": {"name": name},
        "spec": {"completedPods": completed_pods, "taskRoles": [role]},
    }


MEASURES: dict[str, Measure] = {
    "bare pods, from create to Succeeded": bare_pods,
    "a job of as many tasks, from submit to Completed, pods kept": job("Keep"),
    "the same, pods removed": job("Delete"),
}


async def side_by_side(tasks: int, rounds: int) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {what: [] for what in MEASURES}
    async with place() as where:
        for number in range(-1, rounds):  # the first round establishes connections and does not count
            for turn, (what, measure) in enumerate(MEASURES.items()):
                seconds = await measure(where, f"turn-{turn}-{number + 1}", tasks)
                await where.clear()
                if number >= 0:
                    found[what].append(seconds)
    return found


def show(found: dict[str, list[float]]) -> None:
    """Print the results; the first one is the reference."""
    bare = statistics.median(next(iter(found.values())))
    for number, (what, times) in enumerate(found.items()):
        middle = statistics.median(times)
        spread = f"({min(times):.2f} to {max(times):.2f} s)"
        against = f"{middle - bare:+.2f} s   aim ≤ +{AIM_SECONDS:.0f} s" if number else ""
        print(f"  {what:<60} {middle:>6.2f} s {spread:<20} {against}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", type=int, action="append", help="default: 2, and then 20")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    for tasks in arguments.tasks or [2, 20]:
        load = f"{os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
        rounds = f"the median of {arguments.rounds} rounds"
        print(f"{tasks} pods of `true` on a Kubernetes, {rounds} (the load before it is {load}):", flush=True)
        show(asyncio.run(side_by_side(tasks, arguments.rounds)))


if __name__ == "__main__":
    main()
