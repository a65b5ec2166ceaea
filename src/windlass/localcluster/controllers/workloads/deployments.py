"""What a Deployment needs: a ReplicaSet for its template, and those for its former templates on their way out. Pure."""

import copy
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

from windlass.k8s import times
from windlass.localcluster.controllers.workloads import conditions, rollouts, templates
from windlass.localcluster.controllers.workloads.decisions import (
    Action,
    Create,
    Decision,
    Delete,
    Relabel,
    Resize,
    Told,
    earliest,
)
from windlass.localcluster.controllers.workloads.rollouts import Size
from windlass.model.base import Json

RESOURCE = "deployments.apps"
_REPLICA_SETS = "replicasets.apps"
HASH = "pod-template-hash"
REVISION = "deployment.kubernetes.io/revision"
_DESIRED = "deployment.kubernetes.io/desired-replicas"
_MOST = "deployment.kubernetes.io/max-replicas"
_STAMP = "lastUpdateTime"
_NO_DEADLINE = 2**31 - 1


def decide(deployment: Json, replica_sets: Sequence[Json], now: datetime) -> Decision:
    """`replica_sets` are its own."""
    known = sorted(replica_sets, key=_revision)
    new = next((one for one in known if _template(one) == deployment["spec"]["template"]), None)
    former = [one for one in known if one is not new]
    actions: list[Action] = []
    events: list[Told] = []
    is_going = "deletionTimestamp" in deployment["metadata"]
    if not is_going:
        actions = [*_changes(deployment, new, former)]
        events = [*_told(new, former, actions)]
    status = _status(deployment, new, former)
    if not is_going:
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
    """That of the Deployment of which it was made."""
    template: Json = copy.deepcopy(replica_set["spec"]["template"])
    (template.get("metadata", {}).get("labels") or {}).pop(HASH, None)
    return template


def _size(replica_set: Json | None) -> Size:
    if replica_set is None:
        return Size(0)
    status, wanted = replica_set.get("status") or {}, replica_set["spec"]["replicas"]
    return Size(
        wanted=wanted,
        there=status.get("replicas", 0),
        # Its status may be older than its spec: what has to go is no longer counted on.
        available=min(status.get("availableReplicas", 0), wanted),
        leaving=status.get("terminatingReplicas", 0),
    )


# What changes


def _changes(deployment: Json, new: Json | None, former: Sequence[Json]) -> Iterator[Action]:
    spec = deployment["spec"]
    if spec.get("paused"):
        yield from _resized_while_paused(deployment, new, former)
        return
    sizes = {one["metadata"]["name"]: _size(one) for one in former}
    revision = max(map(_revision, former), default=0) + 1
    if new is not None:
        # One that was left before, and is gone back to, is the latest again.
        revision = max(revision, _revision(new))
    annotations = {**_annotations(spec), REVISION: str(revision)}
    if spec["strategy"]["type"] == "Recreate":
        wanted, others = rollouts.recreated(spec, sizes)
    else:
        wanted, others = rollouts.rolled(spec, _size(new), sizes)
    if new is None:
        yield Create(_REPLICA_SETS, _replica_set(deployment, wanted, annotations))
    else:
        yield from _resized(new, wanted, annotations)
    for one in former:
        yield from _resized(one, others[one["metadata"]["name"]], _annotations(spec))
    if (deployment["metadata"].get("annotations") or {}).get(REVISION) != str(revision):
        yield Relabel({REVISION: str(revision)})
    yield from _cleaned_up(spec, former)


def _resized_while_paused(deployment: Json, new: Json | None, former: Sequence[Json]) -> Iterator[Action]:
    """Its template is let be, its number of replicas is not: the latest that has pods has them all."""
    used = [one for one in (*former, *([new] if new else [])) if one["spec"]["replicas"]]
    if len(used) == 1:
        yield from _resized(used[0], deployment["spec"]["replicas"], _annotations(deployment["spec"]))


def _resized(replica_set: Json, replicas: int, annotations: Json) -> Iterator[Action]:
    known = replica_set["metadata"].get("annotations") or {}
    is_so = replica_set["spec"]["replicas"] == replicas and annotations.items() <= known.items()
    if not is_so:
        yield Resize(replica_set["metadata"]["name"], replicas, annotations)


def _annotations(spec: Json) -> Json:
    return {_DESIRED: str(spec["replicas"]), _MOST: str(rollouts.bounds(spec).most)}


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


def _cleaned_up(spec: Json, former: Sequence[Json]) -> Iterator[Action]:
    """Former ones that have no pods are kept to be gone back to, but not all of them."""
    empty = [one for one in former if not any((_size(one).wanted, _size(one).there, _size(one).leaving))]
    surplus = len(empty) - spec["revisionHistoryLimit"]
    for one in empty[: max(surplus, 0)]:
        meta = one["metadata"]
        if "deletionTimestamp" not in meta:
            yield Delete(_REPLICA_SETS, meta["name"], meta["uid"], is_announced=False)


def _told(new: Json | None, former: Sequence[Json], actions: Sequence[Action]) -> Iterator[Told]:
    sizes = {one["metadata"]["name"]: _size(one).wanted for one in (*former, *([new] if new else []))}
    for action in actions:
        match action:
            case Create(_, body) if body["spec"]["replicas"]:
                name, before, after = body["metadata"]["name"], 0, body["spec"]["replicas"]
            case Resize(name, after, _) if after != sizes[name]:
                before = sizes[name]
            case _:
                continue
        way = "up" if after > before else "down"
        message = f"Scaled {way} replica set {name} from {before} to {after}"
        yield Told("ScalingReplicaSet", message)


# What is said


def _status(deployment: Json, new: Json | None, former: Sequence[Json]) -> Json:
    old: Json = deployment.get("status") or {}
    every = [*former, *([new] if new else [])]

    def total(field: str) -> int:
        return sum((one.get("status") or {}).get(field, 0) for one in every)

    available = total("availableReplicas")
    wanted = sum(one["spec"]["replicas"] for one in every)
    numbers = {
        "replicas": total("replicas"),
        "updatedReplicas": _size(new).there,
        "readyReplicas": total("readyReplicas"),
        "availableReplicas": available,
        "unavailableReplicas": max(wanted - available, 0),
        "terminatingReplicas": total("terminatingReplicas"),
    }
    status: Json = {key: old[key] for key in ("conditions", "collisionCount") if key in old}
    status["observedGeneration"] = deployment["metadata"]["generation"]
    return status | {key: number for key, number in numbers.items() if number}


def _conditions(deployment: Json, status: Json, new: Json | None, now: datetime) -> list[Json]:
    spec, moment = deployment["spec"], times.format_time(now)
    is_available = status.get("availableReplicas", 0) >= _least_available(spec)
    if is_available:
        said = ("True", "MinimumReplicasAvailable", "Deployment has minimum availability.")
    else:
        said = ("False", "MinimumReplicasUnavailable", "Deployment does not have minimum availability.")
    found = conditions.with_one(
        status.get("conditions"), conditions.condition("Available", *said, moment, stamp=_STAMP)
    )
    progress = _progress(deployment, status, new, now)
    if progress is None:
        return found
    if _has_progressed(deployment, status):
        # When it was last seen to go on is what its deadline counts from.
        found = [{**one, _STAMP: moment} if one["type"] == "Progressing" else one for one in found]
    return conditions.with_one(found, progress)


def _least_available(spec: Json) -> int:
    is_rolling = spec["strategy"]["type"] == "RollingUpdate"
    return rollouts.bounds(spec).least_available if is_rolling else int(spec["replicas"])


def _progress(deployment: Json, status: Json, new: Json | None, now: datetime) -> Json | None:
    """None: what was said of it before still holds."""
    spec, moment = deployment["spec"], times.format_time(now)
    name = f'ReplicaSet "{_name_of_new(deployment, new)}"'
    old = conditions.find(status.get("conditions"), "Progressing") or {}

    def said(value: str, reason: str, message: str) -> Json:
        return conditions.condition("Progressing", value, reason, message, moment, stamp=_STAMP)

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
    """When it counts as stuck, if nothing goes on until then."""
    length = deployment["spec"].get("progressDeadlineSeconds", _NO_DEADLINE)
    progressing = conditions.find(status.get("conditions"), "Progressing") or {}
    is_over = progressing.get("reason") in (
        *("NewReplicaSetAvailable", "ProgressDeadlineExceeded", "DeploymentPaused"),
    )
    last = times.parse_time(progressing.get(_STAMP))
    if length >= _NO_DEADLINE or is_over or last is None:
        return None
    return last + timedelta(seconds=length)
