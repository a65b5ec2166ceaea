"""Decide for a Deployment: create a ReplicaSet for its template and scale down those of former templates. Pure."""

import copy
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

from windlass.k8s import times
from windlass.localcluster.controllers.workloads import conditions, rollouts, templates
from windlass.localcluster.controllers.workloads.decisions import (
    Action,
    Annotate,
    Create,
    Decision,
    Delete,
    Event,
    ScaleReplicaSet,
    earliest,
)
from windlass.localcluster.controllers.workloads.rollouts import Size
from windlass.model.base import Json

RESOURCE = "deployments.apps"
_REPLICA_SETS = "replicasets.apps"
HASH = "pod-template-hash"
REVISION = "deployment.kubernetes.io/revision"
_DESIRED = "deployment.kubernetes.io/desired-replicas"
_MAX = "deployment.kubernetes.io/max-replicas"
_UPDATE_FIELD = "lastUpdateTime"
_NO_DEADLINE = 2**31 - 1


def decide(deployment: Json, replica_sets: Sequence[Json], now: datetime) -> Decision:
    """Decide from a Deployment and the ReplicaSets that it controls."""
    known = sorted(replica_sets, key=_revision)
    new = next((one for one in known if _template(one) == deployment["spec"]["template"]), None)
    actions: list[Action] = []
    events: list[Event] = []
    is_terminating = "deletionTimestamp" in deployment["metadata"]
    if not is_terminating:
        actions = [*_actions(deployment, known, new)]
        events = [*_scaling_events(known, actions)]
    status = _status(deployment, known, new)
    if not is_terminating:
        status["conditions"] = _conditions(deployment, status, new, now)
    return Decision(
        status=status,
        actions=tuple(actions),
        events=tuple(events),
        wake_at=earliest(_deadline(deployment, status)),
    )


def _revision(replica_set: Json) -> int:
    text = (replica_set["metadata"].get("annotations") or {}).get(REVISION, "0")
    return int(text) if text.isascii() and text.isdigit() else 0


def _template(replica_set: Json) -> Json:
    """Return the Deployment's template from which a ReplicaSet was created."""
    template: Json = copy.deepcopy(replica_set["spec"]["template"])
    (template.get("metadata", {}).get("labels") or {}).pop(HASH, None)
    return template


def _size(replica_set: Json | None) -> Size:
    if replica_set is None:
        return Size(0)
    status, desired = replica_set.get("status") or {}, replica_set["spec"]["replicas"]
    return Size(
        desired=desired,
        current=status.get("replicas", 0),
        # The status may be older than the spec: pods to be deleted do not count.
        available=min(status.get("availableReplicas", 0), desired),
        terminating=status.get("terminatingReplicas", 0),
    )


# Actions


def _actions(deployment: Json, known: Sequence[Json], new: Json | None) -> Iterator[Action]:
    spec = deployment["spec"]
    former = [one for one in known if one is not new]
    if spec.get("paused"):
        yield from _scale_while_paused(deployment, known)
        return
    sizes = {one["metadata"]["name"]: _size(one) for one in former}
    revision = max(map(_revision, former), default=0) + 1
    if new is not None:
        # A rollback: an existing ReplicaSet becomes the latest revision again.
        revision = max(revision, _revision(new))
    annotations = {**_annotations(spec), REVISION: str(revision)}
    if spec["strategy"]["type"] == "Recreate":
        desired, others = rollouts.recreate_sizes(spec, sizes)
    else:
        desired, others = rollouts.rolling_sizes(spec, _size(new), sizes)
    if new is None:
        yield Create(_REPLICA_SETS, _replica_set(deployment, desired, annotations))
    else:
        yield from _scale(new, desired, annotations)
    for one in former:
        yield from _scale(one, others[one["metadata"]["name"]], _annotations(spec))
    if (deployment["metadata"].get("annotations") or {}).get(REVISION) != str(revision):
        yield Annotate({REVISION: str(revision)})
    yield from _delete_old_revisions(spec, former)


def _scale_while_paused(deployment: Json, known: Sequence[Json]) -> Iterator[Action]:
    """Scale a paused Deployment: its only ReplicaSet with pods gets all replicas."""
    used = [one for one in known if one["spec"]["replicas"]]
    if len(used) == 1:
        yield from _scale(used[0], deployment["spec"]["replicas"], _annotations(deployment["spec"]))


def _scale(replica_set: Json, replicas: int, annotations: Json) -> Iterator[Action]:
    known = replica_set["metadata"].get("annotations") or {}
    is_so = replica_set["spec"]["replicas"] == replicas and annotations.items() <= known.items()
    if not is_so:
        yield ScaleReplicaSet(replica_set["metadata"]["name"], replicas, annotations)


def _annotations(spec: Json) -> Json:
    return {_DESIRED: str(spec["replicas"]), _MAX: str(rollouts.bounds(spec).max_pods)}


def _replica_set(deployment: Json, replicas: int, annotations: Json) -> Json:
    spec, meta = deployment["spec"], deployment["metadata"]
    found = templates.hash_of(spec["template"])
    template = copy.deepcopy(spec["template"])
    labels = {**((template.get("metadata") or {}).get("labels") or {}), HASH: found}
    template["metadata"] = {**(template.get("metadata") or {}), "labels": labels}
    selector = {
        **spec["selector"],
        "matchLabels": {**(spec["selector"].get("matchLabels") or {}), HASH: found},
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {
            "name": f"{meta['name']}-{found}",
            "namespace": meta["namespace"],
            "labels": labels,
            "annotations": annotations,
            "ownerReferences": [templates.owner_reference(deployment)],
        },
        "spec": {
            "replicas": replicas,
            "minReadySeconds": spec.get("minReadySeconds", 0),
            "selector": selector,
            "template": template,
        },
    }


def _delete_old_revisions(spec: Json, former: Sequence[Json]) -> Iterator[Action]:
    """Delete the oldest ReplicaSets without pods that exceed the revision history limit."""
    empty = [
        one for one in former if not any((_size(one).desired, _size(one).current, _size(one).terminating))
    ]
    surplus = len(empty) - spec["revisionHistoryLimit"]
    for one in empty[: max(surplus, 0)]:
        meta = one["metadata"]
        if "deletionTimestamp" not in meta:
            yield Delete(_REPLICA_SETS, meta["name"], meta["uid"], is_announced=False)


def _scaling_events(known: Sequence[Json], actions: Sequence[Action]) -> Iterator[Event]:
    sizes = {one["metadata"]["name"]: _size(one).desired for one in known}
    for action in actions:
        match action:
            case Create(_, body) if body["spec"]["replicas"]:
                name, before, after = body["metadata"]["name"], 0, body["spec"]["replicas"]
            case ScaleReplicaSet(name, after, _) if after != sizes[name]:
                before = sizes[name]
            case _:
                continue
        way = "up" if after > before else "down"
        message = f"Scaled {way} replica set {name} from {before} to {after}"
        yield Event("ScalingReplicaSet", message)


# Status


def _status(deployment: Json, known: Sequence[Json], new: Json | None) -> Json:
    old: Json = deployment.get("status") or {}

    def total(field: str) -> int:
        return sum((one.get("status") or {}).get(field, 0) for one in known)

    available = total("availableReplicas")
    desired = sum(one["spec"]["replicas"] for one in known)
    numbers = {
        "replicas": total("replicas"),
        "updatedReplicas": _size(new).current,
        "readyReplicas": total("readyReplicas"),
        "availableReplicas": available,
        "unavailableReplicas": max(desired - available, 0),
        "terminatingReplicas": total("terminatingReplicas"),
    }
    status: Json = {key: old[key] for key in ("conditions", "collisionCount") if key in old}
    status["observedGeneration"] = deployment["metadata"]["generation"]
    return status | {key: number for key, number in numbers.items() if number}


def _conditions(deployment: Json, status: Json, new: Json | None, now: datetime) -> list[Json]:
    spec, moment = deployment["spec"], times.format_time(now)
    is_available = status.get("availableReplicas", 0) >= _min_available(spec)
    if is_available:
        said = ("True", "MinimumReplicasAvailable", "Deployment has minimum availability.")
    else:
        said = ("False", "MinimumReplicasUnavailable", "Deployment does not have minimum availability.")
    found = conditions.with_one(
        status.get("conditions"), conditions.condition("Available", *said, moment, stamp=_UPDATE_FIELD)
    )
    progress = _progress(deployment, status, new, now)
    if progress is None:
        return found
    if _has_progressed(deployment, status):
        # The progress deadline counts from this time.
        found = [{**one, _UPDATE_FIELD: moment} if one["type"] == "Progressing" else one for one in found]
    return conditions.with_one(found, progress)


def _min_available(spec: Json) -> int:
    is_rolling = spec["strategy"]["type"] == "RollingUpdate"
    return rollouts.bounds(spec).min_available if is_rolling else int(spec["replicas"])


def _progress(deployment: Json, status: Json, new: Json | None, now: datetime) -> Json | None:
    """Return the new Progressing condition; None if the current one still holds."""
    spec, moment = deployment["spec"], times.format_time(now)
    name = f'ReplicaSet "{_name_of_new(deployment, new)}"'
    old = conditions.find(status.get("conditions"), "Progressing") or {}

    def said(value: str, reason: str, message: str) -> Json:
        return conditions.condition("Progressing", value, reason, message, moment, stamp=_UPDATE_FIELD)

    if spec.get("paused"):
        return said("Unknown", "DeploymentPaused", "Deployment is paused")
    if _is_complete(spec, status):
        return said("True", "NewReplicaSetAvailable", f"{name} has successfully progressed.")
    if new is None:
        message = f'Created new replica set "{_name_of_new(deployment, new)}"'
        return said("True", "NewReplicaSetCreated", message)
    was_complete = old.get("reason") == "NewReplicaSetAvailable"
    if _has_progressed(deployment, status) or was_complete or not old:
        return said("True", "ReplicaSetUpdated", f"{name} is progressing.")
    deadline = _deadline(deployment, status)
    if deadline is not None and now >= deadline:
        return said("False", "ProgressDeadlineExceeded", f"{name} has timed out progressing.")
    return None


def _name_of_new(deployment: Json, new: Json | None) -> str:
    if new is not None:
        return str(new["metadata"]["name"])
    return f"{deployment['metadata']['name']}-{templates.hash_of(deployment['spec']['template'])}"


def _is_complete(spec: Json, status: Json) -> bool:
    fields = ("updatedReplicas", "replicas", "availableReplicas")
    return all(status.get(field, 0) == spec["replicas"] for field in fields)


def _has_progressed(deployment: Json, status: Json) -> bool:
    old: Json = deployment.get("status") or {}
    former = old.get("replicas", 0) - old.get("updatedReplicas", 0)
    more = any(
        status.get(field, 0) > old.get(field, 0)
        for field in ("updatedReplicas", "readyReplicas", "availableReplicas")
    )
    return more or status.get("replicas", 0) - status.get("updatedReplicas", 0) < former


def _deadline(deployment: Json, status: Json) -> datetime | None:
    """Return when a Deployment without progress exceeds its deadline."""
    length = deployment["spec"].get("progressDeadlineSeconds", _NO_DEADLINE)
    progressing = conditions.find(status.get("conditions"), "Progressing") or {}
    is_finished = progressing.get("reason") in (
        *("NewReplicaSetAvailable", "ProgressDeadlineExceeded", "DeploymentPaused"),
    )
    last = times.parse_time(progressing.get(_UPDATE_FIELD))
    if length >= _NO_DEADLINE or is_finished or last is None:
        return None
    return last + timedelta(seconds=length)
