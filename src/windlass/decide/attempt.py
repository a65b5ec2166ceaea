"""One step per Framework state. Each says whether the next state's step follows in the same decision.

A step either moves the Framework to another state or asks for actions, never both: what a state asks for is decided
on the status that is going to be stored.
"""

import msgspec

from windlass.decide import (
    completion,
    deadlines,
    deletion,
    gangs,
    initial_status,
    ownership,
    retry,
    suspend,
    tasks,
)
from windlass.decide.builder import Draft
from windlass.decide.ownership import Sight
from windlass.decide.types import Action, CreateConfigMap, CreateService, DeleteFramework, ReasonKind
from windlass.model import names
from windlass.model.completion import (
    CompletionCode,
    FrameworkAttemptCompletionStatus,
    framework_completion,
)
from windlass.model.framework import CompletedPods, ExecutionType
from windlass.model.pods import ConfigMapView
from windlass.model.states import State
from windlass.model.status import ConditionType


def while_creation_is_pending(draft: Draft) -> bool:
    config_map = draft.observed.config_map
    attempt = draft.status.attempt_status
    if config_map is not None and ownership.is_config_map_of_attempt(config_map, draft.framework, attempt.id):
        _associate(draft, config_map.uid)
        return True
    if suspend.is_held(draft.spec):
        suspend.hold(draft)
    else:
        suspend.release(draft)
    ended = _stop(draft) or deadlines.active_deadline(draft)
    if ended is not None:
        _end(draft, ended, State.ATTEMPT_COMPLETED)
        return True
    tasks.over_active_attempt(draft)
    if config_map is not None:
        _await_name(draft, config_map)
        return False
    deletion.delete_strays(draft, claimed=set())
    if suspend.is_held(draft.spec):
        return False
    outcomes = draft.observed.outcomes
    if outcomes.name_taken:
        _explain_name_taken(draft, outcomes.name_taken)
    if draft.features.uses_dns_names and outcomes.service_of_attempt != attempt.id:
        _create(draft, CreateService(), names.service_name(draft.framework.name))
    else:
        _create(draft, CreateConfigMap(), attempt.config_map_name)
    return False


def _create(draft: Draft, creation: Action, name: str) -> None:
    """Unless it has been turned down for now."""
    postponed = draft.observed.outcomes.postponed.get(name)
    if postponed is None or draft.is_past(postponed):
        draft.act(creation)


def _associate(draft: Draft, config_map_uid: str) -> None:
    attempt_id = draft.status.attempt_status.id
    suspend.release(draft)
    draft.with_attempt(
        config_map_uid=config_map_uid, instance_uid=names.instance_uid(attempt_id, config_map_uid)
    )
    draft.move(State.ATTEMPT_CREATION_REQUESTED)
    draft.explain(ReasonKind.ATTEMPT_STARTED, f"Attempt {attempt_id} has started")


def _await_name(draft: Draft, config_map: ConfigMapView) -> None:
    """The ConfigMap's name is in use: by an earlier attempt of ours, which goes, or by somebody else."""
    if ownership.is_our_config_map(config_map, draft.uids):
        deletion.remove_attempt(draft, config_map.uid, deletion.unless_going(config_map))
        return
    owner = config_map.controller
    whose = "nobody's" if owner is None else f"{owner.kind} {owner.name} ({owner.api_version})'s"
    _explain_name_taken(draft, f"ConfigMap {config_map.name} exists and is {whose}")


def _explain_name_taken(draft: Draft, message: str) -> None:
    draft.name_taken = message
    condition = draft.status.condition(ConditionType.NAME_TAKEN)
    if condition is None or not condition.is_true:
        draft.explain(ReasonKind.NAME_TAKEN, message, is_warning=True)


def while_creation_is_requested(draft: Draft) -> bool:
    config_map = draft.observed.config_map
    timeout = draft.rules.cache_creation_timeout_sec
    match _sight_of_config_map(draft):
        case Sight.UNKNOWN:
            draft.look()
            return False
        case Sight.GONE:
            _end(draft, _external_deletion(draft), State.ATTEMPT_DELETING)
            return True
        case Sight.UNSHOWN:
            if not draft.is_due(draft.status.transition_time, timeout):
                return False
            diagnostics = f"The ConfigMap was created and did not show in the watch within {timeout} s"
            code = CompletionCode.CONFIG_MAP_LOCAL_CACHE_CREATION_TIMEOUT
            _end(draft, framework_completion(code, diagnostics), State.ATTEMPT_DELETION_PENDING)
            return True
        case Sight.PRESENT:
            if config_map is not None and config_map.is_deleting:
                _end(draft, _external_deletion(draft), State.ATTEMPT_DELETING)
            else:
                draft.move(State.ATTEMPT_PREPARING)
            return True


def while_active(draft: Draft) -> bool:
    """Preparing and Running."""
    config_map = draft.observed.config_map
    sight = _sight_of_config_map(draft)
    if sight is Sight.UNKNOWN:
        draft.look()
        return False
    if sight is Sight.GONE or (config_map is not None and config_map.is_deleting):
        _end(draft, _external_deletion(draft), State.ATTEMPT_DELETING)
        return True
    tasks.over_active_attempt(draft)
    censuses = draft.censuses()
    is_any_running = any(census.running for census in censuses)
    if is_any_running and draft.status.state is State.ATTEMPT_PREPARING:
        draft.move(State.ATTEMPT_RUNNING)
    if suspend.is_suspended(draft.spec):
        # The time that its pods take to go belongs to the suspension.
        suspend.hold(draft)
    ended = (
        _stop(draft)
        or completion.evaluate(draft.spec, censuses)
        or suspend.suspension(draft.spec)
        or deadlines.active_deadline(draft)
        or deadlines.pending_deadline(draft)
    )
    if ended is not None:
        _end(draft, ended, State.ATTEMPT_DELETION_PENDING)
        return True
    tasks.act_on_pods(draft)
    gangs.publish(draft)
    return False


def _stop(draft: Draft) -> FrameworkAttemptCompletionStatus | None:
    if draft.spec.execution_type is not ExecutionType.STOP:
        return None
    return framework_completion(CompletionCode.STOP_FRAMEWORK_REQUESTED, "spec.executionType is Stop")


def _external_deletion(draft: Draft) -> FrameworkAttemptCompletionStatus:
    name = draft.status.attempt_status.config_map_name
    return framework_completion(
        CompletionCode.CONFIG_MAP_EXTERNAL_DELETED,
        f"ConfigMap {name} was deleted by somebody else than the controller",
    )


def _end(draft: Draft, ended: FrameworkAttemptCompletionStatus, state: State) -> None:
    """How the attempt ended is decided, for good."""
    tasks.over_ending_attempt(draft)
    draft.with_attempt(completion_status=ended)
    draft.move(state)
    draft.explain(
        ReasonKind.ATTEMPT_ENDING,
        f"Attempt {draft.status.attempt_status.id} ends with {ended.phrase} ({ended.code}): {ended.diagnostics}",
        is_warning=ended.type.is_failed,
    )


def while_ending(draft: Draft) -> bool:
    """DeletionPending, DeletionRequested and Deleting."""
    tasks.over_ending_attempt(draft)
    attempt = draft.status.attempt_status
    config_map_uid = attempt.config_map_uid or ""
    sight = _sight_of_config_map(draft)
    if sight is Sight.UNKNOWN:
        draft.look()
        return False
    config_map = None if sight is Sight.GONE else draft.observed.config_map
    _follow_config_map(draft, config_map)
    are_tasks_completed = tasks.are_all_completed(draft)
    if sight is Sight.UNSHOWN:
        draft.look_if_still_unshown(draft.status.transition_time)
    is_there = sight is Sight.PRESENT and config_map is not None and not config_map.is_deleting
    if is_there and _is_kept(draft):
        ended = _pods_of_completed_tasks(draft)
        live = [
            pod
            for pod in draft.observed.pods.values()
            if pod.uid not in ended and not pod.is_terminal and ownership.is_our_pod(pod, draft.uids)
        ]
        for pod in live:
            deletion.delete_pod(draft, pod)
        is_over = are_tasks_completed and not live
    else:
        is_over = (
            sight is Sight.GONE
            and are_tasks_completed
            and not deletion.pods_of_attempt(draft.observed, config_map_uid)
        )
        if not is_over:
            # Until the status knows no pod either, the ConfigMap stays.
            removable = deletion.unless_going(config_map) if are_tasks_completed else None
            deletion.remove_attempt(draft, config_map_uid, removable)
    if is_over:
        draft.actions.clear()
        draft.move(State.ATTEMPT_COMPLETED)
    return is_over


def _follow_config_map(draft: Draft, config_map: ConfigMapView | None) -> None:
    if config_map is None:
        return
    if config_map.is_deleting and draft.status.state is not State.ATTEMPT_DELETING:
        draft.move(State.ATTEMPT_DELETING)
    is_requested = config_map.uid in draft.observed.outcomes.deletion_requested
    if is_requested and draft.status.state is State.ATTEMPT_DELETION_PENDING:
        draft.move(State.ATTEMPT_DELETION_REQUESTED)


def _pods_of_completed_tasks(draft: Draft) -> set[str]:
    """They have ended, even if the watch is behind and still shows one of them running."""
    return {
        uid
        for role in draft.status.attempt_status.roles
        for task in role.task_statuses
        if task.is_completed and (uid := task.attempt_status.pod_uid) is not None
    }


def _is_kept(draft: Draft) -> bool:
    """Only the last attempt's pods are kept: a retry needs their names."""
    is_wanted = draft.spec.completed_pods is CompletedPods.KEEP
    return is_wanted and not _retry_decision(draft).retries


def _retry_decision(draft: Draft) -> retry.RetryDecision:
    ended = draft.status.attempt_status.completion_status
    if ended is None:
        return retry.RetryDecision(retries=False, reason="how it ended was never written down")
    history = retry.RetryHistory(
        uid=draft.framework.uid,
        retried=draft.status.retry_policy_status,
        suspended_count=draft.status.holding.suspended_count,
        is_framework=True,
    )
    return retry.decide_retry(draft.spec.retry_policy, history, ended.code, ended.type, draft.rules)


def while_attempt_is_completed(draft: Draft) -> bool:
    decision = _retry_decision(draft)
    retried = draft.status.retry_policy_status
    attempt = draft.status.attempt_status
    if not decision.retries:
        _with_retried(draft, msgspec.structs.replace(retried, retry_delay_sec=None))
        draft.move(State.COMPLETED)
        ended = attempt.completion_status
        how = "" if ended is None else f" with {ended.phrase} ({ended.code})"
        draft.explain(
            ReasonKind.FRAMEWORK_COMPLETED,
            f"The Framework has completed{how}: {decision.reason}",
            is_warning=ended is not None and ended.type.is_failed,
        )
        return True
    if decision.delay_sec > 0 and retried.retry_delay_sec is None:
        retried = msgspec.structs.replace(retried, retry_delay_sec=decision.delay_sec)
        _with_retried(draft, retried)
        message = f"Attempt {attempt.id + 1} starts in {decision.delay_sec} s: {decision.reason}"
        draft.explain(ReasonKind.RETRY_SCHEDULED, message)
    is_cut_short = _stop(draft) is not None or deadlines.active_deadline(draft) is not None
    ended_at = attempt.completion_time or draft.now
    delay = retried.retry_delay_sec
    if delay is not None and not is_cut_short and not draft.is_due(ended_at, delay):
        return False
    _retry(draft, decision)
    return True


def _retry(draft: Draft, decision: retry.RetryDecision) -> None:
    draft.explain_end_of_attempt(
        ReasonKind.FRAMEWORK_RETRIED,
        f"Attempt {draft.status.attempt_status.id} is followed by another: {decision.reason}",
    )
    retried = retry.after_retry(draft.status.retry_policy_status, is_counted=decision.is_counted)
    _with_retried(draft, retried)
    held = draft.status.holding
    draft.status = msgspec.structs.replace(
        draft.status,
        attempt_status=initial_status.attempt(draft.framework, retried.total_retried_count, draft.now),
        holding=msgspec.structs.replace(held, suspended_count=held.suspended_count + decision.is_suspension),
    )
    draft.move(State.ATTEMPT_CREATION_PENDING)


def _with_retried(draft: Draft, retried: object) -> None:
    draft.status = msgspec.structs.replace(draft.status, retry_policy_status=retried)


def after_completion(draft: Draft) -> bool:
    """Nothing may run; what is kept stays until the Framework's time is over."""
    attempt = draft.status.attempt_status
    is_keeping = draft.spec.completed_pods is CompletedPods.KEEP
    claimed = _pods_of_completed_tasks(draft) if is_keeping else set()
    deletion.clear(draft, claimed, kept_config_map_uid=attempt.config_map_uid if is_keeping else None)
    _expire(draft)
    return False


def _expire(draft: Draft) -> None:
    ttl = draft.spec.ttl_seconds_after_finished
    if ttl is None:
        ttl = draft.rules.completed_retain_sec
    ended = draft.status.completion_time or draft.status.transition_time
    is_expired = draft.is_due(ended, ttl)
    if is_expired and not draft.observed.outcomes.is_framework_deletion_requested:
        draft.act(DeleteFramework(draft.framework.uid))
        draft.explain(ReasonKind.FRAMEWORK_EXPIRED, f"It completed {ttl} s ago and is deleted")


def _sight_of_config_map(draft: Draft) -> Sight:
    uid = draft.status.attempt_status.config_map_uid
    if uid is None:
        return Sight.GONE
    return ownership.sight_of(uid, draft.observed.config_map, draft.observed)
