"""Plays a scenario: controllers, API server, kubelets, users and neighbours, on a virtual clock and one seed."""

from collections.abc import Sequence
from datetime import timedelta
from random import Random

import msgspec

from windlass.controller.engine.keys import key_of
from windlass.controller.engine.port import AlreadyExistsError
from windlass.decide.decision import DEFAULT_RULES
from windlass.decide.types import Rules
from windlass.model.framework import ExecutionType, Framework, FrameworkSpec
from windlass.model.pods import ObjectLabels, ObjectMetadata, PodView
from windlass.model.states import State
from windlass.model.status import ConditionType
from windlass.simulate import builders
from windlass.simulate import scenario as scenarios
from windlass.simulate.api_server import ApiServer, Propagation
from windlass.simulate.controllers import LONGEST_REQUEST, SimulatedController
from windlass.simulate.invariants import Guarantees
from windlass.simulate.kubelets import Kubelets
from windlass.simulate.request_invariants import Conduct
from windlass.simulate.scenario import QUIET, Event, EventKind, Faults, Scenario, Submission
from windlass.simulate.status_invariants import Truth
from windlass.simulate.violation import Violation, insist
from windlass.simulate.virtual_time import Timeline

TAKEOVER = LONGEST_REQUEST * 2
LONGEST_RUN = timedelta(hours=3)
"""Of virtual time, after the faults have ended: whatever has not come to its end by then never will."""
MOST_STEPS_AT_ONCE = 20_000
MOST_PASSES_PER_FRAMEWORK = 5_000
"""More than that is a controller that runs in circles."""


class Simulation:
    def __init__(self, scenario: Scenario, rules: Rules = DEFAULT_RULES) -> None:
        self.scenario = scenario
        self._random = Random(scenario.seed)
        self._rules = rules
        self.timeline = Timeline(builders.NOW)
        self.server = ApiServer(self.timeline, self._random)
        self._pods_at_a_time: int | None = None
        if scenario.faults is not QUIET and scenario.seed % 3 == 1:
            self.server.most_deleted_at_once = 1 + scenario.seed % 2
            self._pods_at_a_time = 1 + scenario.seed % 4
        self.kubelets = Kubelets(
            self.timeline,
            self.server,
            self._random,
            self._faults,
            is_lockstep=scenario.is_lockstep,
            endless_roles=scenario.endless_roles,
        )
        self._guarantees = Guarantees(self.server, self.kubelets)
        Truth(self.server, self.kubelets)
        self._conduct = Conduct(self.server)
        times = [submission.at for submission in scenario.submissions]
        times += [event.at + event.lasts for event in scenario.events]
        self._last_happening = builders.NOW + timedelta(seconds=max(scenario.faults_end, *times, 0.0))
        self._faults_end = builders.NOW + timedelta(seconds=scenario.faults_end)
        self._next_tick: float | None = None
        self._has_rested = False
        self.retired: list[SimulatedController] = []
        self.controllers = [self._new_controller() for _ in range(scenario.replicas)]
        self.timeline.after(TAKEOVER, lambda: self._elect(0))
        for submission in scenario.submissions:
            self._plan_submission(submission)
        for event in scenario.events:
            self._plan_event(event)

    def run(self) -> "Simulation":
        """To the end. Raises `Violation` if a guarantee breaks on the way."""
        deadline = self._last_happening + LONGEST_RUN
        limit = MOST_PASSES_PER_FRAMEWORK * max(1, len(self.scenario.submissions))
        self.timeline.at(self._faults_end, self._end_of_faults)
        self.timeline.at(self._last_happening, self._look_for_rest)
        steps = 0
        last_look = self.timeline.now
        while not self._has_rested and self.timeline.now <= deadline and self.timeline.step():
            self._pump()
            steps += 1
            if steps % MOST_STEPS_AT_ONCE == 0:
                insist(self.timeline.now > last_look, "something happens again and again at the same moment")
                insist(self.passes < limit, f"{self.passes} passes: the controller runs in circles")
                last_look = self.timeline.now
        self._guarantees.at_the_end()
        for framework in self.server.frameworks.values():
            state = None if framework.status is None else framework.status.state
            insist(_has_come_to_rest(framework), f"{framework.name} never came to its end, it is {state}")
        return self

    @property
    def passes(self) -> int:
        return sum(controller.passes for controller in (*self.controllers, *self.retired))

    def requests(self) -> dict[str, int]:
        """By kind, over all controllers there were."""
        total: dict[str, int] = {}
        for controller in (*self.controllers, *self.retired):
            for kind, count in controller.port.counts.items():
                total[kind] = total.get(kind, 0) + count
        return total

    # The driver

    def _pump(self) -> None:
        for controller in self.controllers:
            if controller.is_leader and controller.has_news:
                controller.pump()
                due = controller.queue.next_time()
                if due is not None and (self._next_tick is None or due < self._next_tick):
                    self._next_tick = due
                    self.timeline.at(controller.moment_of(due), self._tick)

    def _tick(self) -> None:
        self._next_tick = None
        for controller in self.controllers:
            controller.has_news = True

    def _faults(self) -> Faults:
        if self.timeline.now < self._faults_end:
            return self.scenario.faults
        return msgspec.structs.replace(QUIET, duration=self.scenario.faults.duration)

    def _end_of_faults(self) -> None:
        """From here on everything gets its chance: what is held is let go, what was missed is listed."""
        for framework in tuple(self.server.frameworks.values()):
            self._change_spec(framework, _let_go(framework.spec))
        for controller in self.controllers:
            controller.relist()

    def _look_for_rest(self) -> None:
        """Now and then: at every step it would cost more than all the rest."""
        self._has_rested = self._is_at_rest()
        self.timeline.after(max(1.0, len(self.scenario.submissions) / 100), self._look_for_rest)

    def _is_at_rest(self) -> bool:
        if self.kubelets.is_anything_running or any(not pod.is_terminal for pod in self.server.pods.values()):
            return False
        if not all(_has_come_to_rest(framework) for framework in self.server.frameworks.values()):
            return False
        try:
            self._guarantees.at_the_end()
        except Violation:
            return False
        return True

    def _new_controller(self) -> SimulatedController:
        return SimulatedController(
            self.timeline,
            self.server,
            self._random,
            self._faults,
            self._guarantees,
            self._conduct,
            self._rules,
            pods_at_a_time=self._pods_at_a_time,
        )

    def _elect(self, number: int) -> None:
        if not any(controller.is_leader for controller in self.controllers):
            self.controllers[number].lead()

    # What users, nodes and neighbours do

    def _plan_submission(self, submission: Submission) -> None:
        def submit() -> None:
            framework = submission.framework
            if self.timeline.now >= self._faults_end:
                framework = msgspec.structs.replace(framework, spec=_let_go(framework.spec))
            try:
                self.server.create_framework(framework)
            except AlreadyExistsError:
                return

        self.timeline.after(submission.at, submit)

    def _recreate(self, event: Event) -> None:
        """Under the same name, at once or after a while, when the old one's objects may still be around."""
        framework = self._framework(event)
        if framework is not None:
            self.server.delete_framework(framework, Propagation.BACKGROUND)
        submission = self.scenario.submissions[event.framework % len(self.scenario.submissions)]
        after = event.lasts if event.number % 2 else 0.0
        self._plan_submission(msgspec.structs.replace(submission, at=after))

    def _plan_event(self, event: Event) -> None:
        self.timeline.after(event.at, lambda: self._happen(event))

    def _happen(self, event: Event) -> None:
        match event.kind:
            case EventKind.CRASH:
                self._crash()
            case EventKind.CHANGE_LEADER:
                self._change_leader()
            case EventKind.LOSE_NODE:
                self.kubelets.lose_node(event.number, event.lasts)
            case EventKind.STALL:
                for controller in self.controllers:
                    controller.stall(event.number, event.lasts)
            case EventKind.RELIST:
                for controller in self.controllers:
                    controller.relist()
            case EventKind.RECREATE:
                self._recreate(event)
            case _:
                framework = self._framework(event)
                if framework is not None:
                    self._happen_to(framework, event)

    def _happen_to(self, framework: Framework, event: Event) -> None:
        match event.kind:
            case EventKind.DELETE_FOREGROUND:
                self.server.delete_framework(framework, Propagation.FOREGROUND)
            case EventKind.DELETE_BACKGROUND:
                self.server.delete_framework(framework, Propagation.BACKGROUND)
            case EventKind.DELETE_CONFIG_MAP_FOREGROUND:
                self._delete_config_map(framework, Propagation.FOREGROUND)
            case EventKind.DELETE_CONFIG_MAP_BACKGROUND:
                self._delete_config_map(framework, Propagation.BACKGROUND)
            case EventKind.DELETE_POD | EventKind.EVICT_POD:
                self._harm_pod(framework, event)
            case EventKind.STRANGER:
                self._intrude(framework, event)
            case _:
                self._edit(framework, event)

    def _edit(self, framework: Framework, event: Event) -> None:
        """What users do to a spec."""
        spec = framework.spec
        match event.kind:
            case EventKind.EDIT:
                self._change_spec(framework, scenarios.edited(spec, event.number))
            case EventKind.STOP:
                self._change_spec(framework, msgspec.structs.replace(spec, execution_type=ExecutionType.STOP))
            case EventKind.START:
                if spec.execution_type is ExecutionType.CREATE:
                    self._change_spec(
                        framework, msgspec.structs.replace(spec, execution_type=ExecutionType.START)
                    )
            case EventKind.SUSPEND | EventKind.RESUME:
                is_suspended = event.kind is EventKind.SUSPEND
                self._change_spec(framework, msgspec.structs.replace(spec, suspend=is_suspended))
            case EventKind.RESCALE | EventKind.REMOVE_ROLE:
                self._rescale(framework, event)

    def _framework(self, event: Event) -> Framework | None:
        submitted = self.scenario.submissions[event.framework % len(self.scenario.submissions)].framework
        return self.server.frameworks.get(key_of(submitted))

    def _change_spec(self, framework: Framework, spec: FrameworkSpec) -> None:
        if spec != framework.spec:
            self.server.update_framework(msgspec.structs.replace(framework, spec=spec))

    def _rescale(self, framework: Framework, event: Event) -> None:
        roles = list(framework.spec.task_roles)
        if not roles:
            return
        number = event.number % len(roles)
        if event.kind is EventKind.REMOVE_ROLE:
            roles.pop(number)
        else:
            roles[number] = msgspec.structs.replace(roles[number], task_number=event.number % 6)
        self._change_spec(framework, msgspec.structs.replace(framework.spec, task_roles=tuple(roles)))

    def _pods(self, framework: Framework) -> Sequence[PodView]:
        pods = self.server.list_objects(framework).pods
        return [pod for pod in pods if pod.metadata.annotations.framework_uid == framework.uid]

    def _harm_pod(self, framework: Framework, event: Event) -> None:
        pods = self._pods(framework)
        if not pods:
            return
        pod = pods[event.number % len(pods)]
        if event.kind is EventKind.EVICT_POD:
            self.kubelets.evict(pod)
        else:
            self.server.delete_pod(pod.metadata.namespace, pod.name, pod.uid)

    def _delete_config_map(self, framework: Framework, propagation: Propagation) -> None:
        config_map = self.server.list_objects(framework).config_map
        if config_map is not None:
            self.server.delete_config_map(
                config_map.metadata.namespace, config_map.name, config_map.uid, propagation
            )

    def _intrude(self, framework: Framework, event: Event) -> None:
        """Somebody else has a pod of that name for a while; it carries our label or not."""
        role = framework.spec.task_roles[0].name if framework.spec.task_roles else "worker"
        name = f"{framework.name}-{role}-{event.number % 6}"
        if (framework.namespace, name) in self.server.pods:
            return
        label = framework.name if event.number % 2 else ""
        stranger = self.server.put_pod(
            PodView(
                metadata=ObjectMetadata(
                    name=name,
                    namespace=framework.namespace,
                    uid=f"stranger-{event.at}-{event.number}",
                    labels=ObjectLabels(framework_name=label),
                )
            )
        )
        self.timeline.after(event.lasts, lambda: self.server.remove_pod(stranger.uid))

    def _crash(self) -> None:
        """The leader dies; a new process takes its place, and somebody leads after a while."""
        leader = self._end_leader()
        if leader is not None:
            successor = self._random.randrange(len(self.controllers))
            self.timeline.after(self._random.uniform(TAKEOVER, 20), lambda: self._elect(successor))

    def _change_leader(self) -> None:
        """The leader loses its lease and, as the real one does, its life with it; the standby takes over."""
        leader = self._end_leader()
        if leader is not None:
            successor = (leader + 1) % len(self.controllers)
            self.timeline.after(TAKEOVER, lambda: self._elect(successor))

    def _end_leader(self) -> int | None:
        for number, controller in enumerate(self.controllers):
            if controller.is_leader:
                controller.crash()
                self.retired.append(controller)
                self.controllers[number] = self._new_controller()
                return number
        return None


def _let_go(spec: FrameworkSpec) -> FrameworkSpec:
    """What is held would never come to its end."""
    spec = msgspec.structs.replace(spec, suspend=False)
    if spec.execution_type is ExecutionType.CREATE:
        spec = msgspec.structs.replace(spec, execution_type=ExecutionType.START)
    return spec


def _has_come_to_rest(framework: Framework) -> bool:
    """Completed and not to be deleted soon, or with nothing to do: without tasks, or behind another one of its name."""
    status = framework.status
    if framework.is_deleting or status is None:
        return False
    has_no_tasks = not any(role.task_number for role in framework.spec.task_roles)
    name_taken = status.condition(ConditionType.NAME_TAKEN)
    is_behind = name_taken is not None and name_taken.is_true
    is_completed = status.state is State.COMPLETED
    is_done = is_completed and framework.spec.ttl_seconds_after_finished is None
    return is_done or (not is_completed and (has_no_tasks or is_behind))
