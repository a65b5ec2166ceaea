"""A world of one Framework: the objects around it, and what came of the actions.

It plays the API server, the watches and the kubelets, one asked-for step at a time, and knows nothing of the rules.
Every decision that it makes is held to the core contract on the way: the same input gives the same decision, and
deciding again on the stored status, with unchanged objects, gives the same actions and changes nothing.
"""

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import Any

import builders
import msgspec

from windlass.decide import decide
from windlass.decide import types as decide_types
from windlass.decide.types import Action, CreatedPod, Decision, Observed, Outcomes, Rules
from windlass.model.framework import Framework, TaskRoleSpec
from windlass.model.history import AttemptRecord
from windlass.model.pods import (
    ConfigMapView,
    ContainerRunning,
    ContainerState,
    ContainerStatus,
    ContainerTerminated,
    PodView,
)
from windlass.model.states import State
from windlass.model.status import FrameworkStatus, TaskRoleStatus, TaskStatus
from windlass.objects.attempt_record import attempt_record

GRACE = 30
"""Grace period of pods in seconds."""


class ObjectWorld:
    def __init__(self, framework: Framework, rules: Rules) -> None:
        self.framework = framework
        self.rules = rules
        self.now = builders.NOW
        self.config_map: ConfigMapView | None = None
        self.pods: dict[str, PodView] = {}
        self.known: set[str] = set()
        self.unconfirmed: set[str] = set()
        self.created: dict[str, CreatedPod] = {}
        self.rejected: dict[str, decide_types.RejectedPod] = {}
        self.postponed: dict[str, datetime] = {}
        self.uncertain: set[str] = set()
        self.name_taken_message = ""
        self.deletion_requested: set[str] = set()
        self.forced: set[str] = set()
        self.emptied: set[str] = set()
        self.is_framework_deletion_requested = False
        self.recorded_attempt = -1
        self.records: list[AttemptRecord] = []
        self._births = 0
        self._writes = 1

    # What is there

    @property
    def status(self) -> FrameworkStatus:
        assert self.framework.status is not None
        return self.framework.status

    def state(self) -> State:
        return self.status.state

    def code(self) -> int | None:
        """Completion of the Framework attempt."""
        completion = self.status.attempt_status.completion_status
        return None if completion is None else completion.code

    def role(self, name: str = "worker") -> TaskRoleStatus:
        return next(role for role in self.status.attempt_status.roles if role.name == name)

    def roles(self) -> list[str]:
        return [role.name for role in self.status.attempt_status.roles]

    def task(self, index: int, role: str = "worker") -> TaskStatus:
        return next(task for task in self.role(role).task_statuses if task.index == index)

    def task_code(self, index: int, role: str = "worker") -> int | None:
        completion = self.task(index, role).attempt_status.completion_status
        return None if completion is None else completion.code

    def indices(self, role: str = "worker") -> list[int]:
        return [task.index for task in self.role(role).task_statuses]

    def doomed(self, role: str = "worker") -> list[int]:
        return [task.index for task in self.role(role).task_statuses if task.deletion_pending]

    def pod(self, index: int, role: str = "worker") -> PodView:
        return self.pods[f"{self.framework.name}-{role}-{index}"]

    @property
    def config_map_uid(self) -> str:
        assert self.status.attempt_status.config_map_uid is not None
        return self.status.attempt_status.config_map_uid

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
                recorded_attempt=self.recorded_attempt,
            ),
        )

    # The controller

    def decide(self) -> Decision:
        observed = self.observed()
        decision = decide(self.framework, observed, self.now, self.rules)
        again = decide(self.framework, observed, self.now, self.rules)
        assert again == decision, "the same input gives the same decision"
        assert len(set(decision.actions)) == len(decision.actions), "nothing is asked for twice"
        return decision

    def step(self) -> Decision:
        """Decide and store without acting."""
        decision = self.decide()
        if decision.status is not None and decision.status != self.framework.status:
            self.framework = self.framework.with_status(decision.status, self._next_version())
        self.created.clear()
        self.rejected.clear()
        again = self.decide()
        assert again.status == decision.status, "what is stored is settled until something happens"
        assert again.actions == decision.actions, "a crash between store and act loses nothing"
        # After actions the key is looked at again in any case.
        is_woken_in_time = again.wake_at is None or (decision.wake_at or again.wake_at) <= again.wake_at
        is_woken = decision.wake_at is not None or again.wake_at is None
        assert decision.actions or (is_woken and is_woken_in_time), "no deadline is slept through"
        return decision

    def settle(self, *, is_shown: bool = True) -> list[Action]:
        """Decide, store and act until no action remains. Return all actions.

        Deletions succeed, but an object exists until the test removes it.
        """
        done: list[Action] = []
        for _ in range(30):
            before = self.framework.status
            decision = self.step()
            self.act(decision.actions)
            done += decision.actions
            if is_shown:
                self.show()
            if not decision.actions and self.framework.status == before:
                return done
        raise AssertionError(f"does not come to rest: {done[-5:]}")

    def act(self, actions: Iterable[Action]) -> None:
        for action in actions:
            if isinstance(action, decide_types.RecordAttempt):
                self.recorded_attempt = action.attempt
                self.records.append(attempt_record(self.framework, action))
            else:
                self._perform(action)

    def _perform(self, action: Action) -> None:
        match action:
            case decide_types.CreateConfigMap():
                assert self.config_map is None, "the name is not free"
                attempt_id = self.status.attempt_status.id
                self.config_map = builders.config_map(
                    self.framework, f"cm-{attempt_id}", attempt_id=attempt_id, created_at=self.now
                )
                self.known.add(self.config_map.uid)
                self.unconfirmed.add(self.config_map.uid)
            case decide_types.CreatePod(role, index):
                self._create_pod(role, index)
            case decide_types.DeletePod(name, uid, force):
                self.deletion_requested.add(uid)
                assert self.pods[name].uid == uid, "a delete carries the UID of what is there"
                if force:
                    self.forced.add(uid)
                    self.vanish(name)
                elif not self.pods[name].is_deleting:
                    self.begin_deletion(name)
            case decide_types.DeleteAttemptPods(uid):
                self.emptied.add(uid)
                for name, pod in self.pods.items():
                    if pod.metadata.labels.attempt == uid and not pod.is_deleting:
                        self.deletion_requested.add(pod.uid)
                        self.begin_deletion(name)
            case decide_types.DeleteConfigMap(uid):
                assert self.config_map is not None
                assert self.config_map.uid == uid, "a delete carries the UID of what is there"
                self.deletion_requested.add(uid)
                self.begin_config_map_deletion()
            case decide_types.DeleteFramework(uid):
                assert uid == self.framework.uid
                self.is_framework_deletion_requested = True
            case decide_types.RelistObjects():
                self.known |= self._uids_in_status()
                self.uncertain.clear()
                self.show()

    def _create_pod(self, role: str, index: int) -> None:
        task = self.task(index, role)
        name = task.attempt_status.pod_name
        assert name not in self.pods, f"the name {name} is not free"
        self._births += 1
        uid = f"pod-{self._births}"
        self.pods[name] = builders.pod(
            self.framework, task, role, uid=uid, config_map_uid=self.config_map_uid
        )
        self.created[name] = CreatedPod(uid, task.instance_uid or "", task.attempt_status.id)
        self.known.add(uid)
        self.unconfirmed.add(uid)
        self.postponed.pop(name, None)

    def _next_version(self) -> str:
        self._writes += 1
        return str(self._writes)

    def _uids_in_status(self) -> set[str]:
        attempt = self.status.attempt_status
        uids = {attempt.config_map_uid or ""}
        for role in attempt.roles:
            uids |= {task.attempt_status.pod_uid or "" for task in role.task_statuses}
        return uids - {""}

    # The people

    def edit(self, *roles: TaskRoleSpec, **spec: Any) -> None:
        """Change the spec: the roles, if given, and other fields."""
        if roles:
            spec["task_roles"] = roles
        self.framework = msgspec.structs.replace(
            self.framework,
            spec=msgspec.structs.replace(self.framework.spec, **spec),
            metadata=msgspec.structs.replace(self.framework.metadata, resource_version=self._next_version()),
        )

    def delete_framework(self) -> None:
        metadata = msgspec.structs.replace(
            self.framework.metadata, deletion_timestamp=self.now, resource_version=self._next_version()
        )
        self.framework = msgspec.structs.replace(self.framework, metadata=metadata)

    # Time, watches and kubelets

    def wait(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)

    def show(self) -> None:
        """Let the watch report all created objects."""
        self.unconfirmed.clear()

    def put(self, pod: PodView) -> None:
        """Add a pod to the observed ones."""
        self.pods[pod.name] = pod
        self.known.add(pod.uid)

    def put_config_map(self, config_map: ConfigMapView) -> None:
        self.config_map = config_map
        self.known.add(config_map.uid)

    def run(self, *indices: int, role: str = "worker") -> None:
        """Run the pods of these tasks; of all tasks of the role if none is named."""
        for index in indices or self.indices(role):
            pod = self.pod(index, role)
            state = ContainerState(running=ContainerRunning(started_at=self.now))
            status = msgspec.structs.replace(
                pod.status,
                phase="Running",
                pod_ip="10.0.0.1",
                host_ip="192.168.0.1",
                start_time=self.now,
                container_statuses=(ContainerStatus(name="main", state=state),),
            )
            spec = msgspec.structs.replace(pod.spec, node_name="node-0")
            self.pods[pod.name] = msgspec.structs.replace(pod, status=status, spec=spec)

    def end(self, index: int, exit_code: int = 0, role: str = "worker") -> None:
        """End the container of the pod by itself."""
        pod = self.pod(index, role)
        terminated = ContainerTerminated(exit_code=exit_code, started_at=pod.started_at, finished_at=self.now)
        container = ContainerStatus(name="main", state=ContainerState(terminated=terminated))
        phase = "Failed" if exit_code else "Succeeded"
        status = msgspec.structs.replace(pod.status, phase=phase, container_statuses=(container,))
        self.pods[pod.name] = msgspec.structs.replace(pod, status=status)

    def begin_deletion(self, name: str, grace: int = GRACE) -> None:
        pod = self.pods[name]
        self.pods[name] = msgspec.structs.replace(
            pod,
            metadata=msgspec.structs.replace(
                pod.metadata,
                deletion_timestamp=self.now + timedelta(seconds=grace),
                deletion_grace_period_seconds=grace,
            ),
        )

    def begin_config_map_deletion(self) -> None:
        assert self.config_map is not None
        metadata = msgspec.structs.replace(self.config_map.metadata, deletion_timestamp=self.now)
        self.config_map = msgspec.structs.replace(self.config_map, metadata=metadata)

    def vanish(self, *names: str) -> None:
        """Remove these pods; if none is named, all terminating ones."""
        for name in names or [name for name, pod in self.pods.items() if pod.is_deleting]:
            gone = self.pods.pop(name)
            self.unconfirmed.discard(gone.uid)
            self.deletion_requested.discard(gone.uid)
            self.forced.discard(gone.uid)

    def vanish_config_map(self) -> None:
        assert self.config_map is not None
        for uids in (self.unconfirmed, self.deletion_requested, self.emptied):
            uids.discard(self.config_map.uid)
        self.config_map = None

    def finish(self) -> list[Action]:
        """Remove all terminating objects until nothing is left to do."""
        done: list[Action] = []
        for _ in range(10):
            done += self.settle()
            if self._is_config_map_going():
                self.vanish_config_map()
            elif any(pod.is_deleting for pod in self.pods.values()):
                self.vanish()
            else:
                return done
        raise AssertionError(f"does not come to an end: {done[-5:]}")

    def _is_config_map_going(self) -> bool:
        found = self.config_map
        return found is not None and (found.is_deleting or found.uid in self.deletion_requested)


NewWorld = Callable[..., ObjectWorld]
