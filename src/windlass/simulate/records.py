"""The records of finished attempts on the simulated API server: each attempt has exactly one."""

from windlass.controller.engine.api import AlreadyExistsError, RefusedError
from windlass.model.failures import ApiFailure
from windlass.model.framework import Framework
from windlass.model.history import AttemptRecord, record_name
from windlass.model.states import State
from windlass.model.status import FrameworkStatus
from windlass.simulate.api_server import ApiServer
from windlass.simulate.invariants import require


class Records:
    def __init__(self, server: ApiServer, *, are_enabled: bool) -> None:
        self._server = server
        self._are_enabled = are_enabled
        self._stored: dict[str, FrameworkStatus] = {}
        """Last stored statuses by Framework UID. Kept after a deletion."""
        self.created: dict[str, AttemptRecord] = {}
        self.lost: set[str] = set()
        """Names of records that the API server rejected."""
        server.on_status_stored.append(self._on_status_stored)

    def create(self, record: AttemptRecord) -> None:
        require(self._are_enabled, f"{record.name} was created although records are disabled")
        if record.namespace in self._server.terminating_namespaces:
            raise RefusedError(ApiFailure(403, "Forbidden", "the namespace is being terminated"))
        if record.name in self.created:
            raise AlreadyExistsError(record.name)
        self._check_content(record)
        self.created[record.name] = record

    def _check_content(self, record: AttemptRecord) -> None:
        """Require that the attempt has ended in the stored status, and that the record contains all of its tasks."""
        spec = record.spec
        stored = self._stored.get(spec.framework_uid)
        if stored is None or stored.attempt_status.id != spec.attempt:
            # The sender has lost the lease and is late.
            require(
                stored is not None and spec.attempt < stored.attempt_status.id,
                f"{record.name} is of an attempt that has not begun",
            )
            return
        completion = stored.attempt_status.completion_status
        found = self._server.find(spec.framework_uid)
        is_deleted = not isinstance(found, Framework) or found.is_deleting
        require(
            is_deleted or (completion is not None and completion.code == spec.code),
            f"{record.name} says {spec.code} but the stored status {completion}",
        )
        ended = sum(1 for _ in record.task_attempts())
        tasks = sum(len(role.task_statuses) for role in stored.attempt_status.roles)
        require(
            is_deleted or ended >= tasks,
            f"{record.name} has {ended} task attempts, but there are {tasks} tasks",
        )

    def _on_status_stored(self, framework: Framework, new: FrameworkStatus) -> None:
        """Require that an attempt is recorded before its status is replaced."""
        self._stored[framework.uid] = new
        old = framework.status
        if old is not None and new.attempt_status.id != old.attempt_status.id:
            self._require_record(framework.uid, old)

    def check_end(self) -> None:
        for framework in self._server.frameworks.values():
            status = framework.status
            if status is not None and status.state is State.COMPLETED:
                self._require_record(framework.uid, status)

    def _require_record(self, uid: str, status: FrameworkStatus) -> None:
        name = record_name(uid, status.attempt_status.id)
        is_recorded = name in self.created or name in self.lost
        require(is_recorded or not self._are_enabled, f"the attempt {name} has ended but has no record")
