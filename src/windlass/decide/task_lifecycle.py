"""The status of a task follows its pod (statements 10 to 14, 23, 43, 44, A1)."""

import msgspec

from windlass.decide import failures, history, ownership, retry, role_failures, transitions
from windlass.decide.builder import DecisionBuilder
from windlass.decide.ownership import Presence
from windlass.decide.types import ReasonKind
from windlass.model import names, verdict
from windlass.model.completion import CompletionCode, TaskAttemptCompletionStatus, task_completion
from windlass.model.framework import RetryPolicySpec
from windlass.model.pods import PHASE_RUNNING, PodView
from windlass.model.states import (
    ATTEMPT_COMPLETED,
    COMPLETED,
    CREATION_PENDING,
    CREATION_REQUESTED,
    DELETING,
    DELETION_PENDING,
    DELETION_REQUESTED,
    PREPARING,
    RUNNING,
)
from windlass.model.status import PodTimes, TaskStatus


def is_up_to_date(builder: DecisionBuilder, task: TaskStatus) -> bool:
    """Return whether the task has completed or runs unchanged. These common cases are checked first and cheaply."""
    if task.state is COMPLETED:
        return True
    if task.state is not RUNNING or task.deletion_pending:
        return False
    attempt = task.attempt_status
    pod = builder.observed.pods.get(attempt.pod_name)
    if pod is None:
        return False
    metadata, status = pod.metadata, pod.status
    return (
        metadata.uid == attempt.pod_uid
        and metadata.deletion_timestamp is None
        and status.phase == PHASE_RUNNING
        and status.pod_ip == (attempt.pod_ip or "")
        and status.host_ip == (attempt.pod_host_ip or "")
        and pod.spec.node_name == (attempt.pod_node_name or "")
    )


def update_from_pod(builder: DecisionBuilder, role: str, task: TaskStatus) -> TaskStatus:
    """Return the task, updated from its pod or from the result of creating the pod."""
    pod = builder.observed.pods.get(task.attempt_status.pod_name)
    if task.state is CREATION_PENDING:
        task = _adopt_pod(builder, role, task, pod)
    pod_uid = task.attempt_status.pod_uid
    if pod_uid is None or task.state.is_over:
        return task
    presence = ownership.presence_of(pod_uid, pod, builder.observed)
    if presence is Presence.UNKNOWN:
        builder.relist()
        return task
    if presence is Presence.DELETED or pod is None:
        return end_attempt(builder, role, task, _external_deletion(task.attempt_status.pod_name), pod)
    if task.state.is_ending:
        updated = _with_pod_times(builder, task, _while_deleting(builder, role, task, pod), pod)
        if presence is Presence.UNCONFIRMED:
            builder.relist_if_overdue(updated.transition_time)
        return updated
    if presence is Presence.UNCONFIRMED:
        return _while_unconfirmed(builder, task)
    return _with_pod_times(builder, task, _update_from_phase(builder, role, task, pod), pod)


def _with_pod_times(
    builder: DecisionBuilder, before: TaskStatus, task: TaskStatus, pod: PodView
) -> TaskStatus:
    """Return the task with the times of its pod for the record, if its state has changed and its attempt is ending."""
    is_due = builder.rules.keeps_records and not task.state.is_active and task.state is not before.state
    if not is_due:
        return task
    status = pod.status
    times = PodTimes(
        created=pod.metadata.creation_timestamp,
        scheduled=status.start_time,
        started=pod.started_at,
        ended=pod.finished_at if pod.is_terminal else None,
        deletion_requested=pod.deletion_began,
    )
    attempt = msgspec.structs.replace(task.attempt_status, pod_times=times)
    return msgspec.structs.replace(task, attempt_status=attempt)


def _adopt_pod(builder: DecisionBuilder, role: str, task: TaskStatus, pod: PodView | None) -> TaskStatus:
    """Adopt a pod that was created for this attempt, or end the attempt if the pod was rejected."""
    attempt = task.attempt_status
    config_map_uid = builder.status.attempt_status.config_map_uid
    if pod is not None and ownership.is_pod_of_task_attempt(pod, task, config_map_uid):
        return _with_pod(builder, task, pod.uid)
    outcomes = builder.observed.outcomes
    instance = (task.instance_uid or "", attempt.id)
    created = outcomes.created.get(attempt.pod_name)
    if created is not None and (created.task_uid, created.attempt_id) == instance:
        return _with_pod(builder, task, created.uid)
    rejected = outcomes.rejected.get(attempt.pod_name)
    if rejected is None or (rejected.task_uid, rejected.attempt_id) != instance:
        return task
    completion = failures.classify_creation_failure(rejected.failure)
    if completion is None or _may_have_unseen_pod(builder, task):
        return task
    return end_attempt(builder, role, task, completion)


def _may_have_unseen_pod(builder: DecisionBuilder, task: TaskStatus) -> bool:
    """Return whether the task may have a pod that the cache does not have. If so, list the objects again."""
    has_config_map = builder.status.attempt_status.config_map_uid is not None
    is_uncertain = has_config_map and task.attempt_status.pod_name in builder.observed.outcomes.uncertain
    if is_uncertain:
        builder.relist()
    return is_uncertain


def _with_pod(builder: DecisionBuilder, task: TaskStatus, pod_uid: str) -> TaskStatus:
    attempt = msgspec.structs.replace(
        task.attempt_status,
        pod_uid=pod_uid,
        instance_uid=names.instance_uid(task.attempt_status.id, pod_uid),
    )
    task = msgspec.structs.replace(task, attempt_status=attempt)
    return transitions.with_state(task, CREATION_REQUESTED, builder.now)


def _while_unconfirmed(builder: DecisionBuilder, task: TaskStatus) -> TaskStatus:
    timeout = builder.rules.cache_creation_timeout_sec
    if task.state is CREATION_REQUESTED and builder.is_due(task.transition_time, timeout):
        diagnostics = f"The pod was created but did not appear in the watch within {timeout} s"
        return stop_attempt(builder, task, CompletionCode.POD_LOCAL_CACHE_CREATION_TIMEOUT, diagnostics)
    return task


def _while_deleting(builder: DecisionBuilder, role: str, task: TaskStatus, pod: PodView) -> TaskStatus:
    if pod.is_terminal and not pod.is_deleting:
        # The pod ended before it was deleted: none of its containers runs, and the pod may be kept (A2).
        return end_attempt(builder, role, task, builder.rules.classifier.classify(pod), pod)
    if pod.is_deleting and task.state is not DELETING:
        return transitions.with_state(task, DELETING, builder.now)
    is_requested = pod.uid in builder.observed.outcomes.deletion_requested
    if is_requested and task.state is DELETION_PENDING:
        return transitions.with_state(task, DELETION_REQUESTED, builder.now)
    return task


def _update_from_phase(builder: DecisionBuilder, role: str, task: TaskStatus, pod: PodView) -> TaskStatus:
    if task.state is CREATION_REQUESTED:
        task = transitions.with_state(task, PREPARING, builder.now)
    task = _with_addresses(task, pod)
    if pod.is_deleting and not pod.ended_before_deletion:
        deleted = role_failures.reclassify(builder.spec.role(role), pod, _external_deletion(pod.name))
        task = with_completion(task, deleted)
        return transitions.with_state(task, DELETING, builder.now)
    if pod.is_terminal:
        return end_attempt(builder, role, task, builder.rules.classifier.classify(pod), pod)
    if pod.status.phase == PHASE_RUNNING and task.state is PREPARING:
        return transitions.with_state(task, RUNNING, builder.now)
    return task


def _with_addresses(task: TaskStatus, pod: PodView) -> TaskStatus:
    attempt, status = task.attempt_status, pod.status
    node, ip, host_ip = pod.spec.node_name or None, status.pod_ip or None, status.host_ip or None
    if ip == attempt.pod_ip and node == attempt.pod_node_name and host_ip == attempt.pod_host_ip:
        return task
    attempt = msgspec.structs.replace(attempt, pod_node_name=node, pod_ip=ip, pod_host_ip=host_ip)
    return msgspec.structs.replace(task, attempt_status=attempt)


def _external_deletion(pod_name: str) -> TaskAttemptCompletionStatus:
    return task_completion(
        CompletionCode.POD_EXTERNAL_DELETED,
        f"Pod {pod_name} was deleted by another client",
    )


def with_completion(task: TaskStatus, completion: TaskAttemptCompletionStatus) -> TaskStatus:
    """Set the completion status unless the attempt has one."""
    if task.attempt_status.completion_status is not None:
        return task
    attempt = msgspec.structs.replace(task.attempt_status, completion_status=completion)
    return msgspec.structs.replace(task, attempt_status=attempt)


def end_attempt(
    builder: DecisionBuilder,
    role: str,
    task: TaskStatus,
    completion: TaskAttemptCompletionStatus,
    pod: PodView | None = None,
) -> TaskStatus:
    """Complete the attempt, none of whose containers runs. A completion status that was set earlier is kept."""
    is_first_completion = task.attempt_status.completion_status is None
    if is_first_completion:
        completion = role_failures.reclassify(builder.spec.role(role), pod, completion)
        completion = builder.limit_messages(completion)
        task = with_completion(task, completion)
        if completion.type.is_failed and not task.deletion_pending:
            builder.report_failure(role, task, completion)
    return transitions.with_state(task, ATTEMPT_COMPLETED, builder.now)


def end_task(
    builder: DecisionBuilder, role: str, task: TaskStatus, code: CompletionCode, diagnostics: str
) -> TaskStatus:
    """Update the task from its pod and stop its attempt. Then update it again, which saves a reconciliation if, e.g.,
    the deletion of the pod was already requested."""
    task = update_from_pod(builder, role, task)
    stopped = stop_attempt(builder, task, code, diagnostics)
    return stopped if stopped is task else update_from_pod(builder, role, stopped)


def stop_attempt(
    builder: DecisionBuilder, task: TaskStatus, code: CompletionCode, diagnostics: str
) -> TaskStatus:
    """End the attempt by a decision of the controller: the completion status is stored, then the pod, if any, is
    deleted."""
    completion = task_completion(code, diagnostics)
    if task.state is CREATION_PENDING:
        if _may_have_unseen_pod(builder, task):
            return task
        return transitions.with_state(with_completion(task, completion), ATTEMPT_COMPLETED, builder.now)
    if task.state.is_active:
        stopped = transitions.with_state(with_completion(task, completion), DELETION_PENDING, builder.now)
        pod = builder.observed.pods.get(task.attempt_status.pod_name)
        is_own = pod is not None and pod.uid == task.attempt_status.pod_uid
        return _with_pod_times(builder, task, stopped, pod) if pod is not None and is_own else stopped
    return task


def complete(builder: DecisionBuilder, task: TaskStatus) -> TaskStatus:
    """Complete the task without a retry, if its attempt has completed."""
    if task.state is not ATTEMPT_COMPLETED:
        return task
    retry_status = task.retry_policy_status
    if retry_status.retry_delay_sec is not None:
        task = msgspec.structs.replace(
            task, retry_policy_status=msgspec.structs.replace(retry_status, retry_delay_sec=None)
        )
    return transitions.with_state(task, COMPLETED, builder.now)


def retry_or_complete(
    builder: DecisionBuilder, role: str, task: TaskStatus, policy: RetryPolicySpec, *, may_retry: bool = True
) -> TaskStatus:
    """Retry or complete a task whose attempt has completed. Without `may_retry`, a task that would be retried is left
    as it is."""
    completion = task.attempt_status.completion_status
    if task.state is not ATTEMPT_COMPLETED or completion is None:
        return task
    if task.deletion_pending:
        return complete(builder, task)
    retry_status = task.retry_policy_status
    decision = retry.decide_retry(
        policy,
        retry.RetryHistory(uid=task.instance_uid or builder.framework.uid, retry_status=retry_status),
        completion.code,
        completion.type,
        builder.rules,
    )
    if not decision.should_retry:
        return complete(builder, task)
    if not may_retry:
        return task
    if decision.delay_sec > 0 and retry_status.retry_delay_sec is None:
        retry_status = msgspec.structs.replace(retry_status, retry_delay_sec=decision.delay_sec)
        task = msgspec.structs.replace(task, retry_policy_status=retry_status)
        message = _retry_message(role, task, decision.reason, decision.delay_sec)
        builder.report(ReasonKind.RETRY_SCHEDULED, message, role, task.index)
    ended_at = task.attempt_status.completion_time or builder.now
    if retry_status.retry_delay_sec is not None and not builder.is_due(
        ended_at, retry_status.retry_delay_sec
    ):
        return task
    return _retry(builder, role, task, decision)


def _retry_message(role: str, task: TaskStatus, reason: str, delay_sec: int = 0) -> str:
    completion, cause = task.attempt_status.completion_status, "it succeeded"
    if completion is not None and completion.type.is_failed:
        cause = verdict.describe_task_failure("it", task.attempt_status, completion)
    name = names.host_name(role, task.index)
    return verdict.describe_retry(name, task.retry_policy_status, reason, cause, delay_sec)


def _retry(
    builder: DecisionBuilder, role: str, task: TaskStatus, decision: retry.RetryDecision
) -> TaskStatus:
    attempt = task.attempt_status
    message = _retry_message(role, task, decision.reason)
    builder.report(ReasonKind.TASK_RETRIED, message, role, task.index, task=task)
    if builder.rules.keeps_records:
        builder.status = history.with_ended_attempt(builder.status, role, task, history.outcome_of(decision))
    retry_status = retry.after_retry(task.retry_policy_status, is_counted=decision.is_counted)
    task = transitions.with_state(task, CREATION_PENDING, builder.now)
    next_attempt = type(attempt)(
        id=retry_status.total_retried_count, start_time=builder.now, pod_name=attempt.pod_name
    )
    return msgspec.structs.replace(task, retry_policy_status=retry_status, attempt_status=next_attempt)
