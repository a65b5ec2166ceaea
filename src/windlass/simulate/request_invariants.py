"""Invariants of the controller's requests, checked when a request arrives at the API server.

The last requests of a crashed controller are not checked: the state that they were based on may have changed.
"""

from datetime import timedelta

from windlass.model.framework import CompletedPods, Framework
from windlass.model.pods import ConfigMapView, PodView
from windlass.model.states import State
from windlass.model.status import FrameworkStatus, TaskStatus
from windlass.simulate.api_server import ApiServer
from windlass.simulate.violation import require

RETAIN_SEC = 30 * 24 * 3600
MAX_STORES_PER_SECOND = 20
"""Limit for one Framework."""


class RequestInvariants:
    def __init__(self, server: ApiServer) -> None:
        self._server = server
        self._seconds: dict[tuple[str, int], int] = {}

    def check_store(self, framework: str, seconds: float) -> None:
        """Require that the controller does not store in a hot loop."""
        slot = (framework, int(seconds))
        self._seconds[slot] = self._seconds.get(slot, 0) + 1
        require(
            self._seconds[slot] <= MAX_STORES_PER_SECOND,
            f"{framework}: more than {MAX_STORES_PER_SECOND} stores within a second",
        )

    def check_pod_deletion(self, pod: PodView, *, force: bool) -> None:
        """Require that the pod belongs to Windlass and must be deleted, and by force only after its timeout."""
        uid = pod.metadata.annotations.framework_uid
        require(bool(uid), f"the controller deletes the pod {pod.name}, which is not its own")
        framework = self._framework(uid)
        if framework is None or framework.status is None:
            return
        status, task = framework.status, task_of(framework.status, pod)
        must_be_deleted = (
            framework.is_deleting
            or not status.state.is_active
            or task is None
            or task.state.is_ending
            or task.state.is_over
        )
        require(must_be_deleted, f"{pod.name} is deleted while its task is {task and task.state}")
        is_kept = (
            status.state is State.COMPLETED
            and framework.spec.completed_pods is CompletedPods.KEEP
            and not framework.is_deleting
            and task is not None
            and task.attempt_status.pod_uid == pod.uid
        )
        require(not is_kept, f"{pod.name} must be kept but is deleted")
        if force:
            self._check_forced_deletion(status, pod)

    def _check_forced_deletion(self, status: FrameworkStatus, pod: PodView) -> None:
        roles = (role for role in status.attempt_status.roles if role.name == pod.metadata.labels.role_name)
        timeout = next((role.pod_graceful_deletion_timeout_sec for role in roles), None)
        began = pod.deletion_began
        is_overdue = (
            began is not None
            and timeout is not None
            and self._server.now >= began + timedelta(seconds=timeout)
        )
        require(
            is_overdue,
            f"{pod.name} is deleted by force; its timeout is {timeout}, its deletion began {began}",
        )

    def check_config_map_deletion(self, config_map: ConfigMapView) -> None:
        """Require that its pods are deleted and its attempt is over."""
        owner = config_map.controller
        framework = self._framework("" if owner is None else owner.uid)
        left = [pod.name for pod in self._server.dependents_of(config_map.uid)]
        require(not left, f"ConfigMap {config_map.uid} is deleted before its pods {left}")
        if framework is not None and framework.status is not None:
            is_in_use = (
                framework.status.state.is_active
                and framework.status.attempt_status.config_map_uid == config_map.uid
                and not framework.is_deleting
            )
            require(not is_in_use, f"ConfigMap {config_map.uid} is deleted while its attempt is active")

    def check_framework_deletion(self, framework: Framework) -> None:
        """Require that its TTL has expired (statement 45, A4)."""
        current = self._framework(framework.uid)
        if current is None or current.status is None:
            return
        ttl = current.spec.ttl_seconds_after_finished
        ended = current.status.completion_time
        is_expired = ended is not None and self._server.now >= ended + timedelta(
            seconds=RETAIN_SEC if ttl is None else ttl
        )
        require(is_expired, f"{framework.name} is deleted before its TTL has expired")

    def _framework(self, uid: str) -> Framework | None:
        found = self._server.found(uid)
        return found if isinstance(found, Framework) else None


def task_of(status: FrameworkStatus, pod: PodView) -> TaskStatus | None:
    """Return the task that the pod was created for, if its attempt is the current one."""
    annotations = pod.metadata.annotations
    if status.attempt_status.config_map_uid != annotations.config_map_uid:
        return None
    for role in status.attempt_status.roles:
        for task in role.task_statuses:
            if (task.instance_uid or "") == annotations.task_uid:
                is_current = str(task.attempt_status.id) == annotations.task_attempt_id
                return task if is_current else None
    return None
