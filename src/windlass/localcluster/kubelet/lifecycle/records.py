"""The record of a pod's containers, from which the next steps and the status of the pod are derived.

It is saved to disk as JSON, in which a tag identifies the type of each state.
"""

from datetime import datetime
from typing import Self

import msgspec

from windlass.localcluster.kubelet.lifecycle import specs
from windlass.model.base import Json

_SIGNAL_BASE = 128
_KILLED = 137


class Running(msgspec.Struct, frozen=True, tag="running"):
    started_at: datetime
    id: str


class Waiting(msgspec.Struct, frozen=True, tag="waiting"):
    """The container waits for a start or restart.

    After a failed start, `reason` is the cause and `since` the time of the failure.
    """

    reason: str = ""
    message: str = ""
    since: datetime | None = None


class Terminated(msgspec.Struct, frozen=True, tag="terminated"):
    exit_code: int
    signal: int = 0
    reason: str = ""
    message: str = ""
    started_at: datetime | None = None
    finished_at: datetime | None = None
    id: str = ""


State = Running | Waiting | Terminated

LOST = Terminated(
    exit_code=_KILLED,
    reason="ContainerStatusUnknown",
    message="The container could not be located when the pod was terminated",
)


class Ending(msgspec.Struct, frozen=True):
    """The pod is terminating: deleted (no reason), evicted, or past its deadline."""

    grace_seconds: int
    reason: str = ""
    message: str = ""


class ContainerRecord(msgspec.Struct, frozen=True):
    """One container.

    `has_started` means that its startup probe has succeeded or that it has none. `back_off_seconds` is the delay of the
    restart after the current run.
    """

    name: str
    restart_count: int = 0
    current: State = Waiting()
    last: Terminated | None = None
    is_ready: bool = False
    has_started: bool = False
    image_id: str = ""
    back_off_seconds: float = 0.0

    @property
    def is_running(self) -> bool:
        return isinstance(self.current, Running)

    @property
    def latest_end(self) -> Terminated | None:
        return self.current if isinstance(self.current, Terminated) else self.last

    @property
    def has_run(self) -> bool:
        return self.is_running or self.latest_end is not None

    @property
    def has_succeeded(self) -> bool:
        return isinstance(self.current, Terminated) and self.current.exit_code == 0

    @property
    def container_id(self) -> str:
        if isinstance(self.current, Waiting):
            return self.last.id if self.last else ""
        return self.current.id

    def with_end(self, end: Terminated) -> Self:
        return msgspec.structs.replace(self, current=end, is_ready=False, has_started=False)

    def with_failed_start(self, reason: str, message: str, at: datetime) -> Self:
        """Return the record after a start that failed because of configuration, a volume or an image."""
        waiting = Waiting(reason, message, at)
        return msgspec.structs.replace(
            self, current=waiting, last=self.latest_end, is_ready=False, has_started=False
        )


class PodRecord(msgspec.Struct, frozen=True):
    containers: tuple[ContainerRecord, ...]
    init_containers: tuple[ContainerRecord, ...] = ()
    pod_ips: tuple[str, ...] = ()
    host_ips: tuple[str, ...] = ()
    start_time: datetime | None = None
    has_sandbox: bool = False
    ending: Ending | None = None

    @property
    def all_containers(self) -> tuple[ContainerRecord, ...]:
        return (*self.init_containers, *self.containers)

    @property
    def is_anything_running(self) -> bool:
        return any(container.is_running for container in self.all_containers)

    def container(self, name: str) -> ContainerRecord:
        return next(container for container in self.all_containers if container.name == name)

    def with_container(self, changed: ContainerRecord) -> Self:
        def put(records: tuple[ContainerRecord, ...]) -> tuple[ContainerRecord, ...]:
            return tuple(changed if record.name == changed.name else record for record in records)

        return msgspec.structs.replace(
            self, containers=put(self.containers), init_containers=put(self.init_containers)
        )

    def with_ending(self, ending: Ending) -> Self:
        return msgspec.structs.replace(self, ending=ending)


def new(pod: Json) -> PodRecord:
    return PodRecord(
        containers=tuple(ContainerRecord(each["name"]) for each in specs.containers(pod)),
        init_containers=tuple(ContainerRecord(each["name"]) for each in specs.init_containers(pod)),
    )


def end(
    run: Running,
    finished_at: datetime,
    *,
    exit_code: int = 0,
    signal: int = 0,
    was_out_of_memory: bool = False,
    message: str = "",
) -> Terminated:
    """Return the end of a run. Signal n yields exit code 128 + n, as in shells and container runtimes."""
    code = _SIGNAL_BASE + signal if signal else exit_code
    ordinary = "Completed" if code == 0 else "Error"
    return Terminated(
        exit_code=code,
        signal=signal,
        reason="OOMKilled" if was_out_of_memory else ordinary,
        message=message,
        started_at=run.started_at,
        finished_at=finished_at,
        id=run.id,
    )


def start_error(message: str, at: datetime, container_id: str) -> Terminated:
    """Return the end of a run whose process could not be created, e.g. since the command does not exist."""
    return Terminated(
        exit_code=_SIGNAL_BASE, reason="StartError", message=message, finished_at=at, id=container_id
    )
