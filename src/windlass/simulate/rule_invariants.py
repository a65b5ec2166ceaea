"""Invariants of completion rules, failure classes of roles, start order and limits of pods (B1 to B4 of
docs/behaviours.md). Like all invariants, they do not use the code that they verify."""

from windlass.model.completion import CompletionCode, CompletionTrigger, TaskAttemptCompletionStatus
from windlass.model.failures import IntRange, TaskFailureClass
from windlass.model.framework import (
    CompletionRule,
    Framework,
    StartAfter,
    StartCondition,
    TaskRoleSpec,
    parse_indexes,
)
from windlass.model.pods import PodView
from windlass.model.states import State
from windlass.model.status import FrameworkStatus, TaskRoleStatus, TaskStatus
from windlass.simulate import builders
from windlass.simulate.api_server import ApiServer
from windlass.simulate.drawn_rules import FIRST_CLASS_CODE
from windlass.simulate.invariants import Invariants, require
from windlass.simulate.kubelets import Kubelets
from windlass.simulate.scenario import Occurrence
from windlass.simulate.status_invariants import MetRule, StatusInvariants, counted_tasks

_ENDED_BY_CONTROLLER = (CompletionCode.FRAMEWORK_ATTEMPT_COMPLETION, CompletionCode.DELETE_TASK_REQUESTED)


class RuleInvariants(StatusInvariants):
    def __init__(self, server: ApiServer, kubelets: Kubelets, invariants: Invariants) -> None:
        super().__init__(server, kubelets)
        self._invariants = invariants
        self._stored: dict[str, FrameworkStatus] = {}
        self._started: set[tuple[str, str]] = set()
        """UIDs of ConfigMaps, and the roles of which the attempt had a pod."""
        server.on_pod_created.append(self._check_creation)

    def _check(self, framework: Framework, new: FrameworkStatus) -> None:
        super()._check(framework, new)
        self._stored[framework.uid] = new
        if new.state not in (State.ATTEMPT_PREPARING, State.ATTEMPT_RUNNING):
            return
        for rule in framework.spec.completion_policies:
            require(not self._is_met(framework, new, rule), f"{framework.name} is active despite {rule}")

    # Start order and limits (B3, B4)

    def _check_creation(self, pod: PodView) -> None:
        owner, role_name = pod.metadata.annotations, pod.metadata.labels.role_name
        framework = self._server.find(owner.framework_uid)
        status = self._stored.get(owner.framework_uid)
        attempt = (owner.config_map_uid, role_name)
        is_first = attempt not in self._started
        self._started.add(attempt)
        is_of_leader = not self._invariants.is_request_late and not self._invariants.has_other_leader
        if not isinstance(framework, Framework) or status is None or not is_of_leader:
            return
        role = framework.spec.role(role_name)
        if role is None:
            return
        for start in role.start_after if is_first else ():
            self._check_start(pod, start, status)
        if role.parallelism is not None:
            living = [
                each.name
                for each in self._server.dependents_of(owner.config_map_uid)
                if isinstance(each, PodView)
                and each.metadata.labels.role_name == role_name
                and not each.is_terminal
                and each.uid not in self._invariants.pods_of_old_leaders
            ]
            is_allowed = len(living) <= role.parallelism
            require(is_allowed, f"{pod.name} exceeds the parallelism {role.parallelism}: {living}")
            if len(living) == role.parallelism < role.task_number:
                self._server.occurred.add(Occurrence.PARALLELISM_REACHED)

    def _check_start(self, pod: PodView, start: StartAfter, status: FrameworkStatus) -> None:
        tasks = [
            task
            for role in status.attempt_status.roles
            if role.name == start.task_role
            for task in role.task_statuses
            if not task.deletion_pending
        ]
        needed = min(start.min_task_count or len(tasks), len(tasks))
        reached = sum(1 for task in tasks if self._has_reached(task, start.condition))
        require(reached >= needed, f"{pod.name} was created when {reached} tasks had reached {start}")
        if needed:
            self._server.occurred.add(Occurrence.STARTED_IN_ORDER)

    def _has_reached(self, task: TaskStatus, condition: StartCondition) -> bool:
        """Return whether a task has reached a condition, according to the stored status. Only readiness is not in the
        status."""
        completion, pod = task.attempt_status.completion_status, self._pod_of(task)
        has_succeeded = (
            task.state is State.COMPLETED and completion is not None and not completion.type.is_failed
        )
        match condition:
            case StartCondition.RUNNING:
                return has_succeeded or task.run_time is not None
            case StartCondition.READY:
                return has_succeeded or (pod is not None and pod.uid in self._kubelets.were_ready)
            case StartCondition.SUCCEEDED:
                return has_succeeded

    def _pod_of(self, task: TaskStatus) -> PodView | None:
        return self._server.pods.get((builders.NAMESPACE, task.attempt_status.pod_name))

    # Failure classes (B2)

    def _check_task_completion(self, framework: Framework, role: TaskRoleStatus, task: TaskStatus) -> None:
        completion = task.attempt_status.completion_status
        spec = framework.spec.role(role.name)
        if completion is None:
            return
        if completion.code < FIRST_CLASS_CODE:
            super()._check_task_completion(framework, role, task)
        if spec is not None and completion.type.is_failed and completion.code not in _ENDED_BY_CONTROLLER:
            self._check_class(spec, task, completion)

    def _check_class(
        self, role: TaskRoleSpec, task: TaskStatus, completion: TaskAttemptCompletionStatus
    ) -> None:
        """Require that the first class that matches has set code and type."""
        classes = role.task.pod_failure_spec
        uid = task.attempt_status.pod_uid or ""
        originals = {CompletionCode.POD_EXTERNAL_DELETED, *self._kubelets.allowed_codes.get(uid, ())} - {0}
        allowed = set()
        for original in originals:
            matched = _first_class(classes, original)
            if matched is not None:
                allowed.add((original if matched.code is None else matched.code, matched.type))
                if completion.code == matched.code:
                    self._server.occurred.add(Occurrence.FAILURE_RECLASSIFIED)
        is_original = completion.code in originals and _first_class(classes, completion.code) is None
        is_other = completion.code not in originals and completion.code < FIRST_CLASS_CODE
        require(
            is_original or is_other or (completion.code, completion.type) in allowed,
            f"{role.name}-{task.index} ended with {completion}, expected one of {allowed}",
        )

    # Completion rules (B1)

    def _check_trigger(self, framework: Framework, new: FrameworkStatus, trigger: CompletionTrigger) -> None:
        completion = new.attempt_status.completion_status
        decided = None
        for rule in framework.spec.completion_policies:
            if completion is not None and completion.diagnostics.startswith(f"{rule.name}: "):
                decided = rule
                break
            is_met = self._is_met(framework, new, rule)
            require(not is_met, f"{framework.name}: {rule} was met, but {completion} decided")
        if completion is None:
            return
        if decided is not None:
            self._check_decision(framework, new, decided, trigger)
        elif completion.code == CompletionCode.START_CONDITION_UNREACHABLE:
            starts = (start for role in framework.spec.task_roles for start in role.start_after)
            is_named = any(start.task_role == trigger.task_role_name for start in starts)
            require(is_named, f"{framework.name}: no role waits for {trigger.task_role_name}")
        else:
            require(
                completion.code != CompletionCode.COMPLETION_RULE_FAILED,
                f"{framework.name}: no rule led to {completion}",
            )
            super()._check_trigger(framework, new, trigger)

    def _check_decision(
        self, framework: Framework, new: FrameworkStatus, rule: CompletionRule, trigger: CompletionTrigger
    ) -> None:
        """Require that the rule was met, by the task that is the trigger, and that code and type are those of the
        rule."""
        completion = new.attempt_status.completion_status
        expected = 0 if rule.is_success else int(CompletionCode.COMPLETION_RULE_FAILED)
        is_right = (
            completion is not None
            and completion.code == expected
            and (rule.is_success or rule.type is None or completion.type == rule.type)
        )
        require(is_right, f"{framework.name}: {completion} does not match {rule}")
        self._server.occurred.add(Occurrence.RULE_DECIDED)
        if rule.min_failed_attempt_count is not None:
            failed = _failed_attempts(framework, new, rule)
            require(failed >= rule.min_failed_attempt_count, f"{framework.name}: {failed} failed: {rule}")
        elif rule.min_container_restart_count is not None:
            restarts = sum(
                self._kubelets.restarts.get(task.attempt_status.pod_uid or "", 0)
                for _, _, task in _selected(framework, new, rule)
            )
            is_met = restarts >= rule.min_container_restart_count
            require(is_met, f"{framework.name}: {restarts} restarts: {rule}")
        else:
            limit, ended = self._limit(framework, new, rule), _ended(framework, new, rule)
            require(0 < limit <= len(ended), f"{framework.name}: {len(ended)} of {limit} tasks: {rule}")
            ordered = sorted(
                ((self._completion_order(task, position), name) for position, name, task in ended)
            )
            order, name = ordered[limit - 1]
            met: MetRule = (order, name, [task for _, _, task in ended])
            is_unsure = any(self._is_pod_removed(task) for task in met[2])
            tied = {(name, each[3]) for each, name in ordered if each[0] == order[0]}
            allowed = tied if is_unsure else {(name, order[3])}
            found = (trigger.task_role_name, trigger.task_index)
            require(found in allowed, f"{framework.name}: the trigger is {trigger}, expected {allowed}")

    def _is_met(self, framework: Framework, new: FrameworkStatus, rule: CompletionRule) -> bool:
        """Return whether the status shows that a rule is met. Container restarts are not in the status."""
        if rule.min_container_restart_count is not None:
            return False
        if rule.min_failed_attempt_count is not None:
            is_active = new.state in (State.ATTEMPT_PREPARING, State.ATTEMPT_RUNNING)
            return is_active and _failed_attempts(framework, new, rule) >= rule.min_failed_attempt_count
        if rule.after_all:
            every = sum(len(_ended(framework, new, rule, is_failed=failed)) for failed in (True, False))
            if every < _expected(framework, new, rule):
                return False
        return 0 < self._limit(framework, new, rule) <= len(_ended(framework, new, rule))

    def _limit(self, framework: Framework, new: FrameworkStatus, rule: CompletionRule) -> int:
        if rule.all_succeeded:
            return _expected(framework, new, rule)
        return rule.min_succeeded_task_count or rule.min_failed_task_count or 0


_Task = tuple[int, str, TaskStatus]
"""The position of the role, its name, and the task."""


def _selects(rule: CompletionRule, role: str, index: int) -> bool:
    ranges = None if rule.task_indexes is None else parse_indexes(rule.task_indexes)
    is_index = ranges is None or any(index in each for each in ranges)
    return is_index and (not rule.task_roles or role in rule.task_roles)


def _selected(framework: Framework, new: FrameworkStatus, rule: CompletionRule) -> list[_Task]:
    roles = {role.name: role for role in new.attempt_status.roles}
    return [
        (position, spec.name, task)
        for position, spec in enumerate(framework.spec.task_roles)
        if spec.name in roles
        for task in roles[spec.name].task_statuses
        if not task.deletion_pending and _selects(rule, spec.name, task.index)
    ]


def _expected(framework: Framework, new: FrameworkStatus, rule: CompletionRule) -> int:
    names = {role.name for role in new.attempt_status.roles}
    return sum(
        1
        for spec in framework.spec.task_roles
        if spec.name in names
        for index in range(spec.task_number)
        if _selects(rule, spec.name, index)
    )


def _ended(
    framework: Framework, new: FrameworkStatus, rule: CompletionRule, *, is_failed: bool | None = None
) -> list[_Task]:
    """Return the succeeded or failed tasks that a rule counts. `is_failed`: all tasks with this result."""
    wanted = not rule.is_success if is_failed is None else is_failed
    counted = {
        task.instance_uid
        for role in new.attempt_status.roles
        for task in counted_tasks(framework, role, is_failed=wanted)
    }
    return [
        each
        for each in _selected(framework, new, rule)
        if each[2].instance_uid in counted
        and (is_failed is not None or not rule.code_ranges or _is_in(rule.code_ranges, each[2]))
    ]


def _is_in(ranges: tuple[IntRange, ...], task: TaskStatus) -> bool:
    completion = task.attempt_status.completion_status
    return completion is not None and any(each.contains(completion.code) for each in ranges)


def _failed_attempts(framework: Framework, new: FrameworkStatus, rule: CompletionRule) -> int:
    """Return the number of failed attempts. A task that waits for the end of its pod counts, too, if the attempt of the
    Framework has ended: the controller may have known that the pod had ended."""
    total = 0
    for _, name, task in _selected(framework, new, rule):
        completion = task.attempt_status.completion_status
        role = framework.spec.role(name)
        is_failed = (
            completion is not None
            and task.state.is_over
            and completion.type.is_failed
            and completion.code not in _ENDED_BY_CONTROLLER
        )
        is_uncounted = (
            completion is not None
            and role is not None
            and role.task.retry_policy.fancy_retry_policy
            and "Transient" in completion.type.attributes
        )
        total += task.retry_policy_status.accountable_retried_count + (is_failed and not is_uncounted)
    return total


def _first_class(classes: tuple[TaskFailureClass, ...], code: int) -> TaskFailureClass | None:
    return next((each for each in classes if any(codes.contains(code) for codes in each.code_ranges)), None)
