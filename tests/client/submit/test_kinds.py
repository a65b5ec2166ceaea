"""Lookup of the resource of a kind."""

import asyncio

import msgspec
import pytest

from windlass.client.submit import kinds
from windlass.client.submit.kinds import Kinds
from windlass.kubeapi.errors import NotFoundError
from windlass.kubeapi.requests import Request
from windlass.kubeapi.resources import Resource
from windlass.model.failures import ApiFailure


class Server:
    def __init__(self) -> None:
        self.asked: list[str] = []
        self.served = {
            "/api/v1": [("pods", "Pod", True), ("pods/log", "Pod", True), ("nodes", "Node", False)],
            "/apis/batch/v1": [("jobs", "Job", True)],
        }

    async def send(self, request: Request) -> bytes:
        self.asked.append(request.path)
        if request.path not in self.served:
            raise NotFoundError(ApiFailure(404))
        found = [
            {"name": name, "kind": kind, "namespaced": where}
            for name, kind, where in self.served[request.path]
        ]
        return msgspec.json.encode({"kind": "APIResourceList", "resources": found})


CASES = {
    "core": ("v1", "Pod", Resource("", "v1", "pods")),
    "of-no-namespace": ("v1", "Node", Resource("", "v1", "nodes", is_namespaced=False)),
    "of-a-group": ("batch/v1", "Job", Resource("batch", "v1", "jobs")),
    "no-such-kind": ("v1", "Job", None),
    "no-such-group": ("example.org/v1", "Job", None),
}


@pytest.mark.parametrize(("api_version", "kind", "expected"), CASES.values(), ids=CASES)
def test_resource_of_a_kind(api_version: str, kind: str, expected: Resource | None) -> None:
    assert asyncio.run(Kinds(Server().send).resource(api_version, kind)) == expected


def test_known_kind_is_cached() -> None:
    server = Server()

    async def main() -> None:
        known = Kinds(server.send)
        for kind in ("Pod", "Node", "Pod"):
            await known.resource("v1", kind)

    asyncio.run(main())
    assert server.asked == ["/api/v1"]


def test_kind_that_was_defined_later_is_found() -> None:
    server = Server()

    async def main() -> Resource | None:
        known = Kinds(server.send)
        await known.resource("batch/v1", "Job")
        server.served["/apis/batch/v1"].append(("cronjobs", "CronJob", True))
        return await known.resource("batch/v1", "CronJob")

    assert asyncio.run(main()) == Resource("batch", "v1", "cronjobs")


@pytest.mark.parametrize(("api_version", "expected"), [("batch/v1", True), ("example.org/v1", False)])
def test_is_served(api_version: str, expected: bool) -> None:
    assert asyncio.run(kinds.is_served(Server().send, api_version)) is expected
