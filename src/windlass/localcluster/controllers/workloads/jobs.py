"""What a Job needs: pods until enough of them have succeeded, or too many have failed. Pure.

Each pod carries a finalizer from its creation until it has been counted. The count and the removal of the finalizer are
stored together, so that a pod is counted once, whatever becomes of it.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime

import msgspec

from windlass.k8s import times
from windlass.localcluster.controllers.workloads import back_off, conditions, indexes, observed, templates
from windlass.localcluster.controllers.workloads.decisions import (
    NOTHING,
    Action,
    Create,
    Decision,
    Delete,
    Told,
    Untrack,
    earliest,
)
from windlass.localcluster.controllers.workloads.observed import Pod, seconds
from windlass.model.base import Json

RESOURCE = "jobs.batch"
PODS = "pods"
# Of more than these at a time, the next are made when these are there.
_MOST_AT_ONCE = 500
_UNSUPPORTED = ("podFailurePolicy", "successPolicy", "backoffLimitPerIndex", "maxFailedIndexes")
_STAMP = "lastProbeTime"
_OURS = "kubernetes.io/job-controller"


class _Count(msgspec.Struct, frozen=True, kw_only=True):
    """The pods of a Job by what they are, and what has come of all it ever had."""

    active: tuple[Pod, ...]
    leaving: tuple[Pod, ...]
    """They were deleted and have not ended yet."""
    succeeded: int
    failed: int
    done: frozenset[int]
    """The indexes that are, of an Indexed Job."""
    counted: tuple[Pod, ...]
    """Counted just now."""


class _Verdict(msgspec.Struct, frozen=True):
    """That nothing more will run, and why."""

    is_success: bool
    reason: str
    message: str


def decide(job: Json, pods: Sequence[Pod], now: datetime) -> Decision:
    status: Json = job.get("status") or {}
    is_somebody_elses = job["spec"].get("managedBy", _OURS) != _OURS
    if is_somebody_elses:
        return NOTHING
    if "deletionTimestamp" in job["metadata"]:
        return Decision(actions=tuple(_untracked(pods)))
    if _is_finished(status):
        return _after_the_end(job, pods, now)
    count = _count(job, pods)
    verdict = _known_verdict(status) or _verdict(job, count, now)
    if verdict is not None:
        return _ending(job, count, verdict, now)
    if job["spec"].get("suspend"):
        return _suspended(job, count, now)
    return _going_on(job, count, pods, now)


# Counting


def _count(job: Json, pods: Sequence[Pod]) -> _Count:
    spec, status = job["spec"], job.get("status") or {}
    waits_for_the_end = spec.get("podReplacementPolicy") == "Failed"
    is_indexed = spec.get("completionMode") == "Indexed"
    tracked = [pod for pod in pods if pod.is_tracked]
    succeeded = [pod for pod in tracked if pod.phase == "Succeeded"]
    failed = [pod for pod in tracked if _has_failed(pod, waits_for_the_end)]
    done: set[int] = set()
    total = status.get("succeeded", 0) + len(succeeded)
    if is_indexed:
        completions = spec["completions"]
        done = indexes.read(status.get("completedIndexes", ""), completions)
        found = (indexes.of_pod(pod) for pod in succeeded)
        done |= {index for index in found if index is not None and index < completions}
        total = len(done)
    return _Count(
        active=tuple(pod for pod in pods if pod.is_active),
        leaving=tuple(pod for pod in pods if pod.is_going and not pod.is_over),
        succeeded=total,
        failed=status.get("failed", 0) + len(failed),
        done=frozenset(done),
        counted=(*succeeded, *failed),
    )


def _has_failed(pod: Pod, waits_for_the_end: bool) -> bool:
    """A pod that was deleted counts at once, unless its Job asks to wait until it has ended."""
    is_lost = pod.is_going and not pod.is_over and not (waits_for_the_end and pod.has_node)
    return pod.phase == "Failed" or is_lost


# Ending


def _is_finished(status: Json) -> bool:
    known = status.get("conditions")
    return conditions.is_true(known, "Complete") or conditions.is_true(known, "Failed")


def _known_verdict(status: Json) -> _Verdict | None:
    """What was found before, when its pods had not all ended."""
    for kind, is_success in (("FailureTarget", False), ("SuccessCriteriaMet", True)):
        found = conditions.find(status.get("conditions"), kind)
        if found is not None and found.get("status") == "True":
            return _Verdict(is_success, found.get("reason", ""), found.get("message", ""))
    return None


def _verdict(job: Json, count: _Count, now: datetime) -> _Verdict | None:
    spec = job["spec"]
    unsupported = [field for field in _UNSUPPORTED if spec.get(field) is not None]
    if unsupported:
        message = f"the embedded cluster does not run Jobs with {', '.join(unsupported)}: leave that out"
        return _Verdict(False, "NotSupported", message)
    # One that goes on again has all its time before it.
    was_suspended = conditions.is_true((job.get("status") or {}).get("conditions"), "Suspended")
    is_suspended = spec.get("suspend") or was_suspended
    deadline = _deadline(job)
    if _fails_too_often(spec, count):
        return _Verdict(False, "BackoffLimitExceeded", "Job has reached the specified backoff limit")
    if deadline is not None and now >= deadline and not is_suspended:
        return _Verdict(False, "DeadlineExceeded", "Job was active longer than specified deadline")
    completions = spec.get("completions")
    is_queue_empty = completions is None and count.succeeded > 0 and not count.active
    if is_queue_empty or (completions is not None and count.succeeded >= completions):
        return _Verdict(True, "CompletionsReached", "Reached expected number of succeeded pods")
    return None


def _fails_too_often(spec: Json, count: _Count) -> bool:
    """Pods that start their containers again themselves count by how often they did."""
    limit = spec["backoffLimit"]
    restarts = sum(pod.restarts for pod in count.active if pod.restarts_itself)
    return count.failed > limit or (restarts > 0 and restarts >= limit)


def _deadline(job: Json) -> datetime | None:
    length = seconds(job["spec"], "activeDeadlineSeconds")
    started = times.parse_time((job.get("status") or {}).get("startTime"))
    return None if length is None or started is None else started + length


def _ending(job: Json, count: _Count, verdict: _Verdict, now: datetime) -> Decision:
    """Whatever still runs is stopped, and counts as failed if the Job is.

    What the Job came to is said when all of them have ended.
    """
    status = _status(job, count, now)
    interim = "SuccessCriteriaMet" if verdict.is_success else "FailureTarget"
    status["conditions"] = _with(status, interim, verdict, now)
    stopped = (Delete(PODS, pod.name, pod.uid) for pod in count.active)
    actions = [*_untracked(count.counted), *(_dismissed(count.active) if verdict.is_success else stopped)]
    if count.active or count.leaving:
        return Decision(status=status, actions=tuple(actions))
    final = "Complete" if verdict.is_success else "Failed"
    status["conditions"] = _with(status, final, verdict, now)
    if verdict.is_success:
        status["completionTime"] = times.format_time(now)
        event = Told("Completed", "Job completed")
    else:
        event = Told(verdict.reason, verdict.message, "Warning")
    return Decision(
        status=status, actions=tuple(actions), events=(event,), wake_at=_expiry(job["spec"], status)
    )


def _with(status: Json, kind: str, verdict: _Verdict, now: datetime) -> list[Json]:
    new = conditions.condition(
        kind, "True", verdict.reason, verdict.message, times.format_time(now), stamp=_STAMP
    )
    return conditions.with_one(status.get("conditions"), new)


def _after_the_end(job: Json, pods: Sequence[Pod], now: datetime) -> Decision:
    expiry = _expiry(job["spec"], job["status"])
    untracked = tuple(_untracked(pods))
    if expiry is None or now < expiry:
        return Decision(actions=untracked, wake_at=expiry)
    meta = job["metadata"]
    itself = Delete(RESOURCE, meta["name"], meta["uid"], propagation="Foreground", is_announced=False)
    return Decision(actions=(*untracked, itself))


def _expiry(spec: Json, status: Json) -> datetime | None:
    """When a Job that has ended goes."""
    kept = seconds(spec, "ttlSecondsAfterFinished")
    if kept is None:
        return None
    known = status["conditions"]
    ended = next(one for one in known if one["type"] in ("Complete", "Failed") and one["status"] == "True")
    moment = times.parse_time(ended["lastTransitionTime"])
    return None if moment is None else moment + kept


def _untracked(pods: Iterable[Pod]) -> Iterator[Action]:
    return (Untrack(pod.name, pod.uid) for pod in pods if pod.is_tracked)


# Running


def _suspended(job: Json, count: _Count, now: datetime) -> Decision:
    """Its pods go, and do not count: they did nothing wrong."""
    status = _status(job, count, now)
    was = conditions.is_true(status.get("conditions"), "Suspended")
    new = conditions.condition(
        "Suspended", "True", "JobSuspended", "Job suspended", times.format_time(now), stamp=_STAMP
    )
    status["conditions"] = conditions.with_one(status.get("conditions"), new)
    actions = [*_untracked(count.counted), *_dismissed(count.active)]
    events = () if was else (Told("Suspended", "Job suspended"),)
    return Decision(status=status, actions=tuple(actions), events=events)


def _dismissed(pods: Iterable[Pod]) -> Iterator[Action]:
    for pod in pods:
        yield from _untracked([pod])
        yield Delete(PODS, pod.name, pod.uid)


def _going_on(job: Json, count: _Count, pods: Sequence[Pod], now: datetime) -> Decision:
    status = _status(job, count, now)
    events: tuple[Told, ...] = ()
    if conditions.is_true(status.get("conditions"), "Suspended"):
        new = conditions.condition(
            "Suspended", "False", "JobResumed", "Job resumed", times.format_time(now), stamp=_STAMP
        )
        status["conditions"] = conditions.with_one(status["conditions"], new)
        # The time that it was suspended does not count towards its deadline.
        status["startTime"] = times.format_time(now)
        events = (Told("Resumed", "Job resumed"),)
    actions = [*_untracked(count.counted)]
    surplus, missing = _difference(job["spec"], count)
    actions += _dismissed(surplus)
    ready_at = None
    if missing:
        failed = [pod for pod in pods if pod.phase == "Failed" or (pod.is_going and not pod.is_over)]
        succeeded = [pod for pod in pods if pod.phase == "Succeeded"]
        ready_at = back_off.next_creation(failed, succeeded, now)
        if now >= ready_at:
            actions += (Create(PODS, templates.pod_of_job(job, index)) for index in missing[:_MOST_AT_ONCE])
            ready_at = None
    deadline = _deadline({**job, "status": status})
    return Decision(
        status=status, actions=tuple(actions), events=events, wake_at=earliest(ready_at, deadline)
    )


def _difference(spec: Json, count: _Count) -> tuple[list[Pod], list[int | None]]:
    """The pods that are too many, and an index for each that is missing; None where pods have none."""
    if spec.get("completionMode") == "Indexed":
        return _difference_by_index(spec, count)
    parallelism, completions = spec["parallelism"], spec.get("completions")
    if completions is None:
        # Of a Job that works off a queue, no pod is made any more once one has found it empty.
        wanted = min(parallelism, len(count.active)) if count.succeeded else parallelism
    else:
        wanted = min(parallelism, completions - count.succeeded)
    wanted = max(wanted, 0)
    surplus = observed.least_useful(count.active)[: max(len(count.active) - wanted, 0)]
    missing = wanted - len(count.active) - len(_awaited(spec, count))
    return surplus, [None] * max(missing, 0)


def _difference_by_index(spec: Json, count: _Count) -> tuple[list[Pod], list[int | None]]:
    completions = spec["completions"]
    taken: dict[int, Pod] = {}
    surplus: list[Pod] = []
    for pod in reversed(observed.least_useful(count.active)):
        index = indexes.of_pod(pod)
        is_needed = index is not None and index < completions and index not in count.done
        if index is None or not is_needed or index in taken or len(taken) >= spec["parallelism"]:
            surplus.append(pod)
        else:
            taken[index] = pod
    awaited = {indexes.of_pod(pod) for pod in _awaited(spec, count)}
    room = min(spec["parallelism"], completions - len(count.done)) - len(taken) - len(awaited)
    open_ones = (
        index
        for index in range(completions)
        if index not in count.done and index not in taken and index not in awaited
    )
    return surplus, [index for index, _ in zip(open_ones, range(max(room, 0)), strict=False)]


def _awaited(spec: Json, count: _Count) -> tuple[Pod, ...]:
    """Pods whose end is waited for before others take their places."""
    return count.leaving if spec.get("podReplacementPolicy") == "Failed" else ()


def _status(job: Json, count: _Count, now: datetime) -> Json:
    old: Json = job.get("status") or {}
    status: Json = {key: old[key] for key in ("conditions", "startTime", "completionTime") if key in old}
    if "startTime" not in status and not job["spec"].get("suspend"):
        status["startTime"] = times.format_time(now)
    numbers = {"active": len(count.active), "succeeded": count.succeeded, "failed": count.failed}
    status |= {key: number for key, number in numbers.items() if number}
    if count.done:
        status["completedIndexes"] = indexes.written(count.done)
    status["ready"] = sum(pod.is_ready for pod in count.active)
    status["terminating"] = len(count.leaving)
    status["uncountedTerminatedPods"] = {}
    return status
