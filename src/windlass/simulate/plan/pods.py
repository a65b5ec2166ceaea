"""Simulated pods of `windlass plan`: they start, run and end at fixed times, and fail as injected."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import count

import msgspec

from windlass.discovery import ports
from windlass.model import role_names
from windlass.model.completion import CompletionCode
from windlass.model.feature_annotations import Features, Runtime, requested_features
from windlass.model.framework import CompletionRule, Framework, FrameworkSpec, StartCondition, TaskRoleSpec
from windlass.model.gang import GangSpec
from windlass.model.pods import (
    ContainerState,
    ContainerStatus,
    ContainerTerminated,
    PodCondition,
    PodPhase,
    PodSpecView,
    PodView,
)
from windlass.objects import barrier
from windlass.simulate.api_server import ApiServer
from windlass.simulate.virtual_time import Timeline
from windlass.wire.fault_injection import Action, Injection

BARRIER_TIMEOUT_SEC = 600.0
"""Default time for which the barrier of a pod waits for the other pods."""
BARRIER_TIMEOUT_CODE = int(CompletionCode.CONTAINER_TRANSIENT_CONFLICT_FAILED)
MAX_SECONDS = 100 * 365 * 86400.0
"""Events with a longer delay are ignored, because the range of `datetime` is limited."""
ALWAYS, ON_FAILURE = "Always", "OnFailure"
INITIAL_BACKOFF, MAX_BACKOFF = 10.0, 300.0
"""Seconds before a container restarts, from its second restart on, as in kubelets."""

Task = tuple[str, int]
OnTaskEvent = Callable[[str, int, str], None]
"""Called with role, index and description of an event."""


class TaskBehavior(msgspec.Struct, frozen=True):
    """How long tasks take without faults, in seconds."""

    starts_after: float = 2.0
    """Time from the creation of a pod until it runs."""
    runs_for: float = 600.0
    """Time from the start of a task until it succeeds."""
    runs_for_by_role: Mapping[str, float] = {}
    """The same time by role, where it differs."""
    endless: frozenset[str] = frozenset()
    """Roles that never end by themselves, in addition to servers, observers and roles that always restart."""
    stops_after: float = 1.0
    """Time from the deletion of a pod until it is removed."""

    def with_endless(self, roles: frozenset[str]) -> "TaskBehavior":
        """Return a copy in which the roles never end, except those in `runs_for_by_role`."""
        return msgspec.structs.replace(self, endless=self.endless | (roles - self.runs_for_by_role.keys()))

    def run_time(self, spec: FrameworkSpec, role: TaskRoleSpec, features: Features) -> float | None:
        """Return how long a task of the role runs; None if it never ends by itself."""
        if role.name in self.endless:
            return None
        if role.name in self.runs_for_by_role:
            return self.runs_for_by_role[role.name]
        is_server = _is_server_or_observer(spec, role, features.runtime) or _is_idle_server(role, features)
        return None if is_server or restart_policy(role) == ALWAYS else self.runs_for


def _is_server_or_observer(spec: FrameworkSpec, role: TaskRoleSpec, runtime: Runtime | None) -> bool:
    """Whether the role is a parameter server or an observer by its name, and the job does not wait for its end.

    With a runtime other than TensorFlow, no role is a parameter server.
    """
    is_parameter_server = role_names.type_of(role.name) == "ps" and runtime in (None, Runtime.TENSORFLOW)
    is_named = is_parameter_server or role.name in role_names.NON_MEMBERS
    return is_named and not _is_awaited(spec, role)


def _is_awaited(spec: FrameworkSpec, role: TaskRoleSpec) -> bool:
    """Whether a completion policy, a completion rule or the start of another role waits for the end of the role."""
    rules = (rule for rule in spec.completion_policies if rule.is_success or rule.after_all)
    starts = (start for each in spec.task_roles for start in each.start_after)
    return (
        role.framework_attempt_completion_policy.min_succeeded_task_count > 0
        or any(role.name in rule.task_roles or _waits_for_all_roles(rule) for rule in rules)
        or any(
            start.task_role == role.name and start.condition is StartCondition.SUCCEEDED for start in starts
        )
    )


def _waits_for_all_roles(rule: CompletionRule) -> bool:
    return not rule.task_roles and (rule.all_succeeded or rule.after_all)


def _is_idle_server(role: TaskRoleSpec, features: Features) -> bool:
    container = next(ports.containers(role.task.pod), {})
    has_command = bool(container.get("command") or container.get("args"))
    return features.is_idle_server(role.name) and not has_command


class PlannedPods:
    """All pods of one Framework."""

    def __init__(
        self,
        timeline: Timeline,
        server: ApiServer,
        framework: Framework,
        behavior: TaskBehavior,
        injections: Sequence[Injection],
        on_event: OnTaskEvent,
    ) -> None:
        self._timeline = timeline
        self._server = server
        self._spec = framework.spec
        self._roles = {role.name: role for role in framework.spec.task_roles}
        self._features = requested_features(framework.metadata.annotations)
        self._behavior = behavior
        self._injections = injections
        self._on_event = on_event
        self._created: dict[Task, int] = {}
        self._at_barrier: dict[str, Sequence[Injection]] = {}
        """Faults of the pods that wait at the barrier, by pod UID."""
        self._restart_counts: dict[str, int] = {}
        """Number of container restarts, by pod UID."""
        self._addresses = count(1)
        self.happened: set[Injection] = set()
        server.on_pod_created.append(self._on_pod_created)
        server.on_pod_deletion.append(self._on_pod_deletion)
        server.on_gang_published.append(self._open_barriers)

    @property
    def created(self) -> int:
        return sum(self._created.values())

    def _on_pod_created(self, pod: PodView) -> None:
        task = _task_of(pod)
        is_first = task not in self._created
        self._created[task] = self._created.get(task, 0) + 1
        planned = [
            each for each in self._injections if each.matches(*task) and (is_first or each.is_repeated)
        ]
        delays = [each for each in planned if each.action is Action.DELAY]
        faults = [each for each in planned if each.action is not Action.DELAY]
        for delay in delays:
            self._record_injection(delay, task)
        extra_delay = sum(delay.seconds for delay in delays)
        self._after(self._behavior.starts_after + extra_delay, lambda: self._start(pod.uid, faults))

    def _start(self, uid: str, faults: Sequence[Injection]) -> None:
        """Assign a node and an address. The containers run at once, or when the barrier opens."""
        pod = self._living(uid)
        if pod is None:
            return
        address = _address(next(self._addresses))
        status = msgspec.structs.replace(pod.status, pod_ip=address, host_ip="192.168.0.1")
        self._server.put_pod(msgspec.structs.replace(pod, spec=PodSpecView(node_name="node"), status=status))
        if self._features.uses_gang:
            self._at_barrier[uid] = faults
            self._after(BARRIER_TIMEOUT_SEC, lambda: self._time_out_barrier(uid))
        else:
            self._run(uid, faults)

    def _open_barriers(self, gang: GangSpec) -> None:
        members = {member.pod_uid for role in gang.roles for member in role.members}
        for uid in sorted(members & self._at_barrier.keys()):
            self._run(uid, self._at_barrier.pop(uid))

    def _time_out_barrier(self, uid: str) -> None:
        pod = self._living(uid)
        if self._at_barrier.pop(uid, None) is not None and pod is not None:
            self._on_event(*_task_of(pod), "barrier timed out: not every task has an address")
            self._end(pod, BARRIER_TIMEOUT_CODE, barrier.CONTAINER)

    def _run(self, uid: str, faults: Sequence[Injection]) -> None:
        pod = self._living(uid)
        if pod is None:
            return
        status = msgspec.structs.replace(
            pod.status, phase=PodPhase.RUNNING, conditions=(PodCondition("Ready", "True"),)
        )
        self._server.put_pod(msgspec.structs.replace(pod, status=status))
        # If a fault and the end are due at the same time, the fault is first.
        for fault in faults:
            self._after(fault.seconds, partial(self._inject, uid, fault))
        self._schedule_end(pod)

    def _schedule_end(self, pod: PodView, backoff: float = 0.0) -> None:
        role = self._roles[pod.metadata.labels.role_name]
        run_time = self._behavior.run_time(self._spec, role, self._features)
        if run_time is not None:
            self._after(
                backoff + run_time,
                partial(self._end_by_itself, pod.uid, self._restart_counts.get(pod.uid, 0)),
            )

    def _restart(self, pod: PodView, what: str) -> None:
        """Restart the container in its pod, which keeps running."""
        restarts = self._restart_counts.get(pod.uid, 0)
        self._restart_counts[pod.uid] = restarts + 1
        self._on_event(*_task_of(pod), what)
        container = ContainerStatus(
            _container_of(self._roles[pod.metadata.labels.role_name]), restart_count=restarts + 1
        )
        status = msgspec.structs.replace(pod.status, container_statuses=(container,))
        self._server.put_pod(msgspec.structs.replace(pod, status=status))
        backoff = min(INITIAL_BACKOFF * 2 ** min(restarts - 1, 10), MAX_BACKOFF) if restarts else 0.0
        self._schedule_end(pod, backoff)

    def _end_by_itself(self, uid: str, restarts: int) -> None:
        pod = self._living(uid)
        if pod is not None and self._restart_counts.get(uid, 0) == restarts:
            self._end(pod, 0)

    def _inject(self, uid: str, injection: Injection) -> None:
        pod = self._living(uid)
        if pod is None:
            return
        self._record_injection(injection, _task_of(pod))
        if injection.action is Action.DELETE:
            self._server.delete_pod(pod.metadata.namespace, pod.name, uid)
        else:
            self._end(pod, injection.code)

    def _end(self, pod: PodView, code: int, container: str = "") -> None:
        """End the container. The restartPolicy decides whether the pod ends too."""
        role = self._roles[pod.metadata.labels.role_name]
        policy = restart_policy(role)
        if policy == ALWAYS or (policy == ON_FAILURE and code):
            self._restart(pod, f"container exited with code {code} and is restarted (restartPolicy {policy})")
            return
        ended = ContainerTerminated(
            exit_code=code,
            reason="Error" if code else "Completed",
            finished_at=self._timeline.now.replace(microsecond=0),
        )
        status = msgspec.structs.replace(
            pod.status,
            phase=PodPhase.FAILED if code else PodPhase.SUCCEEDED,
            conditions=(),
            container_statuses=(
                ContainerStatus(container or _container_of(role), ContainerState(terminated=ended)),
            ),
        )
        self._server.put_pod(msgspec.structs.replace(pod, status=status))

    def _on_pod_deletion(self, pod: PodView, force: bool) -> None:
        self._after(0 if force else self._behavior.stops_after, lambda: self._server.remove_pod(pod.uid))

    def _record_injection(self, injection: Injection, task: Task) -> None:
        self.happened.add(injection)
        self._on_event(*task, f"injected: {injection.action_text}")

    def _living(self, uid: str) -> PodView | None:
        """Return the pod if it exists and is neither terminal nor being deleted."""
        pod = self._server.pod_of(uid)
        return None if pod is None or pod.is_deleting or pod.is_terminal else pod

    def _after(self, seconds: float, callback: Callable[[], None]) -> None:
        if seconds < MAX_SECONDS:
            self._timeline.after(seconds, callback)


def restart_policy(role: TaskRoleSpec) -> str:
    return str((role.task.pod.get("spec") or {}).get("restartPolicy") or ALWAYS)


def _container_of(role: TaskRoleSpec) -> str:
    containers = (role.task.pod.get("spec") or {}).get("containers") or [{}]
    return str(containers[0].get("name") or "main")


def _task_of(pod: PodView) -> Task:
    labels = pod.metadata.labels
    return labels.role_name, int(labels.task_index)


def _address(number: int) -> str:
    return f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"
