"""Metrics of a job, and the state of the cluster."""

import asyncio

from windlass.client import cluster_info, tasks
from windlass.client.cluster_info import NodeInfo
from windlass.client.job_metrics import Series
from windlass.k8s.pod_resources import Amounts
from windlass.web import problems, rows
from windlass.web.calls import Call
from windlass.web.schema import (
    ClusterAnswer,
    MetricsAnswer,
    NodeAnswer,
    NodeResources,
    PendingTask,
    UsageAnswer,
    UsageSeries,
    ValueSeries,
    stamp,
)

MAX_POINTS = 500
FIRST_SECONDS = 3.0
"""How long the first request waits for the first measurement."""
CLUSTER_SECONDS = 5.0
_UNITS = {"cpu": "cores", "memory": "bytes", "gpu": "gpus"}


async def read_metrics(call: Call) -> MetricsAnswer:
    try:
        selector = tasks.parse_selectors(call.query("task"))
    except ValueError as error:
        raise problems.invalid(f"task: {error}") from error
    found = await call.viewer.metrics(call.namespace, call.name)
    try:
        async with asyncio.timeout(FIRST_SECONDS):
            await found.first_poll.wait()
    except TimeoutError:
        pass  # the page asks again

    def points(series: Series) -> list[tuple[int, float]]:
        return series.latest(MAX_POINTS)

    def is_selected(label: str) -> bool:
        return not selector.role or selector.matches_label(label)

    return MetricsAnswer(
        usage=UsageAnswer(
            available=bool(found.usage),
            reason="" if found.usage else found.problem or "no measurement yet",
            series=[
                UsageSeries(task=task, metric=metric, unit=_UNITS[metric], points=points(each))
                for (task, metric), each in found.usage.items()
                if is_selected(task)
            ],
        ),
        values=[
            ValueSeries(task=task, name=name, points=points(each))
            for (task, name), each in found.values.items()
            if is_selected(task)
        ],
        tasks=found.tasks,
    )


async def read_cluster(call: Call) -> ClusterAnswer:
    connection = call.viewer.connection
    found = await call.viewer.cached(("cluster",), lambda: cluster_info.overview(connection), CLUSTER_SECONDS)
    return ClusterAnswer(
        nodes=None if found.nodes is None else tuple(map(_node, found.nodes)),
        pending=tuple(
            PendingTask(
                namespace=each.namespace,
                job=each.job,
                task=each.task,
                since=stamp(each.since),
                reason=each.reason,
            )
            for each in found.pending
        ),
        metrics_available=found.has_metrics,
        reasons=found.reasons,
    )


def _node(node: NodeInfo) -> NodeAnswer:
    return NodeAnswer(
        name=node.name,
        ready=node.is_ready,
        capacity=_amounts(node.capacity, node.capacity.get(cluster_info.PODS_AMOUNT)),
        requested=None if node.requested is None else _amounts(node.requested, node.pods),
        used=None if node.used is None else _amounts(node.used, None),
        pods=node.pods,
    )


def _amounts(amounts: Amounts, pods: int | None) -> NodeResources:
    found = rows.resources(amounts)
    return NodeResources(cpu=found.cpu, memory=found.memory, gpus=found.gpus, pods=pods)
