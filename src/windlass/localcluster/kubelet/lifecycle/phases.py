"""The phase of a pod, which follows from its containers and never leaves Succeeded and Failed."""

from windlass.localcluster.kubelet.lifecycle import specs
from windlass.localcluster.kubelet.lifecycle.records import ContainerRecord, Ending, PodRecord
from windlass.model.base import Json


def phase_of(pod: Json, record: PodRecord, ending: Ending | None) -> str:
    """A final phase is only given once nothing runs any more: whoever sees it may use what the pod has held."""
    known = specs.phase(pod)
    if known in specs.FINAL_PHASES:
        return known
    found = _from_containers(pod, record, is_ending=ending is not None)
    if record.is_anything_running:
        return known or "Pending" if found in specs.FINAL_PHASES else found
    if ending is None:
        return found
    was_cut_short = bool(ending.reason) or found not in specs.FINAL_PHASES
    return "Failed" if was_cut_short else found


def _from_containers(pod: Json, record: PodRecord, *, is_ending: bool) -> str:
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
    ends = [each.latest_end for each in _one_time_containers(pod, record) if not each.is_running]
    return any(end is not None and end.exit_code != 0 for end in ends)


def _is_pending(pod: Json, record: PodRecord) -> bool:
    """Something has yet to run for the first time."""
    one_time = _one_time_containers(pod, record)
    if any(each.is_running or not each.has_run for each in one_time):
        return True
    sidecars = [each for each in record.init_containers if each not in one_time]
    if any(not each.has_run for each in (*sidecars, *record.containers)):
        return True
    has_initialized = any(each.has_run for each in record.containers)
    return not has_initialized and any(each.is_running and not each.has_started for each in sidecars)


def _one_time_containers(pod: Json, record: PodRecord) -> tuple[ContainerRecord, ...]:
    sidecars = specs.sidecar_names(pod)
    return tuple(each for each in record.init_containers if each.name not in sidecars)
