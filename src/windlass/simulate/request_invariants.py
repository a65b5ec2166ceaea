"""What the controller may ask of the API server. Each request is judged at the moment at which it arrives.

A dead controller's last requests are not judged: what they were meant for has moved on.
"""

from datetime import timedelta

from windlass.model.framework import CompletedPods, Framework
from windlass.model.pods import ConfigMapView, PodView
from windlass.model.states import State
from windlass.model.status import FrameworkStatus, TaskStatus
from windlass.simulate.api_server import ApiServer
from windlass.simulate.violation import insist

RETAIN_SEC = 30 * 24 * 3600
MOST_REQUESTS_PER_SECOND = 20
"""For one Framework, without those for single pods."""


class Conduct:
    def __init__(self, server: ApiServer) -> None:
        self._server = server
        self._seconds: dict[tuple[str, int], int] = {}

    def counts(self, framework: str, seconds: float) -> None:
        """No hot loops: whatever goes wrong, a Framework is not worth more requests than that."""
        slot = (framework, int(seconds))
        self._seconds[slot] = self._seconds.get(slot, 0) + 1
        insist(
            self._seconds[slot] <= MOST_REQUESTS_PER_SECOND,
            f"{framework}: more than {MOST_REQUESTS_PER_SECOND} requests within a second",
        )

    def deletes_pod(self, pod: PodView, *, force: bool) -> None:
        """Only what is ours and has to go, and by force only when its time is over."""
        uid = pod.metadata.annotations.framework_uid
        insist(bool(uid), f"the controller deletes a stranger's pod {pod.name}")
        framework = self._framework(uid)
        if framework is None or framework.status is None:
            return
        status, task = framework.status, task_of(framework.status, pod)
        has_to_go = (
            framework.is_deleting
            or not status.state.is_active
            or task is None
            or task.state.is_ending
            or task.state.is_over
        )
        insist(has_to_go, f"{pod.name} is deleted while its task is {task and task.state}")
        is_kept = (
            status.state is State.COMPLETED
            and framework.spec.completed_pods is CompletedPods.KEEP
            and not framework.is_deleting
            and task is not None
            and task.attempt_status.pod_uid == pod.uid
        )
        insist(not is_kept, f"{pod.name} was to be kept, and is deleted")
        if force:
            self._forces(status, pod)

    def _forces(self, status: FrameworkStatus, pod: PodView) -> None:
        roles = (role for role in status.attempt_status.roles if role.name == pod.metadata.labels.role_name)
        timeout = next((role.pod_graceful_deletion_timeout_sec for role in roles), None)
        began = pod.deletion_began
        is_overdue = (
            began is not None
            and timeout is not None
            and self._server.now >= began + timedelta(seconds=timeout)
        )
        insist(is_overdue, f"{pod.name} is removed by force; its timeout is {timeout}, it began {began}")

    def deletes_config_map(self, config_map: ConfigMapView) -> None:
        """After its pods, and only when its attempt is over."""
        owner = config_map.controller
        framework = self._framework("" if owner is None else owner.uid)
        left = [pod.name for pod in self._server.dependents_of(config_map.uid)]
        insist(not left, f"ConfigMap {config_map.uid} is deleted before its pods {left}")
        if framework is not None and framework.status is not None:
            is_in_use = (
                framework.status.state.is_active
                and framework.status.attempt_status.config_map_uid == config_map.uid
                and not framework.is_deleting
            )
            insist(not is_in_use, f"ConfigMap {config_map.uid} is deleted while its attempt is active")

    def deletes_framework(self, framework: Framework) -> None:
        """Not before its time is over (statement 45, A4)."""
        current = self._framework(framework.uid)
        if current is None or current.status is None:
            return
        ttl = current.spec.ttl_seconds_after_finished
        ended = current.status.completion_time
        is_expired = ended is not None and self._server.now >= ended + timedelta(
            seconds=RETAIN_SEC if ttl is None else ttl
        )
        insist(is_expired, f"{framework.name} is deleted before its time is over")

    def _framework(self, uid: str) -> Framework | None:
        found = self._server.found(uid)
        return found if isinstance(found, Framework) else None


def task_of(status: FrameworkStatus, pod: PodView) -> TaskStatus | None:
    """The task that the pod was made for, if its attempt is still the current one."""
    annotations = pod.metadata.annotations
    if status.attempt_status.config_map_uid != annotations.config_map_uid:
        return None
    for role in status.attempt_status.roles:
        for task in role.task_statuses:
            if (task.instance_uid or "") == annotations.task_uid:
                is_current = str(task.attempt_status.id) == annotations.task_attempt_id
                return task if is_current else None
    return None
