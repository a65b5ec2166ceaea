"""What happens next in a pod: which containers are started, when to look again, when all is stopped or over.

Whoever carries the steps out changes the record with what came of them and asks again. The same record gives the same
steps, so `StopAll` is repeated, with what is still to be stopped, for as long as something runs.
"""

from datetime import datetime

import msgspec

from windlass.localcluster.kubelet.lifecycle import back_off, specs, terminations
from windlass.localcluster.kubelet.lifecycle.back_off import BackOff
from windlass.localcluster.kubelet.lifecycle.records import ContainerRecord, Ending, PodRecord, Running
from windlass.model.base import Json


class StartContainer(msgspec.Struct, frozen=True):
    name: str


class WaitUntil(msgspec.Struct, frozen=True):
    time: datetime


class StopAll(msgspec.Struct, frozen=True):
    """Each wave is stopped once the one before has ended; the grace period is for all of them together."""

    grace_seconds: int
    waves: tuple[tuple[str, ...], ...]
    reason: str = ""
    message: str = ""


class Finished(msgspec.Struct, frozen=True):
    """Nothing runs and nothing will."""


Step = StartContainer | WaitUntil | StopAll | Finished


class _Initialization(msgspec.Struct, frozen=True):
    wanted: tuple[ContainerRecord, ...] = ()
    is_complete: bool = False
    has_failed: bool = False


def next_steps(
    pod: Json, record: PodRecord, now: datetime, policy: BackOff = back_off.KUBELET
) -> tuple[Step, ...]:
    """No step at all means that only an event (an end, a probe, a deletion) changes anything."""
    ending = terminations.ending_of(pod, record, now)
    wanted = None if ending or specs.has_final_phase(pod) else _wanted(pod, record)
    if wanted is None:
        return (_stop_or_finish(pod, record, ending),)
    waits = {container.name: back_off.remaining_until(container, now, policy) for container in wanted}
    starts = tuple(StartContainer(name) for name, moment in waits.items() if moment is None)
    moments = [*waits.values(), terminations.deadline(pod, record)]
    known = [moment for moment in moments if moment is not None]
    return (*starts, WaitUntil(min(known))) if known else starts


def with_started(
    pod: Json,
    record: PodRecord,
    name: str,
    run: Running,
    *,
    image_id: str = "",
    policy: BackOff = back_off.KUBELET,
) -> PodRecord:
    """The record after `StartContainer`. A container that has no probe to pass is started and ready at once."""
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
        back_off_seconds=back_off.next_delay(container, policy).total_seconds(),
    )
    return record.with_container(started)


def is_to_run_again(pod: Json, container: ContainerRecord) -> bool:
    """Whether a container that does not run is to be started once more, were the pod to go on."""
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
    """Whether the pod is over when that container, which runs, ends."""
    others = (each for each in record.containers if each.name != name)
    return (
        specs.restart_policy(pod) == "Never"
        and not specs.is_init_container(pod, name)
        and not any(each.is_running or is_to_run_again(pod, each) for each in others)
    )


def is_initialized(pod: Json, record: PodRecord) -> bool:
    return _initialization(pod, record).is_complete


def _wanted(pod: Json, record: PodRecord) -> tuple[ContainerRecord, ...] | None:
    """The containers that should run and do not, in the order of their start; None when the pod is over."""
    initialization = _initialization(pod, record)
    if initialization.has_failed:
        return None
    if not initialization.is_complete:
        return initialization.wanted
    idle = [container for container in record.containers if not container.is_running]
    to_start = tuple(container for container in idle if is_to_run_again(pod, container))
    is_over = len(idle) == len(record.containers) and not to_start
    # Sidecars alone do not keep a pod alive.
    return None if is_over else (*initialization.wanted, *to_start)


def _initialization(pod: Json, record: PodRecord) -> _Initialization:
    """How far the init containers are: those before `reached` are through, of which the sidecars are kept running."""
    sidecars = specs.sidecar_names(pod)
    reached = _first_incomplete(record, sidecars)
    wanted = [
        each for each in record.init_containers[:reached] if each.name in sidecars and not each.is_running
    ]
    if reached == len(record.init_containers):
        return _Initialization(tuple(wanted), is_complete=True)
    next_one = record.init_containers[reached]
    if next_one.is_running:
        return _Initialization(tuple(wanted))
    return _Initialization((*wanted, next_one), has_failed=not is_to_run_again(pod, next_one))


def _first_incomplete(record: PodRecord, sidecars: frozenset[str]) -> int:
    if any(container.has_run for container in record.containers):
        return len(record.init_containers)
    started = [index for index, container in enumerate(record.init_containers) if container.has_run]
    if not started:
        return 0
    # A later one runs only once all before it are through.
    latest = record.init_containers[started[-1]]
    is_sidecar = latest.name in sidecars
    is_through = latest.is_running and latest.has_started if is_sidecar else latest.has_succeeded
    return started[-1] + (1 if is_through else 0)


def _stop_or_finish(pod: Json, record: PodRecord, ending: Ending | None) -> Step:
    return stop_step(pod, record, ending) if record.is_anything_running else Finished()


def stop_step(pod: Json, record: PodRecord, ending: Ending | None = None) -> StopAll:
    """Of what runs. Without an ending, it is the cluster that stops, and not the pod."""
    grace = max(specs.grace_seconds(pod), terminations.SHORTEST_GRACE_SECONDS)
    why = ending or Ending(grace)
    return StopAll(why.grace_seconds, _waves(pod, record), why.reason, why.message)


def _waves(pod: Json, record: PodRecord) -> tuple[tuple[str, ...], ...]:
    """Sidecars outlive what they serve: they go last, one by one, in the reverse order of their start."""
    sidecars = specs.sidecar_names(pod)
    running = [container.name for container in record.all_containers if container.is_running]
    served = tuple(name for name in running if name not in sidecars)
    last = tuple((name,) for name in reversed(running) if name in sidecars)
    return (served, *last) if served else last
