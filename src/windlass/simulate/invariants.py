"""What must hold at every moment of a run, and at its end. A breach raises `Violation`."""

from windlass.decide import transitions
from windlass.model import names
from windlass.model.framework import CompletedPods, Framework, RetryPolicySpec
from windlass.model.pods import PodView
from windlass.model.states import State
from windlass.model.status import ConditionType, FrameworkStatus, RetryPolicyStatus, TaskStatus
from windlass.simulate.api_server import ApiServer
from windlass.simulate.kubelets import Instance, Kubelets
from windlass.simulate.violation import Violation, insist


class Guarantees:
    """Listens to the API server and the kubelets."""

    def __init__(self, server: ApiServer, kubelets: Kubelets) -> None:
        self._server = server
        self._kubelets = kubelets
        self._stored: dict[str, FrameworkStatus] = {}
        """By Framework UID; kept when the Framework is gone, whose last pod may just be on its way."""
        self._task_of: dict[str, str] = {}
        """By pod UID: the instance of the task that it was made for."""
        self.may_be_late = False
        """A dead controller's last requests arrive now: only for them is the intent not looked up."""
        server.on_status_stored.append(self._on_status_stored)
        server.on_pod_created.append(self._on_pod_created)
        kubelets.on_start.append(self._on_start)

    def _on_start(self, uid: str, instance: Instance) -> None:
        """At most one running instance of a task (statement 40)."""
        running = self._kubelets.running_of(instance[0])
        twins = [other for other, running in running.items() if running == instance and other != uid]
        insist(not twins, f"{instance} runs twice: as {uid} and as {twins}")

    def _on_pod_created(self, pod: PodView) -> None:
        """No pod is created before its intent is stored."""
        if not pod.metadata.annotations.framework_uid:
            return
        self._task_of[pod.uid] = pod.metadata.annotations.task_uid
        if self.may_be_late:
            return
        status = self._stored.get(pod.metadata.annotations.framework_uid)
        if status is None:
            raise Violation(f"{pod.name} was created and no status is stored")
        attempt = status.attempt_status
        task = _task(status, pod.metadata.labels.role_name, int(pod.metadata.labels.task_index))
        is_intended = (
            task is not None
            and pod.metadata.annotations.config_map_uid == attempt.config_map_uid
            and pod.metadata.annotations.task_uid == task.instance_uid
            and pod.metadata.annotations.task_attempt_id == str(task.attempt_status.id)
            and task.state is State.ATTEMPT_CREATION_PENDING
            and status.state.is_active
        )
        insist(is_intended, f"{pod.name} was created and the stored status does not intend it: {task}")

    def _on_status_stored(self, framework: Framework, new: FrameworkStatus) -> None:
        old = framework.status
        self._stored[framework.uid] = new
        _insist_on_monotony(framework, old, new)
        _insist_on_retry_limits(framework, old, new)
        self._insist_on_rest(framework, new)
        self._insist_on_empty_attempt(framework, old, new)

    def _insist_on_empty_attempt(
        self, framework: Framework, old: FrameworkStatus | None, new: FrameworkStatus
    ) -> None:
        """An attempt is over only when its ConfigMap and its pods are gone, unless they are kept (statement 40)."""
        uid = None if old is None else old.attempt_status.config_map_uid
        is_over = old is not None and (new.state.is_over or new.attempt_status.id != old.attempt_status.id)
        if uid is None or not is_over:
            return
        is_kept = new.state is State.COMPLETED and framework.spec.completed_pods is CompletedPods.KEEP
        left = [
            pod.name
            for pod in self._server.dependents_of(uid)
            if isinstance(pod, PodView) and not (is_kept and pod.is_terminal)
        ]
        insist(not left, f"{framework.name}: an attempt is over and these pods of it exist: {left}")
        insist(
            is_kept or self._server.found(uid) is None,
            f"{framework.name}: an attempt is over and its ConfigMap {uid} exists",
        )
        unfinished = [
            f"{role.name}-{task.index}"
            for role in new.attempt_status.roles
            for task in role.task_statuses
            if new.state.is_over and task.state is not State.COMPLETED
        ]
        insist(not unfinished, f"{framework.name} is {new.state} and these tasks are not: {unfinished}")

    def _insist_on_rest(self, framework: Framework, new: FrameworkStatus) -> None:
        """Nothing runs once its attempt completed or its task was dropped (statement 40)."""
        running = {
            uid: instance
            for uid, instance in self._kubelets.running_of(framework.uid).items()
            if uid in self._task_of
        }
        if not running:
            return
        tasks = {task.instance_uid for role in new.attempt_status.roles for task in role.task_statuses}
        for pod_uid in running:
            insist(
                self._task_of[pod_uid] in tasks, f"{framework.name}: {pod_uid} runs and its task is dropped"
            )
        insist(not new.state.is_over, f"{framework.name} is {new.state} and these run: {running}")
        for role in new.attempt_status.roles:
            for task in role.task_statuses:
                if task.state.is_over:
                    uid = task.attempt_status.pod_uid
                    insist(
                        uid not in running, f"{role.name}-{task.index} is {task.state} and its pod {uid} runs"
                    )

    def at_the_end(self) -> None:
        """Everything that could end has ended, and nothing is left behind."""
        insist(not self._kubelets.is_anything_running, "there are containers that still run")
        by_uid = {framework.uid: framework for framework in self._server.frameworks.values()}
        for framework in by_uid.values():
            insist(framework.is_deleting is False, f"{framework.name} is still being deleted")
            if _waits_for_its_name(framework):
                insist(
                    self._is_name_of_another(framework),
                    f"{framework.name} waits for its name, and nobody has it",
                )
        kept = {framework.uid: framework for framework in by_uid.values() if _keeps_pods(framework)}
        for config_map in self._server.config_maps.values():
            owner = config_map.controller
            uid = "" if owner is None else owner.uid
            is_in_use = uid in by_uid and not _is_completed(by_uid[uid])
            insist(is_in_use or uid in kept, f"ConfigMap {config_map.name} ({config_map.uid}) is left behind")
        for pod in self._server.pods.values():
            uid = pod.metadata.annotations.framework_uid
            if uid:
                insist(uid in kept and pod.is_terminal, f"pod {pod.name} ({pod.uid}) is left behind")

    def _is_name_of_another(self, framework: Framework) -> bool:
        """The ConfigMap of its attempt, or the Service that a Framework keeps as long as it is there."""
        config_map = self._server.config_maps.get(
            (framework.namespace, names.config_map_name(framework.name))
        )
        owner = None if config_map is None else config_map.controller
        service = self._server.services.get((framework.namespace, names.service_name(framework.name)))
        return any(uid not in (None, framework.uid) for uid in (owner and owner.uid, service))


def _waits_for_its_name(framework: Framework) -> bool:
    condition = None if framework.status is None else framework.status.condition(ConditionType.NAME_TAKEN)
    return condition is not None and condition.is_true


def _is_completed(framework: Framework) -> bool:
    return framework.status is not None and framework.status.state is State.COMPLETED


def _keeps_pods(framework: Framework) -> bool:
    return _is_completed(framework) and framework.spec.completed_pods is CompletedPods.KEEP


def _task(status: FrameworkStatus, role_name: str, index: int) -> TaskStatus | None:
    for role in status.attempt_status.roles:
        if role.name == role_name and index < len(role.task_statuses):
            return role.task_statuses[index]
    return None


def _insist_on_monotony(framework: Framework, old: FrameworkStatus | None, new: FrameworkStatus) -> None:
    """What was said is not taken back."""
    if old is None:
        insist(new.attempt_status.id == 0, "the first attempt is 0")
        return
    insist(_is_reachable(old.state, new.state), f"{framework.name} went from {old.state} to {new.state}")
    was, now = old.attempt_status, new.attempt_status
    insist(now.id == new.retry_policy_status.total_retried_count, "the attempt id is the retry count")
    insist(now.id in (was.id, was.id + 1), f"attempt {was.id} was followed by {now.id}")
    if now.id != was.id:
        return
    insist(was.config_map_uid in (None, now.config_map_uid), "a ConfigMap was exchanged within an attempt")
    if was.completion_status is not None:
        insist(now.completion_status == was.completion_status, "a Framework completion was changed")
    before = {task.instance_uid: task for role in was.roles for task in role.task_statuses}
    for role in now.roles:
        for index, task in enumerate(role.task_statuses):
            insist(task.index == index, "tasks are numbered without gaps")
            earlier = before.get(task.instance_uid)
            if earlier is not None:
                _insist_on_task_monotony(f"{framework.name}-{role.name}-{index}", earlier, task)


def _insist_on_task_monotony(name: str, old: TaskStatus, new: TaskStatus) -> None:
    insist(new.deletion_pending or not old.deletion_pending, f"{name}: a rescale was taken back")
    was, now = old.attempt_status, new.attempt_status
    insist(
        now.id == new.retry_policy_status.total_retried_count, f"{name}: attempt id and retry count differ"
    )
    insist(now.id in (was.id, was.id + 1), f"{name}: attempt {was.id} was followed by {now.id}")
    if now.id == was.id:
        insist(_is_reachable(old.state, new.state), f"{name} went from {old.state} to {new.state}")
        insist(was.pod_uid in (None, now.pod_uid), f"{name}: the pod was exchanged within an attempt")
        if was.completion_status is not None:
            insist(now.completion_status == was.completion_status, f"{name}: a completion was changed")


def _reachable() -> dict[State, frozenset[State]]:
    """A store may hold several moves at once."""
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


def _insist_on_retry_limits(framework: Framework, old: FrameworkStatus | None, new: FrameworkStatus) -> None:
    """Retry counts never exceed the policy; a policy that was tightened meanwhile holds for what comes."""
    _insist_on_limit(
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
                _insist_on_limit(
                    f"{framework.name}-{role.name}-{task.index}",
                    spec.task.retry_policy,
                    before.get(task.instance_uid, RetryPolicyStatus()),
                    task.retry_policy_status,
                )


def _insist_on_limit(
    name: str, policy: RetryPolicySpec, old: RetryPolicyStatus, new: RetryPolicyStatus, suspended: int = 0
) -> None:
    counted = new.accountable_retried_count
    if policy.max_retry_count >= 0:
        most = max(policy.max_retry_count, old.accountable_retried_count)
        insist(counted <= most, f"{name}: {counted} retries exceed maxRetryCount {policy.max_retry_count}")
    limit = policy.max_transient_retry_count
    if limit is not None:
        uncounted = new.total_retried_count - counted - suspended
        most = max(limit, old.total_retried_count - old.accountable_retried_count)
        insist(uncounted <= most, f"{name}: {uncounted} retries exceed maxTransientRetryCount {limit}")
