"""The status that `windlass local status` shows: whether a cluster runs, its URL, nodes and pods."""

import asyncio
from collections import Counter
from pathlib import Path

import msgspec

from windlass.k8s.metadata import ObjectName
from windlass.kubeapi import access, requests, responses
from windlass.kubeapi.errors import ApiError
from windlass.kubeapi.resources import PODS, Resource
from windlass.kubeapi.transport import Transport
from windlass.runner.local import process

NODES = Resource("", "v1", "nodes", is_namespaced=False)
RESPONSE_TIMEOUT = 10.0


class Status(msgspec.Struct, frozen=True, rename="camel"):
    running: bool
    data_dir: str
    pid: int | None = None
    url: str = ""
    kubeconfig: str = ""
    network: str = ""
    controller: bool = False
    nodes: tuple[str, ...] = ()
    pods: dict[str, int] = {}
    """Number of pods by phase."""
    trouble: str = ""
    """Why the API server does not respond. Empty if it does."""


class _PodStatus(msgspec.Struct, frozen=True):
    phase: str = "Pending"


class _Object(msgspec.Struct, frozen=True):
    metadata: ObjectName
    status: _PodStatus = _PodStatus()


_decode = msgspec.json.Decoder(_Object).decode


def read(data: Path) -> Status:
    """Return the status. Raises DaemonError if a daemon does not become ready."""
    record = process.running(data)
    if record is None:
        return Status(running=False, data_dir=str(data))
    found = Status(
        running=True,
        data_dir=str(data),
        pid=record.pid,
        url=record.url,
        kubeconfig=record.kubeconfig,
        network=record.network,
        controller=record.has_controller,
    )
    try:
        nodes, pods = asyncio.run(_objects(record.socket))
    except ApiError as error:
        return msgspec.structs.replace(found, trouble=str(error))
    phases = Counter(pod.status.phase for pod in pods)
    return msgspec.structs.replace(
        found,
        nodes=tuple(sorted(node.metadata.name for node in nodes)),
        pods=dict(sorted(phases.items())),
    )


def lines(status: Status) -> list[str]:
    """Return the lines of the text output."""
    if not status.running:
        return ["not running", f"data:       {status.data_dir}"]
    pods = ", ".join(f"{number} {phase}" for phase, number in status.pods.items())
    empty = "unknown" if status.trouble else "none"
    shown = {
        "API server": status.url,
        "kubeconfig": status.kubeconfig,
        "controller": "running" if status.controller else "none",
        "network": status.network,
        "nodes": ", ".join(status.nodes) or empty,
        "pods": pods or empty,
        "data": status.data_dir,
    }
    head = f"running, process {status.pid}"
    if status.trouble:
        head += f", does not respond: {status.trouble}"
    return [head, *(f"{f'{name}:':<11} {value}" for name, value in shown.items())]


async def _objects(socket: str) -> tuple[list[_Object], list[_Object]]:
    async with Transport(access.unix(socket), user_agent="windlass-local") as transport:
        found = []
        for resource in (NODES, PODS):
            body = await transport.send(requests.list_page(resource, limit=0), RESPONSE_TIMEOUT)
            found.append([_decode(item) for item in responses.decode_page(body).objects])
    return found[0], found[1]
