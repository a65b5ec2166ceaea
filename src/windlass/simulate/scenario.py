"""What a run of the Simulation plays: drawn from a seed, written down whole, so that it can be replayed and shrunk."""

from enum import StrEnum
from random import Random
from typing import Any

import msgspec

from windlass.model import names
from windlass.model.framework import (
    CompletedPods,
    CompletionPolicySpec,
    ExecutionType,
    Framework,
    FrameworkSpec,
    RetryBackoff,
    RetryPolicySpec,
    TaskRoleSpec,
)
from windlass.simulate import builders


class Faults(msgspec.Struct, frozen=True):
    """How often things go wrong while the faults last. All are probabilities, or seconds."""

    conflict: float = 0.0
    """Somebody else writes to the Framework just before the controller does."""
    error_before: float = 0.0
    """A 500 or a time-out; nothing was written."""
    error_after: float = 0.0
    """A 500 or a time-out; it was written all the same."""
    refusal: float = 0.0
    """A pod is refused: over quota for now, or invalid for good."""
    watch_delay: float = 0.02
    """Watch events take up to this long, each for itself, so that they overtake each other."""
    watch_drop: float = 0.0
    """An event is lost; a list some time later mends it."""
    watch_repeat: float = 0.0
    task_failure: float = 0.0
    """A container ends with another code than 0."""
    duration: float = 20.0
    """Containers run for up to this long."""


QUIET = Faults()


class EventKind(StrEnum):
    """What users, nodes and neighbours do."""

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
    RELIST = "relist"
    STALL = "a watch falls silent"
    STRANGER = "a stranger's pod takes a name"


class Event(msgspec.Struct, frozen=True):
    at: float
    kind: EventKind
    framework: int = 0
    """Which of the Frameworks."""
    number: int = 0
    """Which task, node or size; taken modulo what there is."""
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
    """How many controllers there are, of which one leads."""
    is_lockstep: bool = False
    """Pods are bound, start and end all at once, and succeed."""
    endless_roles: frozenset[str] = frozenset()
    """Roles whose containers never end by themselves, as parameter servers do."""
    faults_end: float = 0.0
    """After it nothing goes wrong any more, and everything has to come to its end."""

    def describe(self) -> str:
        """Short enough to read, whole enough to see what matters."""
        lines = [f"seed {self.seed}, faults until {self.faults_end:.1f} s: {_nonzero(self.faults)}"]
        for number, submission in enumerate(self.submissions):
            spec = msgspec.to_builtins(submission.framework.spec)
            for role in spec.get("taskRoles", ()):
                role.get("task", {}).pop("pod", None)
            framework = submission.framework
            asks_for = framework.metadata.annotations or ""
            lines.append(
                f"  {submission.at:7.2f} s  #{number} {framework.name} ({framework.group}){asks_for}: {spec}"
            )
        lines += [
            f"  {event.at:7.2f} s  {event.kind} of #{event.framework}"
            f" (number {event.number}, lasts {event.lasts:.1f} s)"
            for event in self.events
        ]
        return "\n".join(lines)


def _nonzero(faults: Faults) -> str:
    return ", ".join(f"{name} {value:.3g}" for name, value in msgspec.structs.asdict(faults).items() if value)


def draw(seed: int) -> Scenario:
    """A small world in which much goes wrong."""
    random = Random(seed)
    count = random.choice((1, 1, 1, 2, 2, 3))
    submissions = tuple(
        Submission(at=random.uniform(0, 5), framework=_framework(random, number)) for number in range(count)
    )
    faults_end = random.uniform(20, 300)
    events = [
        Event(
            # Half of it while the first pods come up, when there is most to go wrong.
            at=random.uniform(0, random.choice((20, faults_end))),
            kind=random.choice(tuple(EventKind)),
            framework=random.randrange(count),
            number=random.randrange(60),
            lasts=random.uniform(1, 120),
        )
        for _ in range(random.randrange(10))
    ]
    is_blind = random.random() < 0.2
    if is_blind:
        events += _ended_while_blind(random)
    faults = _faults(random)
    if is_blind:
        # Nobody sees a pod whose creation is not answered either.
        faults = msgspec.structs.replace(faults, error_after=random.uniform(0.1, 0.5))
    return Scenario(
        seed=seed,
        submissions=submissions,
        events=tuple(sorted(events, key=lambda event: event.at)),
        faults=faults,
        faults_end=faults_end,
    )


def _ended_while_blind(random: Random) -> list[Event]:
    """The watch of pods falls silent just when they are made, and then the job is changed."""
    begin = random.uniform(3, 10)
    kinds = (
        EventKind.STOP,
        EventKind.RESCALE,
        EventKind.SUSPEND,
        EventKind.REMOVE_ROLE,
        EventKind.CHANGE_LEADER,
        EventKind.DELETE_CONFIG_MAP_BACKGROUND,
    )
    return [
        Event(at=begin, kind=EventKind.STALL, number=2, lasts=random.uniform(5, 60)),
        Event(at=begin + random.uniform(0, 10), kind=random.choice(kinds)),
    ]


def edited(spec: FrameworkSpec, number: int) -> FrameworkSpec:
    """Another spec in what users may change at any time, the same for the same number."""
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


def _with_task(role: TaskRoleSpec, **changes: object) -> TaskRoleSpec:
    return msgspec.structs.replace(role, task=msgspec.structs.replace(role.task, **changes))


def crowd(seed: int, count: int, tasks: int = 2) -> Scenario:
    """Many Frameworks at once, with faults: for scale."""
    random = Random(seed)
    retry = RetryPolicySpec(fancy_retry_policy=True, max_retry_count=2)
    submissions = tuple(
        Submission(
            at=random.uniform(0, count / 100),
            framework=builders.framework(
                f"job{number}",
                builders.role("worker", tasks, retry=RetryPolicySpec(max_retry_count=1)),
                retry_policy=retry,
            ),
        )
        for number in range(count)
    )
    events = tuple(
        Event(
            at=random.uniform(0, count / 100),
            kind=random.choice(
                (EventKind.DELETE_POD, EventKind.EVICT_POD, EventKind.DELETE_CONFIG_MAP_FOREGROUND)
            ),
            framework=random.randrange(count),
            number=random.randrange(tasks),
        )
        for _ in range(count // 20)
    )
    faults = Faults(
        conflict=0.01,
        error_before=0.01,
        error_after=0.01,
        watch_delay=0.5,
        watch_drop=0.001,
        watch_repeat=0.01,
        task_failure=0.1,
    )
    return Scenario(
        seed,
        submissions,
        tuple(sorted(events, key=lambda event: event.at)),
        faults,
        replicas=1,
        faults_end=count / 100 + 60,
    )


def _faults(random: Random) -> Faults:
    def sometimes(most: float) -> float:
        return random.uniform(0, most) if random.random() < 0.5 else 0.0

    return Faults(
        conflict=sometimes(0.3),
        error_before=sometimes(0.2),
        error_after=sometimes(0.2),
        refusal=sometimes(0.05),
        watch_delay=random.choice((0.02, 0.5, 3.0, 20.0)),
        watch_drop=sometimes(0.1),
        watch_repeat=sometimes(0.3),
        task_failure=sometimes(0.5),
        duration=random.choice((1.0, 20.0, 100.0)),
    )


_NAMES = {names.RUNTIME_ANNOTATION: "tensorflow"}
_BARRIER = {names.BARRIER_ANNOTATION: "true"}


def _framework(random: Random, number: int) -> Framework:
    roles = [_role(random, name) for name in ("worker", "ps", "chief")[: random.choice((1, 1, 2, 3))]]
    # Two Frameworks of one name, one of each group, now and then.
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
    annotations = random.choice(({}, {}, {}, _NAMES, _BARRIER, {**_NAMES, **_BARRIER}))
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
    )


def _retry_policy(random: Random) -> RetryPolicySpec:
    return RetryPolicySpec(
        fancy_retry_policy=random.random() < 0.5,
        max_retry_count=random.choice((0, 0, 1, 2, 3)),
        max_transient_retry_count=random.choice((None, 0, 1, 5)),
        retry_backoff=random.choice((None, None, RetryBackoff(initial_sec=2, max_sec=30))),
    )
