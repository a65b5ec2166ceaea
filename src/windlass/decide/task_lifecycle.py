"""A task follows its pod (statements 10 to 14, 23, 43, 44, A1)."""

from collections.abc import Callable

import msgspec

from windlass.decide import failures, ownership, retry, transitions
from windlass.decide.builder import Draft
from windlass.decide.ownership import Sight
from windlass.decide.types import ReasonKind
from windlass.model import names
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
from windlass.model.status import TaskStatus

Step = Callable[[str, TaskStatus], TaskStatus]


def is_settled(draft: Draft, task: TaskStatus) -> bool:
    """Whether there is nothing new about the task: the common case, so it is found out first and cheaply."""
    if task.state is COMPLETED:
        return True
    if task.state is not RUNNING or task.deletion_pending:
        return False
    attempt = task.attempt_status
    pod = draft.observed.pods.get(attempt.pod_name)
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


def follow(draft: Draft, role: str, task: TaskStatus) -> TaskStatus:
    """The task as its pod shows it."""
    pod = draft.observed.pods.get(task.attempt_status.pod_name)
    if task.state is CREATION_PENDING:
        task = _associate(draft, role, task, pod)
    pod_uid = task.attempt_status.pod_uid
    if pod_uid is None or task.state.is_over:
        return task
    sight = ownership.sight_of(pod_uid, pod, draft.observed)
    if sight is Sight.UNKNOWN:
        draft.look()
        return task
    if sight is Sight.GONE or pod is None:
        return _after_pod_is_gone(draft, role, task)
    if task.state.is_ending:
        task = _while_deleting(draft, role, task, pod)
        if sight is Sight.UNSHOWN:
            draft.look_if_still_unshown(task.transition_time)
        return task
    if sight is Sight.UNSHOWN:
        return _while_unshown(draft, task)
    return _by_phase(draft, role, task, pod)


def _associate(draft: Draft, role: str, task: TaskStatus, pod: PodView | None) -> TaskStatus:
    """A pod that was made for this attempt becomes its pod; a refusal to make one ends it."""
    attempt = task.attempt_status
    config_map_uid = draft.status.attempt_status.config_map_uid
    if pod is not None and ownership.is_pod_of_task_attempt(pod, task, config_map_uid):
        return _with_pod(draft, task, pod.uid)
    outcomes = draft.observed.outcomes
    instance = (task.instance_uid or "", attempt.id)
    created = outcomes.created.get(attempt.pod_name)
    if created is not None and (created.task_uid, created.attempt_id) == instance:
        return _with_pod(draft, task, created.uid)
    rejected = outcomes.rejected.get(attempt.pod_name)
    if rejected is None or (rejected.task_uid, rejected.attempt_id) != instance:
        return task
    completion = failures.classify_creation_failure(rejected.failure)
    if completion is None or _may_exist_unseen(draft, task):
        return task
    return end_attempt(draft, role, task, completion)


def _may_exist_unseen(draft: Draft, task: TaskStatus) -> bool:
    """Whether an earlier creation may have made a pod that does not show. If so, somebody has to look first."""
    has_config_map = draft.status.attempt_status.config_map_uid is not None
    is_uncertain = has_config_map and task.attempt_status.pod_name in draft.observed.outcomes.uncertain
    if is_uncertain:
        draft.look()
    return is_uncertain


def _with_pod(draft: Draft, task: TaskStatus, pod_uid: str) -> TaskStatus:
    attempt = msgspec.structs.replace(
        task.attempt_status,
        pod_uid=pod_uid,
        instance_uid=names.instance_uid(task.attempt_status.id, pod_uid),
    )
    task = msgspec.structs.replace(task, attempt_status=attempt)
    return transitions.moved(task, CREATION_REQUESTED, draft.now)


def _while_unshown(draft: Draft, task: TaskStatus) -> TaskStatus:
    timeout = draft.rules.cache_creation_timeout_sec
    if task.state is CREATION_REQUESTED and draft.is_due(task.transition_time, timeout):
        diagnostics = f"The pod was created and did not show in the watch within {timeout} s"
        return doom(draft, task, CompletionCode.POD_LOCAL_CACHE_CREATION_TIMEOUT, diagnostics)
    return task


def _while_deleting(draft: Draft, role: str, task: TaskStatus, pod: PodView) -> TaskStatus:
    if pod.is_terminal and not pod.is_deleting:
        # It has ended before anybody could delete it: nothing of it runs, and it may be one that is kept.
        return end_attempt(draft, role, task, draft.rules.classifier.classify(pod))
    if pod.is_deleting and task.state is not DELETING:
        return transitions.moved(task, DELETING, draft.now)
    is_requested = pod.uid in draft.observed.outcomes.deletion_requested
    if is_requested and task.state is DELETION_PENDING:
        return transitions.moved(task, DELETION_REQUESTED, draft.now)
    return task


def _by_phase(draft: Draft, role: str, task: TaskStatus, pod: PodView) -> TaskStatus:
    if task.state is CREATION_REQUESTED:
        task = transitions.moved(task, PREPARING, draft.now)
    task = _with_addresses(task, pod)
    if pod.is_deleting and not pod.ended_before_its_deletion:
        task = with_completion(task, _external_deletion(pod.name))
        return transitions.moved(task, DELETING, draft.now)
    if pod.is_terminal:
        return end_attempt(draft, role, task, draft.rules.classifier.classify(pod))
    if pod.status.phase == PHASE_RUNNING and task.state is PREPARING:
        return transitions.moved(task, RUNNING, draft.now)
    return task


def _with_addresses(task: TaskStatus, pod: PodView) -> TaskStatus:
    attempt, status = task.attempt_status, pod.status
    node, ip, host_ip = pod.spec.node_name or None, status.pod_ip or None, status.host_ip or None
    if ip == attempt.pod_ip and node == attempt.pod_node_name and host_ip == attempt.pod_host_ip:
        return task
    attempt = msgspec.structs.replace(attempt, pod_node_name=node, pod_ip=ip, pod_host_ip=host_ip)
    return msgspec.structs.replace(task, attempt_status=attempt)


def _after_pod_is_gone(draft: Draft, role: str, task: TaskStatus) -> TaskStatus:
    return end_attempt(draft, role, task, _external_deletion(task.attempt_status.pod_name))


def _external_deletion(pod_name: str) -> TaskAttemptCompletionStatus:
    return task_completion(
        CompletionCode.POD_EXTERNAL_DELETED,
        f"Pod {pod_name} was deleted by somebody else than the controller",
    )


def with_completion(task: TaskStatus, completion: TaskAttemptCompletionStatus) -> TaskStatus:
    """Never changes once set."""
    if task.attempt_status.completion_status is not None:
        return task
    attempt = msgspec.structs.replace(task.attempt_status, completion_status=completion)
    return msgspec.structs.replace(task, attempt_status=attempt)


def end_attempt(
    draft: Draft, role: str, task: TaskStatus, completion: TaskAttemptCompletionStatus
) -> TaskStatus:
    """Nothing of the attempt runs any more. A completion that was decided earlier stays."""
    is_news = task.attempt_status.completion_status is None
    if is_news:
        completion = draft.trimmed(completion)
        task = with_completion(task, completion)
        if completion.type.is_failed and not task.deletion_pending:
            draft.explain_failure(role, task, completion)
    return transitions.moved(task, ATTEMPT_COMPLETED, draft.now)


def follow_to_the_end(
    draft: Draft, role: str, task: TaskStatus, code: CompletionCode, diagnostics: str
) -> TaskStatus:
    """As far as its pod allows: a pod that is being deleted, or was never made, needs no second look."""
    task = follow(draft, role, task)
    doomed = doom(draft, task, code, diagnostics)
    return doomed if doomed is task else follow(draft, role, doomed)


def doom(draft: Draft, task: TaskStatus, code: CompletionCode, diagnostics: str) -> TaskStatus:
    """The attempt has to end for a reason of ours: how it ended is stored, then its pod is deleted."""
    completion = task_completion(code, diagnostics)
    if task.state is CREATION_PENDING:
        if _may_exist_unseen(draft, task):
            return task
        return transitions.moved(with_completion(task, completion), ATTEMPT_COMPLETED, draft.now)
    if task.state.is_active:
        task = with_completion(task, completion)
        return transitions.moved(task, DELETION_PENDING, draft.now)
    return task


def complete(draft: Draft, task: TaskStatus) -> TaskStatus:
    """No further attempt follows."""
    if task.state is not ATTEMPT_COMPLETED:
        return task
    retried = task.retry_policy_status
    if retried.retry_delay_sec is not None:
        task = msgspec.structs.replace(
            task, retry_policy_status=msgspec.structs.replace(retried, retry_delay_sec=None)
        )
    return transitions.moved(task, COMPLETED, draft.now)


def retry_or_complete(draft: Draft, role: str, task: TaskStatus, policy: RetryPolicySpec) -> TaskStatus:
    completion = task.attempt_status.completion_status
    if task.state is not ATTEMPT_COMPLETED or completion is None:
        return task
    if task.deletion_pending:
        return complete(draft, task)
    retried = task.retry_policy_status
    decision = retry.decide_retry(
        policy,
        retry.RetryHistory(uid=task.instance_uid or draft.framework.uid, retried=retried),
        completion.code,
        completion.type,
        draft.rules,
    )
    if not decision.retries:
        return complete(draft, task)
    if decision.delay_sec > 0 and retried.retry_delay_sec is None:
        retried = msgspec.structs.replace(retried, retry_delay_sec=decision.delay_sec)
        task = msgspec.structs.replace(task, retry_policy_status=retried)
    ended = task.attempt_status.completion_time or draft.now
    if retried.retry_delay_sec is not None and not draft.is_due(ended, retried.retry_delay_sec):
        return task
    return _retry(draft, role, task, decision)


def _retry(draft: Draft, role: str, task: TaskStatus, decision: retry.RetryDecision) -> TaskStatus:
    ended = task.attempt_status
    code = ended.completion_status.code if ended.completion_status is not None else 0
    draft.explain_end_of_task(
        ReasonKind.TASK_RETRIED,
        f"Task {role}-{task.index} is retried after attempt {ended.id} ended with {code}: {decision.reason}",
        role,
        task,
    )
    retried = retry.after_retry(task.retry_policy_status, is_counted=decision.is_counted)
    task = transitions.moved(task, CREATION_PENDING, draft.now)
    fresh = type(ended)(id=retried.total_retried_count, start_time=draft.now, pod_name=ended.pod_name)
    return msgspec.structs.replace(task, retry_policy_status=retried, attempt_status=fresh)
