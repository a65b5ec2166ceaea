"""`metrics.k8s.io` with a fake meter. The expected responses are those of metrics-server."""

import asyncio
import contextlib
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from windlass.localcluster.server import ApiServer
from windlass.localcluster.usage import ContainerUsage, PodUsage, UsageSnapshot

GROUP = "/apis/metrics.k8s.io"
METRICS = f"{GROUP}/v1beta1"
AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
MOMENT = "2026-01-02T03:04:05Z"
AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


class FakeMeter:
    """A meter with fixed readings."""

    def __init__(self) -> None:
        self.pods: dict[str, PodUsage] = {}

    async def reading(self) -> UsageSnapshot:
        return UsageSnapshot(AT, self.pods)


class Client:
    def __init__(self, server: ApiServer, session: aiohttp.ClientSession) -> None:
        self.server = server
        self.meter = FakeMeter()
        self._session = session

    async def ask(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        async with self._session.request(method, f"http://local{path}", json=body, headers=headers) as answer:
            return answer.status, await answer.json(content_type=None)

    async def get(self, path: str, **headers: str) -> Any:
        code, body = await self.ask("GET", path, **headers)
        assert code == 200, body
        return body

    async def pod(self, name: str, namespace: str = "default", *used: ContainerUsage, **labels: str) -> None:
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "labels": labels},
            "spec": {"containers": [{"name": "main", "image": "x"}]},
        }
        code, made = await self.ask("POST", f"/api/v1/namespaces/{namespace}/pods", body)
        assert code == 201, made
        if used:
            self.meter.pods[made["metadata"]["uid"]] = PodUsage("first", used)


def test_containers_with_gpus_have_their_usage() -> None:
    async def test() -> None:
        async with served() as client:
            used = ContainerUsage("main", 0, 1024, 1.0, gpus=1.75, gpu_memory_bytes=3 * 2**30)
            instance = ContainerUsage("side", 0, 1024, 1.0, gpu_memory_bytes=2048)
            await client.pod("trains", "default", used, instance)
            body = await client.get(f"{METRICS}/namespaces/default/pods/trains")
            assert [container["usage"] for container in body["containers"]] == [
                {
                    "cpu": "0",
                    "memory": "1Ki",
                    "windlass.dev/gpus": "1750m",
                    "windlass.dev/gpu-memory": "3145728Ki",
                },
                {"cpu": "0", "memory": "1Ki", "windlass.dev/gpu-memory": "2Ki"},
            ]

    asyncio.run(test())


MAIN = ContainerUsage("main", 250_000_001, 3 * 1024 + 7, 2.0)
SIDE = ContainerUsage("side", 0, 1024, 1.5)


@contextlib.asynccontextmanager
async def served(*, is_measured: bool = True) -> AsyncIterator[Client]:
    """Four pods, one of them not measured, and two nodes."""
    with tempfile.TemporaryDirectory(prefix="windlass-") as folder:
        server = ApiServer(Path(folder) / "data")
        await server.start(socket_path=Path(folder) / "socket")
        connector = aiohttp.UnixConnector(str(Path(folder) / "socket"))
        async with aiohttp.ClientSession(connector=connector) as session:
            client = Client(server, session)
            for name in ("first", "second"):
                node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}
                await client.ask("POST", "/api/v1/nodes", node)
            if is_measured:
                server.set_pod_meter(client.meter)
            await client.pod("a", "default", MAIN, SIDE, app="x")
            await client.pod("b", "default", MAIN)
            await client.pod("c", "kube-system", MAIN, app="x")
            await client.pod("waiting", "default", app="x")
            yield client
        await server.stop()


def run(test: Callable[[Client], Awaitable[None]], *, is_measured: bool = True) -> None:
    async def main() -> None:
        async with asyncio.timeout(120), served(is_measured=is_measured) as client:
            await test(client)

    asyncio.run(main())


LISTS = {
    "namespace": (f"{METRICS}/namespaces/default/pods", ["a", "b"]),
    "all-namespaces": (f"{METRICS}/pods", ["a", "b", "c"]),
    "labels": (f"{METRICS}/pods?labelSelector=app%3Dx", ["a", "c"]),
    "labels-of-nothing": (f"{METRICS}/pods?labelSelector=app%3Dy", []),
    "name": (f"{METRICS}/namespaces/default/pods?fieldSelector=metadata.name%3Db", ["b"]),
    "empty-namespace": (f"{METRICS}/namespaces/nowhere/pods", []),
    "nodes": (f"{METRICS}/nodes", ["first", "second"]),
}


@pytest.mark.parametrize(("path", "names"), LISTS.values(), ids=LISTS)
def test_metrics_list(path: str, names: list[str]) -> None:
    async def test(client: Client) -> None:
        found = await client.get(path)
        kind = "NodeMetricsList" if path.endswith("nodes") else "PodMetricsList"
        assert (found["kind"], found["apiVersion"]) == (kind, "metrics.k8s.io/v1beta1")
        assert [item["metadata"]["name"] for item in found["items"]] == names

    run(test)


def test_metrics_of_one_pod() -> None:
    async def test(client: Client) -> None:
        assert await client.get(f"{METRICS}/namespaces/default/pods/a") == {
            "kind": "PodMetrics",
            "apiVersion": "metrics.k8s.io/v1beta1",
            "metadata": {
                "name": "a",
                "namespace": "default",
                "labels": {"app": "x"},
                "creationTimestamp": MOMENT,
            },
            "timestamp": MOMENT,
            "window": "2.000s",
            "containers": [
                {"name": "main", "usage": {"cpu": "250000001n", "memory": "3Ki"}},
                {"name": "side", "usage": {"cpu": "0", "memory": "1Ki"}},
            ],
        }

    run(test)


def test_node_usage_is_the_sum_of_its_pods() -> None:
    async def test(client: Client) -> None:
        found = await client.get(f"{METRICS}/nodes/first")
        assert found["kind"] == "NodeMetrics"
        assert found["usage"] == {"cpu": "750000003n", "memory": "10Ki"}
        idle = await client.get(f"{METRICS}/nodes/second")
        assert idle["usage"] == {"cpu": "0", "memory": "0Ki"}

    run(test)


REFUSALS = {
    "no-such-pod": ("GET", "/namespaces/default/pods/none", 404, 'podmetrics.metrics.k8s.io "default/none"'),
    "not-measured": ("GET", "/namespaces/default/pods/waiting", 404, "podmetrics.metrics.k8s.io"),
    "no-such-node": ("GET", "/nodes/none", 404, 'nodemetrics.metrics.k8s.io "none"'),
    "no-namespace": ("GET", "/pods/a", 404, "could not find the requested resource"),
    "node-in-namespace": ("GET", "/namespaces/default/nodes/first", 404, "could not find"),
    "another-resource": ("GET", "/services", 404, "could not find"),
    "subresource": ("GET", "/namespaces/default/pods/a/log", 404, "could not find"),
    "selector": ("GET", "/pods?labelSelector=%3D%3D", 400, "found '=='"),
    "watch": ("GET", "/pods?watch=true", 405, "does not allow this method"),
    "create": ("POST", "/namespaces/default/pods", 405, "does not allow this method"),
    "update": ("PUT", "/namespaces/default/pods/a", 405, "does not allow this method"),
    "patch": ("PATCH", "/namespaces/default/pods/a", 405, "does not allow this method"),
    "delete": ("DELETE", "/namespaces/default/pods/a", 405, "does not allow this method"),
    "delete-all": ("DELETE", "/namespaces/default/pods", 405, "does not allow this method"),
}


@pytest.mark.parametrize(("method", "path", "code", "words"), REFUSALS.values(), ids=REFUSALS)
def test_invalid_metrics_requests_are_rejected(method: str, path: str, code: int, words: str) -> None:
    async def test(client: Client) -> None:
        answered, body = await client.ask(method, METRICS + path)
        assert (answered, body["kind"]) == (code, "Status")
        assert words in body["message"]

    run(test)


def test_metrics_group_is_in_discovery() -> None:
    async def test(client: Client) -> None:
        groups = {each["name"]: each for each in (await client.get("/apis"))["groups"]}
        version = {"groupVersion": "metrics.k8s.io/v1beta1", "version": "v1beta1"}
        assert groups["metrics.k8s.io"]["preferredVersion"] == version
        assert (await client.get(GROUP))["versions"] == [version]
        resources = (await client.get(METRICS))["resources"]
        assert resources == [
            {
                "name": name,
                "singularName": "",
                "namespaced": is_namespaced,
                "kind": kind,
                "verbs": ["get", "list"],
            }
            for name, is_namespaced, kind in (("nodes", False, "NodeMetrics"), ("pods", True, "PodMetrics"))
        ]
        aggregated = (await client.get("/apis", Accept=AGGREGATED))["items"]
        (group,) = [each for each in aggregated if each["metadata"]["name"] == "metrics.k8s.io"]
        assert [each["resource"] for each in group["versions"][0]["resources"]] == ["nodes", "pods"]

    run(test)


def test_server_without_pods_has_no_metrics() -> None:
    async def test(client: Client) -> None:
        for path in (GROUP, METRICS, f"{METRICS}/pods"):
            assert (await client.ask("GET", path))[0] == 404
        assert "metrics.k8s.io" not in [each["name"] for each in (await client.get("/apis"))["groups"]]

    run(test, is_measured=False)
