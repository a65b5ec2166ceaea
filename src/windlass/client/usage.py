"""The resource usage of tasks from the metrics API, which a cluster may not have."""

from collections.abc import Mapping
from decimal import Decimal

import msgspec

from windlass.client.connection import Connection
from windlass.client.errors import ClientError
from windlass.k8s import quantities
from windlass.k8s.metadata import ObjectName
from windlass.kubeapi import requests
from windlass.kubeapi.errors import NotFoundError
from windlass.kubeapi.requests import Request
from windlass.kubeapi.resources import Resource
from windlass.model import names

_GPUS, _GPU_MEMORY = "windlass.dev/gpus", "windlass.dev/gpu-memory"
"""Entries that only the embedded cluster has."""
POD_METRICS = Resource("metrics.k8s.io", "v1beta1", "pods")
NODE_METRICS = Resource("metrics.k8s.io", "v1beta1", "nodes", is_namespaced=False)

TASKS = names.FRAMEWORK_NAME
"""Label selector of the pods of tasks."""


class Usage(msgspec.Struct, frozen=True):
    cpu: float
    """Cores."""
    memory: int
    """Bytes."""
    gpus: float | None = None
    """Usage as a number of GPUs: 1.5 for two that are each used to 75 %. None without GPUs, or if it is not known."""
    gpu_memory: int | None = None
    """Bytes."""


class _Container(msgspec.Struct, frozen=True):
    usage: dict[str, str] = {}

    def amount(self, resource: str) -> Decimal:
        return quantities.parse(self.usage.get(resource, "0"))


class _Pod(msgspec.Struct, frozen=True):
    metadata: ObjectName
    containers: tuple[_Container, ...] = ()

    @property
    def usage(self) -> Usage:
        gpus, gpu_memory = self._optional_total(_GPUS), self._optional_total(_GPU_MEMORY)
        return Usage(
            float(self._total("cpu")),
            int(self._total("memory")),
            None if gpus is None else float(gpus),
            None if gpu_memory is None else int(gpu_memory),
        )

    def _total(self, resource: str) -> Decimal:
        return sum((container.amount(resource) for container in self.containers), Decimal())

    def _optional_total(self, resource: str) -> Decimal | None:
        is_known = any(resource in container.usage for container in self.containers)
        return self._total(resource) if is_known else None


class _Node(msgspec.Struct, frozen=True):
    metadata: ObjectName
    usage: dict[str, str] = {}


class _NodeList(msgspec.Struct, frozen=True):
    items: tuple[_Node, ...] = ()


class _List(msgspec.Struct, frozen=True):
    items: tuple[_Pod, ...] = ()


_decode = msgspec.json.Decoder(_List).decode


def request(namespace: str = "", label_selector: str = TASKS) -> Request:
    """Return the request for the usage of tasks, by default in all namespaces."""
    return requests.list_page(POD_METRICS, namespace, label_selector, limit=0)


def decode(body: bytes) -> Mapping[tuple[str, str], Usage]:
    """Return the usage by namespace and pod name. Raises msgspec.DecodeError."""
    return {(pod.metadata.namespace, pod.metadata.name): pod.usage for pod in _decode(body).items}


async def read(connection: Connection, label_selector: str) -> Mapping[str, Usage]:
    """Return the usage of the pods that the selector matches, by name. Raises ClientError."""
    try:
        body = await connection.send(request(connection.namespace, label_selector))
    except NotFoundError as error:
        raise ClientError(
            f"{connection.where} has no metrics API (metrics.k8s.io). Install metrics-server on the cluster."
        ) from error
    return {name: used for (_, name), used in decode(body).items()}


async def read_nodes(connection: Connection) -> Mapping[str, Usage]:
    """Return the usage of nodes by name. Raises the errors of `Connection.send`."""
    body = await connection.send(requests.list_page(NODE_METRICS, limit=0))
    found = msgspec.json.decode(body, type=_NodeList).items
    containers = {each.metadata.name: _Container(each.usage) for each in found}
    return {
        name: Usage(float(each.amount("cpu")), int(each.amount("memory")))
        for name, each in containers.items()
    }
