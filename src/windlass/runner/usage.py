"""CPU and memory usage of tasks from the metrics API, which a cluster may not have."""

from collections.abc import Mapping
from decimal import Decimal

import msgspec

from windlass.k8s import quantities
from windlass.k8s.metadata import ObjectName
from windlass.kubeapi import requests
from windlass.kubeapi.requests import Request
from windlass.kubeapi.resources import Resource
from windlass.model import names

POD_METRICS = Resource("metrics.k8s.io", "v1beta1", "pods")


class Usage(msgspec.Struct, frozen=True):
    cpu: float
    """Cores."""
    memory: int
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
        cpu = sum(container.amount("cpu") for container in self.containers)
        return Usage(float(cpu), int(sum(container.amount("memory") for container in self.containers)))


class _List(msgspec.Struct, frozen=True):
    items: tuple[_Pod, ...] = ()


_decode = msgspec.json.Decoder(_List).decode


def request() -> Request:
    """Return the request for the usage of tasks in all namespaces."""
    return requests.list_page(POD_METRICS, label_selector=names.FRAMEWORK_NAME, limit=0)


def decode(body: bytes) -> Mapping[tuple[str, str], Usage]:
    """Return the usage by namespace and pod name. Raises msgspec.DecodeError."""
    return {(pod.metadata.namespace, pod.metadata.name): pod.usage for pod in _decode(body).items}
