"""Invariants of a Simulation during its run and at its end. If one does not hold, `Violation` is raised."""

from collections.abc import Set as AbstractSet
from datetime import datetime, timedelta

from windlass.decide import transitions
from windlass.model import names
from windlass.model.framework import CompletedPods, Framework, RetryPolicySpec
from windlass.model.pods import ConfigMapView, PodView
from windlass.model.states import State
from windlass.model.status import ConditionType, FrameworkStatus, RetryPolicyStatus, TaskStatus
from windlass.simulate.api_server import ApiServer
from windlass.simulate.kubelets import Kubelets, TaskKey
from windlass.simulate.scenario import Occurrence

RETAIN_SEC = 30 * 24 * 3600
FORCED_DELETION_SLACK = timedelta(seconds=120)
"""Time after a timeout within which a pod is deleted by force if there are no faults. Requests may back off for a
minute."""
MAX_STORES_PER_SECOND = 20
"""Limit for one Framework."""


class Violation(AssertionError):  # noqa: N818 - a finding, not an error of the program
    """An invariant was violated."""


def require(holds: bool, message: str) -> None:
    if not holds:
        raise Violation(message[:1000])


class Invariants:
    """Checks each stored status, created pod and started container; on request, also forced deletions and the final
    state."""

    def __init__(self, server: ApiServer, kubelets: Kubelets) -> None:
        self._server = server
        self._kubelets = kubelets
        self._stored: dict[str, FrameworkStatus] = {}
        """Last stored statuses by Framework UID. Kept after a deletion, because a pod may still be created."""
        self._task_uids: dict[str, str] = {}
        """The instance UID of the task that each pod was created for, by pod UID."""
        self.is_request_late = False
        """Whether the sender of the current request no longer leads. The stored status may no longer require it."""
        self.has_other_leader = False
        """Whether another replica holds the lease when the current request arrives."""
        self.pods_of_old_leaders: set[str] = set()
        """UIDs of pods that such requests have created. They may run until the new leader deletes them."""
        server.on_status_stored.append(self._on_status_stored)
        server.on_pod_created.append(self._on_pod_created)
        kubelets.on_start.append(self._on_start)

    def _on_start(self, uid: str, task: TaskKey) -> None:
        """Require at most one running instance of a task (statement 40 of docs/behaviours.md)."""
        running = self._kubelets.running_of(task[0])
        duplicates = [other_uid for other_uid, other in running.items() if other == task and other_uid != uid]
        require(not duplicates, f"{task} runs twice: as {uid} and as {duplicates}")

    def _on_pod_created(self, pod: PodView) -> None:
        """Require that the pod belongs to a pending attempt of a task in the stored status."""
        if not pod.metadata.annotations.framework_uid:
            return
        self._task_uids[pod.uid] = pod.metadata.annotations.task_uid
        if self.has_other_leader:
            self.pods_of_old_leaders.add(pod.uid)
        if self.is_request_late:
            return
        status = self._stored.get(pod.metadata.annotations.framework_uid)
        if status is None:
            raise Violation(f"{pod.name} was created before a status was stored")
        attempt = status.attempt_status
        task = _task_at(status, pod.metadata.labels.role_name, int(pod.metadata.labels.task_index))
        is_intended = (
            task is not None
            and pod.metadata.annotations.config_map_uid == attempt.config_map_uid
            and pod.metadata.annotations.task_uid == task.instance_uid
            and pod.metadata.annotations.task_attempt_id == str(task.attempt_status.id)
            and task.state is State.ATTEMPT_CREATION_PENDING
            and status.state.is_active
        )
        require(is_intended, f"{pod.name} was created but the stored status does not intend it: {task}")

    def _on_status_stored(self, framework: Framework, new: FrameworkStatus) -> None:
        old = framework.status
        self._stored[framework.uid] = new
        _check_progress(framework, old, new)
        _check_retry_limits(framework, old, new)
        self._check_nothing_runs(framework, new)
        self._check_attempt_is_empty(framework, old, new)

    def _check_attempt_is_empty(
        self, framework: Framework, old: FrameworkStatus | None, new: FrameworkStatus
    ) -> None:
        """Require that a finished attempt has no ConfigMap and no pods, unless they are kept, and no unfinished task.

        This is statement 40 of docs/behaviours.md.
        """
        uid = None if old is None else old.attempt_status.config_map_uid
        is_over = old is not None and (new.state.is_over or new.attempt_status.id != old.attempt_status.id)
        if uid is None or not is_over:
            return
        is_kept = new.state is State.COMPLETED and framework.spec.completed_pods is CompletedPods.KEEP
        left = [
            pod.name
            for pod in self._server.dependents_of(uid)
            if isinstance(pod, PodView)
            and not (is_kept and pod.is_terminal)
            and pod.uid not in self.pods_of_old_leaders
        ]
        require(not left, f"{framework.name}: an attempt is over but these pods of it exist: {left}")
        require(
            is_kept or self._server.find(uid) is None,
            f"{framework.name}: an attempt is over but its ConfigMap {uid} exists",
        )
        unfinished = [
            f"{role.name}-{task.index}"
            for role in new.attempt_status.roles
            for task in role.task_statuses
            if new.state.is_over and task.state is not State.COMPLETED
        ]
        require(not unfinished, f"{framework.name} is {new.state} but these tasks are not: {unfinished}")

    def _check_nothing_runs(self, framework: Framework, new: FrameworkStatus) -> None:
        """Require that no container runs after its attempt is over or its task was removed (statement 40)."""
        running = {
            uid: task
            for uid, task in self._kubelets.running_of(framework.uid).items()
            if uid in self._task_uids and uid not in self.pods_of_old_leaders
        }
        if not running:
            return
        tasks = {task.instance_uid for role in new.attempt_status.roles for task in role.task_statuses}
        for pod_uid in running:
            require(
                self._task_uids[pod_uid] in tasks, f"{framework.name}: {pod_uid} runs but its task is removed"
            )
        require(not new.state.is_over, f"{framework.name} is {new.state} but these containers run: {running}")
        for role in new.attempt_status.roles:
            for task in role.task_statuses:
                if task.state.is_over:
                    uid = task.attempt_status.pod_uid
                    require(
                        uid not in running, f"{role.name}-{task.index} is {task.state} but its pod {uid} runs"
                    )

    def check_forced_deletions(self, last_event_time: datetime) -> None:
        """Require that pods are deleted by force when their timeout has passed (statement 42)."""
        for pod in self._server.pods.values():
            framework = self._server.find(pod.metadata.annotations.framework_uid)
            began = pod.deletion_began
            if not isinstance(framework, Framework) or framework.status is None or began is None:
                continue
            timeouts = {
                role.pod_graceful_deletion_timeout_sec
                for role in framework.status.attempt_status.roles
                if role.name == pod.metadata.labels.role_name
            }
            spec = framework.spec.role(pod.metadata.labels.role_name)
            timeouts.add(None if spec is None else spec.task.pod_graceful_deletion_timeout_sec)
            # A timeout that was edited may not be in the status yet.
            timeout = timeouts.pop() if len(timeouts) == 1 else None
            if timeout is None or pod.uid in self._kubelets.force_deleted:
                continue
            self._server.occurred.add(Occurrence.FORCED_DELETION_DUE_AFTER_FAULTS)
            due = max(began + timedelta(seconds=timeout), last_event_time) + FORCED_DELETION_SLACK
            require(
                self._server.now < due,
                f"{pod.name} is terminating since {began} but was not deleted by force after {timeout} s",
            )

    def check_end(self) -> None:
        """Require that nothing runs, no Framework is being deleted or waits for a name that is free, and no ConfigMap
        or pod is left.

        Kept pods and the ConfigMaps of kept pods and of Frameworks that have not completed may exist.
        """
        require(not self._kubelets.is_anything_running, "containers are still running")
        by_uid = {framework.uid: framework for framework in self._server.frameworks.values()}
        for framework in by_uid.values():
            require(framework.is_deleting is False, f"{framework.name} is still being deleted")
            if _waits_for_its_name(framework):
                require(
                    self._is_name_taken(framework),
                    f"{framework.name} waits for its name, which is free",
                )
        kept = {framework.uid: framework for framework in by_uid.values() if _keeps_pods(framework)}
        for config_map in self._server.config_maps.values():
            owner = config_map.controller
            uid = "" if owner is None else owner.uid
            is_in_use = uid in by_uid and not _is_completed(by_uid[uid])
            require(is_in_use or uid in kept, f"ConfigMap {config_map.name} ({config_map.uid}) is left")
        for pod in self._server.pods.values():
            uid = pod.metadata.annotations.framework_uid
            if uid:
                require(uid in kept and pod.is_terminal, f"pod {pod.name} ({pod.uid}) is left")

    def _is_name_taken(self, framework: Framework) -> bool:
        """Return whether the ConfigMap or Service with the Framework's name was created for another Framework.

        A Service is treated as deleted as soon as its owner is.
        """
        config_map = self._server.config_maps.get(
            (framework.namespace, names.config_map_name(framework.name))
        )
        owner = None if config_map is None else config_map.controller
        service = self._server.services.get((framework.namespace, names.service_name(framework.name)))
        has_service_owner = service is not None and self._server.find(service) is not None
        uids = (owner and owner.uid, service if has_service_owner else None)
        return any(uid not in (None, framework.uid) for uid in uids)


class RequestInvariants:
    """Checks the controller's requests when they arrive at the API server.

    Requests that arrive after the leadership has ended are not checked: the state that they were based on may have
    changed.
    """

    def __init__(self, server: ApiServer, pods_of_old_leaders: AbstractSet[str]) -> None:
        self._server = server
        self._pods_of_old_leaders = pods_of_old_leaders
        self._store_counts: dict[tuple[str, int], int] = {}

    def check_store(self, framework: str, seconds: float) -> None:
        """Require that the controller does not store statuses in a hot loop."""
        slot = (framework, int(seconds))
        self._store_counts[slot] = self._store_counts.get(slot, 0) + 1
        require(
            self._store_counts[slot] <= MAX_STORES_PER_SECOND,
            f"{framework}: more than {MAX_STORES_PER_SECOND} stores within a second",
        )

    def check_pod_deletion(self, pod: PodView, *, force: bool) -> None:
        """Require that the pod belongs to Windlass and must be deleted; if by force, that its timeout has expired."""
        uid = pod.metadata.annotations.framework_uid
        require(bool(uid), f"the controller deletes the pod {pod.name}, which is not its own")
        framework = self._framework(uid)
        if framework is None or framework.status is None:
            return
        status, task = framework.status, _task_of(framework.status, pod)
        must_be_deleted = (
            framework.is_deleting
            or not status.state.is_active
            or task is None
            or task.state.is_ending
            or task.state.is_over
        )
        require(must_be_deleted, f"{pod.name} is deleted while its task is {task and task.state}")
        is_kept = (
            status.state is State.COMPLETED
            and framework.spec.completed_pods is CompletedPods.KEEP
            and not framework.is_deleting
            and task is not None
            and task.attempt_status.pod_uid == pod.uid
        )
        require(not is_kept, f"{pod.name} must be kept but is deleted")
        if force:
            self._check_forced_deletion(status, pod)

    def _check_forced_deletion(self, status: FrameworkStatus, pod: PodView) -> None:
        roles = (role for role in status.attempt_status.roles if role.name == pod.metadata.labels.role_name)
        timeout = next((role.pod_graceful_deletion_timeout_sec for role in roles), None)
        began = pod.deletion_began
        is_overdue = (
            began is not None
            and timeout is not None
            and self._server.now >= began + timedelta(seconds=timeout) - self._server.clock_tolerance
        )
        require(
            is_overdue,
            f"{pod.name} is deleted by force; its timeout is {timeout}, its deletion began {began}",
        )
        self._server.occurred.add(Occurrence.FORCED_DELETION)

    def check_config_map_deletion(self, config_map: ConfigMapView) -> None:
        """Require that the ConfigMap has no pods, and its attempt is not active or the Framework is being deleted."""
        owner = config_map.controller
        framework = self._framework("" if owner is None else owner.uid)
        dependents = self._server.dependents_of(config_map.uid)
        left = [pod.name for pod in dependents if pod.uid not in self._pods_of_old_leaders]
        require(not left, f"ConfigMap {config_map.uid} is deleted before its pods {left}")
        if framework is not None and framework.status is not None:
            is_in_use = (
                framework.status.state.is_active
                and framework.status.attempt_status.config_map_uid == config_map.uid
                and not framework.is_deleting
            )
            require(not is_in_use, f"ConfigMap {config_map.uid} is deleted while its attempt is active")

    def check_framework_deletion(self, framework: Framework) -> None:
        """Require that the TTL of the Framework has expired (statement 45, A4 of docs/behaviours.md)."""
        current = self._framework(framework.uid)
        if current is None or current.status is None:
            return
        ttl = current.spec.ttl_seconds_after_finished
        ended = current.status.completion_time
        is_expired = ended is not None and self._server.now + self._server.clock_tolerance >= (
            ended + timedelta(seconds=RETAIN_SEC if ttl is None else ttl)
        )
        require(is_expired, f"{framework.name} is deleted before its TTL has expired")

    def _framework(self, uid: str) -> Framework | None:
        found = self._server.find(uid)
        return found if isinstance(found, Framework) else None


def _task_of(status: FrameworkStatus, pod: PodView) -> TaskStatus | None:
    """Return the task that the pod was created for, if the pod's attempts of job and task are current."""
    annotations = pod.metadata.annotations
    if status.attempt_status.config_map_uid != annotations.config_map_uid:
        return None
    for role in status.attempt_status.roles:
        for task in role.task_statuses:
            if (task.instance_uid or "") == annotations.task_uid:
                is_current = str(task.attempt_status.id) == annotations.task_attempt_id
                return task if is_current else None
    return None


def _waits_for_its_name(framework: Framework) -> bool:
    condition = None if framework.status is None else framework.status.condition(ConditionType.NAME_TAKEN)
    return condition is not None and condition.is_true


def _is_completed(framework: Framework) -> bool:
    return framework.status is not None and framework.status.state is State.COMPLETED


def _keeps_pods(framework: Framework) -> bool:
    return _is_completed(framework) and framework.spec.completed_pods is CompletedPods.KEEP


def _task_at(status: FrameworkStatus, role_name: str, index: int) -> TaskStatus | None:
    for role in status.attempt_status.roles:
        if role.name == role_name and index < len(role.task_statuses):
            return role.task_statuses[index]
    return None


def _check_progress(framework: Framework, old: FrameworkStatus | None, new: FrameworkStatus) -> None:
    """Require that the status only advances."""
    if old is None:
        require(new.attempt_status.id == 0, "the first attempt is not 0")
        return
    require(_is_reachable(old.state, new.state), f"{framework.name} went from {old.state} to {new.state}")
    was, now = old.attempt_status, new.attempt_status
    require(
        now.id == new.retry_policy_status.total_retried_count, "the attempt id differs from the retry count"
    )
    require(now.id in (was.id, was.id + 1), f"attempt {was.id} was followed by {now.id}")
    if now.id != was.id:
        return
    require(was.config_map_uid in (None, now.config_map_uid), "the ConfigMap was replaced within an attempt")
    if was.completion_status is not None:
        require(now.completion_status == was.completion_status, "a Framework completion was changed")
    before = {task.instance_uid: task for role in was.roles for task in role.task_statuses}
    for role in now.roles:
        for index, task in enumerate(role.task_statuses):
            require(task.index == index, "task indexes have gaps")
            earlier = before.get(task.instance_uid)
            if earlier is not None:
                _check_task_progress(f"{framework.name}-{role.name}-{index}", earlier, task)


def _check_task_progress(name: str, old: TaskStatus, new: TaskStatus) -> None:
    require(new.deletion_pending or not old.deletion_pending, f"{name}: a scale-down was reverted")
    was, now = old.attempt_status, new.attempt_status
    require(
        now.id == new.retry_policy_status.total_retried_count, f"{name}: attempt id and retry count differ"
    )
    require(now.id in (was.id, was.id + 1), f"{name}: attempt {was.id} was followed by {now.id}")
    if now.id == was.id:
        require(_is_reachable(old.state, new.state), f"{name} went from {old.state} to {new.state}")
        require(was.pod_uid in (None, now.pod_uid), f"{name}: the pod was replaced within an attempt")
        if was.completion_status is not None:
            require(now.completion_status == was.completion_status, f"{name}: a completion was changed")


def _reachable() -> dict[State, frozenset[State]]:
    """Return the states reachable from each state: a store may combine several transitions."""
    steps: dict[State, set[State]] = {state: {state} for state in State}
    for start, end in transitions.TRANSITIONS:
        steps[start].add(end)
    for middle in State:
        for start in State:
            if middle in steps[start]:
                steps[start] |= steps[middle]
    return {state: frozenset(ends) for state, ends in steps.items()}


_REACHABLE = _reachable()


def _is_reachable(start: State, end: State) -> bool:
    return end in _REACHABLE[start]


def _check_retry_limits(framework: Framework, old: FrameworkStatus | None, new: FrameworkStatus) -> None:
    """Require that retry counts do not exceed the policy, except where the policy was tightened afterwards."""
    _check_limit(
        framework.name,
        framework.spec.retry_policy,
        RetryPolicyStatus() if old is None else old.retry_policy_status,
        new.retry_policy_status,
        suspended=new.holding.suspended_count,
    )
    before = {
        task.instance_uid: task.retry_policy_status
        for role in (() if old is None else old.attempt_status.roles)
        for task in role.task_statuses
    }
    for role in new.attempt_status.roles:
        spec = framework.spec.role(role.name)
        if spec is not None:
            for task in role.task_statuses:
                _check_limit(
                    f"{framework.name}-{role.name}-{task.index}",
                    spec.task.retry_policy,
                    before.get(task.instance_uid, RetryPolicyStatus()),
                    task.retry_policy_status,
                )


def _check_limit(
    name: str, policy: RetryPolicySpec, old: RetryPolicyStatus, new: RetryPolicyStatus, suspended: int = 0
) -> None:
    counted = new.accountable_retried_count
    if policy.max_retry_count >= 0:
        # A changed policy does not revoke a scheduled retry.
        is_scheduled = old.retry_delay_sec is not None
        most = max(policy.max_retry_count, old.accountable_retried_count + is_scheduled)
        require(counted <= most, f"{name}: {counted} retries exceed maxRetryCount {policy.max_retry_count}")
    limit = policy.max_transient_retry_count
    if limit is not None:
        uncounted = new.total_retried_count - counted - suspended
        most = max(limit, old.total_retried_count - old.accountable_retried_count)
        require(uncounted <= most, f"{name}: {uncounted} retries exceed maxTransientRetryCount {limit}")
