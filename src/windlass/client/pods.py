"""Typed views of pods for the client: the task of a pod and the status of its containers.

`windlass.model.pods` contains the smaller view that the controller needs.
"""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import NamedTuple

import msgspec

from windlass.k8s.metadata import ObjectMeta
from windlass.model import names
from windlass.model.base import Sparse
from windlass.model.framework import Framework
from windlass.model.pods import TERMINAL_PHASES, ContainerTerminated, ContainerWaiting, PodPhase

DEFAULT_CONTAINER = "kubectl.kubernetes.io/default-container"
"""Annotation that names the default container of a pod."""


class Task(msgspec.Struct, frozen=True, gc=False):
    role: str
    index: int

    def __str__(self) -> str:
        return names.host_name(self.role, self.index)


class Terminated(ContainerTerminated, frozen=True):
    started_at: datetime | None = None


class Running(Sparse, frozen=True):
    started_at: datetime | None = None


class ContainerState(Sparse, frozen=True):
    waiting: ContainerWaiting | None = None
    running: Running | None = None
    terminated: Terminated | None = None


class ContainerStatus(Sparse, frozen=True):
    name: str = ""
    restart_count: int = 0
    state: ContainerState = ContainerState()
    last_state: ContainerState = ContainerState()

    @property
    def is_running(self) -> bool:
        return self.state.running is not None

    @property
    def has_started(self) -> bool:
        """Whether the current run of the container may have written a log."""
        return self.is_running or self.state.terminated is not None

    @property
    def has_run_before(self) -> bool:
        return self.last_state.terminated is not None


class Variable(Sparse, frozen=True):
    name: str = ""
    value: str = ""


class Mount(Sparse, frozen=True):
    name: str = ""
    mount_path: str = ""
    sub_path: str = ""
    read_only: bool = False


class ContainerPort(Sparse, frozen=True):
    container_port: int = 0


class Container(Sparse, frozen=True):
    name: str = ""
    command: tuple[str, ...] = ()
    ports: tuple[ContainerPort, ...] = ()
    env: tuple[Variable, ...] = ()
    volume_mounts: tuple[Mount, ...] = ()


class HostPath(Sparse, frozen=True):
    path: str = ""


class SecretVolume(Sparse, frozen=True):
    secret_name: str = ""


class ClaimVolume(Sparse, frozen=True):
    claim_name: str = ""
    read_only: bool = False


class NfsVolume(Sparse, frozen=True):
    server: str = ""
    path: str = ""
    read_only: bool = False


class Volume(Sparse, frozen=True):
    name: str = ""
    persistent_volume_claim: ClaimVolume | None = None
    nfs: NfsVolume | None = None
    secret: SecretVolume | None = None
    empty_dir: Mapping[str, object] | None = None
    host_path: HostPath | None = None


class Condition(Sparse, frozen=True):
    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""


class PodSpec(Sparse, frozen=True):
    node_name: str = ""
    init_containers: tuple[Container, ...] = ()
    containers: tuple[Container, ...] = ()
    volumes: tuple[Volume, ...] = ()


class PodStatus(Sparse, frozen=True):
    phase: str = PodPhase.PENDING
    reason: str = ""
    message: str = ""
    pod_ip: str = ""
    host_ip: str = ""
    conditions: tuple[Condition, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()


class Run(NamedTuple):
    """One run of a container."""

    pod: str
    """UID of the pod."""
    container: str
    restart_count: int
    """Number of restarts before this run."""


class Pod(Sparse, frozen=True):
    metadata: ObjectMeta
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def name(self) -> str:
        return self.metadata.name

    @property
    def uid(self) -> str:
        return self.metadata.uid

    @property
    def job_key(self) -> tuple[str, str]:
        """Namespace and name of its job."""
        return self.metadata.namespace, self.metadata.labels.get(names.FRAMEWORK_NAME, "")

    @property
    def is_task(self) -> bool:
        """Whether the pod runs a task. Other pods may have the labels of a job too."""
        labels = self.metadata.labels
        return bool(labels.get(names.TASKROLE_NAME)) and labels.get(names.TASK_INDEX, "").isdecimal()

    @property
    def task(self) -> Task:
        labels = self.metadata.labels
        index = labels.get(names.TASK_INDEX, "")
        return Task(labels.get(names.TASKROLE_NAME, ""), int(index) if index.isdecimal() else 0)

    @property
    def attempt(self) -> int:
        """Attempt of the task, counted from 0 within the attempt of the job."""
        attempt = self.metadata.annotations.get(names.TASK_ATTEMPT_ID, "")
        return int(attempt) if attempt.isdecimal() else 0

    @property
    def is_deleting(self) -> bool:
        return self.metadata.deletion_timestamp is not None

    @property
    def is_over(self) -> bool:
        return self.status.phase in TERMINAL_PHASES

    @property
    def is_ready(self) -> bool:
        return any(each.type == "Ready" and each.status == "True" for each in self.status.conditions)

    @property
    def container_statuses(self) -> tuple[ContainerStatus, ...]:
        """Statuses of init containers, then of containers."""
        return self.status.init_container_statuses + self.status.container_statuses

    @property
    def container_names(self) -> tuple[str, ...]:
        return tuple(each.name for each in (*self.spec.init_containers, *self.spec.containers))

    @property
    def main_container_names(self) -> tuple[str, ...]:
        """Names of all containers except init containers."""
        return tuple(each.name for each in self.spec.containers)

    @property
    def default_container(self) -> str:
        """The container to use if none is named."""
        annotated = self.metadata.annotations.get(DEFAULT_CONTAINER, "")
        return annotated if annotated in self.container_names else next(iter(self.main_container_names), "")

    def status_of(self, container: str) -> ContainerStatus | None:
        return next((each for each in self.container_statuses if each.name == container), None)

    def run_of(self, status: ContainerStatus) -> Run:
        return Run(self.uid, status.name, status.restart_count)

    @property
    def started_runs(self) -> Iterator[Run]:
        """The latest runs of the containers that may have written a log, at most two of each container."""
        for status in self.container_statuses:
            run = self.run_of(status)
            if status.has_started and status.has_run_before:
                yield run._replace(restart_count=run.restart_count - 1)
            # While a container waits for its restart, its current run is the one that has ended.
            if status.has_started or status.has_run_before:
                yield run

    def may_belong_to(self, framework: Framework) -> bool:
        """Return whether the pod is not marked as a pod of another Framework, e.g. an earlier one of the same name."""
        return self.metadata.annotations.get(names.FRAMEWORK_UID, framework.uid) == framework.uid


decode = msgspec.json.Decoder(Pod).decode
