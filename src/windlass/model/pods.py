"""Typed views of a pod and of the ConfigMap of an attempt.

A view has only the fields that Windlass reads. Decoding a view skips everything else in the object, managedFields in
particular.
"""

from datetime import datetime, timedelta
from enum import StrEnum

import msgspec

from windlass.k8s.metadata import ObjectIdentity, OwnerReference
from windlass.model import names
from windlass.model.base import Sparse


class PodPhase(StrEnum):
    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    UNKNOWN = "Unknown"


CLOCK_SKEW = timedelta(seconds=10)
"""Tolerated difference of clocks: a node reports when a container ended, the API server when the deletion began. If a
pod ended less than this time before its deletion began, the deletion may have ended it."""
PHASE_RUNNING = PodPhase.RUNNING
TERMINAL_PHASES = frozenset({PodPhase.SUCCEEDED, PodPhase.FAILED})


class ObjectLabels(Sparse, frozen=True):
    framework_name: str = msgspec.field(default="", name=names.FRAMEWORK_NAME)
    role_name: str = msgspec.field(default="", name=names.TASKROLE_NAME)
    task_index: str = msgspec.field(default="", name=names.TASK_INDEX)
    attempt: str = msgspec.field(default="", name=names.ATTEMPT_LABEL)


class ObjectAnnotations(Sparse, frozen=True):
    framework_uid: str = msgspec.field(default="", name=names.FRAMEWORK_UID)
    framework_attempt_id: str = msgspec.field(default="", name=names.FRAMEWORK_ATTEMPT_ID)
    config_map_uid: str = msgspec.field(default="", name=names.CONFIGMAP_UID)
    task_uid: str = msgspec.field(default="", name=names.TASK_UID)
    task_attempt_id: str = msgspec.field(default="", name=names.TASK_ATTEMPT_ID)
    ports: str = msgspec.field(default="", name=names.PORTS_ANNOTATION)


class ObjectMetadata(ObjectIdentity, frozen=True):
    creation_timestamp: datetime | None = None
    deletion_timestamp: datetime | None = None
    deletion_grace_period_seconds: int = 0
    labels: ObjectLabels = ObjectLabels()
    annotations: ObjectAnnotations = ObjectAnnotations()
    owner_references: tuple[OwnerReference, ...] = ()


class ObjectView(Sparse, frozen=True):
    """The fields that all objects created by Windlass have."""

    metadata: ObjectMetadata

    @property
    def name(self) -> str:
        return self.metadata.name

    @property
    def uid(self) -> str:
        return self.metadata.uid

    @property
    def is_deleting(self) -> bool:
        return self.metadata.deletion_timestamp is not None

    @property
    def deletion_began(self) -> datetime | None:
        """Time of the deletion request. deletionTimestamp is the *end* of the grace period."""
        ends = self.metadata.deletion_timestamp
        return None if ends is None else ends - timedelta(seconds=self.metadata.deletion_grace_period_seconds)

    @property
    def controller(self) -> OwnerReference | None:
        return next((owner for owner in self.metadata.owner_references if owner.controller), None)


class ConfigMapView(ObjectView, frozen=True):
    """The ConfigMap that represents a Framework attempt."""

    @property
    def first_ports(self) -> dict[str, int] | None:
        """Port of the first task of each role if the pods share one network."""
        written = self.metadata.annotations.ports
        return msgspec.json.decode(written, type=dict[str, int]) if written else None


class ContainerTerminated(Sparse, frozen=True):
    exit_code: int = 0
    signal: int = 0
    reason: str = ""
    message: str = ""
    finished_at: datetime | None = None
    started_at: datetime | None = None


class ContainerRunning(Sparse, frozen=True):
    started_at: datetime | None = None


class ContainerWaiting(Sparse, frozen=True):
    reason: str = ""
    message: str = ""


class ContainerState(Sparse, frozen=True):
    terminated: ContainerTerminated | None = None
    waiting: ContainerWaiting | None = None
    running: ContainerRunning | None = None


class ContainerStatus(Sparse, frozen=True):
    name: str = ""
    state: ContainerState = ContainerState()
    restart_count: int = 0


class PodCondition(Sparse, frozen=True):
    type: str = ""
    status: str = ""


class PodSpecView(Sparse, frozen=True):
    node_name: str = ""


class PodStatusView(Sparse, frozen=True):
    phase: str = PodPhase.PENDING
    reason: str = ""
    message: str = ""
    pod_ip: str = ""
    host_ip: str = ""
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()
    conditions: tuple[PodCondition, ...] = ()
    start_time: datetime | None = None
    """Time at which the kubelet accepted the pod, before it pulls images."""


class PodView(ObjectView, frozen=True):
    """The pod that represents a task attempt."""

    spec: PodSpecView = PodSpecView()
    status: PodStatusView = PodStatusView()

    @property
    def containers(self) -> tuple[ContainerStatus, ...]:
        """Statuses of all containers, init containers first."""
        return self.status.init_container_statuses + self.status.container_statuses

    @property
    def restart_count(self) -> int:
        """Number of restarts of all containers, including init containers."""
        return sum(container.restart_count for container in self.containers)

    def has_condition(self, condition_type: str) -> bool:
        """Return whether the condition is True."""
        return any(each.type == condition_type and each.status == "True" for each in self.status.conditions)

    @property
    def is_terminal(self) -> bool:
        """Whether the phase is Succeeded or Failed: nothing of the pod runs or will run."""
        return self.status.phase in TERMINAL_PHASES

    @property
    def started_at(self) -> datetime | None:
        """Time at which the first of the containers started, without init containers, by the clock of the node."""
        states = (container.state for container in self.status.container_statuses)
        times = (begun.started_at for state in states if (begun := state.running or state.terminated))
        return min((time for time in times if time is not None), default=None)

    @property
    def finished_at(self) -> datetime | None:
        """Time at which the last of the terminated containers finished, by the clock of the node."""
        terminations = (container.state.terminated for container in self.containers)
        times = (ended.finished_at for ended in terminations if ended is not None)
        return max((time for time in times if time is not None), default=None)

    @property
    def ended_before_deletion(self) -> bool:
        """Whether the pod ended by itself before its deletion was requested."""
        began = self.deletion_began
        if began is None:
            return self.is_terminal
        finished_at = self.finished_at
        return self.is_terminal and finished_at is not None and finished_at < began - CLOCK_SKEW
