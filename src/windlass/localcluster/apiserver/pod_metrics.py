"""The API `metrics.k8s.io` (metrics-server): CPU and memory usage of pods and nodes, measured on request.

The usage of a node is the sum of the usage of its pods, since several nodes may share one machine. Containers with
GPUs have two more entries, which metrics-server does not have.
"""

from datetime import datetime
from typing import Any, Protocol

from aiohttp import web

from windlass.k8s import api_errors
from windlass.k8s.metadata import ObjectMeta, decode_meta
from windlass.k8s.times import format_time
from windlass.localcluster import usage
from windlass.localcluster.apiserver import bodies, lists, responses, selection
from windlass.localcluster.apiserver.kinds.kind import Kind
from windlass.localcluster.apiserver.lifecycle import Lifecycle
from windlass.localcluster.apiserver.options import parse_boolean, parse_query
from windlass.localcluster.apiserver.request_info import RequestInfo
from windlass.localcluster.apiserver.schemas import structural
from windlass.localcluster.apiserver.strategy import Strategy
from windlass.localcluster.store_types import object_key
from windlass.localcluster.usage import ContainerUsage, PodUsage, UsageSnapshot

GROUP = "metrics.k8s.io"
VERSION = "v1beta1"
_GPUS = "windlass.dev/gpus"
"""GPU usage as a number of GPUs: 1500m for two GPUs that are each used to 75 %."""
_GPU_MEMORY = "windlass.dev/gpu-memory"


class Meter(Protocol):
    async def reading(self) -> UsageSnapshot: ...


def _kind(kind: str, plural: str, *, namespaced: bool) -> Kind:
    return Kind(
        group=GROUP,
        version=VERSION,
        kind=kind,
        plural=plural,
        singular="",
        namespaced=namespaced,
        list_kind=f"{kind}List",
        schema=structural.StructuralSchema({}),
        strategy=Strategy(),
        verbs=("get", "list"),
    )


_PODS = _kind("PodMetrics", "pods", namespaced=True)
_NODES = _kind("NodeMetrics", "nodes", namespaced=False)
KINDS = (_NODES, _PODS)


class MetricsHandler:
    def __init__(self, lifecycle: Lifecycle, meter: Meter) -> None:
        self._lifecycle = lifecycle
        self._meter = meter

    async def handle(self, request: web.BaseRequest, info: RequestInfo) -> web.Response:
        kind = next((each for each in KINDS if each.plural == info.plural), None)
        is_invalid = bool(info.subresource) or "/" in info.name + info.namespace or info.version != VERSION
        if is_invalid or kind is None or not info.fits_scope(namespaced=kind.namespaced):
            raise api_errors.no_such_path()
        query = parse_query(request.query_string)
        is_watch = not info.name and parse_boolean(query.get("watch", ""))
        if request.method != "GET" or is_watch:
            raise api_errors.method_not_allowed()
        representation = responses.negotiate(request.headers.get("Accept", ""), query)
        measured_kind = self._lifecycle.registry.find("", "v1", info.plural)
        assert measured_kind is not None  # noqa: S101 — both are built-in kinds
        if info.name:
            return responses.response(
                200, bodies.encode(await self._object_metrics(kind, measured_kind, info)), representation
            )
        selected = selection.parse(
            query.get("labelSelector", ""), query.get("fieldSelector", ""), measured_kind
        )
        reading = await self._meter.reading()
        listed = lists.list_objects(self._lifecycle.store, measured_kind, info.namespace, selected, {})
        items = [_metrics(kind, decode_meta(body).metadata, reading) for body in listed.bodies]
        document = {
            "kind": kind.list_kind,
            "apiVersion": kind.api_version,
            "metadata": {},
            "items": [item for item in items if item is not None],
        }
        return responses.response(200, bodies.encode(document), representation)

    async def _object_metrics(self, kind: Kind, measured_kind: Kind, info: RequestInfo) -> dict[str, Any]:
        reading = await self._meter.reading()
        key = object_key(info.namespace, info.name)
        body = self._lifecycle.store.get(measured_kind.resource, key)
        found = None if body is None else _metrics(kind, decode_meta(body).metadata, reading)
        if found is None:
            raise api_errors.not_found(GROUP, kind.kind.lower(), key)
        return {"kind": kind.kind, "apiVersion": kind.api_version, **found}


def _metrics(kind: Kind, meta: ObjectMeta, reading: UsageSnapshot) -> dict[str, Any] | None:
    """Return the metrics of a pod or node, or None for a pod that has not been measured."""
    if kind is _NODES:
        pods = [pod for pod in reading.pods.values() if pod.node == meta.name]
        return {**_common_fields(meta, reading.at, pods), "usage": _usage(*usage.total(pods))}
    pod = reading.pods.get(meta.uid)
    if pod is None:
        return None
    containers = [
        {"name": each.name, "usage": _usage(each.nanocores, each.memory_bytes) | _gpu_usage(each)}
        for each in pod.containers
    ]
    return {**_common_fields(meta, reading.at, [pod]), "containers": containers}


def _common_fields(meta: ObjectMeta, at: datetime, pods: list[PodUsage]) -> dict[str, Any]:
    timestamp = format_time(at)
    windows = [container.window_seconds for pod in pods for container in pod.containers]
    metadata = {
        "name": meta.name,
        "namespace": meta.namespace,
        "labels": meta.labels,
        "creationTimestamp": timestamp,
    }
    return {
        "metadata": {key: value for key, value in metadata.items() if value},
        "timestamp": timestamp,
        "window": f"{max(windows, default=0.0):.3f}s",
    }


def _usage(nanocores: int, memory_bytes: int) -> dict[str, str]:
    return {"cpu": f"{nanocores}n" if nanocores else "0", "memory": f"{memory_bytes // 1024}Ki"}


def _gpu_usage(container: ContainerUsage) -> dict[str, str]:
    gpus, memory = container.gpus, container.gpu_memory_bytes
    return {
        **({} if gpus is None else {_GPUS: f"{round(gpus * 1000)}m"}),
        **({} if memory is None else {_GPU_MEMORY: f"{memory // 1024}Ki"}),
    }
