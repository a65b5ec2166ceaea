"""Render a job to a Framework. The result is deterministic, and does not rely on the default policies."""

import math

from windlass.model import feature_annotations, names
from windlass.model.base import Json, manifest
from windlass.model.feature_annotations import NONE
from windlass.model.framework import CompletedPods, CompletionPolicySpec, ExecutionType, RetryBackoff
from windlass.model.job import Job, Role
from windlass.render import ssh
from windlass.render.code import Code
from windlass.render.framework import completion, pods, spec_merge
from windlass.render.storage.nfs_shares import Share
from windlass.wire import durations

_ELASTIC_RETRIES = 3


def framework(
    job: Job, code: Code | None = None, share: Share | None = None, *, has_own_mounts: bool = True
) -> Json:
    """Return the Framework of a job. `has_own_mounts`: whether pods have their own mounts, so that any mountPath is
    possible. If not, there is no progress file, and shmSize has no effect."""
    spec = _spec(job, code, share, has_own_mounts=has_own_mounts)
    merged = spec_merge.merge_spec(spec, job.framework) if job.framework else spec
    return manifest(names.api_version(names.CONTROLLER_GROUP), names.KIND, _metadata(job), spec=merged)


def _metadata(job: Job) -> Json:
    annotations = {**job.annotations, names.RUNTIME_ANNOTATION: str(job.runtime)}
    if job.barrier:
        annotations[names.BARRIER_ANNOTATION] = "true"
    if job.elastic_ranges:
        annotations[names.ELASTIC_ANNOTATION] = feature_annotations.elastic_annotation(job.elastic_ranges)
    commandless = completion.commandless_roles(job)
    if commandless != completion.undecided_roles(job):
        idle = (name for name in commandless if completion.is_idle_server(job, name))
        annotations[names.IDLE_ANNOTATION] = ",".join(idle) or NONE
    metadata: Json = {"name": job.name}
    if job.namespace:
        metadata["namespace"] = job.namespace
    if job.labels:
        metadata["labels"] = dict(job.labels)
    return {**metadata, "annotations": annotations}


def _spec(job: Job, code: Code | None, share: Share | None, *, has_own_mounts: bool) -> Json:
    policies = completion.policies(job)
    deadlines = {
        "pendingDeadlineSeconds": job.pending_deadline,
        "activeDeadlineSeconds": job.active_deadline,
        "ttlSecondsAfterFinished": job.ttl,
    }
    return {
        **({"description": job.description} if job.description else {}),
        "executionType": str(ExecutionType.START),
        "retryPolicy": _retries(job.retries.job, job.retries.transient),
        **completion.job_completion(job),
        "completedPods": str(CompletedPods.KEEP),
        **{
            name: math.ceil(durations.parse(duration))
            for name, duration in deadlines.items()
            if duration is not None
        },
        "taskRoles": [
            {
                "name": name,
                "taskNumber": role.tasks,
                "frameworkAttemptCompletionPolicy": _completion(policies[name]),
                **_start_after(role),
                "task": {
                    "retryPolicy": _retries_of_task(job, role),
                    "pod": ssh.with_ssh(
                        pods.template(job, role, code, share, has_own_mounts=has_own_mounts), job, name
                    ),
                },
            }
            for name, role in job.roles.items()
        ],
    }


def _completion(policy: CompletionPolicySpec) -> Json:
    return {
        "minFailedTaskCount": policy.min_failed_task_count,
        "minSucceededTaskCount": policy.min_succeeded_task_count,
    }


def _start_after(role: Role) -> Json:
    conditions = [{"taskRole": name, "condition": str(condition)} for name, condition in role.after.items()]
    return {"startAfter": conditions} if conditions else {}


def task_retries(job: Job, role: Role) -> int:
    """Return the maximum number of counted retries of a task: the role overrides the job.

    If worker-0 of an elastic job ends, torchrun ends in all other tasks, which are then retried like worker-0.
    """
    if role.retry is not None:
        return role.retry
    return max(job.retries.task, _ELASTIC_RETRIES) if job.elastic_ranges else job.retries.task


def _retries_of_task(job: Job, role: Role) -> Json:
    """Return the retry policy of a task.

    A task without retries is not retried after a transient failure either, e.g. a lost node. If that failure ends the
    attempt, the job is retried instead, and that retry is not counted.
    """
    retries = task_retries(job, role)
    if retries == 0:
        return {"fancyRetryPolicy": False, "maxRetryCount": 0}
    return _retries(retries, job.retries.transient)


def _retries(counted: int, uncounted: int) -> Json:
    backoff = RetryBackoff()
    return {
        "fancyRetryPolicy": True,
        "maxRetryCount": counted,
        "maxTransientRetryCount": uncounted,
        "retryBackoff": {"initialSec": backoff.initial_sec, "maxSec": backoff.max_sec},
    }
