"""When a batch/v1 Job fails, when it succeeds, which pods it replaces, and what it adds to its pods.

A Job evaluates, in this order: podFailurePolicy, backoffLimit, the limits per index, and successPolicy. Every failed
pod counts towards backoffLimit unless podFailurePolicy ignores it. With the restartPolicy OnFailure, restarts of
containers count too.
"""

from collections.abc import Iterator

import msgspec

from windlass.convert.job_spec import ON_FAILURE, UNLIMITED, ExitCodes, FailureRule, Job
from windlass.model.base import Json
from windlass.model.framework import RETRY_IF_FAILED

BACKOFF: Json = {"initialSec": 10, "maxSec": 600}
"""The delays of the Job controller before it replaces a failed pod."""

BACKOFF_LIMIT_EXCEEDED = "BackoffLimitExceeded"
DEADLINE_EXCEEDED = "DeadlineExceeded"
POD_FAILURE_POLICY = "PodFailurePolicy"
MAX_FAILED_INDEXES_EXCEEDED = "MaxFailedIndexesExceeded"
FAILED_INDEXES = "FailedIndexes"
REASONS = (POD_FAILURE_POLICY, BACKOFF_LIMIT_EXCEEDED, MAX_FAILED_INDEXES_EXCEEDED, FAILED_INDEXES)
"""Reasons of a failed Job, in the order in which the Job controller looks for them."""

_TYPES: dict[str, tuple[str, ...]] = {
    "FailJob": ("Permanent",),
    "FailIndex": ("Permanent",),
    "Ignore": ("Transient",),
    "Count": (),
}
"""Attributes of the failure by action of podFailurePolicy."""

WORK_QUEUE = (
    "without completions, a failed pod is replaced even if another one has succeeded, unlike in the original"
)


POD = "{pod}"


class FailingRule(msgspec.Struct, frozen=True):
    """A rule that fails the Job, without the selection of the tasks."""

    reason: str
    messages: tuple[str, ...]
    """Possible messages of the failed Job. `POD` stands for the namespace and name of a pod."""
    rule: Json


# Rules of the Framework


def _task_fields(job: Job) -> Json:
    """Return retry policy and failure classes of the tasks; empty if a failed task is not replaced."""
    limit = job.spec.backoff_limit_per_index
    if limit is None:
        limit = RETRY_IF_FAILED if job.backoff_limit else 0
    if limit == 0 and not job.failure_rules:
        return {}
    fields: Json = {
        "retryPolicy": {
            "fancyRetryPolicy": bool(job.failure_rules),
            "maxRetryCount": limit,
            "maxTransientRetryCount": None,
            "retryBackoff": dict(BACKOFF),
        }
    }
    if job.failure_rules:
        classes = [_failure_class(at, rule) for at, rule in enumerate(job.failure_rules)]
        # Every other failure counts, whatever the classes of the controller say.
        fields["podFailureSpec"] = [*classes, {"type": {"attributes": []}}]
    return fields


def _phrase(at: int) -> str:
    return f"PodFailurePolicyRule{at}"


def _failure_class(at: int, rule: FailureRule) -> Json:
    described: Json = {"phrase": _phrase(at), "type": {"attributes": list(_TYPES.get(rule.action, ()))}}
    if rule.on_exit_codes is not None:
        return {**described, "podPatterns": list(_patterns(rule.on_exit_codes))}
    return {**described, "conditionTypes": [each.type for each in rule.on_pod_conditions or ()]}


def _patterns(exit_codes: ExitCodes) -> Iterator[Json]:
    """Yield a pod pattern for each range of exit codes other than 0."""
    name = exit_codes.container_name
    named = {"nameRegex": f"^{name}$"} if name else {}
    values = sorted(value for value in exit_codes.values if value > 0)
    if exit_codes.operator == "In":
        ranges: list[Json] = [{"min": value, "max": value} for value in values]
    else:
        starts = [1, *(value + 1 for value in values)]
        ranges = [
            {"min": start, "max": end - 1} for start, end in zip(starts, values, strict=False) if start < end
        ]
        ranges.append({"min": starts[-1]})
    for each in ranges:
        yield {"containers": [{**named, "codeRange": each}]}


def role_fields(job: Job) -> Json:
    """Return the fields of the task role that the job file does not have."""
    task = _task_fields(job)
    fields: Json = {"task": task} if task else {}
    return {**fields, "parallelism": job.parallelism} if job.limits_pods else fields


def failing_rules(job: Job) -> Iterator[FailingRule]:
    """Yield the rules that fail the Job, in the order in which the Job controller evaluates them."""
    for at, rule in enumerate(job.failure_rules):
        if rule.action == "FailJob":
            yield FailingRule(
                POD_FAILURE_POLICY,
                tuple(_messages(job, at, rule)),
                {"name": f"podFailurePolicy rule {at}", "minFailedTaskCount": 1, "phrases": [_phrase(at)]},
            )
    if job.backoff_limit < UNLIMITED:
        yield from _backoff_rules(job)
    if job.spec.backoff_limit_per_index is None:
        return
    limit = job.spec.max_failed_indexes
    if limit is not None:
        yield FailingRule(
            MAX_FAILED_INDEXES_EXCEEDED,
            ("Job has exceeded the specified maximal number of failed indexes",),
            {"name": f"maxFailedIndexes {limit}", "minFailedTaskCount": limit + 1},
        )
    yield FailingRule(
        FAILED_INDEXES,
        ("Job has failed indexes",),
        {"name": "failed indexes", "minFailedTaskCount": 1, "afterAll": True},
    )


def _backoff_rules(job: Job) -> Iterator[FailingRule]:
    limit = job.backoff_limit
    messages = ("Job has reached the specified backoff limit",)
    pods = {"name": f"backoffLimit {limit}", "minFailedAttemptCount": limit + 1}
    yield FailingRule(BACKOFF_LIMIT_EXCEEDED, messages, pods)
    if job.restart_policy == ON_FAILURE:
        containers = {
            "name": f"backoffLimit {limit}, restarts of containers",
            "minContainerRestartCount": max(1, limit),
            "phases": ["Running", "Pending"],
        }
        yield FailingRule(BACKOFF_LIMIT_EXCEEDED, messages, containers)


def _messages(job: Job, at: int, rule: FailureRule) -> Iterator[str]:
    """Yield the messages of a Job that this rule fails."""
    for condition in rule.on_pod_conditions or ():
        yield f"Pod {POD} has condition {condition.type} matching FailJob rule at index {at}"
    exit_codes = rule.on_exit_codes
    if exit_codes is None:
        return
    values = set(exit_codes.values)
    codes = values if exit_codes.operator == "In" else set(range(1, 256)) - values
    names = [exit_codes.container_name] if exit_codes.container_name else job.container_names()
    for name in names:
        for code in sorted(codes):
            yield f"Container {name} for pod {POD} failed with exit code {code} matching FailJob rule at index {at}"


def succeeding_rules(job: Job) -> Iterator[Json]:
    """Yield the rules of successPolicy. `taskIndexes` are the completion indexes."""
    for at, rule in enumerate(job.success_rules):
        count, indexes = rule.succeeded_count, rule.succeeded_indexes
        if indexes is not None and count is None:
            yield {"name": f"successPolicy rule {at}", "taskIndexes": indexes, "allSucceeded": True}
        elif count is not None:
            selected = {} if indexes is None else {"taskIndexes": indexes}
            yield {"name": f"successPolicy rule {at}", **selected, "minSucceededTaskCount": max(1, count)}


# The pod template

INDEX_LABEL = "batch.kubernetes.io/job-completion-index"
INDEX_VARIABLE = "JOB_COMPLETION_INDEX"
_GENERATED_LABELS = ("controller-uid", "batch.kubernetes.io/controller-uid")


def pod_template(job: Job, name: str, index: str) -> Json:
    """Return the pod template with what the Job controller adds. `name` and `index` are the name of the Job and the
    completion index, with placeholders."""
    metadata: Json = job.template.get("metadata") or {}
    given = metadata.get("labels") or {}
    labels = {key: value for key, value in given.items() if key not in _GENERATED_LABELS}
    labels |= {"batch.kubernetes.io/job-name": name, "job-name": name}
    annotations = dict(metadata.get("annotations") or {})
    spec: Json = {**(job.template.get("spec") or {}), "restartPolicy": job.restart_policy}
    if job.is_indexed:
        labels[INDEX_LABEL] = annotations[INDEX_LABEL] = index
        spec["hostname"] = f"{name}-{index}"
        for key in ("initContainers", "containers"):
            if spec.get(key):
                spec[key] = [_with_index(container, index) for container in spec[key]]
    metadata = {**metadata, "labels": labels}
    if annotations:
        metadata["annotations"] = annotations
    return {**job.template, "metadata": metadata, "spec": spec}


def _with_index(container: Json, index: str) -> Json:
    env = container.get("env") or []
    is_set = not isinstance(env, list) or any(
        isinstance(each, dict) and each.get("name") == INDEX_VARIABLE for each in env
    )
    if is_set:
        return container
    return {**container, "env": [*env, {"name": INDEX_VARIABLE, "value": index}]}
