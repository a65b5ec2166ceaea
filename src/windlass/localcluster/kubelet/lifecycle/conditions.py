"""The conditions of a pod that the kubelet sets, with the messages of Kubernetes."""

from collections.abc import Iterable, Sequence
from datetime import datetime

from windlass.k8s import times
from windlass.localcluster.kubelet.lifecycle import specs
from windlass.model.base import Json

_OWN_TYPES = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")


def conditions(
    pod: Json,
    phase: str,
    init_statuses: Sequence[Json],
    statuses: Sequence[Json],
    *,
    has_sandbox: bool,
    now: datetime,
) -> list[Json]:
    """Return all conditions. Conditions that other components set come first and stay unchanged."""
    known: list[Json] = specs.status(pod).get("conditions") or []
    others = [each for each in known if each["type"] not in _OWN_TYPES]
    containers_ready = _containers_ready(pod, phase, (*init_statuses, *statuses))
    found = {
        "PodReadyToStartContainers": _condition(has_sandbox),
        "Initialized": _initialized(pod, phase, init_statuses, statuses),
        "Ready": _ready(pod, containers_ready, others),
        "ContainersReady": containers_ready,
        "PodScheduled": _condition(True),
    }
    before = {each["type"]: each for each in known}
    return [
        *others,
        *(
            _dated(condition_type, value, before.get(condition_type), now)
            for condition_type, value in found.items()
        ),
    ]


def _dated(condition_type: str, value: Json, before: Json | None, now: datetime) -> Json:
    """Return the condition with its type and lastTransitionTime, which changes only with the status."""
    moment = times.format_time(now)
    if before is not None and before.get("status") == value["status"]:
        moment = before.get("lastTransitionTime") or moment
    return {"type": condition_type, "lastProbeTime": None, "lastTransitionTime": moment} | value


def _condition(is_true: bool, reason: str = "", message: str = "") -> Json:
    value = {"status": "True" if is_true else "False"}
    if reason:
        value["reason"] = reason
    if message:
        value["message"] = message
    return value


def _initialized(pod: Json, phase: str, init_statuses: Sequence[Json], statuses: Sequence[Json]) -> Json:
    if phase == "Succeeded":
        return _condition(True, "PodCompleted")
    if any(_has_started_once(status) for status in statuses):
        return _condition(True)
    sidecars = specs.sidecar_names(pod)
    incomplete = [
        status["name"]
        for status in init_statuses
        if not status["started" if status["name"] in sidecars else "ready"]
    ]
    if not incomplete:
        return _condition(True)
    return _condition(
        False, "ContainersNotInitialized", f"containers with incomplete status: {_bracketed(incomplete)}"
    )


def _has_started_once(status: Json) -> bool:
    return "waiting" not in status["state"] or "terminated" in status["lastState"]


def _containers_ready(pod: Json, phase: str, statuses: Iterable[Json]) -> Json:
    if phase in specs.FINAL_PHASES:
        return _condition(False, "PodCompleted" if phase == "Succeeded" else "PodFailed")
    by_name = {status["name"]: status for status in statuses}
    sidecars = specs.sidecar_names(pod)
    required = [each["name"] for each in specs.init_containers(pod) if each["name"] in sidecars]
    required += [each["name"] for each in specs.containers(pod)]
    unready = [name for name in required if not by_name[name]["ready"]]
    if unready:
        return _condition(
            False, "ContainersNotReady", f"containers with unready status: {_bracketed(unready)}"
        )
    return _condition(True)


def _ready(pod: Json, containers_ready: Json, others: Iterable[Json]) -> Json:
    if containers_ready["status"] != "True":
        return containers_ready
    gates = [gate["conditionType"] for gate in pod["spec"].get("readinessGates") or []]
    statuses = {each["type"]: each.get("status") for each in others}
    problems = [_gate_problem(gate, statuses.get(gate)) for gate in gates if statuses.get(gate) != "True"]
    return _condition(False, "ReadinessGatesNotReady", ", ".join(problems)) if problems else _condition(True)


def _gate_problem(gate: str, status: str | None) -> str:
    if status is None:
        return f'corresponding condition of pod readiness gate "{gate}" does not exist.'
    return f'the status of pod readiness gate "{gate}" is not "True", but {status}'


def _bracketed(names: Iterable[str]) -> str:
    return f"[{' '.join(names)}]"
