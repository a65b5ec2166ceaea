"""Restrict tasks to the nodes that have their host folders."""

from collections.abc import Sequence
from typing import Any

from windlass.model.base import Json
from windlass.model.job import Job

HOSTNAME = "kubernetes.io/hostname"
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def nodes_of(job: Job) -> tuple[str, ...] | None:
    """Return the nodes that have every folder, in the order of the first volume that names nodes. None: all nodes."""
    named = [volume.nodes for volume in job.volumes.values() if volume.nodes]
    if not named:
        return None
    first, *others = named
    return tuple(dict.fromkeys(node for node in first if all(node in nodes for nodes in others)))


def restricted_to(spec: Json, nodes: Sequence[str]) -> Json:
    """Add the nodes to each nodeSelectorTerm of a pod spec."""
    asked: Json = {"key": HOSTNAME, "operator": "In", "values": list(nodes)}
    affinity: Json = spec.get("affinity") or {}
    of_nodes: Json = affinity.get("nodeAffinity") or {}
    terms: list[Any] = (of_nodes.get(_REQUIRED) or {}).get("nodeSelectorTerms") or [{}]
    held = [{**term, "matchExpressions": [*(term.get("matchExpressions") or ()), asked]} for term in terms]
    required = {_REQUIRED: {"nodeSelectorTerms": held}}
    return {**spec, "affinity": {**affinity, "nodeAffinity": {**of_nodes, **required}}}
