"""Simulated kubelets: they start and end pods and confirm deletions, unless their node is lost.

The invariants are checked against the containers that run here.
"""

from collections.abc import Callable
from random import Random

import msgspec

from windlass.model.pods import (
    ContainerState,
    ContainerStatus,
    ContainerTerminated,
    PodPhase,
    PodSpecView,
    PodView,
)
from windlass.simulate.api_server import ApiServer
from windlass.simulate.scenario import Faults
from windlass.simulate.virtual_time import Timeline

NODES = 3
FAILURE_CODES = (1, 1, 2, 42, 130, 137, 139, 143, 200, 201, 210)
EVICTION_AFTER_SEC = 20.0
"""Seconds after which the pods of a lost node are deleted."""

TaskKey = tuple[str, str, str]
"""Framework UID, role and index of a task."""


class Kubelets:
    def __init__(
        self,
        timeline: Timeline,
        server: ApiServer,
        random: Random,
        faults: Callable[[], Faults],
        *,
        is_lockstep: bool = False,
        endless_roles: frozenset[str] = frozenset(),
    ) -> None:
        self._timeline = timeline
        self._server = server
        self._random = random
        self._faults = faults
        self._is_lockstep = is_lockstep
        self._endless_roles = endless_roles
        self._lost: set[str] = set()
        self._running: dict[str, dict[str, TaskKey]] = {}
        """The tasks whose containers run, by Framework UID and pod UID."""
        self.exit_codes: dict[str, int] = {}
        """The exit codes of containers, by pod UID."""
        self.forced: set[str] = set()
        """UIDs of pods that were deleted by force: their containers may still run."""
        self.on_start: list[Callable[[str, TaskKey], None]] = []
        server.on_pod_created.append(self._schedule)
        server.on_pod_deletion.append(self._on_deletion)

    def lose_node(self, number: int, seconds: float) -> None:
        node = f"node-{number % NODES}"
        if node in self._lost:
            return
        self._lost.add(node)
        self._timeline.after(EVICTION_AFTER_SEC, lambda: self._evict_from(node))
        self._timeline.after(seconds, lambda: self._lost.discard(node))

    def evict(self, pod: PodView) -> None:
        """Fail the pod because its node is low on memory or disk."""
        if self._stop(pod):
            status = msgspec.structs.replace(
                pod.status, phase=PodPhase.FAILED, reason="Evicted", message="The node was low on resource"
            )
            self._server.put_pod(msgspec.structs.replace(pod, status=status))

    def _evict_from(self, node: str) -> None:
        if node in self._lost:
            for pod in [pod for pod in self._server.pods.values() if pod.spec.node_name == node]:
                self._server.delete_pod(pod.metadata.namespace, pod.name, pod.uid)

    def _schedule(self, pod: PodView) -> None:
        # The random node may be lost. It then starts the pod when it is back.
        node = f"node-{self._random.randrange(NODES)}"
        uid = pod.uid
        self._timeline.after(self._between(0.01, 0.2), lambda: self._bind(uid, node))

    def _bind(self, uid: str, node: str) -> None:
        pod = self._server.pod_of(uid)
        if pod is None or pod.is_deleting:
            return
        self._server.put_pod(msgspec.structs.replace(pod, spec=PodSpecView(node_name=node)))
        self._timeline.after(self._between(0.1, 2), lambda: self._start(uid, node))

    def _start(self, uid: str, node: str) -> None:
        if node in self._lost:
            self._timeline.after(1.0, lambda: self._start(uid, node))
            return
        pod = self._server.pod_of(uid)
        if pod is None or pod.is_deleting or pod.is_terminal:
            return
        labels = pod.metadata.labels
        task = (pod.metadata.annotations.framework_uid, labels.role_name, labels.task_index)
        self._running.setdefault(task[0], {})[uid] = task
        for listener in self.on_start:
            listener(uid, task)
        status = msgspec.structs.replace(
            pod.status,
            phase=PodPhase.RUNNING,
            pod_ip=f"10.0.{node[-1]}.{self._random.randrange(1, 255)}",
            host_ip=f"192.168.0.{node[-1]}",
        )
        self._server.put_pod(msgspec.structs.replace(pod, status=status))
        if labels.role_name in self._endless_roles:
            return
        duration = self._between(0.05, self._faults().duration)
        self._timeline.after(duration, lambda: self._finish(pod, node))

    def _finish(self, started: PodView, node: str) -> None:
        if node in self._lost:
            self._timeline.after(1.0, lambda: self._finish(started, node))
            return
        uid = started.uid
        pod = self._server.pod_of(uid)
        if not self._stop(started) or pod is None:
            return
        is_failed = self._random.random() < self._faults().task_failure
        code = self._random.choice(FAILURE_CODES) if is_failed else 0
        phase = PodPhase.FAILED if is_failed else PodPhase.SUCCEEDED
        self.exit_codes[uid] = code
        self._server.put_pod(self._ended(pod, phase, code))
        if pod.is_deleting:
            self._server.remove_pod(uid)

    def _ended(self, pod: PodView, phase: PodPhase, code: int) -> PodView:
        terminated = ContainerTerminated(
            exit_code=code, message=f"exit {code}", finished_at=self._timeline.now.replace(microsecond=0)
        )
        status = msgspec.structs.replace(
            pod.status,
            phase=phase,
            container_statuses=(ContainerStatus("main", ContainerState(terminated=terminated)),),
        )
        return msgspec.structs.replace(pod, status=status)

    def _on_deletion(self, pod: PodView, force: bool) -> None:
        if force:
            self.forced.add(pod.uid)
        self._timeline.after(self._random.uniform(0.01, 3), lambda: self._kill(pod))

    def _kill(self, pod: PodView) -> None:
        if pod.spec.node_name in self._lost:
            self._timeline.after(1.0, lambda: self._kill(pod))
            return
        self._stop(pod)
        self._server.remove_pod(pod.uid)

    def _between(self, least: float, most: float) -> float:
        return most if self._is_lockstep else self._random.uniform(least, most)

    def _stop(self, pod: PodView) -> bool:
        """Stop the container. Return whether it was running."""
        running = self._running.get(pod.metadata.annotations.framework_uid, {})
        return running.pop(pod.uid, None) is not None

    def running_of(self, framework_uid: str) -> dict[str, TaskKey]:
        """Return the tasks whose containers run, by pod UID, without pods that were deleted by force."""
        running = self._running.get(framework_uid, {})
        return {uid: task for uid, task in running.items() if uid not in self.forced}

    @property
    def is_anything_running(self) -> bool:
        return any(self._running.values())
