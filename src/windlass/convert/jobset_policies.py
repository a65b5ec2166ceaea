"""The policies of a JobSet: start order, failure, success and lifetime.

A rule that fails one of the Jobs fails the attempt of the whole job. Its type says what follows, according to
failurePolicy: a restart that counts, one that does not, or none.
"""

import itertools
from collections.abc import Iterator, Sequence

from windlass.convert import job_rules
from windlass.convert.conversion import Draft, Keys, StartCondition
from windlass.convert.job_rules import FailingRule
from windlass.convert.jobset_spec import JobSet, ReplicatedJob, SuccessPolicy
from windlass.k8s import patterns
from windlass.model.base import Json

_RESTART_JOB_SET = "RestartJobSet"
_TYPES: dict[str, tuple[str, ...]] = {
    _RESTART_JOB_SET: (),
    "RestartJobSetAndIgnoreMaxRestarts": ("Transient",),
    "FailJobSet": ("Permanent",),
}
"""Attributes of the failure by action of failurePolicy. The Framework is not retried after a permanent failure, and
does not count the retry after a transient one."""

_READY, _COMPLETE = "Ready", "Complete"
_CONDITIONS = {_READY: "Ready", _COMPLETE: "Succeeded"}


# Start order


def put_start_order(draft: Draft, jobset: JobSet) -> None:
    policy, keys = jobset.spec.startup_policy, ("spec", "startupPolicy", "startupPolicyOrder")
    if policy is not None and policy.startup_policy_order not in ("AnyOrder", "InOrder"):
        draft.refuse(keys, f"found {policy.startup_policy_order}, expected AnyOrder or InOrder")
    names = list(dict.fromkeys(each.name for each in jobset.jobs))
    following = dict(itertools.pairwise(reversed(names))) if jobset.is_in_order else {}
    for each in jobset.jobs:
        conditions: list[StartCondition] = []
        if each.name in following:
            conditions += _conditions(jobset.named(following[each.name]), _READY, keys)
        for at, dependency in enumerate(each.spec.depends_on or ()):
            below: Keys = (*each.keys, "dependsOn", at)
            if dependency.name not in names[: names.index(each.name)]:
                draft.refuse((*below, "name"), f"{dependency.name} is not an earlier replicated job")
            elif dependency.status not in _CONDITIONS:
                draft.refuse((*below, "status"), f"found {dependency.status}, expected Complete or Ready")
            elif jobset.is_in_order:
                draft.refuse(below, "startupPolicy InOrder already sets the order: remove one of them")
            elif dependency.status == _COMPLETE and jobset.named(dependency.name)[0].job.success_rules:
                draft.refuse(
                    below,
                    f"{dependency.name} has a successPolicy, so its Jobs are complete before all of their pods are: "
                    "depend on Ready",
                )
            else:
                conditions += _conditions(jobset.named(dependency.name), dependency.status, below)
        draft.start_after(each.role, conditions)


def _conditions(previous: Sequence[ReplicatedJob], status: str, keys: Keys) -> list[StartCondition]:
    """Return the conditions of a role that waits for all Jobs of a replicated job. A Job is ready when as many pods as
    may run at a time are ready or have succeeded."""
    is_limited = status == _READY and previous[0].job.limits_pods
    count = previous[0].job.parallelism if is_limited else None
    return [(other.role, _CONDITIONS[status], count, keys) for other in previous]


# Failure, success, lifetime


def put_policies(draft: Draft, jobset: JobSet) -> None:
    spec, policy = jobset.spec, jobset.spec.failure_policy
    _check_failure_policy(draft, jobset)
    comment = "restarts of all pods: failurePolicy.maxRestarts"
    restarts = policy.max_restarts if policy is not None else 0
    draft.put(("retry",), {"job": restarts, "transient": 0}, ("spec", "failurePolicy"), comment)
    if policy is not None:
        # Failures that are not counted are those of the action …AndIgnoreMaxRestarts, without a limit.
        fields = {"maxTransientRetryCount": None, "retryBackoff": None}
        draft.framework({"retryPolicy": fields}, ("spec", "failurePolicy"))
    rules = [*_failing_rules(draft, jobset), *_succeeding_rules(draft, jobset)]
    if rules:
        draft.framework({"completionPolicies": rules})
    if spec.ttl_seconds_after_finished is not None:
        draft.put(("ttl",), spec.ttl_seconds_after_finished, ("spec", "ttlSecondsAfterFinished"))
    if spec.suspend:
        draft.framework({"suspend": True})


def _check_failure_policy(draft: Draft, jobset: JobSet) -> None:
    policy, keys = jobset.spec.failure_policy, ("spec", "failurePolicy")
    if policy is None:
        return
    strategy = policy.restart_strategy
    if strategy == "InPlaceRestart":
        draft.refuse(
            (*keys, "restartStrategy"),
            "requires a feature gate of JobSet that is off by default, and an agent in the pods: use BlockingRecreate",
        )
    elif strategy not in (None, "Recreate", "BlockingRecreate"):
        draft.refuse((*keys, "restartStrategy"), f"found {strategy}, expected BlockingRecreate or Recreate")
    elif strategy == "Recreate":
        draft.note((*keys, "restartStrategy"), "the pods restart when all previous ones have ended")
    for at, rule in enumerate(jobset.failure_rules):
        below: Keys = (*keys, "rules", at)
        if rule.action in ("RestartJob", "RestartJobAndIgnoreMaxRestarts"):
            draft.refuse(
                (*below, "action"),
                "requires a feature gate of JobSet that is off by default: use RestartJobSet, or backoffLimit of the "
                "Jobs to replace single pods",
            )
        elif rule.action not in _TYPES:
            draft.refuse((*below, "action"), f"found {rule.action}, expected {', '.join(sorted(_TYPES))}")
        for number, reason in enumerate(rule.on_job_failure_reasons or ()):
            if reason not in (*job_rules.REASONS, job_rules.DEADLINE_EXCEEDED):
                draft.refuse(
                    (*below, "onJobFailureReasons", number), f"{reason} is not a reason of a failed Job"
                )
        _check_targets(draft, jobset, rule.target_replicated_jobs, (*below, "targetReplicatedJobs"))


def _check_targets(draft: Draft, jobset: JobSet, targets: Sequence[str] | None, keys: Keys) -> None:
    for at, target in enumerate(targets or ()):
        if not jobset.named(target):
            draft.refuse((*keys, at), f"no replicated job is named {target}")


def _failing_rules(draft: Draft, jobset: JobSet) -> list[Json]:
    """Return the rules of all Jobs: by reason, as a Job has one only, then in the order of failurePolicy."""
    found: list[tuple[int, int, Json]] = []
    for each in jobset.jobs:
        for failing in job_rules.failing_rules(each.job):
            at, action = _action(draft, jobset, each, failing)
            for name, selected in _selections(each, failing.rule):
                rule = {**failing.rule, **selected, "name": f"{name}: {failing.rule['name']}"}
                if jobset.spec.failure_policy is not None:
                    rule["type"] = {"attributes": list(_TYPES.get(action, ()))}
                found.append((job_rules.REASONS.index(failing.reason), at, rule))
    return [rule for _, _, rule in sorted(found, key=lambda item: item[:2])]


def _selections(each: ReplicatedJob, rule: Json) -> Iterator[tuple[str, Json]]:
    """Yield what a rule is about: each Job, or all of them at once if the first failure in any of them meets it."""
    limits = ("minFailedAttemptCount", "minContainerRestartCount", "minFailedTaskCount")
    if not rule.get("afterAll") and any(rule.get(limit) == 1 for limit in limits):
        yield each.name, {"taskRoles": [each.role]}
    else:
        yield from each.selections()


def _action(draft: Draft, jobset: JobSet, each: ReplicatedJob, failing: FailingRule) -> tuple[int, str]:
    """Return the first rule of failurePolicy for a failed Job: its index and its action."""
    for at, rule in enumerate(jobset.failure_rules):
        targets, reasons = rule.target_replicated_jobs, rule.on_job_failure_reasons
        if (targets and each.name not in targets) or (reasons and failing.reason not in reasons):
            continue
        expressions = rule.on_job_failure_message_patterns
        keys: Keys = ("spec", "failurePolicy", "rules", at, "onJobFailureMessagePatterns")
        if not expressions or _matches(draft, keys, expressions, failing):
            return at, rule.action
    return len(jobset.failure_rules), _RESTART_JOB_SET


def _matches(draft: Draft, keys: Keys, expressions: Sequence[str], failing: FailingRule) -> bool:
    """Return whether an expression matches the message of the failed Job. Refuse it if this depends on the pod."""
    searches = []
    for at, expression in enumerate(expressions):
        try:
            searches.append(patterns.compile_search(expression))
        except patterns.PatternError as error:
            draft.refuse((*keys, at), str(error))
    messages = [
        message.replace(job_rules.POD, pod)
        for message in failing.messages
        for pod in ("default/first-0-0-abcde", "other/second-1-1-fghij")
    ]
    results = {any(search(message) is not None for search in searches) for message in messages}
    if len(results) > 1:
        draft.refuse(
            keys,
            "matches only some failures of a podFailurePolicy rule: use a rule per exit code, and a pattern without "
            "the name of a pod",
        )
    return any(results)


def _succeeding_rules(draft: Draft, jobset: JobSet) -> list[Json]:
    policy, keys = jobset.spec.success_policy or SuccessPolicy(), ("spec", "successPolicy")
    _check_targets(draft, jobset, policy.target_replicated_jobs, (*keys, "targetReplicatedJobs"))
    if policy.operator not in ("All", "Any"):
        draft.refuse((*keys, "operator"), f"found {policy.operator}, expected All or Any")
    names = policy.target_replicated_jobs
    targets = [each for each in jobset.jobs if not names or each.name in names]
    is_one_enough = policy.operator == "Any" or sum(each.replicas for each in targets) == 1
    for each in jobset.jobs:
        if each.job.success_rules and not (is_one_enough and each in targets):
            draft.refuse(
                (*each.job.keys, "successPolicy"),
                "converted only if the success of a single Job of this replicated job is that of the JobSet: remove "
                "it, or name this replicated job in the successPolicy of the JobSet with the operator Any",
            )
    if is_one_enough:
        return [rule for each in targets for rule in _rules_of_one(each)]
    if len(targets) == len(jobset.jobs):
        return []
    return [{"name": "successPolicy", "taskRoles": [each.role for each in targets], "allSucceeded": True}]


def _rules_of_one(each: ReplicatedJob) -> Iterator[Json]:
    """Yield the rules by which a single Job of a replicated job completes."""
    for replica, (name, selected) in enumerate(each.selections()):
        for rule in job_rules.succeeding_rules(each.job):
            own = {**selected, **rule, "name": f"{name}: {rule['name']}"}
            if "taskIndexes" in rule:
                own["taskIndexes"] = _shifted(rule["taskIndexes"], replica * each.job.tasks)
            yield own
        yield {**selected, "name": f"{name} is complete", "allSucceeded": True}


def _shifted(indexes: str, offset: int) -> str:
    """Add an offset to indexes such as `0-3,7`."""
    parts = [[int(end) + offset for end in part.split("-")] for part in indexes.split(",")]
    return ",".join("-".join(map(str, part)) for part in parts)
