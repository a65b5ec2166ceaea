"""The next steps of a pod: start containers, wait, stop all containers, or finish.

The pod worker performs the steps, records the results, and asks again. `StopAll` is therefore repeated with the
remaining containers as long as one is running.
"""

from datetime import datetime

import msgspec

from windlass.localcluster.kubelet.lifecycle import back_off, specs, terminations
from windlass.localcluster.kubelet.lifecycle.records import ContainerRecord, Ending, PodRecord, Running
from windlass.model.base import Json


class StartContainer(msgspec.Struct, frozen=True):
    name: str


class WaitUntil(msgspec.Struct, frozen=True):
    time: datetime


class StopAll(msgspec.Struct, frozen=True):
    """Stop all containers in waves: each wave after the previous one has ended, all within one grace period."""

    grace_seconds: int
    waves: tuple[tuple[str, ...], ...]


class Finished(msgspec.Struct, frozen=True):
    """No container is running or will be started."""


Step = StartContainer | WaitUntil | StopAll | Finished


class _Initialization(msgspec.Struct, frozen=True):
    to_start: tuple[ContainerRecord, ...] = ()
    is_complete: bool = False
    has_failed: bool = False


def next_steps(pod: Json, record: PodRecord, now: datetime) -> tuple[Step, ...]:
    """Return the next steps; none if only an event (an exit, a probe result, a deletion) can change anything."""
    ending = terminations.ending_of(pod, record, now)
    to_start = None if ending or specs.has_final_phase(pod) else _containers_to_start(pod, record)
    if to_start is None:
        return (stop_step(pod, record, ending) if record.is_anything_running else Finished(),)
    restart_times = {container.name: back_off.restart_time(container, now) for container in to_start}
    starts = tuple(StartContainer(name) for name, time in restart_times.items() if time is None)
    times = [*restart_times.values(), terminations.deadline(pod, record)]
    wait = min((time for time in times if time is not None), default=None)
    return starts if wait is None else (*starts, WaitUntil(wait))


def with_started(pod: Json, record: PodRecord, name: str, run: Running, *, image_id: str = "") -> PodRecord:
    """Return the record after `StartContainer`. A container without probes is started and ready at once."""
    container = record.container(name)
    spec = specs.container(pod, name)
    started = msgspec.structs.replace(
        container,
        current=run,
        last=container.latest_end,
        restart_count=container.restart_count + (1 if container.has_run else 0),
        has_started=spec.get("startupProbe") is None,
        is_ready=spec.get("readinessProbe") is None,
        image_id=image_id,
        back_off_seconds=back_off.next_delay(container).total_seconds(),
    )
    return record.with_container(started)


def should_restart(pod: Json, container: ContainerRecord) -> bool:
    """Return whether a container that is not running is started or restarted, unless the pod is terminating."""
    end = container.latest_end
    if end is None or container.name in specs.sidecar_names(pod):
        return True
    match specs.restart_policy(pod):
        case "Never":
            return False
        case "Always" if not specs.is_init_container(pod, container.name):
            return True
        case _:
            return end.exit_code != 0


def is_last_container(pod: Json, record: PodRecord, name: str) -> bool:
    """Return whether it is certain that the pod will end when this running container ends."""
    others = (each for each in record.containers if each.name != name)
    return (
        specs.restart_policy(pod) == "Never"
        and not specs.is_init_container(pod, name)
        and not any(each.is_running or should_restart(pod, each) for each in others)
    )


def is_initialized(pod: Json, record: PodRecord) -> bool:
    return _initialization(pod, record).is_complete


def _containers_to_start(pod: Json, record: PodRecord) -> tuple[ContainerRecord, ...] | None:
    """Return the containers to start, in this order; None if initialization has failed or only sidecars are left."""
    initialization = _initialization(pod, record)
    if initialization.has_failed:
        return None
    if not initialization.is_complete:
        return initialization.to_start
    idle = [container for container in record.containers if not container.is_running]
    to_start = tuple(container for container in idle if should_restart(pod, container))
    is_over = len(idle) == len(record.containers) and not to_start
    # A pod ends when only its sidecars are left.
    return None if is_over else (*initialization.to_start, *to_start)


def _initialization(pod: Json, record: PodRecord) -> _Initialization:
    """Return the state of the initialization.

    The init containers to start are the first incomplete one and the sidecars before it, except running ones.
    """
    sidecars = specs.sidecar_names(pod)
    reached = _first_incomplete(record, sidecars)
    sidecars_to_start = [
        each for each in record.init_containers[:reached] if each.name in sidecars and not each.is_running
    ]
    if reached == len(record.init_containers):
        return _Initialization(tuple(sidecars_to_start), is_complete=True)
    next_one = record.init_containers[reached]
    if next_one.is_running:
        return _Initialization(tuple(sidecars_to_start))
    return _Initialization((*sidecars_to_start, next_one), has_failed=not should_restart(pod, next_one))


def _first_incomplete(record: PodRecord, sidecars: frozenset[str]) -> int:
    if any(container.has_run for container in record.containers):
        return len(record.init_containers)
    started = [index for index, container in enumerate(record.init_containers) if container.has_run]
    if not started:
        return 0
    # An init container starts only after all earlier ones are complete.
    latest = record.init_containers[started[-1]]
    is_sidecar = latest.name in sidecars
    is_complete = latest.is_running and latest.has_started if is_sidecar else latest.has_succeeded
    return started[-1] + (1 if is_complete else 0)


def stop_step(pod: Json, record: PodRecord, ending: Ending | None = None) -> StopAll:
    """Return the step that stops the running containers.

    Without `ending`, the grace period is that of the spec, but at least MIN_GRACE_SECONDS.
    """
    grace = max(specs.grace_seconds(pod), terminations.MIN_GRACE_SECONDS)
    return StopAll(ending.grace_seconds if ending else grace, _waves(pod, record))


def _waves(pod: Json, record: PodRecord) -> tuple[tuple[str, ...], ...]:
    """Return the waves: sidecars are stopped last, one by one, in the reverse order of their start."""
    sidecars = specs.sidecar_names(pod)
    running = [container.name for container in record.all_containers if container.is_running]
    non_sidecars = tuple(name for name in running if name not in sidecars)
    last = tuple((name,) for name in reversed(running) if name in sidecars)
    return (non_sidecars, *last) if non_sidecars else last
