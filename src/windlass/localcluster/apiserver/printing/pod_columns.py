"""The columns of `kubectl get pods` (`printPod` in Kubernetes)."""

from datetime import datetime
from typing import Any

import msgspec

from windlass.localcluster.apiserver.printing import accessors
from windlass.localcluster.apiserver.printing.accessors import Object

_FINAL_PHASES = ("Succeeded", "Failed")


class _Initialization(msgspec.Struct, frozen=True):
    statuses: list[Object]
    """Statuses of the init containers, up to and including the one that the pod waits for."""
    ready_sidecars: int
    reason: str
    """Why the pod waits for an init container, e.g. `Init:0/2`; empty if it does not wait for one."""


def cells(pod: Object, now: datetime) -> list[Any]:
    addresses = [address.get("ip") for address in accessors.entries(pod, "status", "podIPs")]
    sidecars = _sidecar_names(pod)
    initialization = _initialization(pod, sidecars)
    is_initialized = not initialization.reason or accessors.condition_status(pod, "Initialized") == "True"
    container_statuses = accessors.entries(pod, "status", "containerStatuses") if is_initialized else []
    init_statuses = initialization.statuses
    if is_initialized:
        init_statuses = [status for status in init_statuses if status.get("name") in sidecars]
    ready = initialization.ready_sidecars + sum(_is_ready(status) for status in container_statuses)
    return [
        accessors.name_of(pod),
        f"{ready}/{len(accessors.entries(pod, 'spec', 'containers')) + len(sidecars)}",
        _status(pod, initialization.reason, container_statuses),
        _restarts([*init_statuses, *container_statuses], now),
        accessors.age_of(pod, now),
        (addresses[0] if addresses else accessors.at(pod, "status", "podIP")) or "<none>",
        accessors.text(pod, "spec", "nodeName", absent="<none>"),
        accessors.text(pod, "status", "nominatedNodeName", absent="<none>"),
        _readiness_gates(pod),
    ]


def _sidecar_names(pod: Object) -> frozenset[str]:
    """Return the names of the sidecars: init containers that keep running."""
    declared = accessors.entries(pod, "spec", "initContainers")
    return frozenset(one.get("name", "") for one in declared if one.get("restartPolicy") == "Always")


def _initialization(pod: Object, sidecars: frozenset[str]) -> _Initialization:
    statuses, ready = [], 0
    for index, status in enumerate(accessors.entries(pod, "status", "initContainerStatuses")):
        statuses.append(status)
        terminated = accessors.at(status, "state", "terminated")
        if terminated is not None and not accessors.number(terminated, "exitCode"):
            continue
        if status.get("name") in sidecars and status.get("started"):
            ready += bool(status.get("ready"))
            continue
        return _Initialization(statuses, ready, f"Init:{_init_reason(pod, index, status)}")
    return _Initialization(statuses, ready, "")


def _init_reason(pod: Object, index: int, status: Object) -> str:
    terminated = accessors.at(status, "state", "terminated")
    waiting = accessors.text(status, "state", "waiting", "reason")
    if terminated is not None:
        return _termination_reason(terminated)
    if waiting not in ("", "PodInitializing"):
        return waiting
    return f"{index}/{len(accessors.entries(pod, 'spec', 'initContainers'))}"


def _restarts(statuses: list[Object], now: datetime) -> str:
    """Return the number of restarts and the time since the last one: `3 (5m ago)`."""
    count = sum(accessors.number(status, "restartCount") for status in statuses)
    times = [accessors.text(status, "lastState", "terminated", "finishedAt") for status in statuses]
    last = max(filter(None, map(accessors.parse_time, times)), default=None)
    return f"{count} ({accessors.human_duration(now - last)} ago)" if count and last else str(count)


def _status(pod: Object, init_reason: str, statuses: list[Object]) -> str:
    own_reason, phase = accessors.text(pod, "status", "reason"), accessors.text(pod, "status", "phase")
    if pod["metadata"].get("deletionTimestamp"):
        if own_reason == "NodeLost":
            return "Unknown"
        if phase not in _FINAL_PHASES:
            return "Terminating"
    if _is_gated(pod):
        own_reason = "SchedulingGated"
    # The first container with a reason determines the status.
    reasons = [reason for status in statuses if (reason := _container_reason(status))]
    reason = reasons[0] if reasons else init_reason or own_reason or phase
    return _completed_status(pod, statuses) if reason == "Completed" else reason


def _completed_status(pod: Object, statuses: list[Object]) -> str:
    """Return the status of a pod with a completed container. Its other containers may be running or have failed."""
    is_any_ready = any(_is_ready(status) for status in statuses)
    if is_any_ready and accessors.condition_status(pod, "Ready") == "True":
        return "Running"
    for status in statuses:
        terminated = accessors.at(status, "state", "terminated")
        if accessors.number(terminated, "exitCode"):
            return _termination_reason(terminated)
    return "NotReady" if is_any_ready else "Completed"


def _is_gated(pod: Object) -> bool:
    conditions = accessors.entries(pod, "status", "conditions")
    reasons = {(one.get("type"), one.get("reason")) for one in conditions}
    return ("PodScheduled", "SchedulingGated") in reasons


def _container_reason(status: Object) -> str:
    """Return why a container is not running, or ""."""
    waiting = accessors.text(status, "state", "waiting", "reason")
    terminated = accessors.at(status, "state", "terminated")
    if waiting or terminated is None:
        return waiting
    return _termination_reason(terminated)


def _termination_reason(terminated: Object) -> str:
    if terminated.get("reason"):
        return str(terminated["reason"])
    if terminated.get("signal"):
        return f"Signal:{terminated['signal']}"
    return f"ExitCode:{accessors.number(terminated, 'exitCode')}"


def _is_ready(status: Object) -> bool:
    is_running = not _container_reason(status) and accessors.at(status, "state", "running") is not None
    return is_running and bool(status.get("ready"))


def _readiness_gates(pod: Object) -> str:
    gates = accessors.entries(pod, "spec", "readinessGates")
    passed = sum(accessors.condition_status(pod, gate.get("conditionType", "")) == "True" for gate in gates)
    return f"{passed}/{len(gates)}" if gates else "<none>"
