"""Pods on a virtual clock that do what is planned for them: they start, run and end on time, and faults befall them.

Nothing is drawn here: the same plan gives the same lives.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import count

import msgspec

from windlass.model import role_names
from windlass.model.completion import CompletionCode
from windlass.model.feature_annotations import Runtime, requested_features
from windlass.model.framework import Framework, TaskRoleSpec
from windlass.model.gang import GangSpec
from windlass.model.pods import (
    ContainerState,
    ContainerStatus,
    ContainerTerminated,
    PodPhase,
    PodSpecView,
    PodView,
)
from windlass.objects import barrier
from windlass.simulate.api_server import ApiServer
from windlass.simulate.virtual_time import Timeline
from windlass.wire.fault_injection import Injection, What

BARRIER_PATIENCE = 600.0
"""Seconds for which the barrier in a pod waits for the others, unless its environment says otherwise."""
BARRIER_GAVE_UP = int(CompletionCode.CONTAINER_TRANSIENT_CONFLICT_FAILED)
LONGEST = 100 * 365 * 86400.0
"""Seconds. What happens in a hundred years never happens: a date has no room for much more."""
ALWAYS, ON_FAILURE = "Always", "OnFailure"
FIRST_BACK_OFF, LONGEST_BACK_OFF = 10.0, 300.0
"""Seconds between two runs of a container, from its second restart on, as kubelets have it."""

Task = tuple[str, int]
Tell = Callable[[str, int, str], None]
"""Role, index, and what has happened to that task."""


class Habits(msgspec.Struct, frozen=True):
    """What tasks do when nobody disturbs them. All in seconds."""

    starts_after: float = 2.0
    """From the creation of a pod until it runs."""
    runs_for: float = 600.0
    """Then it ends with 0."""
    runs_for_of: Mapping[str, float] = {}
    """By role, where it is another time."""
    endless: frozenset[str] = frozenset()
    """Roles that never end by themselves, besides those that are known to be such."""
    stops_after: float = 1.0
    """From the deletion of a pod until it is gone."""

    def with_endless(self, roles: frozenset[str]) -> "Habits":
        """A role whose time is known keeps it."""
        return msgspec.structs.replace(self, endless=self.endless | (roles - self.runs_for_of.keys()))

    def life_of(self, role: TaskRoleSpec, runtime: Runtime | None) -> float | None:
        """How long a task of it runs. None: it never ends by itself."""
        if role.name in self.endless:
            return None
        if role.name in self.runs_for_of:
            return self.runs_for_of[role.name]
        is_endless = is_a_server(role, runtime) or restart_policy(role) == ALWAYS
        return None if is_endless else self.runs_for


def is_a_server(role: TaskRoleSpec, runtime: Runtime | None) -> bool:
    """By its name: a parameter server or one that looks on. Unless the job waits for its success."""
    is_awaited = role.framework_attempt_completion_policy.min_succeeded_task_count > 0
    is_parameter_server = role_names.type_of(role.name) == "ps" and runtime in (None, Runtime.TENSORFLOW)
    return not is_awaited and (is_parameter_server or role.name in role_names.NON_MEMBERS)


class PlannedPods:
    """All pods of one Framework."""

    def __init__(
        self,
        timeline: Timeline,
        server: ApiServer,
        framework: Framework,
        habits: Habits,
        injections: Sequence[Injection],
        tell: Tell,
    ) -> None:
        self._timeline = timeline
        self._server = server
        self._roles = {role.name: role for role in framework.spec.task_roles}
        self._features = requested_features(framework.metadata.annotations)
        self._habits = habits
        self._injections = injections
        self._tell = tell
        self._made: dict[Task, int] = {}
        self._at_barrier: dict[str, Sequence[Injection]] = {}
        """By pod UID: what will befall those that wait for the others."""
        self._runs: dict[str, int] = {}
        """By pod UID: how often its container was restarted in place."""
        self._addresses = count(1)
        self.happened: set[Injection] = set()
        server.on_pod_created.append(self._made_one)
        server.on_pod_deletion.append(self._deleted_one)
        server.on_gang_published.append(self._open_barriers)

    @property
    def made(self) -> int:
        return sum(self._made.values())

    def _made_one(self, pod: PodView) -> None:
        task = _task_of(pod)
        is_first = task not in self._made
        self._made[task] = self._made.get(task, 0) + 1
        planned = [
            each for each in self._injections if each.concerns(*task) and (is_first or each.is_repeated)
        ]
        delays = [each for each in planned if each.what is What.DELAY]
        strikes = [each for each in planned if each.what is not What.DELAY]
        for delay in delays:
            self._happen(delay, task)
        late = sum(delay.seconds for delay in delays)
        self._after(self._habits.starts_after + late, lambda: self._start(pod.uid, strikes))

    def _start(self, uid: str, strikes: Sequence[Injection]) -> None:
        """It has a node and an address. Whether it runs is for its barrier to say, if it has one."""
        pod = self._living(uid)
        if pod is None:
            return
        address = _address(next(self._addresses))
        status = msgspec.structs.replace(pod.status, pod_ip=address, host_ip="192.168.0.1")
        self._server.put_pod(msgspec.structs.replace(pod, spec=PodSpecView(node_name="node"), status=status))
        if self._features.uses_gang:
            self._at_barrier[uid] = strikes
            self._after(BARRIER_PATIENCE, lambda: self._give_up(uid))
        else:
            self._run(uid, strikes)

    def _open_barriers(self, gang: GangSpec) -> None:
        members = {member.pod_uid for role in gang.roles for member in role.members}
        for uid in sorted(members & self._at_barrier.keys()):
            self._run(uid, self._at_barrier.pop(uid))

    def _give_up(self, uid: str) -> None:
        pod = self._living(uid)
        if self._at_barrier.pop(uid, None) is not None and pod is not None:
            self._tell(*_task_of(pod), "barrier gives up: not every task has an address")
            self._end(pod, BARRIER_GAVE_UP, barrier.CONTAINER)

    def _run(self, uid: str, strikes: Sequence[Injection]) -> None:
        pod = self._living(uid)
        if pod is None:
            return
        status = msgspec.structs.replace(pod.status, phase=PodPhase.RUNNING)
        self._server.put_pod(msgspec.structs.replace(pod, status=status))
        # Of one moment, the fault comes first.
        for strike in strikes:
            self._after(strike.seconds, partial(self._strike, uid, strike))
        self._plan_its_end(pod)

    def _plan_its_end(self, pod: PodView, waits: float = 0.0) -> None:
        role = self._roles[pod.metadata.labels.role_name]
        life = self._habits.life_of(role, self._features.runtime)
        if life is not None:
            self._after(waits + life, partial(self._end_by_itself, pod.uid, self._runs.get(pod.uid, 0)))

    def _restart(self, pod: PodView, what: str) -> None:
        """In its place; to the controller the pod runs on."""
        restarts = self._runs.get(pod.uid, 0)
        self._runs[pod.uid] = restarts + 1
        self._tell(*_task_of(pod), what)
        waits = min(FIRST_BACK_OFF * 2 ** min(restarts - 1, 10), LONGEST_BACK_OFF) if restarts else 0.0
        self._plan_its_end(pod, waits)

    def _end_by_itself(self, uid: str, run: int) -> None:
        pod = self._living(uid)
        if pod is not None and self._runs.get(uid, 0) == run:
            self._end(pod, 0)

    def _strike(self, uid: str, injection: Injection) -> None:
        pod = self._living(uid)
        if pod is None:
            return
        self._happen(injection, _task_of(pod))
        if injection.what is What.DELETE:
            self._server.delete_pod(pod.metadata.namespace, pod.name, uid)
        else:
            self._end(pod, injection.code)

    def _end(self, pod: PodView, code: int, container: str = "") -> None:
        """Its container ends. Whether the pod does as well is for its restartPolicy to say."""
        role = self._roles[pod.metadata.labels.role_name]
        policy = restart_policy(role)
        if policy == ALWAYS or (policy == ON_FAILURE and code):
            self._restart(pod, f"container ends with {code} and is restarted: restartPolicy is {policy}")
            return
        ended = ContainerTerminated(
            exit_code=code,
            reason="Error" if code else "Completed",
            finished_at=self._timeline.now.replace(microsecond=0),
        )
        status = msgspec.structs.replace(
            pod.status,
            phase=PodPhase.FAILED if code else PodPhase.SUCCEEDED,
            container_statuses=(
                ContainerStatus(container or _container_of(role), ContainerState(terminated=ended)),
            ),
        )
        self._server.put_pod(msgspec.structs.replace(pod, status=status))

    def _deleted_one(self, pod: PodView, force: bool) -> None:
        self._after(0 if force else self._habits.stops_after, lambda: self._server.remove_pod(pod.uid))

    def _happen(self, injection: Injection, task: Task) -> None:
        self.happened.add(injection)
        self._tell(*task, f"injected: {injection.deed}")

    def _living(self, uid: str) -> PodView | None:
        """None: there is nothing left that could happen to it."""
        pod = self._server.pod_of(uid)
        return None if pod is None or pod.is_deleting or pod.is_terminal else pod

    def _after(self, seconds: float, callback: Callable[[], None]) -> None:
        if seconds < LONGEST:
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
