"""Simulate a scenario: controllers, API server, kubelets and users, with a virtual clock and one random seed."""

from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial
from random import Random

import msgspec

from windlass.controller.engine.api import AlreadyExistsError, RefusedError
from windlass.controller.engine.keys import key_of
from windlass.controller.engine.lease_guard import LeaseGuard
from windlass.decide.decision import DEFAULT_RULES
from windlass.decide.types import Rules
from windlass.model.framework import ExecutionType, Framework, FrameworkSpec
from windlass.model.pods import ObjectLabels, ObjectMetadata, PodView
from windlass.model.states import State
from windlass.model.status import ConditionType
from windlass.simulate import builders, drawn_rules, refusals
from windlass.simulate import scenario as scenarios
from windlass.simulate.api_server import ApiServer, Propagation
from windlass.simulate.controllers import SimulatedController
from windlass.simulate.encoded_statuses import EncodedStatuses
from windlass.simulate.invariants import Invariants, RequestInvariants, Violation, require
from windlass.simulate.kubelets import Kubelets
from windlass.simulate.machines import Machine
from windlass.simulate.namespaces import NamespaceController
from windlass.simulate.records import Records
from windlass.simulate.replicas import LeaseServer, Replica
from windlass.simulate.rule_invariants import RuleInvariants
from windlass.simulate.scenario import QUIET, Event, EventType, Faults, Scenario, Submission
from windlass.simulate.virtual_time import Timeline
from windlass.simulate.watches import History

MAX_SETTLING_TIME = timedelta(hours=3)
"""Virtual time after the last event within which every Framework must settle."""
CLOCK_TOLERANCE = timedelta(seconds=10)
"""A controller's time differs from the server's by up to about five seconds, and two such times may be compared."""
STEPS_PER_CHECK = 20_000
MAX_PASSES_PER_FRAMEWORK = 5_000


class Simulation:
    def __init__(self, scenario: Scenario, rules: Rules = DEFAULT_RULES) -> None:
        self.scenario = scenario
        self._random = Random(scenario.seed)
        self._rules = msgspec.structs.replace(rules, keeps_records=scenario.keeps_records)
        self.timeline = Timeline(builders.NOW)
        self.server = ApiServer(self.timeline, self._random)
        if scenario.has_wrong_clocks:
            self.server.clock_tolerance = CLOCK_TOLERANCE
        self._encoded = EncodedStatuses(self.server) if scenario.is_encoded else None
        self._batch_size: int | None = None
        if scenario.faults is not QUIET and scenario.seed % 3 == 1:
            self.server.max_pods_per_delete = 1 + scenario.seed % 2
            self._batch_size = 1 + scenario.seed % 4
        self.kubelets = Kubelets(
            self.timeline,
            self.server,
            self._random,
            self._faults,
            is_lockstep=scenario.is_lockstep,
            endless_roles=scenario.endless_roles,
        )
        self._namespaces = NamespaceController(self.timeline, self.server, self._random)
        self._invariants = Invariants(self.server, self.kubelets)
        RuleInvariants(self.server, self.kubelets, self._invariants)
        self.records = Records(self.server, are_enabled=scenario.keeps_records)
        self._request_invariants = RequestInvariants(self.server, self._invariants.pods_of_old_leaders)
        times = [submission.at for submission in scenario.submissions]
        times += [
            event.at + (0.0 if event.type is EventType.LOSE_NODE else event.lasts)
            for event in scenario.events
        ]
        self._last_event_time = builders.NOW + timedelta(seconds=max(scenario.faults_end, *times, 0.0))
        self._faults_end = builders.NOW + timedelta(seconds=scenario.faults_end)
        self._is_finished = False
        self.controllers: list[SimulatedController] = []
        """All leaders so far, in the order in which they acquired the lease."""
        self._history = History(self.server)
        self._lease = LeaseServer()
        self._started_replicas = 0
        self._replicas = [self._new_replica() for _ in range(scenario.replicas)]
        for submission in scenario.submissions:
            self._schedule_submission(submission)
        for event in scenario.events:
            self._schedule_event(event)

    def run(self) -> "Simulation":
        """Run the scenario to its end. Raise `Violation` if an invariant is violated."""
        deadline = self._last_event_time + MAX_SETTLING_TIME
        limit = MAX_PASSES_PER_FRAMEWORK * max(1, len(self.scenario.submissions))
        self.timeline.at(self._faults_end, self._end_faults)
        self.timeline.at(self._last_event_time, self._check_if_finished)
        steps = 0
        last_check = self.timeline.now
        while not self._is_finished and self.timeline.now <= deadline and self.timeline.step():
            self._start_passes()
            steps += 1
            if steps % STEPS_PER_CHECK == 0:
                require(self.timeline.now > last_check, "endless loop at the same time")
                require(self.passes < limit, f"endless loop of the controller: {self.passes} passes")
                last_check = self.timeline.now
        self._invariants.check_end()
        self.records.check_end()
        for framework in self.server.frameworks.values():
            state = None if framework.status is None else framework.status.state
            require(_is_settled(framework), f"{framework.name} never ended, it is {state}")
        return self

    @property
    def passes(self) -> int:
        return sum(controller.passes for controller in self.controllers)

    def requests(self) -> dict[str, int]:
        """Return the number of requests of all controllers, by operation."""
        total: dict[str, int] = {}
        for controller in self.controllers:
            for operation, count in controller.api.counts.items():
                total[operation] = total.get(operation, 0) + count
        return total

    # Passes

    def _start_passes(self) -> None:
        for replica in self._replicas:
            if replica.session is not None and replica.session.has_changes:
                replica.session.start_passes()

    def _faults(self) -> Faults:
        if self.timeline.now < self._faults_end:
            return self.scenario.faults
        return msgspec.structs.replace(QUIET, duration=self.scenario.faults.duration)

    def _end_faults(self) -> None:
        """Change all Frameworks so that they end."""
        for framework in tuple(self.server.frameworks.values()):
            self._change_spec(framework, scenarios.settling(framework.spec))

    def _check_if_finished(self) -> None:
        """Check forced deletions and whether the run is finished, at intervals: checks after every step
        would be slow."""
        self._invariants.check_forced_deletions(self._last_event_time)
        self._is_finished = self._has_settled()
        self.timeline.after(max(1.0, len(self.scenario.submissions) / 100), self._check_if_finished)

    def _has_settled(self) -> bool:
        if self.kubelets.is_anything_running or any(not pod.is_terminal for pod in self.server.pods.values()):
            return False
        if not all(_is_settled(framework) for framework in self.server.frameworks.values()):
            return False
        try:
            self._invariants.check_end()
            self.records.check_end()
        except Violation:
            return False
        return True

    def _new_replica(self) -> Replica:
        drift = self.scenario.faults.clock_drift
        rate = 1.0 + self._random.uniform(-drift, drift) if drift else 1.0
        ahead = self._random.choice((0.0, 5.0, -5.0, 3600.0, -3600.0)) if drift else 0.0
        machine = Machine(self.timeline, self.server, self._random, self._faults, rate=rate, ahead=ahead)
        self._started_replicas += 1
        return Replica(
            machine,
            self._lease,
            partial(self._new_controller, machine),
            f"replica-{self._started_replicas}",
            self.server.occurred,
        )

    def _new_controller(
        self, machine: Machine, guard: LeaseGuard, has_other_leader: Callable[[], bool]
    ) -> SimulatedController:
        controller = SimulatedController(
            machine,
            self.server,
            self._history,
            self._invariants,
            self._request_invariants,
            self._rules,
            guard,
            has_other_leader,
            self.records,
            batch_size=self._batch_size,
            encoded=self._encoded,
            compression_threshold=self._random.choice((None, 1, 1500)) if self._encoded else None,
        )
        self.controllers.append(controller)
        return controller

    # Events

    def _schedule_submission(self, submission: Submission) -> None:
        def submit() -> None:
            framework = submission.framework
            if self.timeline.now >= self._faults_end:
                framework = msgspec.structs.replace(framework, spec=scenarios.settling(framework.spec))
            try:
                self.server.create_framework(framework)
            except AlreadyExistsError:
                return
            except RefusedError:
                self.timeline.after(5.0, submit)  # the namespace is being deleted

        self.timeline.after(submission.at, submit)

    def _recreate(self, event: Event) -> None:
        """Delete a Framework and create it again, at once or later. Objects of the old Framework may
        still exist."""
        framework = self._framework(event)
        if framework is not None:
            self.server.delete_framework(framework, Propagation.BACKGROUND)
        self._submit_again(event)

    def _submit_again(self, event: Event) -> None:
        submission = self.scenario.submissions[event.framework % len(self.scenario.submissions)]
        after = event.lasts if event.number % 2 else 0.0
        self._schedule_submission(msgspec.structs.replace(submission, at=after))

    def _schedule_event(self, event: Event) -> None:
        self.timeline.after(event.at, lambda: self._apply(event))

    def _apply(self, event: Event) -> None:
        match event.type:
            case EventType.LOSE_NODE:
                # Sometimes the node returns long after the faults have ended.
                seconds = event.lasts * (10 if event.number % 3 == 0 else 1)
                self.kubelets.lose_node(event.number, seconds)
            case EventType.REVOKE_PERMISSION:
                self._revoke_permission(event)
            case EventType.DELETE_NAMESPACE:
                self._namespaces.delete(builders.NAMESPACE)
                self._submit_again(event)
            case EventType.RECREATE:
                self._recreate(event)
            case _:
                self._apply_to_controllers_or_framework(event)

    def _apply_to_controllers_or_framework(self, event: Event) -> None:
        match event.type:
            case EventType.CRASH:
                self._replace_leader(Replica.crash)
            case EventType.CHANGE_LEADER if event.number % 2:
                self._replace_leader(Replica.stop)
            case EventType.CHANGE_LEADER:
                self._apply_to_leader(Replica.lose_lease)
            case EventType.SUSPEND_MACHINE:
                self._apply_to_leader(partial(_suspend, event))
            case EventType.STALL:
                self._history.stall(event.number, event.lasts)
            case EventType.RELIST:
                self._history.compact()
                self._history.close_watches()
            case EventType.STEP_CLOCK:
                for replica in self._replicas:
                    seconds = event.lasts * 60 * (1 if event.number % 2 else -1)
                    replica.machine.hardware_clock.step(seconds)
            case _:
                framework = self._framework(event)
                if framework is not None:
                    self._apply_to_framework(framework, event)

    def _apply_to_framework(self, framework: Framework, event: Event) -> None:
        match event.type:
            case EventType.DELETE_FOREGROUND:
                self.server.delete_framework(framework, Propagation.FOREGROUND)
            case EventType.DELETE_BACKGROUND:
                self.server.delete_framework(framework, Propagation.BACKGROUND)
            case EventType.DELETE_CONFIG_MAP_FOREGROUND:
                self._delete_config_map(framework, Propagation.FOREGROUND)
            case EventType.DELETE_CONFIG_MAP_BACKGROUND:
                self._delete_config_map(framework, Propagation.BACKGROUND)
            case EventType.DELETE_POD | EventType.EVICT_POD:
                self._delete_or_evict_pod(framework, event)
            case EventType.ADD_FINALIZER:
                self._add_finalizer(framework, event)
            case EventType.FOREIGN_POD:
                self._create_foreign_pod(framework, event)
            case _:
                self._edit(framework, event)

    def _edit(self, framework: Framework, event: Event) -> None:
        """Change the spec as a user would."""
        spec = framework.spec
        match event.type:
            case EventType.EDIT:
                self._change_spec(framework, scenarios.edited(spec, event.number))
            case EventType.STOP:
                self._change_spec(framework, msgspec.structs.replace(spec, execution_type=ExecutionType.STOP))
            case EventType.START:
                if spec.execution_type is ExecutionType.CREATE:
                    self._change_spec(
                        framework, msgspec.structs.replace(spec, execution_type=ExecutionType.START)
                    )
            case EventType.SUSPEND | EventType.RESUME:
                is_suspended = event.type is EventType.SUSPEND
                self._change_spec(framework, msgspec.structs.replace(spec, suspend=is_suspended))
            case EventType.RESCALE | EventType.REMOVE_ROLE:
                self._rescale(framework, event)

    def _framework(self, event: Event) -> Framework | None:
        submitted = self.scenario.submissions[event.framework % len(self.scenario.submissions)].framework
        return self.server.frameworks.get(key_of(submitted))

    def _change_spec(self, framework: Framework, spec: FrameworkSpec) -> None:
        if spec != framework.spec:
            self.server.put_framework(msgspec.structs.replace(framework, spec=spec))

    def _rescale(self, framework: Framework, event: Event) -> None:
        spec, roles = framework.spec, list(framework.spec.task_roles)
        if not roles:
            return
        number = event.number % len(roles)
        if event.type is EventType.REMOVE_ROLE:
            self._change_spec(framework, drawn_rules.without_role(spec, roles[number].name))
        else:
            roles[number] = msgspec.structs.replace(roles[number], task_number=event.number % 6)
            self._change_spec(framework, msgspec.structs.replace(spec, task_roles=tuple(roles)))

    def _pods(self, framework: Framework) -> Sequence[PodView]:
        pods = self.server.list_objects(framework).pods
        return [pod for pod in pods if pod.metadata.annotations.framework_uid == framework.uid]

    def _delete_or_evict_pod(self, framework: Framework, event: Event) -> None:
        pods = self._pods(framework)
        if not pods:
            return
        pod = pods[event.number % len(pods)]
        if event.type is EventType.EVICT_POD:
            self.kubelets.evict(pod)
        else:
            self.server.delete_pod(pod.metadata.namespace, pod.name, pod.uid)

    def _delete_config_map(self, framework: Framework, propagation: Propagation) -> None:
        config_map = self.server.list_objects(framework).config_map
        if config_map is not None:
            self.server.delete_config_map(
                config_map.metadata.namespace, config_map.name, config_map.uid, propagation
            )

    def _add_finalizer(self, framework: Framework, event: Event) -> None:
        """Let another controller add a finalizer to the Framework or one of its objects, and remove it later."""
        listed = self.server.list_objects(framework)
        uids = [framework.uid, *(pod.uid for pod in self._pods(framework))]
        if listed.config_map is not None:
            uids.append(listed.config_map.uid)
        uid = uids[event.number % len(uids)]
        self.server.add_finalizer(uid)
        self.timeline.after(event.lasts, lambda: self.server.remove_finalizer(uid))

    def _revoke_permission(self, event: Event) -> None:
        _, verb, resource = refusals.OPERATIONS[event.number % len(refusals.OPERATIONS)]
        self.server.forbidden.add((verb, resource))
        self.timeline.after(event.lasts, lambda: self.server.forbidden.discard((verb, resource)))

    def _create_foreign_pod(self, framework: Framework, event: Event) -> None:
        """Create a pod with a name that the Framework may need, with or without the Framework's label, and remove the
        pod later."""
        role = framework.spec.task_roles[0].name if framework.spec.task_roles else "worker"
        name = f"{framework.name}-{role}-{event.number % 6}"
        is_terminating = framework.namespace in self.server.terminating_namespaces
        if is_terminating or (framework.namespace, name) in self.server.pods:
            return
        label = framework.name if event.number % 2 else ""
        foreign_pod = self.server.put_pod(
            PodView(
                metadata=ObjectMetadata(
                    name=name,
                    namespace=framework.namespace,
                    uid=f"foreign_pod-{event.at}-{event.number}",
                    labels=ObjectLabels(framework_name=label),
                )
            )
        )
        self.timeline.after(event.lasts, lambda: self.server.remove_pod(foreign_pod.uid))

    def _apply_to_leader(self, act: Callable[[Replica], None]) -> int | None:
        """Call `act` for the leader and return its index; None if no replica leads."""
        for number, replica in enumerate(self._replicas):
            if replica.session is not None:
                act(replica)
                return number
        return None

    def _replace_leader(self, end: Callable[[Replica], None]) -> None:
        """End the leader, and start a new replica in its place."""
        number = self._apply_to_leader(end)
        if number is not None:
            self._replicas[number] = self._new_replica()


def _suspend(event: Event, leader: Replica) -> None:
    """Suspend the machine of the leader at once, or after its next requests."""
    if leader.session is None or event.number % 4 == 0:
        leader.machine.suspend(event.lasts)
    else:
        leader.session.suspension = event.lasts


def _is_settled(framework: Framework) -> bool:
    """Whether nothing more happens to the Framework: it is completed and has no TTL, or it is not completed, and it has
    no tasks or its name is taken."""
    status = framework.status
    if framework.is_deleting or status is None:
        return False
    has_no_tasks = not any(role.task_number for role in framework.spec.task_roles)
    name_taken = status.condition(ConditionType.NAME_TAKEN)
    is_name_taken = name_taken is not None and name_taken.is_true
    is_completed = status.state is State.COMPLETED
    is_done = is_completed and framework.spec.ttl_seconds_after_finished is None
    return is_done or (not is_completed and (has_no_tasks or is_name_taken))
