"""The steps of a decision: a function for each Framework state, or for several states.

A step returns True if the state has changed so that another step must follow in the same decision. The actions of a
step that returns True are discarded: actions are decided on the status that will be stored.
"""

import msgspec

from windlass.decide import (
    completion,
    completion_rules,
    deadlines,
    deletion,
    history,
    initial_status,
    ownership,
    retry,
    start_order,
    suspend,
    tasks,
)
from windlass.decide.builder import DecisionBuilder
from windlass.decide.ownership import Presence
from windlass.decide.types import (
    Action,
    CreateConfigMap,
    CreateService,
    DeleteFramework,
    PublishGang,
    ReasonKind,
)
from windlass.model import gang, names, verdict
from windlass.model.completion import (
    CompletionCode,
    FrameworkAttemptCompletionStatus,
    framework_completion,
)
from windlass.model.framework import CompletedPods, ExecutionType
from windlass.model.pods import ConfigMapView
from windlass.model.states import State
from windlass.model.status import ConditionType


def while_creation_is_pending(builder: DecisionBuilder) -> bool:
    config_map = builder.observed.config_map
    attempt = builder.status.attempt_status
    if config_map is not None and ownership.is_config_map_of_attempt(
        config_map, builder.framework, attempt.id
    ):
        _start_attempt(builder, config_map.uid)
        return True
    if suspend.is_held(builder.spec):
        suspend.start_hold(builder)
    else:
        suspend.end_hold(builder)
    completion_status = _stop_requested(builder) or deadlines.active_deadline_exceeded(builder)
    if completion_status is not None:
        _end(builder, completion_status, State.ATTEMPT_COMPLETED)
        return True
    tasks.update_tasks(builder)
    if config_map is not None:
        _wait_for_name(builder, config_map)
        return False
    deletion.delete_unclaimed_pods(builder, claimed=set())
    if suspend.is_held(builder.spec):
        return False
    outcomes = builder.observed.outcomes
    if outcomes.name_taken_message:
        _report_name_taken(builder, outcomes.name_taken_message)
    if builder.features.uses_dns_names and outcomes.attempt_with_service != attempt.id:
        _create_unless_postponed(builder, CreateService(), names.service_name(builder.framework.name))
    else:
        _create_unless_postponed(builder, CreateConfigMap(), attempt.config_map_name)
    return False


def _create_unless_postponed(builder: DecisionBuilder, creation: Action, name: str) -> None:
    """Add the action unless the creation is postponed."""
    postponed = builder.observed.outcomes.postponed.get(name)
    if postponed is None or builder.is_past(postponed):
        builder.add_action(creation)


def _start_attempt(builder: DecisionBuilder, config_map_uid: str) -> None:
    attempt_id = builder.status.attempt_status.id
    suspend.end_hold(builder)
    builder.update_attempt(
        config_map_uid=config_map_uid, instance_uid=names.instance_uid(attempt_id, config_map_uid)
    )
    builder.move_to(State.ATTEMPT_CREATION_REQUESTED)
    builder.report(ReasonKind.ATTEMPT_STARTED, verdict.describe_start(builder.spec, builder.status))


def _wait_for_name(builder: DecisionBuilder, config_map: ConfigMapView) -> None:
    """Delete the attempt of the ConfigMap if the ConfigMap is ours; otherwise report that the name is taken."""
    if ownership.is_our_config_map(config_map, builder.uids):
        deletion.delete_attempt(builder, config_map.uid, deletion.unless_deleting(config_map))
        return
    owner = config_map.controller
    owner_text = (
        "has no owner" if owner is None else f"belongs to {owner.kind} {owner.name} ({owner.api_version})"
    )
    message = (
        f"ConfigMap {config_map.name} already exists and {owner_text}. Delete it, or rename the Framework"
    )
    _report_name_taken(builder, message)


def _report_name_taken(builder: DecisionBuilder, message: str) -> None:
    builder.name_taken_message = message
    condition = builder.status.condition(ConditionType.NAME_TAKEN)
    if condition is None or not condition.is_true:
        builder.report(ReasonKind.NAME_TAKEN, message, is_warning=True)


def while_creation_is_requested(builder: DecisionBuilder) -> bool:
    config_map = builder.observed.config_map
    timeout = builder.rules.cache_creation_timeout_sec
    match _config_map_presence(builder):
        case Presence.UNKNOWN:
            builder.relist()
            return False
        case Presence.DELETED:
            _end(builder, _external_deletion(builder), State.ATTEMPT_DELETING)
            return True
        case Presence.UNCONFIRMED:
            if not builder.is_due(builder.status.transition_time, timeout):
                return False
            diagnostics = f"The ConfigMap was created but did not appear in the watch within {timeout} s"
            code = CompletionCode.CONFIG_MAP_LOCAL_CACHE_CREATION_TIMEOUT
            _end(builder, framework_completion(code, diagnostics), State.ATTEMPT_DELETION_PENDING)
            return True
        case Presence.PRESENT:
            if config_map is not None and config_map.is_deleting:
                _end(builder, _external_deletion(builder), State.ATTEMPT_DELETING)
            else:
                builder.move_to(State.ATTEMPT_PREPARING)
            return True


def while_active(builder: DecisionBuilder) -> bool:
    """Handle the states AttemptPreparing and AttemptRunning."""
    config_map = builder.observed.config_map
    presence = _config_map_presence(builder)
    if presence is Presence.UNKNOWN:
        builder.relist()
        return False
    if presence is Presence.DELETED or (config_map is not None and config_map.is_deleting):
        _end(builder, _external_deletion(builder), State.ATTEMPT_DELETING)
        return True
    tasks.update_tasks(builder)
    role_counts = builder.role_counts()
    is_any_running = any(counts.running for counts in role_counts)
    if is_any_running and builder.status.state is State.ATTEMPT_PREPARING:
        builder.move_to(State.ATTEMPT_RUNNING)
    if suspend.is_suspended(builder.spec):
        # The time in which the pods terminate counts as suspended time.
        suspend.start_hold(builder)
    completion_status = (
        _stop_requested(builder)
        or completion_rules.evaluate(
            builder.spec, builder.status.attempt_status.roles, role_counts, builder.observed.pods
        )
        or completion.evaluate(builder.spec, role_counts, builder.observed.pods)
        or start_order.unreachable(tasks.waiting_roles(builder))
        or suspend.suspension(builder.spec)
        or deadlines.active_deadline_exceeded(builder)
        or deadlines.pending_deadline_exceeded(builder)
    )
    if completion_status is not None:
        _end(builder, completion_status, State.ATTEMPT_DELETION_PENDING)
        return True
    tasks.reconcile_pods(builder)
    _publish_gang(builder)
    return False


def _publish_gang(builder: DecisionBuilder) -> None:
    """Publish the addresses once every task has one, and again when pods or addresses have changed, because the
    barriers of new pods wait for them."""
    if not builder.features.uses_gang:
        return
    members = gang.members_of(builder.spec, builder.status.attempt_status)
    if members is None:
        return
    fingerprint = gang.fingerprint(members)
    if fingerprint != builder.observed.outcomes.published_gang:
        builder.add_action(PublishGang(fingerprint))


def _stop_requested(builder: DecisionBuilder) -> FrameworkAttemptCompletionStatus | None:
    if builder.spec.execution_type is not ExecutionType.STOP:
        return None
    return framework_completion(CompletionCode.STOP_FRAMEWORK_REQUESTED, "spec.executionType is Stop")


def _external_deletion(builder: DecisionBuilder) -> FrameworkAttemptCompletionStatus:
    name = builder.status.attempt_status.config_map_name
    return framework_completion(
        CompletionCode.CONFIG_MAP_EXTERNAL_DELETED,
        f"ConfigMap {name} was deleted by another client",
    )


def _end(builder: DecisionBuilder, completion_status: FrameworkAttemptCompletionStatus, state: State) -> None:
    """End the tasks, and set the completion status of the attempt, which never changes afterwards."""
    tasks.end_tasks(builder)
    builder.update_attempt(completion_status=completion_status)
    builder.move_to(state)
    builder.report(
        ReasonKind.ATTEMPT_ENDING,
        f"attempt {verdict.describe_completion(builder.spec, builder.status)}",
        is_warning=completion_status.type.is_failed,
    )


def while_ending(builder: DecisionBuilder) -> bool:
    """Handle the states AttemptDeletionPending, AttemptDeletionRequested and AttemptDeleting."""
    tasks.end_tasks(builder)
    attempt = builder.status.attempt_status
    config_map_uid = attempt.config_map_uid or ""
    presence = _config_map_presence(builder)
    if presence is Presence.UNKNOWN:
        builder.relist()
        return False
    config_map = None if presence is Presence.DELETED else builder.observed.config_map
    _record_config_map_deletion(builder, config_map)
    are_tasks_completed = tasks.are_all_completed(builder)
    if are_tasks_completed and (decision := _retry_decision(builder)).should_retry:
        history.add_missing_record(builder, decision)
    if presence is Presence.UNCONFIRMED:
        builder.relist_if_overdue(builder.status.transition_time)
    exists = presence is Presence.PRESENT and config_map is not None and not config_map.is_deleting
    if exists and _keeps_pods(builder):
        ended_pod_uids = _pods_of_completed_tasks(builder)
        live = [
            pod
            for pod in builder.observed.pods.values()
            if pod.uid not in ended_pod_uids
            and (pod.is_deleting or not pod.is_terminal)
            and ownership.is_our_pod(pod, builder.uids)
        ]
        for pod in live:
            deletion.delete_pod(builder, pod)
        is_over = are_tasks_completed and not live
    else:
        is_over = (
            presence is Presence.DELETED
            and are_tasks_completed
            and not deletion.pods_of_attempt(builder.observed, config_map_uid)
        )
        if not is_over:
            # The ConfigMap is kept until all tasks have completed.
            config_map_to_delete = deletion.unless_deleting(config_map) if are_tasks_completed else None
            deletion.delete_attempt(builder, config_map_uid, config_map_to_delete)
    if is_over and builder.observed.outcomes.uncertain:
        # A pod whose creation request got no response may exist although the watch has not reported it.
        builder.relist()
        return False
    if is_over:
        builder.actions.clear()
        builder.move_to(State.ATTEMPT_COMPLETED)
    return is_over


def while_framework_is_deleted(builder: DecisionBuilder) -> None:
    """End the attempt of a Framework that is deleted in the foreground or has finalizers, and delete its objects."""
    state = builder.status.state
    if state.is_active:
        builder.update_attempt(completion_status=deletion.completion_of_deleted())
    if state.is_active or state.is_ending:
        tasks.end_tasks(builder)
        if state is not State.ATTEMPT_DELETING:
            builder.move_to(State.ATTEMPT_DELETING)
    history.add_record_of_deleted(builder, deletion.completion_of_deleted())
    deletion.delete_objects(builder)


def _record_config_map_deletion(builder: DecisionBuilder, config_map: ConfigMapView | None) -> None:
    if config_map is None:
        return
    if config_map.is_deleting and builder.status.state is not State.ATTEMPT_DELETING:
        builder.move_to(State.ATTEMPT_DELETING)
    is_requested = config_map.uid in builder.observed.outcomes.deletion_requested
    if is_requested and builder.status.state is State.ATTEMPT_DELETION_PENDING:
        builder.move_to(State.ATTEMPT_DELETION_REQUESTED)


def _pods_of_completed_tasks(builder: DecisionBuilder) -> set[str]:
    """Return the UIDs of the pods of completed tasks. Such a pod has ended even if the watch still reports it as
    running."""
    return {
        uid
        for role in builder.status.attempt_status.roles
        for task in role.task_statuses
        if task.is_completed and (uid := task.attempt_status.pod_uid) is not None
    }


def _keeps_pods(builder: DecisionBuilder) -> bool:
    """Return whether the pods are kept: only those of the last attempt are, because a retry needs their names."""
    keeps_pods = builder.spec.completed_pods is CompletedPods.KEEP
    return keeps_pods and not _retry_decision(builder).should_retry


def _retry_decision(builder: DecisionBuilder) -> retry.RetryDecision:
    completion_status = builder.status.attempt_status.completion_status
    if completion_status is None:
        return retry.RetryDecision(should_retry=False, reason="the completion status is missing")
    history = retry.RetryHistory(
        uid=builder.framework.uid,
        retry_status=builder.status.retry_policy_status,
        suspended_count=builder.status.holding.suspended_count,
        is_framework=True,
    )
    return retry.decide_retry(
        builder.spec.retry_policy, history, completion_status.code, completion_status.type, builder.rules
    )


def while_attempt_is_completed(builder: DecisionBuilder) -> bool:
    decision = _retry_decision(builder)
    retry_status = builder.status.retry_policy_status
    attempt = builder.status.attempt_status
    if not decision.should_retry:
        builder.move_to(State.COMPLETED)
        completion_status = attempt.completion_status
        is_failed = completion_status is not None and completion_status.type.is_failed
        message = verdict.describe_completion(builder.spec, builder.status)
        if is_failed and builder.spec.retry_policy.max_retry_count:
            message = f"{message}; not retried: {decision.reason}"
        builder.report(ReasonKind.FRAMEWORK_COMPLETED, message, is_warning=is_failed)
        return True
    if decision.delay_sec > 0 and retry_status.retry_delay_sec is None:
        retry_status = msgspec.structs.replace(retry_status, retry_delay_sec=decision.delay_sec)
        _set_retry_status(builder, retry_status)
        message = verdict.describe_job_retry(
            builder.spec, builder.status, decision.reason, decision.delay_sec
        )
        builder.report(ReasonKind.RETRY_SCHEDULED, message)
    is_record_missing = history.add_missing_record(builder, decision)
    is_delay_skipped = (
        _stop_requested(builder) is not None or deadlines.active_deadline_exceeded(builder) is not None
    )
    ended_at = attempt.completion_time or builder.now
    delay = retry_status.retry_delay_sec
    if delay is not None and not is_delay_skipped and not builder.is_due(ended_at, delay):
        return False
    if is_record_missing:
        # The retry replaces the status that the record is made from.
        return False
    _retry(builder, decision)
    return True


def _retry(builder: DecisionBuilder, decision: retry.RetryDecision) -> None:
    message = verdict.describe_job_retry(builder.spec, builder.status, decision.reason)
    builder.report(ReasonKind.FRAMEWORK_RETRIED, message, status=builder.status)
    retry_status = retry.after_retry(builder.status.retry_policy_status, is_counted=decision.is_counted)
    _set_retry_status(builder, retry_status)
    held = builder.status.holding
    builder.status = msgspec.structs.replace(
        history.without_ended_attempts(builder.status),
        attempt_status=initial_status.attempt(
            builder.framework, retry_status.total_retried_count, builder.now
        ),
        holding=msgspec.structs.replace(held, suspended_count=held.suspended_count + decision.is_suspension),
    )
    builder.move_to(State.ATTEMPT_CREATION_PENDING)


def _set_retry_status(builder: DecisionBuilder, retry_status: object) -> None:
    builder.status = msgspec.structs.replace(builder.status, retry_policy_status=retry_status)


def after_completion(builder: DecisionBuilder) -> bool:
    """Write the record. Delete the pods and the ConfigMap unless they are kept. Delete the Framework when its TTL has
    expired."""
    history.add_missing_record(
        builder, msgspec.structs.replace(_retry_decision(builder), should_retry=False, delay_sec=0)
    )
    attempt = builder.status.attempt_status
    keeps_pods = builder.spec.completed_pods is CompletedPods.KEEP
    claimed = _pods_of_completed_tasks(builder) if keeps_pods else set()
    deletion.delete_objects(
        builder, claimed, kept_config_map_uid=attempt.config_map_uid if keeps_pods else None
    )
    _delete_if_expired(builder)
    return False


def _delete_if_expired(builder: DecisionBuilder) -> None:
    ttl = builder.spec.ttl_seconds_after_finished
    if ttl is None:
        ttl = builder.rules.completed_retain_sec
    ended_at = builder.status.completion_time or builder.status.transition_time
    is_expired = builder.is_due(ended_at, ttl)
    if is_expired and not builder.observed.outcomes.is_framework_deletion_requested:
        builder.add_action(DeleteFramework(builder.framework.uid))
        builder.report(ReasonKind.FRAMEWORK_EXPIRED, f"Deleting the Framework: it completed {ttl} s ago")


def _config_map_presence(builder: DecisionBuilder) -> Presence:
    uid = builder.status.attempt_status.config_map_uid
    if uid is None:
        return Presence.DELETED
    return ownership.presence_of(uid, builder.observed.config_map, builder.observed)
