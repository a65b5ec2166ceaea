"""What `kubectl get pods` says of a pod: how many containers are ready, how it stands in one word, its restarts."""

from datetime import datetime
from typing import Any

from windlass.localcluster.printing import peeks
from windlass.localcluster.printing.peeks import Object


def cells(pod: Object, now: datetime) -> list[Any]:
    addresses = [address.get("ip") for address in peeks.entries(pod, "status", "podIPs")]
    initializing = _initializing(pod)
    statuses = peeks.entries(pod, "status", "initContainerStatuses" if initializing else "containerStatuses")
    # Those after the one that runs have not been started.
    counted = statuses[: initializing[0] + 1] if initializing else statuses
    ready = 0 if initializing else sum(_is_ready(status) for status in statuses)
    return [
        peeks.name_of(pod),
        f"{ready}/{len(peeks.entries(pod, 'spec', 'containers'))}",
        _standing(pod, initializing[1] if initializing else None),
        sum(peeks.number(status, "restartCount") for status in counted),
        peeks.age_of(pod, now),
        (addresses[0] if addresses else peeks.at(pod, "status", "podIP")) or "<none>",
        peeks.text(pod, "spec", "nodeName", absent="<none>"),
        peeks.text(pod, "status", "nominatedNodeName", absent="<none>"),
        _readiness_gates(pod),
    ]


def _initializing(pod: Object) -> tuple[int, str] | None:
    """Which init container is not done, and what is to be said of it."""
    for index, status in enumerate(peeks.entries(pod, "status", "initContainerStatuses")):
        terminated = peeks.at(status, "state", "terminated")
        waiting = peeks.text(status, "state", "waiting", "reason")
        if terminated is not None and not peeks.number(terminated, "exitCode"):
            continue
        if terminated is not None:
            return index, f"Init:{_ending(terminated)}"
        if waiting not in ("", "PodInitializing"):
            return index, f"Init:{waiting}"
        return index, f"Init:{index}/{len(peeks.entries(pod, 'spec', 'initContainers'))}"
    return None


def _standing(pod: Object, initializing: str | None) -> str:
    own_reason = peeks.text(pod, "status", "reason")
    if pod["metadata"].get("deletionTimestamp"):
        return "Unknown" if own_reason == "NodeLost" else "Terminating"
    if initializing is not None:
        return initializing
    statuses = peeks.entries(pod, "status", "containerStatuses")
    # The first container that has something to say speaks for all.
    reasons = [reason for status in statuses if (reason := _container_reason(status))]
    reason = reasons[0] if reasons else own_reason or peeks.text(pod, "status", "phase")
    if reason == "Completed" and any(_is_ready(status) for status in statuses):
        return "Running" if peeks.condition(pod, "Ready") == "True" else "NotReady"
    return reason


def _container_reason(status: Object) -> str:
    """Why it does not run, or nothing."""
    waiting = peeks.text(status, "state", "waiting", "reason")
    terminated = peeks.at(status, "state", "terminated")
    if waiting or terminated is None:
        return waiting
    return _ending(terminated)


def _ending(terminated: Object) -> str:
    if terminated.get("reason"):
        return str(terminated["reason"])
    if terminated.get("signal"):
        return f"Signal:{terminated['signal']}"
    return f"ExitCode:{peeks.number(terminated, 'exitCode')}"


def _is_ready(status: Object) -> bool:
    is_running = not _container_reason(status) and peeks.at(status, "state", "running") is not None
    return is_running and bool(status.get("ready"))


def _readiness_gates(pod: Object) -> str:
    gates = peeks.entries(pod, "spec", "readinessGates")
    passed = sum(peeks.condition(pod, gate.get("conditionType", "")) == "True" for gate in gates)
    return f"{passed}/{len(gates)}" if gates else "<none>"
