"""Decide the next actions for a Deployment: create and scale a ReplicaSet for its template, and scale down those of
former templates.

No function has side effects.
"""

import copy
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta

import msgspec

from windlass.k8s import times
from windlass.localcluster.controllers.workloads import conditions, templates
from windlass.localcluster.controllers.workloads.decisions import (
    Action,
    Annotate,
    Create,
    Decision,
    Delete,
    Event,
    ScaleReplicaSet,
)
from windlass.model.base import Json

RESOURCE = "deployments.apps"
_REPLICA_SETS = "replicasets.apps"
HASH = "pod-template-hash"
REVISION = "deployment.kubernetes.io/revision"
_DESIRED_ANNOTATION = "deployment.kubernetes.io/desired-replicas"
_MAX_ANNOTATION = "deployment.kubernetes.io/max-replicas"
_UPDATE_FIELD = "lastUpdateTime"
_NO_DEADLINE = 2**31 - 1
# Reasons of the Progressing condition for which no progress deadline applies.
_REASONS_WITHOUT_DEADLINE = ("NewReplicaSetAvailable", "ProgressDeadlineExceeded", "DeploymentPaused")


class Size(msgspec.Struct, frozen=True):
    """The number of desired, current, available and terminating pods of a ReplicaSet."""

    desired: int
    current: int = 0
    available: int = 0
    terminating: int = 0

    @property
    def is_empty(self) -> bool:
        return not (self.desired or self.current or self.terminating)


class Bounds(msgspec.Struct, frozen=True):
    """The maximum number of pods during a rollout, and the minimum number of available ones."""

    max_pods: int
    min_available: int


def decide(deployment: Json, replica_sets: Sequence[Json], now: datetime) -> Decision:
    """Return the decision about a Deployment, given the ReplicaSets that it controls."""
    revisions = sorted(replica_sets, key=_revision)
    new = next((one for one in revisions if _template(one) == deployment["spec"]["template"]), None)
    status = _status(deployment, revisions, new)
    if "deletionTimestamp" in deployment["metadata"]:
        return Decision(status=status, wake_at=_deadline(deployment, status))
    actions = tuple(_actions(deployment, revisions, new))
    status["conditions"] = _conditions(deployment, status, new, now)
    return Decision(
        status=status,
        actions=actions,
        events=tuple(_scaling_events(revisions, actions)),
        wake_at=_deadline(deployment, status),
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


def _actions(deployment: Json, revisions: Sequence[Json], new: Json | None) -> Iterator[Action]:
    spec = deployment["spec"]
    former = [one for one in revisions if one is not new]
    if spec.get("paused"):
        # If only one ReplicaSet has replicas, it is scaled to the size of the Deployment.
        used = [one for one in revisions if one["spec"]["replicas"]]
        if len(used) == 1:
            yield from _scale(used[0], spec["replicas"], _annotations(spec))
        return
    sizes = {one["metadata"]["name"]: _size(one) for one in former}
    revision = max(map(_revision, former), default=0) + 1
    if new is not None:
        # The latest revision keeps its number. After a rollback, an earlier revision becomes the latest one.
        revision = max(revision, _revision(new))
    annotations = {**_annotations(spec), REVISION: str(revision)}
    if spec["strategy"]["type"] == "Recreate":
        desired, former_sizes = recreate_sizes(spec, sizes)
    else:
        desired, former_sizes = rolling_sizes(spec, _size(new), sizes)
    if new is None:
        yield Create(_REPLICA_SETS, _replica_set(deployment, desired, annotations))
    else:
        yield from _scale(new, desired, annotations)
    for one in former:
        yield from _scale(one, former_sizes[one["metadata"]["name"]], _annotations(spec))
    if (deployment["metadata"].get("annotations") or {}).get(REVISION) != str(revision):
        yield Annotate({REVISION: str(revision)})
    yield from _delete_old_revisions(spec, former)


def _scale(replica_set: Json, replicas: int, annotations: Json) -> Iterator[Action]:
    current = replica_set["metadata"].get("annotations") or {}
    if replica_set["spec"]["replicas"] != replicas or not annotations.items() <= current.items():
        yield ScaleReplicaSet(replica_set["metadata"]["name"], replicas, annotations)


def _annotations(spec: Json) -> Json:
    return {_DESIRED_ANNOTATION: str(spec["replicas"]), _MAX_ANNOTATION: str(bounds(spec).max_pods)}


def _replica_set(deployment: Json, replicas: int, annotations: Json) -> Json:
    spec, meta = deployment["spec"], deployment["metadata"]
    template_hash = templates.hash_of(spec["template"])
    template = copy.deepcopy(spec["template"])
    labels = {**((template.get("metadata") or {}).get("labels") or {}), HASH: template_hash}
    template["metadata"] = {**(template.get("metadata") or {}), "labels": labels}
    match_labels = {**(spec["selector"].get("matchLabels") or {}), HASH: template_hash}
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {
            "name": f"{meta['name']}-{template_hash}",
            "namespace": meta["namespace"],
            "labels": labels,
            "annotations": annotations,
            "ownerReferences": [templates.owner_reference(deployment)],
        },
        "spec": {
            "replicas": replicas,
            "minReadySeconds": spec.get("minReadySeconds", 0),
            "selector": {**spec["selector"], "matchLabels": match_labels},
            "template": template,
        },
    }


def _delete_old_revisions(spec: Json, former: Sequence[Json]) -> Iterator[Action]:
    """Delete the oldest empty ReplicaSets if there are more than the revision history limit."""
    empty = [one for one in former if _size(one).is_empty]
    surplus = len(empty) - spec["revisionHistoryLimit"]
    for one in empty[: max(surplus, 0)]:
        meta = one["metadata"]
        if "deletionTimestamp" not in meta:
            yield Delete(_REPLICA_SETS, meta["name"], meta["uid"], records_event=False)


def _scaling_events(revisions: Sequence[Json], actions: Sequence[Action]) -> Iterator[Event]:
    sizes = {one["metadata"]["name"]: _size(one).desired for one in revisions}
    for action in actions:
        match action:
            case Create(_, body) if body["spec"]["replicas"]:
                name, before, after = body["metadata"]["name"], 0, body["spec"]["replicas"]
            case ScaleReplicaSet(name, after, _) if after != sizes[name]:
                before = sizes[name]
            case _:
                continue
        direction = "up" if after > before else "down"
        message = f"Scaled {direction} replica set {name} from {before} to {after}"
        yield Event("ScalingReplicaSet", message)


# One step of a rollout from the former ReplicaSets to the new one


def bounds(spec: Json) -> Bounds:
    """Return the limits of a rolling update. maxSurge is rounded up, maxUnavailable down."""
    replicas = spec["replicas"]
    rolling = spec["strategy"].get("rollingUpdate") or {}
    surge = _number(rolling.get("maxSurge", 0), replicas, rounds_up=True)
    unavailable = _number(rolling.get("maxUnavailable", 0), replicas, rounds_up=False)
    if not surge and not unavailable:
        # With both rounded to zero, nothing could ever change.
        unavailable = 1
    return Bounds(replicas + surge, replicas - min(unavailable, replicas))


def _number(value: int | str, replicas: int, *, rounds_up: bool) -> int:
    if isinstance(value, int):
        return value
    hundredths = int(value.removesuffix("%")) * replicas
    return -(-hundredths // 100) if rounds_up else hundredths // 100


def rolling_sizes(spec: Json, new: Size, former: Mapping[str, Size]) -> tuple[int, dict[str, int]]:
    """Return the next sizes of the new ReplicaSet and of the former ones (oldest first)."""
    limits = bounds(spec)
    sizes = {name: size.desired for name, size in former.items()}
    total = new.desired + sum(sizes.values())
    added = max(min(spec["replicas"] - new.desired, limits.max_pods - total), 0)
    # Scale down unavailable pods first, then as many available ones as the limit allows.
    budget = total - limits.min_available - max(new.desired - new.available, 0)
    for name, size in former.items():
        removed = max(min(size.desired - size.available, budget), 0)
        sizes[name] -= removed
        budget -= removed
    spare = new.available + sum(size.available for size in former.values()) - limits.min_available
    for name in former:
        removed = max(min(sizes[name], spare, budget), 0)
        sizes[name] -= removed
        budget -= removed
        spare -= removed
    return min(new.desired, spec["replicas"]) + added, sizes


def recreate_sizes(spec: Json, former: Mapping[str, Size]) -> tuple[int, dict[str, int]]:
    """Return the sizes for the strategy Recreate: the new ReplicaSet starts when all former pods have ended."""
    is_empty = all(size.is_empty for size in former.values())
    return (spec["replicas"] if is_empty else 0), dict.fromkeys(former, 0)


# Status


def _status(deployment: Json, revisions: Sequence[Json], new: Json | None) -> Json:
    old: Json = deployment.get("status") or {}

    def total(field: str) -> int:
        return sum((one.get("status") or {}).get(field, 0) for one in revisions)

    available = total("availableReplicas")
    desired = sum(one["spec"]["replicas"] for one in revisions)
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
    is_rolling = spec["strategy"]["type"] == "RollingUpdate"
    min_available = bounds(spec).min_available if is_rolling else spec["replicas"]
    if status.get("availableReplicas", 0) >= min_available:
        state = ("True", "MinimumReplicasAvailable", "Deployment has minimum availability.")
    else:
        state = ("False", "MinimumReplicasUnavailable", "Deployment does not have minimum availability.")
    available = conditions.condition("Available", *state, moment, time_field=_UPDATE_FIELD)
    updated = conditions.with_condition(status.get("conditions"), available)
    progress = _progress(deployment, status, new, now)
    if progress is None:
        return updated
    if _has_progressed(deployment, status):
        # The progress deadline counts from this time.
        updated = [{**one, _UPDATE_FIELD: moment} if one["type"] == "Progressing" else one for one in updated]
    return conditions.with_condition(updated, progress)


def _progress(deployment: Json, status: Json, new: Json | None, now: datetime) -> Json | None:
    """Return the new Progressing condition; None if the current one still holds."""
    spec, moment = deployment["spec"], times.format_time(now)
    new_name = f"{deployment['metadata']['name']}-{templates.hash_of(spec['template'])}"
    name = f'ReplicaSet "{new_name if new is None else new["metadata"]["name"]}"'
    old = conditions.find(status.get("conditions"), "Progressing") or {}

    def progressing(status: str, reason: str, message: str) -> Json:
        return conditions.condition("Progressing", status, reason, message, moment, time_field=_UPDATE_FIELD)

    if spec.get("paused"):
        return progressing("Unknown", "DeploymentPaused", "Deployment is paused")
    if _is_complete(spec, status):
        return progressing("True", "NewReplicaSetAvailable", f"{name} has successfully progressed.")
    if new is None:
        return progressing("True", "NewReplicaSetCreated", f'Created new replica set "{new_name}"')
    was_complete = old.get("reason") == "NewReplicaSetAvailable"
    if _has_progressed(deployment, status) or was_complete or not old:
        return progressing("True", "ReplicaSetUpdated", f"{name} is progressing.")
    deadline = _deadline(deployment, status)
    if deadline is not None and now >= deadline:
        return progressing("False", "ProgressDeadlineExceeded", f"{name} has timed out progressing.")
    return None


def _is_complete(spec: Json, status: Json) -> bool:
    fields = ("updatedReplicas", "replicas", "availableReplicas")
    return all(status.get(field, 0) == spec["replicas"] for field in fields)


def _has_progressed(deployment: Json, status: Json) -> bool:
    old: Json = deployment.get("status") or {}
    fields = ("updatedReplicas", "readyReplicas", "availableReplicas")
    has_more = any(status.get(field, 0) > old.get(field, 0) for field in fields)
    outdated, outdated_before = (
        one.get("replicas", 0) - one.get("updatedReplicas", 0) for one in (status, old)
    )
    return has_more or outdated < outdated_before


def _deadline(deployment: Json, status: Json) -> datetime | None:
    """Return when a Deployment without progress exceeds its deadline; None if no deadline applies."""
    seconds = deployment["spec"].get("progressDeadlineSeconds", _NO_DEADLINE)
    progressing = conditions.find(status.get("conditions"), "Progressing") or {}
    last_update = times.parse_time(progressing.get(_UPDATE_FIELD))
    if (
        seconds >= _NO_DEADLINE
        or progressing.get("reason") in _REASONS_WITHOUT_DEADLINE
        or last_update is None
    ):
        return None
    return last_update + timedelta(seconds=seconds)
