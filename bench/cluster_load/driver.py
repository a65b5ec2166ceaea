"""Submit jobs and record when each had its first pod and when it was done."""

import asyncio
import base64
import contextlib
import time
import uuid
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence

import aiohttp
import msgspec

from cluster_load import workloads
from windlass.k8s.protobuf import views
from windlass.k8s.protobuf.messages import MAGIC
from windlass.kubeapi import access, requests, responses
from windlass.kubeapi.errors import NotFoundError
from windlass.kubeapi.reflector import Deleted, Listed, Reflector, ResourceEvent
from windlass.kubeapi.resources import CONFIG_MAPS, PODS, Resource
from windlass.kubeapi.transport import Transport
from windlass.model import names
from windlass.model.base import Json

AT_ONCE = 50
COPIED_AT_ONCE = 100
REQUEST_SECONDS = 60.0


class _Metadata(msgspec.Struct, frozen=True):
    name: str
    labels: dict[str, str] = {}


class _Object(msgspec.Struct, frozen=True):
    metadata: _Metadata
    status: dict[str, msgspec.Raw] = {}


class _Pod(msgspec.Struct, frozen=True):
    metadata: _Metadata


_decode = msgspec.json.Decoder(_Object).decode
_decode_pod = views.Decoder(_Pod, "v1", "Pod").decode
_WANTED = ("state", "conditions", "active")


class Driver:
    def __init__(self, transport: Transport, resource: Resource) -> None:
        """The resource of the jobs."""
        self.resource = resource
        self.submitted: dict[str, float] = {}
        self.first_pod: dict[str, float] = {}
        self.done: dict[str, float] = {}
        self.jobs: set[str] = set()
        """Existing jobs."""
        self.pods: set[str] = set()
        self.running: set[str] = set()
        """Jobs whose pods are all running, if their number is known."""
        self.tasks = 0
        self._transport = transport
        self._news = asyncio.Event()

    async def submit(self, bodies: Mapping[str, bytes]) -> None:
        """Submit all jobs concurrently, limited by the connections."""
        connections = asyncio.Semaphore(AT_ONCE)

        async def submit(name: str, body: bytes) -> None:
            async with connections:
                self.submitted[name] = time.monotonic()
                request = requests.create(self.resource, workloads.NAMESPACE, body)
                await self._transport.send(request, REQUEST_SECONDS)

        await asyncio.gather(*(submit(name, body) for name, body in bodies.items()))

    async def copy(self, finished: str, copies: Sequence[str], etcd_url: str) -> None:
        """Create jobs with the status of a finished one, without the API server: there may be 100,000 of them."""

        def key(name: str) -> str:
            path = f"/registry/{self.resource.group}/{self.resource.plural}/{workloads.NAMESPACE}/{name}"
            return base64.b64encode(path.encode()).decode()

        def put(name: str) -> Json:
            metadata = {**pattern["metadata"], "name": name, "uid": str(uuid.uuid4())}
            value = msgspec.json.encode({**pattern, "metadata": metadata})
            return {"requestPut": {"key": key(name), "value": base64.b64encode(value).decode()}}

        async with aiohttp.ClientSession(etcd_url, raise_for_status=True) as session:
            async with session.post("/v3/kv/range", json={"key": key(finished)}) as answer:
                (found,) = (await answer.json())["kvs"]
            pattern = msgspec.json.decode(base64.b64decode(found["value"]))
            for start in range(0, len(copies), COPIED_AT_ONCE):
                body = {"success": [put(name) for name in copies[start : start + COPIED_AT_ONCE]]}
                async with session.post("/v3/kv/txn", json=body):
                    pass

    async def delete(self, names: Iterable[str]) -> None:
        connections = asyncio.Semaphore(AT_ONCE)

        async def delete(name: str) -> None:
            async with connections:
                request = requests.delete(self.resource, workloads.NAMESPACE, name, propagation="Background")
                with contextlib.suppress(NotFoundError):
                    await self._transport.send(request, REQUEST_SECONDS)

        await asyncio.gather(*(delete(name) for name in names))

    async def wait(self, is_true: Callable[[], bool], seconds: float) -> bool:
        """Wait for a condition and return whether it became true in time."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while not is_true():
                    self._news.clear()
                    await self._news.wait()
        return is_true()

    def forget(self, name: str) -> None:
        for seen in (self.submitted, self.first_pod, self.done):
            seen.pop(name, None)

    async def wait_for_config_maps(self, seconds: float) -> bool:
        """Wait for the deletion of the Frameworks' ConfigMaps; return whether it completed in time."""
        request = requests.list_page(
            CONFIG_MAPS, workloads.NAMESPACE, label_selector=names.FRAMEWORK_NAME, limit=1
        )
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while responses.decode_page(await self._transport.send(request)).objects:
                    await asyncio.sleep(0.1)
                return True
        return False

    # Watch events

    def receive_job(self, news: ResourceEvent) -> None:
        now = time.monotonic()
        for item in news.items if isinstance(news, Listed) else (news.object,):
            found = _decode(item)
            name = found.metadata.name
            if isinstance(news, Deleted):
                self.jobs.discard(name)
                continue
            self.jobs.add(name)
            status: Json = {
                key: msgspec.json.decode(found.status[key]) for key in _WANTED if key in found.status
            }
            if workloads.is_done(self.resource, status):
                self.done.setdefault(name, now)
            if self.tasks and workloads.is_running(self.resource, status, self.tasks):
                self.running.add(name)
        self._news.set()

    def receive_pod(self, news: ResourceEvent) -> None:
        now = time.monotonic()
        for item in news.items if isinstance(news, Listed) else (news.object,):
            body = bytes(item)
            metadata = (_decode_pod if body.startswith(MAGIC) else _decode)(body).metadata
            if isinstance(news, Deleted):
                self.pods.discard(metadata.name)
            else:
                self.pods.add(metadata.name)
                self.first_pod.setdefault(metadata.labels[workloads.LABEL], now)
        self._news.set()


@contextlib.asynccontextmanager
async def driving(kubeconfig: str, resource: Resource) -> AsyncIterator[Driver]:
    async with Transport(await access.load(kubeconfig), user_agent="bench") as transport:
        driver = Driver(transport, resource)
        followers = [
            Reflector(transport, resource, namespace=workloads.NAMESPACE, receive=driver.receive_job),
            Reflector(
                transport,
                PODS,
                namespace=workloads.NAMESPACE,
                label_selector=workloads.LABEL,
                receive=driver.receive_pod,
                accepts_protobuf=True,
            ),
        ]
        following = [asyncio.create_task(follower.run()) for follower in followers]
        try:
            await asyncio.gather(*(follower.listed.wait() for follower in followers))
            yield driver
        finally:
            for task in following:
                task.cancel()
            await asyncio.gather(*following, return_exceptions=True)
