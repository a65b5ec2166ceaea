"""Simulated kubelets: they start and end pods and confirm deletions, unless their node is lost.

They also bind pods to nodes, and delete the pods of lost nodes. The invariants are checked against the containers that
these kubelets run.
"""

from collections.abc import Callable
from datetime import datetime, timedelta
from random import Random

import msgspec

from windlass.model.base import Json
from windlass.model.framework import Framework, StartCondition
from windlass.model.pods import (
    ContainerState,
    ContainerStatus,
    ContainerTerminated,
    ContainerWaiting,
    PodCondition,
    PodPhase,
    PodSpecView,
    PodView,
)
from windlass.simulate.api_server import ApiServer
from windlass.simulate.scenario import Faults, Occurrence
from windlass.simulate.virtual_time import Timeline

NODES = 3
FAILURE_CODES = (1, 1, 2, 42, 130, 137, 139, 143, 200, 201, 210)
CLASSIFIED_CODES = (200, 201, 210, 130, 137, 139, 143)
"""The FAILURE_CODES that have a failure class, in the order of the classes (statements 20 and 22)."""
KILLED = 137
RESTART_DELAY_SEC = 10.0
READY_AFTER_SEC = 2.0
"""Seconds from the start of a pod until it is ready, if another role waits for that."""
UNKNOWN_AFTER_SEC = 5.0
"""Seconds after which the pods of a lost node may get the phase Unknown."""
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
        self.allowed_codes: dict[str, frozenset[int]] = {}
        """The completion codes that the exit codes of the containers allow, by pod UID."""
        self.force_deleted: set[str] = set()
        """UIDs of pods that were deleted by force: their containers may still run."""
        self.restarts: dict[str, int] = {}
        """Number of container restarts, by pod UID."""
        self.were_ready: set[str] = set()
        """UIDs of pods that have been ready."""
        self.on_start: list[Callable[[str, TaskKey], None]] = []
        server.on_pod_created.append(self._schedule)
        server.on_pod_deletion.append(self._on_deletion)

    def lose_node(self, number: int, seconds: float) -> None:
        node = f"node-{number % NODES}"
        if node in self._lost:
            return
        self._lost.add(node)
        self._timeline.after(EVICTION_AFTER_SEC, lambda: self._evict_from(node))
        if seconds > UNKNOWN_AFTER_SEC and number % 2:
            self._timeline.after(
                UNKNOWN_AFTER_SEC, lambda: self._set_phases(node, PodPhase.RUNNING, PodPhase.UNKNOWN)
            )
        self._timeline.after(seconds, lambda: self._return_node(node))

    def _return_node(self, node: str) -> None:
        self._lost.discard(node)
        self._set_phases(node, PodPhase.UNKNOWN, PodPhase.RUNNING)

    def _set_phases(self, node: str, old: PodPhase, new: PodPhase) -> None:
        for pod in tuple(self._server.pods.values()):
            if pod.spec.node_name == node and pod.status.phase == old:
                self._server.occurred.add(Occurrence.UNKNOWN_PHASE)
                status = msgspec.structs.replace(pod.status, phase=new)
                self._server.put_pod(msgspec.structs.replace(pod, status=status))

    def evict(self, pod: PodView) -> None:
        """Fail the pod, if it runs, because its node is low on memory or disk."""
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
        # If the random node is lost, it starts the pod after its return.
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
        if self._is_readiness_awaited(task[0]):
            self._timeline.after(READY_AFTER_SEC, lambda: self._set_ready(uid))
        if labels.role_name in self._endless_roles:
            return
        duration = self._between(0.05, self._faults().duration)
        self._timeline.after(duration, lambda: self._finish(pod, node))

    def _is_readiness_awaited(self, framework_uid: str) -> bool:
        framework = self._server.find(framework_uid)
        roles = framework.spec.task_roles if isinstance(framework, Framework) else ()
        return any(start.condition is StartCondition.READY for role in roles for start in role.start_after)

    def _set_ready(self, uid: str) -> None:
        pod = self._server.pod_of(uid)
        if pod is not None and pod.status.phase == PodPhase.RUNNING and pod.spec.node_name not in self._lost:
            self.were_ready.add(uid)
            conditions = (PodCondition("Ready", "True"),)
            status = msgspec.structs.replace(pod.status, conditions=conditions)
            self._server.put_pod(msgspec.structs.replace(pod, status=status))

    def _finish(self, started: PodView, node: str) -> None:
        if node in self._lost:
            self._timeline.after(1.0, lambda: self._finish(started, node))
            return
        uid = started.uid
        pod = self._server.pod_of(uid)
        spec = self._server.pod_specs.get(uid, {})
        is_failed = self._random.random() < self._faults().task_failure
        if spec.get("restartPolicy") == "Always" and pod is not None and not pod.is_deleting:
            self._restart(pod, node)
            return
        if not self._stop(started) or pod is None:
            return
        self._server.put_pod(self._ended(pod, self._draw_exit_codes(spec, is_failed=is_failed)))
        if pod.is_deleting:
            self._finish_deletion(uid)

    def _restart(self, pod: PodView, node: str) -> None:
        """End a container of a pod with restartPolicy Always, which stays in the phase Running, and start it again."""
        self._server.occurred.add(Occurrence.CONTAINER_RESTARTED)
        waiting = ContainerWaiting("CrashLoopBackOff", "back-off 10s restarting failed container")
        restarts = self.restarts[pod.uid] = self.restarts.get(pod.uid, 0) + 1
        container = ContainerStatus("main", ContainerState(waiting=waiting), restart_count=restarts)
        status = msgspec.structs.replace(pod.status, container_statuses=(container,))
        self._server.put_pod(msgspec.structs.replace(pod, status=status))
        self._timeline.after(
            RESTART_DELAY_SEC + self._between(0.05, self._faults().duration),
            lambda: self._finish(pod, node),
        )

    def _draw_exit_codes(self, spec: Json, *, is_failed: bool) -> dict[str, int]:
        """Return the exit code of each container. If the pod fails, at least the first container fails."""
        containers = [container["name"] for container in spec.get("containers", ())] or ["main"]
        codes = dict.fromkeys(containers, 0)
        if is_failed:
            codes[containers[0]] = self._random.choice(FAILURE_CODES)
            for name in containers[1:]:
                codes[name] = self._random.choice((0, *FAILURE_CODES))
        return codes

    def _ended(self, pod: PodView, codes: dict[str, int]) -> PodView:
        """Return the pod after its containers have ended, the last one now and the others up to two seconds earlier."""
        now = self._timeline.now.replace(microsecond=0)
        ends = {name: now - timedelta(seconds=self._random.randrange(3)) for name in codes}
        ends[self._random.choice(tuple(codes))] = now
        failed = [name for name, code in codes.items() if code]
        self.allowed_codes[pod.uid] = _expected_codes({name: codes[name] for name in failed}, ends)
        if len(failed) > 1:
            self._server.occurred.add(Occurrence.SEVERAL_CONTAINERS_FAILED)
        statuses = (
            ContainerStatus(
                name,
                ContainerState(
                    terminated=ContainerTerminated(
                        exit_code=code, message=f"exit {code}", finished_at=ends[name]
                    )
                ),
            )
            for name, code in codes.items()
        )
        phase = PodPhase.FAILED if failed else PodPhase.SUCCEEDED
        status = msgspec.structs.replace(pod.status, phase=phase, container_statuses=tuple(statuses))
        return msgspec.structs.replace(pod, status=status)

    def _on_deletion(self, pod: PodView, force: bool) -> None:
        if force:
            self.force_deleted.add(pod.uid)
        self._timeline.after(self._random.uniform(0.01, 3), lambda: self._kill(pod))

    def _kill(self, pod: PodView) -> None:
        if pod.spec.node_name in self._lost:
            self._timeline.after(1.0, lambda: self._kill(pod))
            return
        current = self._server.pod_of(pod.uid)
        was_running = self._stop(pod)
        if was_running and current is not None and not current.is_terminal:
            self._server.put_pod(self._ended(current, {"main": self._random.choice((0, KILLED))}))
        self._finish_deletion(pod.uid)

    def _finish_deletion(self, uid: str) -> None:
        """Remove a deleted pod, whose containers have ended, at once or after its volumes are cleaned up."""
        if self._random.random() < self._faults().linger:
            self._server.occurred.add(Occurrence.POD_LINGERED)
            self._timeline.after(self._random.uniform(1, 60), lambda: self._server.remove_pod(uid))
        else:
            self._server.remove_pod(uid)

    def _between(self, least: float, most: float) -> float:
        return most if self._is_lockstep else self._random.uniform(least, most)

    def _stop(self, pod: PodView) -> bool:
        """Stop the containers of the pod. Return whether they were running."""
        running = self._running.get(pod.metadata.annotations.framework_uid, {})
        return running.pop(pod.uid, None) is not None

    def running_of(self, framework_uid: str) -> dict[str, TaskKey]:
        """Return the tasks whose containers run, by pod UID, without pods that were deleted by force."""
        running = self._running.get(framework_uid, {})
        return {uid: task for uid, task in running.items() if uid not in self.force_deleted}

    @property
    def is_anything_running(self) -> bool:
        return any(self._running.values())


def _expected_codes(failed: dict[str, int], ends: dict[str, datetime]) -> frozenset[int]:
    """Return the allowed completion codes of a pod with these failed containers.

    The code is that of the first failure class that matches, otherwise that of the container that failed last. If
    several containers failed last, in the same second, the code of each is allowed.
    """
    if not failed:
        return frozenset({0})
    classified = [code for code in CLASSIFIED_CODES if code in failed.values()]
    if classified:
        return frozenset(classified[:1])
    last = max(ends[name] for name in failed)
    return frozenset(code for name, code in failed.items() if ends[name] == last)
