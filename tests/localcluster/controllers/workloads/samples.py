"""Short constructors of workloads and their pods. Times are seconds after a fixed start."""

from datetime import UTC, datetime, timedelta
from typing import Any

from windlass.k8s import times
from windlass.localcluster.controllers.workloads import templates
from windlass.localcluster.controllers.workloads.decisions import (
    Create,
    Decision,
    Delete,
    RemoveTracking,
    ScaleReplicaSet,
)
from windlass.localcluster.controllers.workloads.observed import Pod

BEGINNING = datetime(2030, 1, 1, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return BEGINNING + timedelta(seconds=seconds)


def written(seconds: float) -> str:
    return times.format_time(at(seconds))


def pod(name: str, phase: str = "Running", **fields: Any) -> Pod:
    """Return a pod. `ready`, `ended`, `created`, `deleted` are seconds; `index` is that of an Indexed Job."""
    moments: dict[str, Any] = {key: at(fields.pop(key)) for key in ("ended", "deleted") if key in fields}
    if "ready" in fields:
        moments["ready_since"] = at(fields.pop("ready"))
    index = fields.pop("index", None)
    annotations = {} if index is None else {templates.INDEX: str(index)}
    created = at(fields.pop("created", 0))
    return Pod(
        name=name,
        uid=f"uid-{name}",
        phase=phase,
        created=created,
        annotations=annotations,
        **{"has_node": True, **moments, **fields},
    )


def tracked(name: str, phase: str = "Running", **fields: Any) -> Pod:
    return pod(name, phase, is_tracked=True, **fields)


def workload(kind: str, spec: dict[str, Any], status: dict[str, Any] | None = None) -> dict[str, Any]:
    template = {
        "metadata": {"labels": {"app": "w"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }
    return {
        "apiVersion": "batch/v1" if kind == "Job" else "apps/v1",
        "kind": kind,
        "metadata": {"name": "w", "namespace": "default", "uid": "uid-w", "generation": 1},
        "spec": {"selector": {"matchLabels": {"app": "w"}}, "template": template, **spec},
        "status": status or {},
    }


def acts(decision: Decision) -> list[str]:
    """Return the actions of a decision as words."""
    return [_words(action) for action in decision.actions]


def _words(action: object) -> str:
    match action:
        case Create(_, body):
            meta = body["metadata"]
            return f"create {meta.get('name') or meta['generateName']}"
        case Delete(_, name):
            return f"delete {name}"
        case RemoveTracking(name):
            return f"count {name}"
        case ScaleReplicaSet(name, replicas):
            return f"resize {name} to {replicas}"
        case _:
            return type(action).__name__
