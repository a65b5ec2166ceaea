"""The status of a pod as a kubelet writes it, from the stored pod and the record of its containers."""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import msgspec

from windlass.k8s import times
from windlass.localcluster.kubelet.lifecycle import (
    back_off,
    conditions,
    restarts,
    specs,
    termination_message,
    terminations,
)
from windlass.localcluster.kubelet.lifecycle.records import (
    LOST,
    ContainerRecord,
    Ending,
    PodRecord,
    Running,
    State,
    Terminated,
    Waiting,
)
from windlass.model.base import Json

RUNTIME = "windlass"

_OWN_FIELDS = frozenset(
    {
        *("phase", "conditions", "reason", "message", "startTime"),
        *("hostIP", "hostIPs", "podIP", "podIPs"),
        *("containerStatuses", "initContainerStatuses"),
    }
)


def pod_status(pod: Json, record: PodRecord, now: datetime, *, is_any_starting: bool = False) -> Json:
    """Return the new status. Fields and conditions of other components, e.g. qosClass, stay unchanged.

    `is_any_starting`: whether the supervisor was asked to start a container and has not reported the result yet.
    """
    known = specs.status(pod)
    ending = terminations.ending_of(pod, record, now)
    phase = _phase(pod, record, ending, is_any_active=record.is_anything_running or is_any_starting)
    is_over = phase in specs.FINAL_PHASES and not record.is_anything_running
    shown = _with_lost(pod, record) if is_over else _with_back_offs(pod, record, ending, now)
    init_statuses = _container_statuses(pod, shown.init_containers, specs.init_containers(pod))
    statuses = _container_statuses(pod, shown.containers, specs.containers(pod))
    status: Json = {key: value for key, value in known.items() if key not in _OWN_FIELDS}
    status["phase"] = phase
    status["conditions"] = conditions.conditions(
        pod, phase, init_statuses, statuses, has_sandbox=record.has_sandbox and not is_over, now=now
    )
    status |= _explanation(known, phase, ending)
    status |= _addresses(known, record)
    status["startTime"] = known.get("startTime") or times.format_time(record.start_time or now)
    if init_statuses:
        status["initContainerStatuses"] = init_statuses
    status["containerStatuses"] = sorted(statuses, key=lambda each: str(each["name"]))
    return status


def _phase(pod: Json, record: PodRecord, ending: Ending | None, *, is_any_active: bool) -> str:
    """Return the phase. Succeeded and Failed are final, and set only when no container is running or starting.

    Clients may then reuse the resources of the pod.
    """
    known = specs.phase(pod)
    if known in specs.FINAL_PHASES:
        return known
    found = _phase_of_containers(pod, record, is_ending=ending is not None)
    if is_any_active:
        return known or "Pending" if found in specs.FINAL_PHASES else found
    if ending is None:
        return found
    was_cut_short = bool(ending.reason) or found not in specs.FINAL_PHASES
    return "Failed" if was_cut_short else found


def _phase_of_containers(pod: Json, record: PodRecord, *, is_ending: bool) -> str:
    if _has_failed_to_initialize(pod, record):
        return "Failed"
    if _is_pending(pod, record):
        return "Pending"
    if record.is_anything_running:
        return "Running"
    succeeded = [container.has_succeeded for container in record.containers]
    policy = specs.restart_policy(pod)
    if all(succeeded) and (is_ending or policy != "Always"):
        return "Succeeded"
    return "Failed" if is_ending or policy == "Never" else "Running"


def _has_failed_to_initialize(pod: Json, record: PodRecord) -> bool:
    if specs.restart_policy(pod) != "Never":
        return False
    ends = [each.latest_end for each in _regular_init_containers(pod, record) if not each.is_running]
    return any(end is not None and end.exit_code != 0 for end in ends)


def _is_pending(pod: Json, record: PodRecord) -> bool:
    """Return whether the pod is still initializing or a container has not run yet."""
    regular_init_containers = _regular_init_containers(pod, record)
    if any(each.is_running or not each.has_run for each in regular_init_containers):
        return True
    sidecars = [each for each in record.init_containers if each not in regular_init_containers]
    if any(not each.has_run for each in (*sidecars, *record.containers)):
        return True
    has_initialized = any(each.has_run for each in record.containers)
    return not has_initialized and any(each.is_running and not each.has_started for each in sidecars)


def _regular_init_containers(pod: Json, record: PodRecord) -> tuple[ContainerRecord, ...]:
    sidecars = specs.sidecar_names(pod)
    return tuple(each for each in record.init_containers if each.name not in sidecars)


def _explanation(known: Json, phase: str, ending: Ending | None) -> Json:
    if phase == known.get("phase"):
        return {key: known[key] for key in ("reason", "message") if known.get(key)}
    if phase == "Failed" and ending is not None and ending.reason:
        return {"reason": ending.reason, "message": ending.message}
    return {}


def _addresses(known: Json, record: PodRecord) -> Json:
    """Return the address fields. A pod that has ended keeps its former addresses."""
    found: Json = {}
    for singular, plural, addresses in (
        ("hostIP", "hostIPs", record.host_ips),
        ("podIP", "podIPs", record.pod_ips),
    ):
        if addresses:
            found |= {singular: addresses[0], plural: [{"ip": address} for address in addresses]}
        else:
            found |= {key: known[key] for key in (singular, plural) if known.get(key)}
    return found


def _with_back_offs(pod: Json, record: PodRecord, ending: Ending | None, now: datetime) -> PodRecord:
    """Replace the state of containers in back-off by waiting, with their end as the last state."""
    if ending is not None:
        return record
    for container in record.all_containers:
        if isinstance(container.current, Terminated) and _waits_for_restart(pod, container, now):
            waiting = Waiting("CrashLoopBackOff", back_off.waiting_message(pod, container))
            record = record.with_container(
                msgspec.structs.replace(container, current=waiting, last=container.current)
            )
    return record


def is_backing_off(pod: Json, record: PodRecord, container: ContainerRecord, now: datetime) -> bool:
    """Return whether the container has ended and waits for its restart."""
    if not isinstance(container.current, Terminated) or terminations.ending_of(pod, record, now) is not None:
        return False
    return _waits_for_restart(pod, container, now)


def _waits_for_restart(pod: Json, container: ContainerRecord, now: datetime) -> bool:
    is_waiting = back_off.restart_time(container, now) is not None
    return is_waiting and restarts.should_restart(pod, container)


def _with_lost(pod: Json, record: PodRecord) -> PodRecord:
    """Mark as lost the containers of an ended pod that should have run, but did not report an end."""
    # All init containers up to the last one that ran, and always the first one.
    indexes_of_runs = [index for index, each in enumerate(record.init_containers) if each.has_run]
    expected = [*record.init_containers[: (indexes_of_runs[-1] if indexes_of_runs else 0) + 1]]
    if restarts.is_initialized(pod, record):
        expected += record.containers
    for container in expected:
        if isinstance(container.current, Waiting):
            record = record.with_container(msgspec.structs.replace(container, current=LOST))
    return record


def _container_statuses(pod: Json, records: Iterable[ContainerRecord], containers: list[Json]) -> list[Json]:
    images = {container["name"]: container.get("image", "") for container in containers}
    return [_container_status(pod, record, images[record.name]) for record in records]


def _container_status(pod: Json, record: ContainerRecord, image: str) -> Json:
    is_sidecar = record.name in specs.sidecar_names(pod)
    runs_once = specs.is_init_container(pod, record.name) and not is_sidecar
    has_started = record.is_running and record.has_started
    status = {
        "name": record.name,
        "state": _state(pod, record.current),
        "lastState": _state(pod, record.last) if record.last else {},
        "ready": record.has_succeeded if runs_once else has_started and record.is_ready,
        "started": has_started,
        "restartCount": record.restart_count,
        "image": image,
        "imageID": record.image_id,
    }
    return status | ({"containerID": _container_id(record.container_id)} if record.container_id else {})


def _container_id(run_id: str) -> str:
    return f"{RUNTIME}://{run_id}"


def _state(pod: Json, state: State) -> Json:
    match state:
        case Running():
            return {"running": {"startedAt": times.format_time(state.started_at)}}
        case Waiting():
            default = "PodInitializing" if specs.init_containers(pod) else "ContainerCreating"
            return {"waiting": _without_empty(reason=state.reason or default, message=state.message)}
        case Terminated():
            count = len(specs.init_containers(pod)) + len(specs.containers(pod))
            return {
                "terminated": {
                    "exitCode": state.exit_code,
                    "startedAt": times.format_optional_time(_start_time(state)),
                    "finishedAt": times.format_optional_time(state.finished_at),
                }
                | _without_empty(
                    reason=state.reason,
                    message=termination_message.limited(state.message, count),
                    containerID=_container_id(state.id) if state.id else "",
                )
            }


def _start_time(end: Terminated) -> datetime | None:
    """Return the start time. Container runtimes report the epoch for a container that could not be started."""
    is_known = end.finished_at is not None
    return end.started_at or (datetime.fromtimestamp(0, UTC) if is_known else None)


def _without_empty(**fields: Any) -> Json:
    return {key: value for key, value in fields.items() if value}
