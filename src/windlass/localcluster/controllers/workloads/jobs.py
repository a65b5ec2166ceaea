"""Decide the next actions for a Job: create pods until enough have succeeded or too many have failed.

No function has side effects.

Each pod has a finalizer until it is counted, or deleted without being counted. The count and the removal of the
finalizer are stored together, so that no pod is counted twice.
"""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime

import msgspec

from windlass.k8s import times
from windlass.localcluster.controllers.workloads import back_off, conditions, observed, templates
from windlass.localcluster.controllers.workloads.decisions import (
    Action,
    Create,
    Decision,
    Delete,
    Event,
    RemoveTracking,
    earliest,
)
from windlass.localcluster.controllers.workloads.observed import Pod, read_duration
from windlass.model.base import Json

RESOURCE = "jobs.batch"
PODS = "pods"
# Maximum number of pods created per step.
_MAX_CREATES = 500
_UNSUPPORTED = ("podFailurePolicy", "successPolicy", "backoffLimitPerIndex", "maxFailedIndexes")
_TIME_FIELD = "lastProbeTime"
_CONTROLLER_NAME = "kubernetes.io/job-controller"


class _Count(msgspec.Struct, frozen=True, kw_only=True):
    """The pods of a Job by state, and the totals over all its pods so far."""

    active: tuple[Pod, ...]
    terminating: tuple[Pod, ...]
    """Deleted pods that have not ended yet."""
    succeeded: int
    failed: int
    done: frozenset[int]
    """The completed indexes of an Indexed Job."""
    counted: tuple[Pod, ...]
    """The pods counted in this step."""


class _Verdict(msgspec.Struct, frozen=True):
    """The final result of a Job and its reason."""

    is_success: bool
    reason: str
    message: str


def decide(job: Json, pods: Sequence[Pod], now: datetime) -> Decision:
    status: Json = job.get("status") or {}
    if job["spec"].get("managedBy", _CONTROLLER_NAME) != _CONTROLLER_NAME:
        return Decision()
    if "deletionTimestamp" in job["metadata"]:
        return Decision(actions=tuple(_untrack(pods)))
    if _is_finished(status):
        return _after_finish(job, pods, now)
    count = _count_pods(job, pods)
    verdict = _stored_verdict(status) or _verdict(job, count, now)
    if verdict is not None:
        return _finish_job(job, count, verdict, now)
    if job["spec"].get("suspend"):
        return _suspend_job(job, count, now)
    return _keep_running(job, count, pods, now)


# Counting


def _count_pods(job: Json, pods: Sequence[Pod]) -> _Count:
    spec, status = job["spec"], job.get("status") or {}
    waits_for_end = spec.get("podReplacementPolicy") == "Failed"
    is_indexed = spec.get("completionMode") == "Indexed"
    tracked = [pod for pod in pods if pod.is_tracked]
    succeeded = [pod for pod in tracked if pod.phase == "Succeeded"]
    failed = [pod for pod in tracked if _has_failed(pod, waits_for_end)]
    done: set[int] = set()
    total = status.get("succeeded", 0) + len(succeeded)
    if is_indexed:
        completions = spec["completions"]
        done = parse_indexes(status.get("completedIndexes", ""), completions)
        found = (_index_of(pod) for pod in succeeded)
        done |= {index for index in found if index is not None and index < completions}
        total = len(done)
    return _Count(
        active=tuple(pod for pod in pods if pod.is_active),
        terminating=tuple(pod for pod in pods if pod.is_ending),
        succeeded=total,
        failed=status.get("failed", 0) + len(failed),
        done=frozenset(done),
        counted=(*succeeded, *failed),
    )


def _has_failed(pod: Pod, waits_for_end: bool) -> bool:
    """Return whether a pod counts as failed.

    A terminating pod counts as failed, unless it is bound to a node and `waits_for_end` is set.
    """
    is_lost = pod.is_ending and not (waits_for_end and pod.has_node)
    return pod.phase == "Failed" or is_lost


# Finishing


def _is_finished(status: Json) -> bool:
    return any(
        conditions.is_true(status.get("conditions"), condition_type)
        for condition_type in ("Complete", "Failed")
    )


def _stored_verdict(status: Json) -> _Verdict | None:
    """Return the result stored before all pods had ended."""
    for condition_type, is_success in (("FailureTarget", False), ("SuccessCriteriaMet", True)):
        found = conditions.find(status.get("conditions"), condition_type)
        if found is not None and found.get("status") == "True":
            return _Verdict(is_success, found.get("reason", ""), found.get("message", ""))
    return None


def _verdict(job: Json, count: _Count, now: datetime) -> _Verdict | None:
    spec = job["spec"]
    unsupported = [field for field in _UNSUPPORTED if spec.get(field) is not None]
    if unsupported:
        message = (
            f"the embedded cluster does not support Jobs with {', '.join(unsupported)}. Remove these fields."
        )
        return _Verdict(False, "NotSupported", message)
    # The active deadline of a resumed Job starts again in full.
    was_suspended = conditions.is_true((job.get("status") or {}).get("conditions"), "Suspended")
    is_suspended = spec.get("suspend") or was_suspended
    deadline = _deadline(job)
    restarts = sum(pod.restarts for pod in count.active if pod.restarts_on_failure)
    if count.failed > spec["backoffLimit"] or (restarts > 0 and restarts >= spec["backoffLimit"]):
        return _Verdict(False, "BackoffLimitExceeded", "Job has reached the specified backoff limit")
    if deadline is not None and now >= deadline and not is_suspended:
        return _Verdict(False, "DeadlineExceeded", "Job was active longer than specified deadline")
    completions = spec.get("completions")
    is_queue_empty = completions is None and count.succeeded > 0 and not count.active
    if is_queue_empty or (completions is not None and count.succeeded >= completions):
        return _Verdict(True, "CompletionsReached", "Reached expected number of succeeded pods")
    return None


def _deadline(job: Json) -> datetime | None:
    duration = read_duration(job["spec"], "activeDeadlineSeconds")
    started = times.parse_time((job.get("status") or {}).get("startTime"))
    return None if duration is None or started is None else started + duration


def _finish_job(job: Json, count: _Count, verdict: _Verdict, now: datetime) -> Decision:
    """Delete the active pods; they count as failed if the Job fails.

    The final condition is set once all pods have ended.
    """
    status = _status(job, count, now)
    interim, final = ("SuccessCriteriaMet", "Complete") if verdict.is_success else ("FailureTarget", "Failed")
    _set_condition(status, interim, "True", verdict.reason, verdict.message, now)
    delete = _untrack_and_delete if verdict.is_success else _delete
    actions = (*_untrack(count.counted), *delete(count.active))
    if count.active or count.terminating:
        return Decision(status=status, actions=actions)
    _set_condition(status, final, "True", verdict.reason, verdict.message, now)
    event = Event(verdict.reason, verdict.message, "Warning")
    if verdict.is_success:
        status["completionTime"] = times.format_time(now)
        event = Event("Completed", "Job completed")
    return Decision(status=status, actions=actions, events=(event,), wake_at=_expiry(job["spec"], status))


def _set_condition(
    status: Json, condition_type: str, value: str, reason: str, message: str, now: datetime
) -> None:
    new = conditions.condition(
        condition_type, value, reason, message, times.format_time(now), time_field=_TIME_FIELD
    )
    status["conditions"] = conditions.with_condition(status.get("conditions"), new)


def _after_finish(job: Json, pods: Sequence[Pod], now: datetime) -> Decision:
    expiry = _expiry(job["spec"], job["status"])
    untracked = tuple(_untrack(pods))
    if expiry is None or now < expiry:
        return Decision(actions=untracked, wake_at=expiry)
    name, uid = job["metadata"]["name"], job["metadata"]["uid"]
    deletion = Delete(RESOURCE, name, uid, propagation="Foreground", records_event=False)
    return Decision(actions=(*untracked, deletion))


def _expiry(spec: Json, status: Json) -> datetime | None:
    """Return when a finished Job is deleted."""
    ttl = read_duration(spec, "ttlSecondsAfterFinished")
    if ttl is None:
        return None
    final = [one for one in status["conditions"] if one["type"] in ("Complete", "Failed")]
    ended = next(times.parse_time(one["lastTransitionTime"]) for one in final if one["status"] == "True")
    return None if ended is None else ended + ttl


def _untrack(pods: Iterable[Pod]) -> Iterator[Action]:
    return (RemoveTracking(pod.name, pod.uid) for pod in pods if pod.is_tracked)


# Running


def _suspend_job(job: Json, count: _Count, now: datetime) -> Decision:
    """Delete the active pods of a suspended Job without counting them."""
    status = _status(job, count, now)
    was_suspended = conditions.is_true(status.get("conditions"), "Suspended")
    _set_condition(status, "Suspended", "True", "JobSuspended", "Job suspended", now)
    actions = (*_untrack(count.counted), *_untrack_and_delete(count.active))
    events = () if was_suspended else (Event("Suspended", "Job suspended"),)
    return Decision(status=status, actions=actions, events=events)


def _delete(pods: Iterable[Pod]) -> Iterator[Action]:
    return (Delete(PODS, pod.name, pod.uid) for pod in pods)


def _untrack_and_delete(pods: Iterable[Pod]) -> Iterator[Action]:
    for pod in pods:
        yield from _untrack([pod])
        yield from _delete([pod])


def _keep_running(job: Json, count: _Count, pods: Sequence[Pod], now: datetime) -> Decision:
    status = _status(job, count, now)
    events: tuple[Event, ...] = ()
    if conditions.is_true(status.get("conditions"), "Suspended"):
        _set_condition(status, "Suspended", "False", "JobResumed", "Job resumed", now)
        # The active deadline starts again.
        status["startTime"] = times.format_time(now)
        events = (Event("Resumed", "Job resumed"),)
    actions = [*_untrack(count.counted)]
    surplus, missing = _difference(job["spec"], count)
    actions += _untrack_and_delete(surplus)
    create_at = None
    if missing:
        failed = [pod for pod in pods if pod.phase == "Failed" or pod.is_ending]
        succeeded = [pod for pod in pods if pod.phase == "Succeeded"]
        create_at = back_off.next_creation_time(failed, succeeded, now)
        if now >= create_at:
            actions += (Create(PODS, templates.pod_of_job(job, index)) for index in missing[:_MAX_CREATES])
            create_at = None
    wake_at = earliest(create_at, _deadline({**job, "status": status}))
    return Decision(status=status, actions=tuple(actions), events=events, wake_at=wake_at)


def _difference(spec: Json, count: _Count) -> tuple[list[Pod], list[int | None]]:
    """Return the surplus pods and the index of each missing pod (None for a Job without indexes)."""
    if spec.get("completionMode") == "Indexed":
        return _difference_by_index(spec, count)
    parallelism, completions = spec["parallelism"], spec.get("completions")
    if completions is None:
        # A work queue Job creates no more pods once one has succeeded.
        desired = min(parallelism, len(count.active)) if count.succeeded else parallelism
    else:
        desired = min(parallelism, completions - count.succeeded)
    desired = max(desired, 0)
    surplus = observed.by_deletion_order(count.active)[: max(len(count.active) - desired, 0)]
    missing = desired - len(count.active) - len(_pods_to_await(spec, count))
    return surplus, [None] * max(missing, 0)


def _difference_by_index(spec: Json, count: _Count) -> tuple[list[Pod], list[int | None]]:
    completions = spec["completions"]
    taken: dict[int, Pod] = {}
    surplus: list[Pod] = []
    for pod in reversed(observed.by_deletion_order(count.active)):
        index = _index_of(pod)
        is_needed = index is not None and index < completions and index not in count.done
        if index is None or not is_needed or index in taken or len(taken) >= spec["parallelism"]:
            surplus.append(pod)
        else:
            taken[index] = pod
    awaited = {_index_of(pod) for pod in _pods_to_await(spec, count)}
    missing = min(spec["parallelism"], completions - len(count.done)) - len(taken) - len(awaited)
    unavailable = {*count.done, *taken, *awaited}
    free_indexes = (index for index in range(completions) if index not in unavailable)
    return surplus, [*itertools.islice(free_indexes, max(missing, 0))]


def _pods_to_await(spec: Json, count: _Count) -> tuple[Pod, ...]:
    """Return the terminating pods that must end before they are replaced."""
    return count.terminating if spec.get("podReplacementPolicy") == "Failed" else ()


def _status(job: Json, count: _Count, now: datetime) -> Json:
    old: Json = job.get("status") or {}
    status: Json = {key: old[key] for key in ("conditions", "startTime", "completionTime") if key in old}
    if "startTime" not in status and not job["spec"].get("suspend"):
        status["startTime"] = times.format_time(now)
    numbers = {"active": len(count.active), "succeeded": count.succeeded, "failed": count.failed}
    status |= {key: number for key, number in numbers.items() if number}
    if count.done:
        status["completedIndexes"] = format_indexes(count.done)
    status["ready"] = sum(pod.is_ready for pod in count.active)
    status["terminating"] = len(count.terminating)
    status["uncountedTerminatedPods"] = {}
    return status


# Completion indexes, formatted as in the status of a Job: `0,3-5,9`


def format_indexes(indexes: Iterable[int]) -> str:
    return ",".join(_index_ranges(sorted(set(indexes))))


def _index_ranges(indexes: list[int]) -> Iterator[str]:
    start = 0
    for position, index in enumerate(indexes):
        is_last = position + 1 == len(indexes) or indexes[position + 1] != index + 1
        if is_last:
            first = indexes[start]
            # Kubernetes writes two consecutive indexes as `3,4`, not as `3-4`.
            yield {0: f"{first}", 1: f"{first},{index}"}.get(position - start, f"{first}-{index}")
            start = position + 1


def parse_indexes(text: str, completions: int) -> set[int]:
    """Parse indexes, without those that are too large because `completions` has been reduced."""
    found: set[int] = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        found.update(range(int(first), min(int(last or first) + 1, completions)))
    return found


def _index_of(pod: Pod) -> int | None:
    text = pod.annotations.get(templates.INDEX, "")
    return int(text) if text.isascii() and text.isdigit() else None
