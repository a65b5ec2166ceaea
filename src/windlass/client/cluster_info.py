"""Describe a cluster: its namespaces, its nodes with what is requested and used on them, and what waits."""

from collections import Counter
from collections.abc import Mapping
from datetime import datetime

import msgspec

from windlass.client import lookup, usage, waiting
from windlass.client.connection import Connection
from windlass.k8s import pod_resources
from windlass.k8s.metadata import ObjectMeta, decode_name
from windlass.k8s.pod_resources import Amounts
from windlass.kubeapi.errors import ForbiddenError, ResponseError
from windlass.kubeapi.resources import NAMESPACES, NODES, PODS
from windlass.model import names
from windlass.model.base import Json, Sparse
from windlass.model.pods import TERMINAL_PHASES, PodPhase

MAX_PENDING = 500
PODS_AMOUNT = "pods"


async def namespaces(connection: Connection) -> tuple[str, ...]:
    """Return the names of all namespaces; only that of the connection if the user may not list them."""
    try:
        listed = await lookup.list_objects(connection, NAMESPACES, "")
    except ForbiddenError:
        return (connection.namespace,)
    return tuple(decode_name(body).metadata.name for body in listed)


class NodeInfo(msgspec.Struct, frozen=True):
    name: str
    is_ready: bool
    capacity: Amounts
    """Allocatable resources."""
    requested: Amounts | None
    """None: the user may not list the pods of all namespaces."""
    used: Amounts | None
    """None: there is no metrics API, or the user may not read it."""
    pods: int | None


class PendingPod(msgspec.Struct, frozen=True):
    namespace: str
    job: str
    """Empty for a pod that does not belong to a job."""
    task: str
    since: datetime | None
    reason: str


class ClusterOverview(msgspec.Struct, frozen=True):
    nodes: tuple[NodeInfo, ...] | None
    """None: the user may not list nodes."""
    pending: tuple[PendingPod, ...]
    """Pods that wait for a node."""
    has_metrics: bool
    reasons: tuple[str, ...]
    """Why parts are missing."""


class _Condition(Sparse, frozen=True):
    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""


class _NodeStatus(Sparse, frozen=True):
    allocatable: Mapping[str, str] = {}
    conditions: tuple[_Condition, ...] = ()


class _Node(Sparse, frozen=True):
    metadata: ObjectMeta
    status: _NodeStatus = _NodeStatus()


class _PodStatus(Sparse, frozen=True):
    phase: str = PodPhase.PENDING
    conditions: tuple[_Condition, ...] = ()


class _Pod(Sparse, frozen=True):
    metadata: ObjectMeta
    spec: Json = {}
    status: _PodStatus = _PodStatus()


_decode_node = msgspec.json.Decoder(_Node).decode
_decode_pod = msgspec.json.Decoder(_Pod).decode


async def overview(connection: Connection) -> ClusterOverview:
    """Return what the user may see. Raises the errors of `Connection.send` other than ForbiddenError."""
    reasons: list[str] = []
    nodes: list[_Node] | None = None
    try:
        nodes = [_decode_node(body) for body in await lookup.list_objects(connection, NODES, "")]
    except ForbiddenError as error:
        reasons.append(f"nodes: {error.failure.message}")
    requested: dict[str, Amounts] | None = {}
    counts: Counter[str] = Counter()
    pending: list[PendingPod] = []
    for namespace in ("", connection.namespace):
        try:
            async for page in lookup.list_pages(connection, PODS, namespace):
                for pod in map(_decode_pod, page):
                    _add_pod(pod, {} if requested is None else requested, counts, pending)
            break
        except ForbiddenError as error:
            reasons.append(f"pods: {error.failure.message}")
            requested = None
    used: Mapping[str, usage.Usage] | None = None
    try:
        used = await usage.read_nodes(connection) if nodes is not None else None
    except ResponseError as error:
        reasons.append(f"usage: {error.failure.message}")
    return ClusterOverview(
        None if nodes is None else tuple(_node(each, requested, counts, used) for each in nodes),
        tuple(pending[:MAX_PENDING]),
        used is not None,
        tuple(reasons),
    )


def _add_pod(
    pod: _Pod, requested: dict[str, Amounts], counts: Counter[str], pending: list[PendingPod]
) -> None:
    if pod.status.phase in TERMINAL_PHASES:
        return
    node = pod.spec.get("nodeName") or ""
    if node:
        counts[node] += 1
        requested[node] = pod_resources.added(requested.get(node, {}), pod_resources.total(pod.spec, {}))
        return
    labels = pod.metadata.labels
    role, index = labels.get(names.TASKROLE_NAME), labels.get(names.TASK_INDEX, "")
    scheduled = (each for each in pod.status.conditions if each.type == "PodScheduled")
    pending.append(
        PendingPod(
            pod.metadata.namespace,
            labels.get(names.FRAMEWORK_NAME) or labels.get(names.JOB_LABEL, ""),
            f"{role}-{index}" if role else pod.metadata.name,
            pod.metadata.creation_timestamp,
            next((waiting.describe(each.reason, each.message).text for each in scheduled), ""),
        )
    )


def _node(
    node: _Node,
    requested: Mapping[str, Amounts] | None,
    counts: Mapping[str, int],
    used: Mapping[str, usage.Usage] | None,
) -> NodeInfo:
    name = node.metadata.name
    own = None if used is None else used.get(name)
    return NodeInfo(
        name,
        any(each.type == "Ready" and each.status == "True" for each in node.status.conditions),
        pod_resources.amounts_of(node.status.allocatable),
        None if requested is None else requested.get(name, {}),
        None if own is None else {"cpu": round(own.cpu * 1000), "memory": own.memory},
        None if requested is None else counts.get(name, 0),
    )
