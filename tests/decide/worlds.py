"""A world of one Framework for the tables of the policies: it does ideally what was decided, and no more.

The world knows nothing of the rules under test. It stores, creates and deletes as an API server does, lets a test
play the kubelet and the strangers, and holds every stored status against the statements that are always true.
"""

import itertools
from datetime import datetime, timedelta
from typing import Any

import builders
import msgspec
from tests.decide.invariants import check_step, tasks_of, uids_of

from windlass.decide import decide
from windlass.decide.types import (
    Action,
    CreateConfigMap,
    CreatedPod,
    CreatePod,
    CreateService,
    Decision,
    DeleteAttemptPods,
    DeleteConfigMap,
    DeleteFramework,
    DeletePod,
    Observed,
    Outcomes,
    PublishGang,
    RejectedPod,
    RelistObjects,
    Rules,
)
from windlass.model import names
from windlass.model.failures import ApiFailure
from windlass.model.framework import Framework
from windlass.model.pods import (
    ConfigMapView,
    ContainerState,
    ContainerStatus,
    ContainerTerminated,
    PodCondition,
    PodSpecView,
    PodStatusView,
    PodView,
)
from windlass.model.states import State
from windlass.model.status import FrameworkAttemptStatus, FrameworkStatus, TaskStatus

replace = msgspec.structs.replace


class World:
    """A Framework, its objects, and a controller that decides, stores and acts."""

    def __init__(self, of: Framework, rules: Rules | None = None) -> None:
        self.framework = of
        self.rules = rules or Rules()
        self.now = builders.NOW
        self.config_map: ConfigMapView | None = None
        self.pods: dict[str, PodView] = {}
        self.known: set[str] = set()
        self.unconfirmed: set[str] = set()
        self.created: dict[str, CreatedPod] = {}
        self.rejected: dict[str, RejectedPod] = {}
        self.postponed: dict[str, datetime] = {}
        self.uncertain: set[str] = set()
        self.deletion_requested: set[str] = set()
        self.forced: set[str] = set()
        self.emptied: set[str] = set()
        self.is_framework_deletion_requested = False
        self.name_taken_message = ""
        self.attempt_with_service = -1
        self.published_gang = ""

        self.refusals: dict[str, ApiFailure] = {}
        """Errors of the API server for the creation of pods, by name."""
        self.shows_creations = True
        """Whether the watch reports a created object at once; otherwise when `confirm` is called."""
        self.completes_deletions = True
        """Whether a deleted object disappears at once; otherwise when the test says so."""
        self.history: list[FrameworkStatus] = []
        self.decisions: list[Decision] = []
        self._serial = itertools.count()

    # The controller.

    @property
    def observed(self) -> Observed:
        return Observed(
            config_map=self.config_map,
            pods=dict(self.pods),
            known=frozenset(self.known),
            unconfirmed=frozenset(self.unconfirmed),
            outcomes=Outcomes(
                created=dict(self.created),
                rejected=dict(self.rejected),
                postponed=dict(self.postponed),
                uncertain=frozenset(self.uncertain),
                name_taken_message=self.name_taken_message,
                deletion_requested=frozenset(self.deletion_requested),
                forced=frozenset(self.forced),
                collection_deletion_requested=frozenset(self.emptied),
                is_framework_deletion_requested=self.is_framework_deletion_requested,
                attempt_with_service=self.attempt_with_service,
                published_gang=self.published_gang,
            ),
        )

    def decide(self) -> Decision:
        """Decide without storing and acting."""
        return decide(self.framework, self.observed, self.now, self.rules)

    def step(self, acts: int | None = None) -> Decision:
        """Make one pass: decide, store, act; or perform only this many actions."""
        decision = self.decide()
        self.decisions.append(decision)
        if decision.status is not None:
            self._store(decision.status)
        for action in decision.actions[:acts]:
            self._perform(action)
        return decision

    def restart(self) -> None:
        """Replace the controller: the new one has listed all objects and knows nothing else."""
        self.known = {pod.uid for pod in self.pods.values()}
        if self.config_map is not None:
            self.known.add(self.config_map.uid)
        self.unconfirmed = set()
        self.created, self.rejected, self.postponed = {}, {}, {}
        self.uncertain, self.deletion_requested = set(), set()
        self.forced, self.emptied = set(), set()
        self.is_framework_deletion_requested = False
        self.name_taken_message, self.attempt_with_service, self.published_gang = "", -1, ""

    def settle(self) -> Decision:
        """Make passes until one neither changes the status nor acts; return that decision."""
        for _ in range(200):
            before = self.framework.status
            decision = self.step()
            if decision.status == before and not decision.actions:
                return decision
        raise AssertionError(f"nothing settles: {decision.actions}, {self.framework.status}")

    def wake(self) -> None:
        """Advance the clock to wake_at, and settle."""
        due = self.settle().wake_at
        assert due is not None, "nothing is waited for"
        self.now = max(self.now, due)
        self.settle()

    def advance(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)

    # Queries

    @property
    def status(self) -> FrameworkStatus:
        assert self.framework.status is not None
        return self.framework.status

    @property
    def state(self) -> State:
        return self.status.state

    @property
    def actions(self) -> tuple[Action, ...]:
        """All actions so far, in order."""
        return tuple(action for decision in self.decisions for action in decision.actions)

    @property
    def code(self) -> int | None:
        """Completion of the current Framework attempt."""
        ended = self.status.attempt_status.completion_status
        return None if ended is None else ended.code

    def task(self, role: str = "worker", index: int = 0) -> TaskStatus:
        return next(task for name, task in tasks_of(self.status) if name == role and task.index == index)

    def task_code(self, role: str = "worker", index: int = 0) -> int | None:
        ended = self.task(role, index).attempt_status.completion_status
        return None if ended is None else ended.code

    def states(self) -> list[State]:
        """Consecutive stored states of the Framework."""
        return [state for state, _ in itertools.groupby(status.state for status in self.history)]

    def task_states(self, role: str = "worker", index: int = 0) -> list[State]:
        found = (task for status in self.history for name, task in tasks_of(status) if name == role)
        return [state for state, _ in itertools.groupby(task.state for task in found if task.index == index)]

    def attempt(self, attempt_id: int) -> FrameworkAttemptStatus:
        """Return the Framework attempt with this ID as last stored, or as reported before a retry replaced it."""
        announced = [
            reason.status
            for decision in self.decisions
            for reason in decision.reasons
            if reason.status is not None
        ]
        found = [
            status.attempt_status
            for status in self.history + announced
            if status.attempt_status.id == attempt_id
        ]
        return max(found, key=lambda attempt: attempt.completion_status is not None)

    def pod(self, role: str = "worker", index: int = 0) -> PodView:
        return self.pods[names.pod_name(self.framework.name, role, index)]

    def has_pod(self, role: str = "worker", index: int = 0) -> bool:
        return names.pod_name(self.framework.name, role, index) in self.pods

    # The user

    def edit(self, **spec: Any) -> None:
        self.framework = replace(self.framework, spec=replace(self.framework.spec, **spec))

    def edit_role(self, name: str, **fields: Any) -> None:
        roles = (
            replace(role, **fields) if role.name == name else role for role in self.framework.spec.task_roles
        )
        self.edit(task_roles=tuple(roles))

    # The kubelet and other clients

    def show_pod(
        self,
        phase: str,
        role: str = "worker",
        index: int = 0,
        *,
        exit_code: int | None = None,
        reason: str = "",
        message: str = "",
        finished_at: datetime | None = None,
        restarts: int = 0,
        conditions: tuple[str, ...] = (),
    ) -> None:
        """Set the phase of the pod; with an exit code, its container has terminated with the message. `conditions` are
        those that are True."""
        pod = self.pod(role, index)
        containers: tuple[ContainerStatus, ...] = ()
        if exit_code is not None:
            ended = ContainerTerminated(
                exit_code=exit_code, message=message, finished_at=finished_at or self.now
            )
            state = ContainerState(terminated=ended)
            containers = (ContainerStatus(name="main", state=state, restart_count=restarts),)
        elif restarts:
            containers = (ContainerStatus(name="main", restart_count=restarts),)
        is_placed = phase != "Pending"
        self.pods[pod.name] = replace(
            pod,
            metadata=self._changed(pod),
            spec=PodSpecView(node_name="node-0" if is_placed else ""),
            status=PodStatusView(
                phase=phase,
                reason=reason,
                pod_ip=f"10.0.0.{index + 1}" if is_placed else "",
                host_ip="192.168.0.1" if is_placed else "",
                container_statuses=containers,
                conditions=tuple(PodCondition(each, "True") for each in conditions),
            ),
        )

    def run(self, role: str = "worker", index: int = 0) -> None:
        self.show_pod("Running", role, index)

    def run_pods(self) -> None:
        """Run every pending pod."""
        for pod in list(self.pods.values()):
            if pod.status.phase == "Pending" and not pod.is_deleting:
                self.run(pod.metadata.labels.role_name, int(pod.metadata.labels.task_index))

    def succeed(self, role: str = "worker", index: int = 0) -> None:
        self.show_pod("Succeeded", role, index, exit_code=0)

    def fail(self, role: str = "worker", index: int = 0, exit_code: int = 1, message: str = "") -> None:
        self.show_pod("Failed", role, index, exit_code=exit_code, message=message)

    def start(self) -> None:
        """Start the Framework and run every task that can run."""
        self.settle()
        self.run_pods()
        self.settle()

    def show_pod_deleting(self, role: str = "worker", index: int = 0, grace: int = 30) -> None:
        pod = self.pod(role, index)
        ends = self.now + timedelta(seconds=grace)
        metadata = replace(self._changed(pod), deletion_timestamp=ends, deletion_grace_period_seconds=grace)
        self.pods[pod.name] = replace(pod, metadata=metadata)

    def remove_pod(self, role: str = "worker", index: int = 0) -> None:
        self.unconfirmed.discard(self.pod(role, index).uid)
        del self.pods[names.pod_name(self.framework.name, role, index)]

    def show_config_map_deleting(self) -> None:
        assert self.config_map is not None
        metadata = replace(self._changed(self.config_map), deletion_timestamp=self.now)
        self.config_map = replace(self.config_map, metadata=metadata)

    def remove_config_map(self, and_pods: bool = True) -> None:
        assert self.config_map is not None
        self.unconfirmed.discard(self.config_map.uid)
        self.config_map = None
        if and_pods:
            self.pods.clear()

    def confirm(self) -> None:
        """Let the watch report all objects."""
        self.unconfirmed.clear()

    def finish_deletions(self) -> None:
        """Remove all objects whose deletion was requested."""
        for pod in list(self.pods.values()):
            if self._is_deletion_wanted(pod):
                del self.pods[pod.name]
        if self.config_map is not None and self._is_deletion_wanted(self.config_map):
            self.config_map = None

    def _is_deletion_wanted(self, view: PodView | ConfigMapView) -> bool:
        return view.is_deleting or view.uid in self.deletion_requested

    def _changed(self, view: PodView | ConfigMapView) -> Any:
        self.unconfirmed.discard(view.uid)
        return replace(view.metadata, resource_version=self._version())

    # The API server.

    def _version(self) -> str:
        return str(100 + next(self._serial))

    def _store(self, status: FrameworkStatus) -> None:
        if status == self.framework.status:
            return
        check_step(self.framework.status, status, self.now)
        self.framework = self.framework.with_status(status, self._version())
        self.history.append(status)
        stored = {task.attempt_status.pod_uid for _, task in tasks_of(status)}
        self.created = {name: made for name, made in self.created.items() if made.uid not in stored}

    def _perform(self, action: Action) -> None:
        match action:
            case CreateService():
                self.attempt_with_service = self.status.attempt_status.id
            case PublishGang(fingerprint=fingerprint):
                self._insist_on_addresses()
                self.published_gang = fingerprint
            case CreateConfigMap():
                assert self.config_map is None, "there is a ConfigMap of that name"
                self.config_map = builders.config_map(
                    self.framework,
                    self._new_uid("cm"),
                    attempt_id=self.status.attempt_status.id,
                    created_at=self.now,
                )
                self._know(self.config_map.uid)
            case CreatePod(role=role, index=index):
                self._create_pod(role, index)
            case DeletePod(uid=uid):
                self._delete_pods([pod for pod in self.pods.values() if pod.uid == uid])
                self.deletion_requested.add(uid)
            case DeleteAttemptPods(config_map_uid=uid):
                self._delete_pods([pod for pod in self.pods.values() if pod.metadata.labels.attempt == uid])
                self.emptied.add(uid)
            case DeleteConfigMap(uid=uid):
                orphans = [
                    pod.name for pod in self.pods.values() if pod.controller and pod.controller.uid == uid
                ]
                assert not orphans, f"the ConfigMap goes while its pods are there: {orphans}"
                self.deletion_requested.add(uid)
                if self.completes_deletions and self.config_map is not None and self.config_map.uid == uid:
                    self.config_map = None
            case DeleteFramework():
                self.is_framework_deletion_requested = True
            case RelistObjects():
                self.known |= uids_of(self.status)
                self.unconfirmed.clear()
                self.uncertain.clear()

    def _insist_on_addresses(self) -> None:
        """Check that the published Gang is stored: store before acting."""
        for role in self.framework.spec.task_roles:
            for index in range(role.task_number):
                attempt = self.task(role.name, index).attempt_status
                assert attempt.pod_uid, f"{role.name}-{index} is published without a pod"
                assert attempt.pod_ip, f"{role.name}-{index} is published without an address"

    def _new_uid(self, kind: str) -> str:
        return f"{kind}-{next(self._serial)}"

    def _know(self, uid: str) -> None:
        self.known.add(uid)
        if not self.shows_creations:
            self.unconfirmed.add(uid)

    def _create_pod(self, role: str, index: int) -> None:
        task = self.task(role, index)
        name = task.attempt_status.pod_name
        assert name not in self.pods, f"there is a pod of the name {name}"
        assert self.config_map is not None, "a pod is created whose owner does not exist"
        assert self.config_map.uid == self.status.attempt_status.config_map_uid
        assert task.instance_uid is not None
        if name in self.refusals:
            self.rejected[name] = RejectedPod(self.refusals[name], task.instance_uid, task.attempt_status.id)
            return
        pod = builders.pod(
            self.framework, task, role, uid=self._new_uid("pod"), config_map_uid=self.config_map.uid
        )
        self.pods[name] = pod
        self.created[name] = CreatedPod(pod.uid, task.instance_uid, task.attempt_status.id)
        self._know(pod.uid)

    def _delete_pods(self, pods: list[PodView]) -> None:
        for pod in pods:
            owner = next(
                (task for _, task in tasks_of(self.status) if task.attempt_status.pod_uid == pod.uid), None
            )
            is_decided = owner is None or owner.attempt_status.completion_status is not None
            assert is_decided, (
                f"statement 14: {pod.name} is deleted before it is stored how its attempt ended"
            )
            self.deletion_requested.add(pod.uid)
            if self.completes_deletions:
                del self.pods[pod.name]


def slow(world: World) -> World:
    """A world in which the test triggers watch events and deletions."""
    world.shows_creations = False
    world.completes_deletions = False
    return world
