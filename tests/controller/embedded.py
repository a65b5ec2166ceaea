"""The embedded API server in this process, a user of it, and what was asked of it by whom."""

import asyncio
import json
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import builders
import msgspec
import pytest

from windlass.kubeapi import access, requests
from windlass.kubeapi.access import Access
from windlass.kubeapi.errors import NotFoundError
from windlass.kubeapi.reflector import Listed, Reflector
from windlass.kubeapi.requests import Request, Verb
from windlass.kubeapi.resources import (
    CONFIG_MAPS,
    CUSTOM_RESOURCE_DEFINITIONS,
    LEASES,
    PODS,
    Resource,
    frameworks,
)
from windlass.kubeapi.transport import Transport
from windlass.localcluster.server import ApiServer
from windlass.model import names
from windlass.model.base import Json
from windlass.model.framework import TaskRoleSpec
from windlass.wire import codec
from windlass.wire.crd import manifests

PATIENCE_SECONDS = 60
USER = "a-user"
WRITES = frozenset({Verb.CREATE, Verb.UPDATE, Verb.PATCH, Verb.DELETE, Verb.DELETE_COLLECTION})


class Sent:
    """All requests except those of the user; some may be delayed."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.answered: list[Request] = []
        self.open_streams = 0
        self._is_withheld: Callable[[Request], bool] = lambda _: False
        self._is_held: Callable[[Request], bool] = lambda _: False
        self._may_go_on = asyncio.Event()

    def hold(self, is_held: Callable[[Request], bool]) -> None:
        self._is_held = is_held
        self._may_go_on.clear()

    def let_go_on(self) -> None:
        self._is_held = lambda _: False
        self._may_go_on.set()

    async def pass_through(self, request: Request) -> None:
        self.requests.append(request)
        if self._is_held(request):
            await self._may_go_on.wait()

    def withhold_answers(self, is_withheld: Callable[[Request], bool]) -> None:
        """Process matching requests and drop their answers."""
        self._is_withheld = is_withheld

    async def pass_back(self, request: Request) -> None:
        self.answered.append(request)
        if self._is_withheld(request):
            await asyncio.Event().wait()

    def of(self, resource: Resource, *verbs: Verb, since: int = 0) -> list[Request]:
        return [
            request
            for request in self.requests[since:]
            if request.resource == resource and (not verbs or request.verb in verbs)
        ]

    def writes(self) -> list[str]:
        return [str(request) for request in self.requests if request.verb in WRITES]


class Cluster:
    def __init__(self, way: Access, user: Transport, sent: Sent) -> None:
        self.access = way
        self.sent = sent
        self._user = user

    async def ask(self, request: Request) -> Any:
        """Return None if the object does not exist."""
        try:
            return json.loads(await self._user.send(request))
        except NotFoundError:
            return None

    async def define(self, *groups: str) -> None:
        """All that there is, or the Frameworks of these groups."""
        for definition in map(manifests.framework_crd, groups) if groups else manifests.definitions():
            body = msgspec.json.encode(definition)
            await self.ask(requests.create(CUSTOM_RESOURCE_DEFINITIONS, "", body))

    async def definitions(self) -> list[str]:
        listed = await self.ask(requests.list_page(CUSTOM_RESOURCE_DEFINITIONS))
        return sorted(item["metadata"]["name"] for item in listed["items"])

    async def submit(
        self,
        name: str,
        group: str = names.CONTROLLER_GROUP,
        namespace: str = "default",
        annotations: dict[str, str] | None = None,
        roles: tuple[TaskRoleSpec, ...] = (),
    ) -> None:
        made: Json = json.loads(codec.encode_framework(builders.framework(name, *roles, group=group)))
        metadata = {"name": name, "namespace": namespace, "annotations": annotations or {}}
        body = {**made, "metadata": metadata}
        await self.ask(requests.create(frameworks(group), namespace, msgspec.json.encode(body)))

    async def framework(self, name: str, group: str = names.CONTROLLER_GROUP) -> Json:
        found: Json = await self.ask(requests.get(frameworks(group), "default", name))
        return found

    async def pod(self, name: str) -> Json:
        found: Json = await self.ask(requests.get(PODS, "default", name))
        return found

    async def pods(self, namespace: str = "default") -> list[str]:
        listed = await self.ask(requests.list_page(PODS, namespace))
        return sorted(item["metadata"]["name"] for item in listed["items"])

    async def config_maps(self) -> list[str]:
        listed = await self.ask(requests.list_page(CONFIG_MAPS, "default"))
        return sorted(item["metadata"]["name"] for item in listed["items"])

    async def until_pods(self, *expected: str) -> None:
        async def are_there() -> bool:
            return await self.pods() == sorted(expected)

        await self.until(are_there)

    async def lease(self, name: str = "windlass-controller") -> Json:
        """Return the spec of the lease; empty if there is none."""
        found = await self.ask(requests.get(LEASES, "default", name))
        spec: Json = (found or {}).get("spec", {})
        return spec

    async def give_lease_to(self, holder: str, name: str = "windlass-controller") -> None:
        """Let another holder take the lease for an hour, against the protocol."""
        spec = {"holderIdentity": holder, "leaseDurationSeconds": 3600}
        if await self.lease(name):
            await self.ask(requests.merge_patch(LEASES, "default", name, msgspec.json.encode({"spec": spec})))
            return
        body = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": name},
            "spec": spec,
        }
        await self.ask(requests.create(LEASES, "default", msgspec.json.encode(body)))

    async def until(self, is_so: Callable[[], bool | Awaitable[bool]]) -> None:
        while True:
            found = is_so()
            if found if isinstance(found, bool) else await found:
                return
            await asyncio.sleep(0.01)


@asynccontextmanager
async def running(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Cluster]:
    sent = Sent()
    _record(monkeypatch, sent)
    # Not pytest's folder: the path of a socket must be short.
    with tempfile.TemporaryDirectory() as folder:
        socket = Path(folder, "api")
        server = ApiServer(Path(folder))
        await server.start(socket_path=socket)
        try:
            async with Transport(access.unix(socket), user_agent=USER) as user:
                yield Cluster(access.unix(socket), user, sent)
        finally:
            await server.stop()


def _record(monkeypatch: pytest.MonkeyPatch, sent: Sent) -> None:
    send, stream = Transport.send, Transport.stream

    async def recorded(self: Transport, request: Request, timeout: float = 30.0) -> bytes:
        if self._user_agent == USER:
            return await send(self, request, timeout)
        await sent.pass_through(request)
        answer = await send(self, request, timeout)
        await sent.pass_back(request)
        return answer

    @asynccontextmanager
    async def recorded_stream(
        self: Transport, request: Request, longest: float | None = None
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        await sent.pass_through(request)
        sent.open_streams += 1
        try:
            async with stream(self, request, longest) as chunks:
                yield chunks
        finally:
            sent.open_streams -= 1

    monkeypatch.setattr(Transport, "send", recorded)
    monkeypatch.setattr(Transport, "stream", recorded_stream)


def restore_once(monkeypatch: pytest.MonkeyPatch, resource: Resource) -> asyncio.Event:
    """When the event is set, watches of the resource see a server that was restored from a backup."""
    is_restored, has_told = asyncio.Event(), asyncio.Event()
    watch = Reflector._watch

    async def watch_until_then(self: Reflector) -> None:
        if self._resource != resource or has_told.is_set():
            await watch(self)
            return
        await is_restored.wait()
        has_told.set()
        self._receive(Listed([], "1"))

    monkeypatch.setattr(Reflector, "_watch", watch_until_then)
    return is_restored


def play(monkeypatch: pytest.MonkeyPatch, story: Callable[[Cluster], Awaitable[None]]) -> None:
    async def run() -> None:
        async with asyncio.timeout(PATIENCE_SECONDS), running(monkeypatch) as cluster:
            await story(cluster)

    asyncio.run(run())
