"""Scenarios of the Simulation: values drawn from a seed, so that they can be replayed and shrunk."""

from enum import StrEnum
from random import Random
from typing import Any

import msgspec

from windlass.model import names
from windlass.model.base import Json
from windlass.model.framework import (
    ALWAYS_RETRY,
    RETRY_IF_FAILED,
    CompletedPods,
    CompletionPolicySpec,
    ExecutionType,
    Framework,
    FrameworkSpec,
    RetryBackoff,
    RetryPolicySpec,
    TaskRoleSpec,
)
from windlass.simulate import builders, drawn_rules


class Faults(msgspec.Struct, frozen=True):
    """Probabilities of faults, and durations in seconds."""

    conflict: float = 0.0
    """The Framework is changed just before the controller writes it."""
    error_before: float = 0.0
    """A 500 or a timeout; nothing is written. With the same probability, the delay of a request or answer is long."""
    error_after: float = 0.0
    """A 500 or a timeout after the object was written."""
    refusal: float = 0.0
    """The creation of a pod is rejected: over quota (temporary), by a webhook or as invalid (permanent). The creation
    of other objects is rejected by a webhook."""
    throttled: float = 0.0
    """A request is rejected with 429."""
    watch_delay: float = 0.02
    """Maximum delay of a watch event. Events of different resources may overtake each other."""
    watch_drop: float = 0.0
    """A watch ends before an event. The next one delivers it."""
    watch_repeat: float = 0.0
    expired: float = 0.0
    """The server has forgotten all changes (410 Gone) when a watch ends or the next page of a list is requested."""
    lease_error: float = 0.0
    """A request for the Lease fails. A write may have been stored nevertheless."""
    task_failure: float = 0.0
    """A container fails."""
    linger: float = 0.0
    """A deleted pod still exists for a while after its containers have ended."""
    clock_drift: float = 0.0
    """Maximum fraction by which the clock of a controller runs too fast or too slow. If it is not 0, the clock may also
    be wrong by up to an hour."""
    duration: float = 20.0
    """Maximum run time of a container."""


QUIET = Faults()


class EventType(StrEnum):
    """Actions of users and other workloads, and failures of nodes, controllers and watches."""

    RESCALE = "rescale"
    SUSPEND = "suspend"
    RESUME = "resume"
    START = "start"
    STOP = "stop"
    DELETE_FOREGROUND = "delete foreground"
    DELETE_BACKGROUND = "delete background"
    REMOVE_ROLE = "remove role"
    EDIT = "edit policies"
    RECREATE = "delete and create again"
    DELETE_POD = "delete pod"
    EVICT_POD = "evict pod"
    DELETE_CONFIG_MAP_FOREGROUND = "delete ConfigMap foreground"
    DELETE_CONFIG_MAP_BACKGROUND = "delete ConfigMap background"
    LOSE_NODE = "lose node"
    CRASH = "crash the controller"
    CHANGE_LEADER = "change leader"
    SUSPEND_MACHINE = "suspend the machine of the leader"
    RELIST = "relist"
    STALL = "stall a watch"
    FOREIGN_POD = "create a foreign pod"
    ADD_FINALIZER = "add a finalizer"
    REVOKE_PERMISSION = "revoke a permission of the controller"
    DELETE_NAMESPACE = "delete and create the namespace"
    STEP_CLOCK = "step the clock of a controller"


class Occurrence(StrEnum):
    """Rare situations in a run. A test requires that the drawn scenarios lead to each of them."""

    CLOCK_CORRECTED = "the clock of a controller was wrong and followed the API server"
    LIST_EXPIRED = "a list could not be continued because its token had expired"
    CONTAINER_RESTARTED = "a container was restarted (restartPolicy Always)"
    FINALIZER_DELAYED_REMOVAL = "a finalizer delayed the removal of an object"
    FORCED_DELETION = "a pod was deleted by force"
    FORCED_DELETION_DUE_AFTER_FAULTS = "a pod with a timeout was still terminating after the faults had ended"
    LATE_REQUEST = "a request of an old leader arrived after the next leader had acquired the lease"
    FAILURE_RECLASSIFIED = "a failure class of a role set the code of a task"
    LEASE_LOST = "a leader could not renew its lease"
    LEASE_RELEASED = "a leader released its lease"
    NAMESPACE_TERMINATING = "an object was rejected because the namespace was being deleted"
    PATCH_REJECTED = "a patch did not fit the stored status"
    PARALLELISM_REACHED = "a role had as many pods as its parallelism allows, and more tasks"
    PERMISSION_MISSING = "a request was rejected because the controller lacked the permission"
    RESUMED_FROM_BOOKMARK = "a watch continued from the version of a bookmark"
    RULE_DECIDED = "a completion rule completed an attempt"
    STARTED_IN_ORDER = "a role started after another one"
    RETRY_AFTER_SUCCESS = "a success was retried (maxRetryCount -2)"
    SEVERAL_CONTAINERS_FAILED = "several containers of a pod failed"
    STATUS_COMPRESSED = "the task statuses were stored compressed"
    POD_LINGERED = "a deleted pod still existed after its containers had ended"
    THROTTLED = "a request was rejected with 429"
    TIED_RULES = "several completion rules were met in the same second"
    UNKNOWN_PHASE = "a pod had the phase Unknown"
    UNLIMITED_RETRY = "a failure was retried without a limit (maxRetryCount -1)"
    WATCH_EXPIRED = "a watch was rejected with 410 because its version was too old"
    WEBHOOK_DENIED = "a webhook denied a pod"


class Event(msgspec.Struct, frozen=True):
    at: float
    type: EventType
    framework: int = 0
    """Index of the submission."""
    number: int = 0
    """Index of a pod, role, node, watch, edit, object or permission, or a new number of tasks, modulo the available
    number. It also selects variants of an event."""
    lasts: float = 0.0


class Submission(msgspec.Struct, frozen=True):
    at: float
    framework: Framework


class Scenario(msgspec.Struct, frozen=True):
    seed: int
    submissions: tuple[Submission, ...]
    events: tuple[Event, ...] = ()
    faults: Faults = QUIET
    replicas: int = 2
    """Number of controllers, one of which leads."""
    is_lockstep: bool = False
    """Whether all pods take the same time to be bound, to start and to end."""
    is_encoded: bool = False
    """Whether statuses are stored by JSON patches, and compressed by some controllers."""
    endless_roles: frozenset[str] = frozenset()
    """Roles whose containers never end by themselves, e.g. parameter servers."""
    keeps_records: bool = False
    """Whether the controllers write records of finished attempts."""
    faults_end: float = 0.0
    """Seconds after which there are no faults, so that every Framework must settle."""

    @property
    def has_wrong_clocks(self) -> bool:
        return self.faults.clock_drift > 0 or any(event.type is EventType.STEP_CLOCK for event in self.events)

    def describe(self) -> str:
        """Return a readable summary, without pod templates."""
        lines = [f"seed {self.seed}, faults until {self.faults_end:.1f} s: {_nonzero(self.faults)}"]
        for number, submission in enumerate(self.submissions):
            spec = msgspec.to_builtins(submission.framework.spec)
            for role in spec.get("taskRoles", ()):
                role.get("task", {}).pop("pod", None)
            framework = submission.framework
            annotations = framework.metadata.annotations or ""
            lines.append(
                f"  {submission.at:7.2f} s  #{number} {framework.name} ({framework.group}){annotations}: {spec}"
            )
        lines += [
            f"  {event.at:7.2f} s  {event.type} of #{event.framework}"
            f" (number {event.number}, lasts {event.lasts:.1f} s)"
            for event in self.events
        ]
        return "\n".join(lines)


def _nonzero(faults: Faults) -> str:
    return ", ".join(f"{name} {value:.3g}" for name, value in msgspec.structs.asdict(faults).items() if value)


def draw(seed: int) -> Scenario:
    """Draw a small scenario with many faults."""
    random = Random(seed)
    count = random.choice((1, 1, 1, 2, 2, 3))
    # Own random numbers, so that the other draws do not depend on the rules.
    rules = Random(f"rules of {seed}")
    submissions = tuple(
        Submission(
            at=random.uniform(0, 5), framework=drawn_rules.with_rules(rules, _framework(random, number))
        )
        for number in range(count)
    )
    faults_end = random.uniform(20, 300)
    events = [
        Event(
            # On average, half of the events are drawn from the first 20 s, when the first pods start.
            at=random.uniform(0, random.choice((20, faults_end))),
            type=random.choice(tuple(EventType)),
            framework=random.randrange(count),
            number=random.randrange(60),
            lasts=random.uniform(1, 120),
        )
        for _ in range(random.randrange(10))
    ]
    is_watch_stalled = random.random() < 0.2
    if is_watch_stalled:
        events += _change_during_stall(random)
    faults = _faults(random)
    if is_watch_stalled:
        # If the responses to create requests are lost as well, the controller does not know that these pods exist.
        faults = msgspec.structs.replace(faults, error_after=random.uniform(0.1, 0.5))
    return Scenario(
        seed=seed,
        submissions=submissions,
        events=tuple(sorted(events, key=lambda event: event.at)),
        faults=faults,
        is_encoded=random.random() < 0.25,
        keeps_records=seed % 3 != 0,
        faults_end=faults_end,
    )


def _change_during_stall(random: Random) -> list[Event]:
    """Return events that stall the watch of pods while they are created, and then change the job or the leader."""
    begin = random.uniform(3, 10)
    types = (
        EventType.STOP,
        EventType.RESCALE,
        EventType.SUSPEND,
        EventType.REMOVE_ROLE,
        EventType.CHANGE_LEADER,
        EventType.SUSPEND_MACHINE,
        EventType.DELETE_CONFIG_MAP_BACKGROUND,
    )
    return [
        Event(at=begin, type=EventType.STALL, number=2, lasts=random.uniform(5, 60)),
        Event(
            at=begin + random.uniform(0, 10),
            type=random.choice(types),
            number=random.randrange(60),
            lasts=random.uniform(1, 120),
        ),
    ]


def edited(spec: FrameworkSpec, number: int) -> FrameworkSpec:
    """Return the spec with a change that users may make at any time. The change depends only on `number`."""
    random = Random(number)
    replace = msgspec.structs.replace
    match number % 6:
        case 0:
            return replace(spec, retry_policy=_retry_policy(random))
        case 1:
            task = {"retry_policy": _retry_policy(random)}
            return replace(spec, task_roles=tuple(_with_task(role, **task) for role in spec.task_roles))
        case 2:
            return replace(spec, completed_pods=random.choice(tuple(CompletedPods)))
        case 3:
            deadline = random.choice((None, 5, 60, 300))
            return replace(spec, active_deadline_seconds=deadline, pending_deadline_seconds=deadline)
        case 4:
            timeout = random.choice((None, 0, 5, 60))
            roles = tuple(
                _with_task(role, pod_graceful_deletion_timeout_sec=timeout) for role in spec.task_roles
            )
            return replace(spec, task_roles=roles, ttl_seconds_after_finished=timeout)
        case _:
            policy = CompletionPolicySpec(random.choice((-1, 0, 1, 2)), random.choice((-1, 0, 1, 2)))
            roles = tuple(
                replace(role, framework_attempt_completion_policy=policy) for role in spec.task_roles
            )
            return replace(spec, task_roles=roles)


def settling(spec: FrameworkSpec) -> FrameworkSpec:
    """Return a spec with which the Framework ends: it is neither suspended nor waits for a start, and a success is
    not retried. A Framework with pods that restart for ever is stopped."""
    replace = msgspec.structs.replace
    if any(map(_restarts_always, spec.task_roles)):
        spec = replace(spec, execution_type=ExecutionType.STOP)
    elif spec.execution_type is ExecutionType.CREATE:
        spec = replace(spec, execution_type=ExecutionType.START)
    return replace(
        spec,
        suspend=False,
        retry_policy=_without_retry_after_success(spec.retry_policy),
        task_roles=tuple(
            _with_task(role, retry_policy=_without_retry_after_success(role.task.retry_policy))
            for role in spec.task_roles
        ),
    )


def _without_retry_after_success(policy: RetryPolicySpec) -> RetryPolicySpec:
    if policy.max_retry_count != ALWAYS_RETRY:
        return policy
    return msgspec.structs.replace(policy, max_retry_count=RETRY_IF_FAILED)


def _with_task(role: TaskRoleSpec, **changes: object) -> TaskRoleSpec:
    return msgspec.structs.replace(role, task=msgspec.structs.replace(role.task, **changes))


def _faults(random: Random) -> Faults:
    def sometimes(most: float) -> float:
        return random.uniform(0, most) if random.random() < 0.5 else 0.0

    return Faults(
        conflict=sometimes(0.3),
        error_before=sometimes(0.2),
        error_after=sometimes(0.2),
        refusal=sometimes(0.05),
        throttled=sometimes(0.2),
        watch_delay=random.choice((0.02, 0.5, 3.0, 20.0)),
        watch_drop=sometimes(0.1),
        watch_repeat=sometimes(0.3),
        expired=sometimes(1.0),
        lease_error=sometimes(0.2),
        task_failure=sometimes(0.5),
        linger=sometimes(0.5),
        clock_drift=random.choice((0.0, 0.0, 1e-4, 1e-2)),
        duration=random.choice((1.0, 20.0, 100.0)),
    )


_TENSORFLOW = {names.RUNTIME_ANNOTATION: "tensorflow"}
_BARRIER = {names.BARRIER_ANNOTATION: "true"}


def _framework(random: Random, number: int) -> Framework:
    roles = [_role(random, name) for name in ("worker", "ps", "chief")[: random.choice((1, 1, 2, 3))]]
    # Sometimes two Frameworks of different groups have the same name.
    name = "same" if random.random() < 0.15 else f"job{number}"
    group = names.GROUPS[number % 2] if name == "same" else random.choice(names.GROUPS)
    spec: dict[str, Any] = {
        "retry_policy": _retry_policy(random),
        "completed_pods": random.choice(tuple(CompletedPods)),
        "execution_type": random.choice((ExecutionType.START,) * 5 + (ExecutionType.CREATE,)),
        "suspend": random.random() < 0.1,
    }
    if random.random() < 0.15:
        spec["pending_deadline_seconds"] = random.randrange(5, 60)
    if random.random() < 0.15:
        spec["active_deadline_seconds"] = random.randrange(5, 200)
    if random.random() < 0.2:
        spec["ttl_seconds_after_finished"] = random.randrange(0, 100)
    annotations = random.choice(({}, {}, {}, _TENSORFLOW, _BARRIER, {**_TENSORFLOW, **_BARRIER}))
    return builders.framework(f"{name}", *roles, group=group, annotations=annotations, **spec)


def _role(random: Random, name: str) -> TaskRoleSpec:
    tasks = random.choice((0, 1, 1, 2, 2, 3, 5))
    return builders.role(
        name,
        tasks,
        min_failed=random.choice((-1, 0, 1, 1, 1, 2)),
        min_succeeded=random.choice((-1, -1, -1, 0, 1, tasks)),
        retry=_retry_policy(random),
        graceful_timeout=random.choice((None, None, None, 5, 60)),
        pod=_pod_template(random),
    )


def _pod_template(random: Random) -> Json:
    names_of_containers = ("main", "sidecar", "logger")[: random.choice((1, 1, 1, 2, 3))]
    return {
        "spec": {
            "restartPolicy": "Always" if random.random() < 0.1 else "Never",
            "containers": [{"name": name, "image": "busybox"} for name in names_of_containers],
        }
    }


def _restarts_always(role: TaskRoleSpec) -> bool:
    spec: Json = role.task.pod.get("spec", {})
    return spec.get("restartPolicy") == "Always"


def _retry_policy(random: Random) -> RetryPolicySpec:
    return RetryPolicySpec(
        fancy_retry_policy=random.random() < 0.5,
        max_retry_count=random.choice((ALWAYS_RETRY, RETRY_IF_FAILED, 0, 0, 0, 1, 2, 3)),
        max_transient_retry_count=random.choice((None, 0, 1, 5)),
        retry_backoff=random.choice((None, None, RetryBackoff(initial_sec=2, max_sec=30))),
    )
