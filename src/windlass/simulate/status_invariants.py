"""Invariants of stored statuses: they match the events of the simulation and the spec.

The checks do not use the code that they verify. Below, a rule is a minFailedTaskCount or minSucceededTaskCount of a
role, and the numbered statements are in docs/behaviours.md.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from windlass.model.completion import (
    CompletionCode,
    CompletionTrigger,
    FrameworkAttemptCompletionStatus,
    TaskAttemptCompletionStatus,
)
from windlass.model.framework import (
    ALWAYS_RETRY,
    RETRY_IF_FAILED,
    ExecutionType,
    Framework,
    RetryPolicySpec,
    TaskRoleSpec,
)
from windlass.model.gang import GangSpec
from windlass.model.pods import PodView
from windlass.model.states import State
from windlass.model.status import FrameworkStatus, RetryPolicyStatus, TaskRoleStatus, TaskStatus
from windlass.simulate.api_server import ApiServer
from windlass.simulate.invariants import Violation, require
from windlass.simulate.kubelets import Kubelets
from windlass.simulate.scenario import Occurrence

SLACK = timedelta(seconds=5)
"""Maximum time between a decision of the controller and the write of the status that contains it."""
_CompletionOrder = tuple[datetime, datetime, int, int]
"""When the controller saw the task completed, when its pod finished, the position of its role, and its index."""
MetRule = tuple[_CompletionOrder, str, list[TaskStatus]]
"""The completion order of the task that met a rule, the name of its role, and the tasks that the rule counts."""
NEVER_RETRIED = {-210, -220, -230, -250}


class StatusInvariants:
    def __init__(self, server: ApiServer, kubelets: Kubelets) -> None:
        self._server = server
        self._kubelets = kubelets
        self._pods: dict[str, PodView] = {}
        """Pods as they were created, by UID."""
        self._stored_addresses: set[tuple[str, str]] = set()
        """UIDs and addresses of pods that were stored in a status."""
        server.on_gang_published.append(self._check_published_addresses)
        server.on_pod_created.append(self._record_pod)
        server.on_status_stored.append(self._check)

    def _record_pod(self, pod: PodView) -> None:
        self._pods[pod.uid] = pod

    def _check(self, framework: Framework, new: FrameworkStatus) -> None:
        old = framework.status
        for role in new.attempt_status.roles:
            for task in role.task_statuses:
                self._check_identity(framework, new, role, task)
                if task.attempt_status.completion_status is not None and not _was_attempt_completed(
                    old, task
                ):
                    self._check_task_completion(framework, role, task)
        has_just_ended = new.attempt_status.completion_status is not None and (
            old is None
            or old.attempt_status.id != new.attempt_status.id
            or old.attempt_status.completion_status is None
        )
        if has_just_ended:
            self._check_completion(framework, new)
        if new.state is not State.COMPLETED or framework.is_deleting:
            _check_timeouts(framework, new)
        if new.state in (State.ATTEMPT_PREPARING, State.ATTEMPT_RUNNING):
            _check_matches_spec(framework, new, self._server.now - self._server.clock_tolerance)
        if old is None or old.state is not State.COMPLETED:
            _check_no_retry_left(framework, old, new)
        _check_delay(framework, old, new, self._server.now + self._server.clock_tolerance)
        if old is not None and old.attempt_status.id != new.attempt_status.id:
            self._record_retry(framework.spec.retry_policy, old.attempt_status.completion_status)

    def _record_retry(
        self, policy: RetryPolicySpec, completion: FrameworkAttemptCompletionStatus | None
    ) -> None:
        is_failed = completion is not None and completion.type.is_failed
        if policy.max_retry_count == ALWAYS_RETRY and not is_failed:
            self._server.occurred.add(Occurrence.RETRY_AFTER_SUCCESS)
        if policy.max_retry_count == RETRY_IF_FAILED and is_failed:
            self._server.occurred.add(Occurrence.UNLIMITED_RETRY)

    def _check_identity(
        self, framework: Framework, new: FrameworkStatus, role: TaskRoleStatus, task: TaskStatus
    ) -> None:
        """Require that the pod of a task was created for this attempt of the task. Record its address."""
        uid = task.attempt_status.pod_uid
        if uid is None:
            return
        if task.attempt_status.pod_ip:
            self._stored_addresses.add((uid, task.attempt_status.pod_ip))
        pod = self._pods.get(uid)
        require(pod is not None, f"{role.name}-{task.index} has a pod that was never created: {uid}")
        if pod is not None:
            owner = pod.metadata.annotations
            require(
                (
                    owner.framework_uid,
                    owner.config_map_uid,
                    owner.task_uid,
                    owner.task_attempt_id,
                )
                == (
                    framework.uid,
                    new.attempt_status.config_map_uid,
                    task.instance_uid,
                    str(task.attempt_status.id),
                ),
                f"{role.name}-{task.index} has adopted {uid}, which was created for {owner}",
            )

    def _check_published_addresses(self, gang: GangSpec) -> None:
        """Require that published addresses were stored in a status before."""
        for role in gang.roles:
            for member in role.members:
                is_stored = (member.pod_uid, member.ip) in self._stored_addresses
                require(
                    is_stored,
                    f"{gang.framework_name}: {role.name} at {member.ip} was published but not stored",
                )

    def _check_task_completion(self, framework: Framework, role: TaskRoleStatus, task: TaskStatus) -> None:
        """Require that a completion code matches the exit codes of the containers, or a rejected or deleted pod."""
        completion = task.attempt_status.completion_status
        uid = task.attempt_status.pod_uid or ""
        code = 0 if completion is None else completion.code
        if code >= 0:
            expected = self._kubelets.allowed_codes.get(uid, frozenset())
            require(
                code in expected,
                f"{framework.name}: {role.name}-{task.index} ended with {code}, its containers with {sorted(expected)}",
            )
        if code in (CompletionCode.POD_CREATION_UNKNOWN_ERROR, CompletionCode.POD_CREATION_PERMANENT_ERROR):
            require(
                self._server.has_final_rejection,
                f"{role.name}-{task.index} ended with {code} but the API server has not rejected a creation",
            )
        if code == CompletionCode.POD_EXTERNAL_DELETED:
            pod = self._server.pod_of(uid)
            is_gone = pod is None or pod.is_deleting
            require(is_gone, f"{role.name}-{task.index} ended with -101 but its pod {uid} exists")

    def _check_completion(self, framework: Framework, new: FrameworkStatus) -> None:
        attempt = new.attempt_status
        completion = attempt.completion_status
        if completion is None:
            return
        spec = framework.spec
        match completion.code:
            case CompletionCode.CONFIG_MAP_EXTERNAL_DELETED:
                found = self._server.find(attempt.config_map_uid or "")
                is_deleted = framework.is_deleting or found is None or found.is_deleting
                require(is_deleted, f"{framework.name} ended with -100 but the ConfigMap exists")
            case CompletionCode.STOP_FRAMEWORK_REQUESTED:
                require(
                    spec.execution_type is ExecutionType.STOP,
                    f"{framework.name} ended with -210 without Stop",
                )
            case CompletionCode.FRAMEWORK_SUSPENDED:
                require(spec.suspend, f"{framework.name} ended with -130 without suspend")
            case CompletionCode.ACTIVE_DEADLINE_EXCEEDED:
                due = _active_deadline(framework, new)
                now = self._server.now + self._server.clock_tolerance
                require(
                    due is not None and now >= due, f"{framework.name} ended with -250 before its deadline"
                )
            case _ if (
                completion.trigger is not None and completion.code != CompletionCode.PENDING_DEADLINE_EXCEEDED
            ):
                self._check_trigger(framework, new, completion.trigger)
            case CompletionCode.SUCCEEDED:
                require(False, f"{framework.name} succeeded without a trigger")

    def _check_trigger(self, framework: Framework, new: FrameworkStatus, trigger: CompletionTrigger) -> None:
        """Require that the trigger is the task with which the first rule was met: for a minimum of k tasks, the task
        that completed as the k-th one (statements 30 and 31). If no rule was met, see `_last_tasks`."""
        roles = {role.name: role for role in new.attempt_status.roles}
        met: list[MetRule] = []
        for position, spec in enumerate(framework.spec.task_roles):
            policy = spec.framework_attempt_completion_policy
            limits = {True: policy.min_failed_task_count, False: policy.min_succeeded_task_count}
            for is_failed, limit in limits.items():
                role = roles.get(spec.name)
                ended = [] if role is None else counted_tasks(framework, role, is_failed=is_failed)
                if 0 < limit <= len(ended):
                    order = sorted(self._completion_order(task, position) for task in ended)
                    met.append((order[limit - 1], spec.name, ended))
        allowed = self._allowed_triggers(met) if met else _last_tasks(framework, new)
        require(
            (trigger.task_role_name, trigger.task_index) in allowed,
            f"{framework.name}: the trigger is {trigger}, expected one of {sorted(allowed)}",
        )

    def _allowed_triggers(self, met: list[MetRule]) -> set[tuple[str, int]]:
        """Return the task that met the first rule. Return several tasks if their order is unknown."""
        first = min(met, key=lambda rule: rule[0])
        tied = [rule for rule in met if rule[0][0] == first[0][0]]
        if len(tied) > 1:
            self._server.occurred.add(Occurrence.TIED_RULES)
        # Another client may have deleted a pod after its task was completed. The pod's finish time is unknown then.
        if not any(self._is_pod_removed(task) for rule in tied for task in rule[2]):
            return {(first[1], first[0][3])}
        return {
            (name, task.index)
            for order, name, ended in tied
            for task in ended
            if _completion_time(task) == order[0]
        }

    def _completion_order(self, task: TaskStatus, position: int) -> _CompletionOrder:
        pod = self._server.pod_of(task.attempt_status.pod_uid or "")
        finished = [
            container.state.terminated.finished_at
            for container in (() if pod is None else pod.containers)
            if container.state.terminated is not None and container.state.terminated.finished_at is not None
        ]
        latest = max(finished) if finished else datetime.max.replace(tzinfo=UTC)
        return _completion_time(task), latest, position, task.index

    def _is_pod_removed(self, task: TaskStatus) -> bool:
        uid = task.attempt_status.pod_uid
        pod = self._server.pod_of(uid or "")
        return uid is not None and (pod is None or pod.is_deleting)


def _was_attempt_completed(old: FrameworkStatus | None, task: TaskStatus) -> bool:
    return any(before.attempt_status.completion_status is not None for before in _same_attempt(old, task))


def _same_attempt(old: FrameworkStatus | None, task: TaskStatus) -> Iterator[TaskStatus]:
    """Yield the earlier status of a task if it has the same attempt."""
    for role in () if old is None else old.attempt_status.roles:
        for before in role.task_statuses:
            if (
                before.instance_uid == task.instance_uid
                and before.attempt_status.id == task.attempt_status.id
            ):
                yield before


def _was_task_completed(old: FrameworkStatus | None, task: TaskStatus) -> bool:
    """Return whether the task was completed before, perhaps under an earlier policy."""
    return old is not None and any(
        before.instance_uid == task.instance_uid and before.state is State.COMPLETED
        for role in old.attempt_status.roles
        for before in role.task_statuses
    )


def _ended_tasks(role: TaskRoleStatus, *, is_failed: bool) -> list[TaskStatus]:
    """Return the failed or succeeded tasks of a role. Tasks that ended with the job or by a scale-down are excluded."""
    return [
        task
        for task in role.task_statuses
        if task.state is State.COMPLETED
        and not task.deletion_pending
        and (end := task.attempt_status.completion_status) is not None
        and end.code != CompletionCode.FRAMEWORK_ATTEMPT_COMPLETION
        and end.type.is_failed is is_failed
    ]


def counted_tasks(framework: Framework, role: TaskRoleStatus, *, is_failed: bool) -> list[TaskStatus]:
    """Return the failed or succeeded tasks that were not to be retried when the attempt of the Framework ended."""
    ended = _ended_tasks(role, is_failed=is_failed)
    waiting = _ended_with_retry_left(framework, framework.status, role) if ended else []
    return [task for task in ended if task not in waiting and not _waited_for_retry(framework.status, task)]


def _counts(status: FrameworkStatus) -> dict[str, tuple[int, int]]:
    """Return how many tasks of each role failed and succeeded, as in `_ended_tasks`."""
    return {
        role.name: (len(_ended_tasks(role, is_failed=True)), len(_ended_tasks(role, is_failed=False)))
        for role in status.attempt_status.roles
    }


def _last_tasks(framework: Framework, new: FrameworkStatus) -> set[tuple[str, int]]:
    """Return the tasks that completed last, one of which is the trigger if no rule was met (statement 32). Require that
    the attempt succeeded and all tasks have completed."""
    completion = new.attempt_status.completion_status
    is_success = completion is not None and completion.code == CompletionCode.SUCCEEDED
    wanted = sum(role.task_number for role in framework.spec.task_roles)
    ended = {
        (role.name, task.index): _completion_time(task)
        for role in new.attempt_status.roles
        for is_failed in (True, False)
        for task in _ended_tasks(role, is_failed=is_failed)
    }
    is_complete = is_success and len(ended) >= wanted
    require(is_complete, f"{framework.name}: {completion} with {len(ended)} of {wanted} tasks completed")
    last = max(ended.values())
    return {task for task, time in ended.items() if time == last}


def _completion_time(task: TaskStatus) -> datetime:
    return task.completion_time or task.transition_time


def _is_met(role: TaskRoleSpec, counted: tuple[int, int]) -> bool:
    policy = role.framework_attempt_completion_policy
    return (0 < policy.min_failed_task_count <= counted[0]) or (
        0 < policy.min_succeeded_task_count <= counted[1]
    )


def _active_deadline(framework: Framework, status: FrameworkStatus) -> datetime | None:
    limit = framework.spec.active_deadline_seconds
    if limit is None:
        return None
    return status.start_time + timedelta(seconds=limit + status.holding.total_sec)


def _check_matches_spec(framework: Framework, new: FrameworkStatus, now: datetime) -> None:
    """Require that an active attempt is allowed by the spec and has the tasks of the spec."""
    spec, name = framework.spec, framework.name
    require(spec.execution_type is not ExecutionType.STOP, f"{name} is active despite Stop")
    require(
        not spec.suspend or spec.execution_type is ExecutionType.CREATE,
        f"{name} is active despite suspend",
    )
    due = _active_deadline(framework, new)
    require(due is None or now < due + SLACK, f"{name} is active beyond its deadline {due}")
    counts, roles = _counts(new), {role.name: role for role in new.attempt_status.roles}
    for role in spec.task_roles:
        require(
            not _is_met(role, counts.get(role.name, (0, 0))),
            f"{name}: active though {role.name} is complete",
        )
        has = len(roles[role.name].task_statuses) if role.name in roles else 0
        require(has >= role.task_number, f"{name}: {role.name} has {has} of {role.task_number} tasks")
    for role_name, status in roles.items():
        spec_role = spec.role(role_name)
        wanted = 0 if spec_role is None else spec_role.task_number
        for task in status.task_statuses[wanted:]:
            require(
                task.deletion_pending,
                f"{name}: {role_name}-{task.index} is not marked for deletion",
            )


def _check_timeouts(framework: Framework, new: FrameworkStatus) -> None:
    """Require that the roles have the timeouts of the spec (statement 39 of docs/behaviours.md)."""
    for role in new.attempt_status.roles:
        spec = framework.spec.role(role.name)
        require(
            spec is None
            or role.pod_graceful_deletion_timeout_sec == spec.task.pod_graceful_deletion_timeout_sec,
            f"{framework.name}: {role.name} has the timeout {role.pod_graceful_deletion_timeout_sec}",
        )


def _check_no_retry_left(framework: Framework, old: FrameworkStatus | None, new: FrameworkStatus) -> None:
    """Require that the Framework, and each task of an active attempt, is only complete when no retry is left
    (statements 24 to 26)."""
    completion = new.attempt_status.completion_status
    if new.state is State.COMPLETED:
        has_retry_left = _has_retry_left(
            framework.spec.retry_policy, completion, new.retry_policy_status, new.holding.suspended_count
        )
        require(not has_retry_left, f"{framework.name} completed with retries left: {completion}")
        require(
            completion is None or completion.code != CompletionCode.FRAMEWORK_SUSPENDED,
            f"{framework.name} was completed by a suspension",
        )
    if new.state.is_active:
        for role in new.attempt_status.roles:
            for task in _ended_with_retry_left(framework, old, role):
                raise Violation(f"{framework.name}: {role.name}-{task.index} completed with retries left")


def _ended_with_retry_left(
    framework: Framework, old: FrameworkStatus | None, role: TaskRoleStatus
) -> list[TaskStatus]:
    """Return the tasks that have just been completed although their policy allows a retry."""
    spec = framework.spec.role(role.name)
    if spec is None:
        return []
    policy = spec.task.retry_policy
    return [
        task
        for task in role.task_statuses
        if task.state is State.COMPLETED
        and not task.deletion_pending
        and not _was_task_completed(old, task)
        and _has_retry_left(policy, task.attempt_status.completion_status, task.retry_policy_status)
    ]


def _waited_for_retry(old: FrameworkStatus | None, task: TaskStatus) -> bool:
    """Return whether the task waited for a retry when the attempt of the Framework ended."""
    if task.attempt_status.completion_time != task.completion_time:
        return True
    return any(before.retry_policy_status.retry_delay_sec is not None for before in _same_attempt(old, task))


def _has_retry_left(
    policy: RetryPolicySpec,
    completion: FrameworkAttemptCompletionStatus | TaskAttemptCompletionStatus | None,
    retries: RetryPolicyStatus,
    suspended: int = 0,
) -> bool:
    if completion is None or completion.code in NEVER_RETRIED:
        return False
    is_failed, attributes = completion.type.is_failed, set(completion.type.attributes)
    if policy.fancy_retry_policy and is_failed and "Permanent" in attributes:
        return False
    if policy.fancy_retry_policy and is_failed and "Transient" in attributes:
        uncounted = retries.total_retried_count - retries.accountable_retried_count - suspended
        return policy.max_transient_retry_count is None or uncounted < policy.max_transient_retry_count
    limit = policy.max_retry_count
    return limit == ALWAYS_RETRY or (
        is_failed and (limit == RETRY_IF_FAILED or retries.accountable_retried_count < limit)
    )


def _check_delay(
    framework: Framework, old: FrameworkStatus | None, new: FrameworkStatus, now: datetime
) -> None:
    """Require that a scheduled retry of the Framework happens, but not before the delay is over (statements 27, 28).

    Stop and an active deadline may shorten the delay.
    """
    if old is None:
        return
    delay, completion_time = old.retry_policy_status.retry_delay_sec, old.attempt_status.completion_time
    if new.attempt_status.id == old.attempt_status.id:
        is_revoked = delay is not None and new.state is State.COMPLETED
        require(not is_revoked, f"{framework.name} completed although a retry was scheduled")
        return
    is_shortened = (
        framework.spec.execution_type is ExecutionType.STOP
        or framework.spec.active_deadline_seconds is not None
    )
    if delay is not None and completion_time is not None and not is_shortened:
        require(
            now >= completion_time + timedelta(seconds=delay),
            f"{framework.name} was retried before its delay was over",
        )
