"""A follower and the embedded server: nothing is lost over pages, big objects, forgotten history and restarts."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.kubeapi.scripted import run

from windlass.kubeapi import access, errors, requests
from windlass.kubeapi.access import Access
from windlass.kubeapi.reflector import Changed, Deleted, Listed, Reflector, ResourceEvent
from windlass.kubeapi.resources import CONFIG_MAPS, CUSTOM_RESOURCE_DEFINITIONS, Resource
from windlass.kubeapi.transport import Transport
from windlass.localcluster.apiserver import credentials
from windlass.localcluster.server import ApiServer


class View:
    """The objects as the news tell them, by name; and the versions, which never go back."""

    def __init__(self) -> None:
        self.objects: dict[str, dict[str, Any]] = {}
        self.lists = 0
        self.troubles: list[errors.ApiError] = []
        self._changed = asyncio.Event()

    def receive(self, news: ResourceEvent) -> None:
        match news:
            case Listed(items=items):
                self.lists += 1
                self.objects = {}
                for item in items:
                    self._put(msgspec.json.decode(item))
            case Changed(object=body):
                self._put(msgspec.json.decode(body))
            case Deleted(object=body):
                del self.objects[msgspec.json.decode(body)["metadata"]["name"]]
        self._changed.set()

    def _put(self, body: dict[str, Any]) -> None:
        self.objects[body["metadata"]["name"]] = body

    async def until(self, holds: Callable[[], bool]) -> None:
        while not holds():
            self._changed.clear()
            await self._changed.wait()


def config_map(name: str, **fields: Any) -> bytes:
    return json.dumps({"metadata": {"name": name, **fields.pop("metadata", {})}, **fields}).encode()


async def put(transport: Transport, name: str, **fields: Any) -> None:
    await transport.send(requests.create(CONFIG_MAPS, "default", config_map(name, **fields)))


@asynccontextmanager
async def served(folder: Path, socket: str = "socket", history: int = 100_000) -> AsyncIterator[ApiServer]:
    server = ApiServer(folder, history_length=history)
    await server.start(socket_path=folder / socket)
    try:
        yield server
    finally:
        for runner in server._runners:
            # A follower comes back on a connection that is still open, and would be waited for.
            runner._shutdown_timeout = 0.01
        await server.stop()


async def by_socket(server: ApiServer, folder: Path) -> Access:
    return access.unix(folder / "socket")


async def by_https(server: ApiServer, folder: Path) -> Access:
    credentials.write_kubeconfig(folder / "kubeconfig", server.url, server.credentials)
    return await access.load(str(folder / "kubeconfig"))


@asynccontextmanager
async def following(
    transport: Transport, resource: Resource = CONFIG_MAPS, **options: Any
) -> AsyncIterator[View]:
    view = View()
    follower = Reflector(
        transport,
        resource,
        receive=view.receive,
        on_error=view.troubles.append,
        sleep=lambda _: asyncio.sleep(0.01),
        **options,
    )
    task = asyncio.create_task(follower.run())
    try:
        yield view
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


@pytest.mark.parametrize("reach", [by_socket, by_https])
def test_pages_changes_and_large_objects(tmp_path: Path, reach: Any) -> None:
    async def follow() -> None:
        async with served(tmp_path) as server, Transport(await reach(server, tmp_path)) as transport:
            await asyncio.gather(*(put(transport, f"m{number}") for number in range(25)))
            async with following(transport, page_size=10) as view:
                await view.until(lambda: len(view.objects) == 25)
                big = "x" * 1_000_000
                await asyncio.gather(
                    put(transport, "big", data={"value": big}),
                    *(put(transport, f"n{number}") for number in range(200)),
                )
                await transport.send(requests.delete(CONFIG_MAPS, "default", "m7"))
                await view.until(lambda: len(view.objects) == 225 and "m7" not in view.objects)
                assert view.objects["big"]["data"]["value"] == big
                assert (view.lists, view.troubles) == (1, [])

    run(follow())


def test_selector_excludes_other_objects(tmp_path: Path) -> None:
    async def follow() -> None:
        async with (
            served(tmp_path),
            Transport(access.unix(tmp_path / "socket")) as transport,
            following(transport, namespace="default", label_selector="app=blue") as view,
        ):
            for name, app in [("a", "red"), ("b", "blue"), ("c", "red"), ("d", "blue")]:
                await put(transport, name, metadata={"labels": {"app": app}})
            patch = b'{"metadata":{"labels":{"app":"red"}}}'
            await transport.send(requests.merge_patch(CONFIG_MAPS, "default", "b", patch))
            await view.until(lambda: set(view.objects) == {"d"})

    run(follow())


def test_server_restart_loses_no_event(tmp_path: Path) -> None:
    async def follow() -> None:
        async with Transport(access.unix(tmp_path / "socket")) as transport, following(transport) as view:
            async with served(tmp_path):
                await put(transport, "a")
                await view.until(lambda: set(view.objects) == {"a"})
            async with served(tmp_path):
                await put(transport, "b")
                await view.until(lambda: set(view.objects) == {"a", "b"})
                # It went on where it was.
                assert view.lists == 1

    run(follow())


def test_expired_version_leads_to_a_list(tmp_path: Path) -> None:
    async def follow() -> None:
        async with Transport(access.unix(tmp_path / "socket")) as transport, following(transport) as view:
            async with served(tmp_path):
                await put(transport, "a")
                await view.until(lambda: set(view.objects) == {"a"})
            # While it cannot be reached, more is written and forgotten than a watch may lie behind.
            async with (
                served(tmp_path, "aside", history=5),
                Transport(access.unix(tmp_path / "aside")) as other,
            ):
                for number in range(20):
                    await put(other, f"m{number}")
                await other.send(requests.delete(CONFIG_MAPS, "default", "a"))
            async with served(tmp_path, history=5):
                await view.until(lambda: set(view.objects) == {f"m{number}" for number in range(20)})
                assert view.lists == 2
                assert any(isinstance(each, errors.ExpiredError) for each in view.troubles)

    run(follow())


THINGS = Resource("example.com", "v1", "things")
DEFINITION = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "things.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
                },
            }
        ],
    },
}


def test_kind_defined_later_is_watched(tmp_path: Path) -> None:
    async def follow() -> None:
        async with (
            served(tmp_path),
            Transport(access.unix(tmp_path / "socket")) as transport,
            following(transport, THINGS) as view,
        ):
            while not view.troubles:
                await asyncio.sleep(0.01)
            assert isinstance(view.troubles[0], errors.NotFoundError)
            definition = json.dumps(DEFINITION).encode()
            await transport.send(requests.create(CUSTOM_RESOURCE_DEFINITIONS, "", definition))
            await view.until(lambda: view.lists == 1)
            thing = {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "a"}}
            await transport.send(requests.create(THINGS, "default", json.dumps(thing).encode()))
            await view.until(lambda: set(view.objects) == {"a"})

    run(follow())
