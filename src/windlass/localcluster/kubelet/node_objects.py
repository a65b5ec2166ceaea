"""The Node objects of this cluster, created or updated at its start.

Nodes are always Ready and have no Lease: API server and kubelet are one process, so no client can see a node that is
not ready.
"""

import functools
import logging
from collections.abc import Sequence

from windlass.localcluster.apiserver import bodies
from windlass.localcluster.apiserver.kinds.kind import Kind
from windlass.localcluster.apiserver.lifecycle import Lifecycle
from windlass.localcluster.apiserver.options import DeleteOptions, WriteOptions
from windlass.localcluster.kubelet.lifecycle import specs
from windlass.localcluster.scheduler import gpus
from windlass.localcluster.scheduler.nodes import INDEX_LABEL
from windlass.model.base import Json

logger = logging.getLogger(__name__)

_NODES = "nodes"
_PODS = "pods"


def sync(lifecycle: Lifecycle, nodes: Sequence[Json]) -> None:
    """Create or update these nodes, and delete the other nodes that an earlier start created.

    Then call `collect_orphans`.

    Labels, annotations, taints and cordons that a user has added stay, and so do nodes that a user has created.
    """
    kind = _kind(lifecycle, _NODES)
    stored = {node["metadata"]["name"]: node for node in lifecycle.objects("", _NODES)}
    for node in nodes:
        name = node["metadata"]["name"]
        if name in stored:
            lifecycle.amend(kind, "", name, functools.partial(updated_node, new=node))
        else:
            lifecycle.create(kind, "", node, WriteOptions())
    names = {node["metadata"]["name"] for node in nodes}
    for name, node in stored.items():
        is_ours = INDEX_LABEL in (node["metadata"].get("labels") or {})
        if is_ours and name not in names:
            lifecycle.delete(kind, "", name, DeleteOptions())
    collect_orphans(lifecycle)


def updated_node(old: Json, new: Json) -> Json:
    """Return the stored node with the new properties of the machine."""
    meta = old["metadata"]
    ours_of_old = (gpus.ANNOTATION, gpus.IN_USE_ANNOTATION)
    kept = {key: value for key, value in (meta.get("annotations") or {}).items() if key not in ours_of_old}
    annotations = kept | (new["metadata"].get("annotations") or {})
    labels = (meta.get("labels") or {}) | new["metadata"]["labels"]
    former = {one["type"]: one for one in specs.status(old).get("conditions") or ()}
    ours = [_condition(one, former.get(one["type"])) for one in new["status"]["conditions"]]
    others = [one for type_, one in former.items() if type_ not in {mine["type"] for mine in ours}]
    changed = {**meta, "labels": labels, "annotations": annotations}
    if not annotations:
        del changed["annotations"]
    status = {**specs.status(old), **new["status"], "conditions": [*others, *ours]}
    return {**old, "metadata": changed, "status": status}


def _condition(new: Json, former: Json | None) -> Json:
    if former is None or former.get("status") != new["status"]:
        return new
    return {**new, "lastTransitionTime": former.get("lastTransitionTime") or new["lastTransitionTime"]}


def collect_orphans(lifecycle: Lifecycle) -> None:
    """Force-delete pods whose node does not exist, like PodGC in Kubernetes. Unfinished pods become Failed first."""
    present = {node["metadata"]["name"] for node in lifecycle.objects("", _NODES)}
    kind = _kind(lifecycle, _PODS)
    for body in lifecycle.store.all(_PODS):
        pod = bodies.decode_stored(body)
        meta, node = pod["metadata"], pod["spec"].get("nodeName")
        if not node or node in present:
            continue
        logger.info("deleting pod %s/%s: its node %s no longer exists", meta["namespace"], meta["name"], node)
        if not specs.has_final_phase(pod):
            failed = functools.partial(_failed, now=lifecycle.now())
            lifecycle.amend(kind, meta["namespace"], meta["name"], failed)
        options = DeleteOptions(grace_seconds=0, uid=meta["uid"])
        lifecycle.delete(kind, meta["namespace"], meta["name"], options)


def _failed(pod: Json, now: str) -> Json:
    disrupted = {
        "type": "DisruptionTarget",
        "status": "True",
        "lastProbeTime": None,
        "lastTransitionTime": now,
        "reason": "DeletionByPodGC",
        "message": "PodGC: node no longer exists",
    }
    status = specs.status(pod)
    others = [one for one in status.get("conditions") or () if one["type"] != disrupted["type"]]
    return {**pod, "status": {**status, "phase": "Failed", "conditions": [*others, disrupted]}}


def _kind(lifecycle: Lifecycle, resource: str) -> Kind:
    kind = lifecycle.registry.find_by_resource(resource)
    assert kind is not None  # noqa: S101 — Node and Pod are built-in kinds
    return kind
