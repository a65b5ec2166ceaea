"""Features beyond FrameworkController that a Framework requests by annotations. Without annotations, it gets none.

Variables such as TF_CONFIG, RANK and WORLD_SIZE change the behaviour of libraries, so they are set only on request.
"""

import re
from collections.abc import Collection, Mapping
from enum import StrEnum

import msgspec

from windlass.model import names, role_names

ALL, NONE = "true", "false"
"""Values of IDLE_ANNOTATION instead of role names."""


class Runtime(StrEnum):
    TENSORFLOW = "tensorflow"
    PYTORCH = "pytorch"
    JAX = "jax"
    MPI = "mpi"
    PLAIN = "plain"
    """Only general variables, e.g. WORKER_HOSTS and TASK_INDEX, none that a training library reads."""


class Barrier(StrEnum):
    NONE = "false"
    INJECTED = "true"
    """Every pod gets an init container that waits until all tasks have addresses."""
    OWN = "own"
    """The pods implement the barrier themselves. WINDLASS_GANG contains the name of the Gang, the object with the
    addresses of all tasks."""


class TaskTypes(StrEnum):
    """The task types of roles in the cluster spec of TensorFlow."""

    STANDARD = "standard"
    """TensorFlow's usual names, e.g. `worker` for the role `workers`. The default."""
    ROLES = "roles"
    """The names of the roles, unchanged."""


class TaskRange(msgspec.Struct, frozen=True):
    """The range of the number of tasks of an elastic role."""

    min: int
    max: int

    def __str__(self) -> str:
        return f"{self.min}:{self.max}"


class Features(msgspec.Struct, frozen=True):
    runtime: Runtime | None = None
    barrier: Barrier = Barrier.NONE
    elastic: Mapping[str, TaskRange] = {}
    """Ranges of elastic roles, by role."""
    idle_roles: tuple[str, ...] | None = None
    """The value of IDLE_ANNOTATION. None: not set."""

    def is_idle_server(self, role: str, default: str = NONE) -> bool:
        """Return whether tasks of the role run an idle TensorFlow server if they have no command. `default` is the
        value if the annotation is not set."""
        if self.runtime is not Runtime.TENSORFLOW or not role_names.is_member(role):
            return False
        roles = (default,) if self.idle_roles is None else self.idle_roles
        return roles == (ALL,) or role in roles

    @property
    def uses_dns_names(self) -> bool:
        return self.runtime is not None

    @property
    def uses_gang(self) -> bool:
        return self.barrier is not Barrier.NONE


NO_FEATURES = Features()
_ELASTIC = re.compile(r"([a-z0-9]{1,63})=([1-9][0-9]{0,4}):([1-9][0-9]{0,4})")
_RUNTIMES = {str(runtime): runtime for runtime in Runtime}
_BARRIERS = {str(barrier): barrier for barrier in Barrier}


def requested_features(annotations: Mapping[str, str]) -> Features:
    """Return the requested features. An unknown value requests nothing; `unknown_values` reports it."""
    if names.RUNTIME_ANNOTATION not in annotations and names.BARRIER_ANNOTATION not in annotations:
        return NO_FEATURES
    runtime = _RUNTIMES.get(annotations.get(names.RUNTIME_ANNOTATION, ""))
    barrier = _BARRIERS.get(annotations.get(names.BARRIER_ANNOTATION, ""), Barrier.NONE)
    if runtime is Runtime.MPI and barrier is Barrier.NONE:
        # mpirun reads its hosts from a file when it starts, and they must be running then.
        barrier = Barrier.INJECTED
    elastic = elastic_ranges(annotations) if runtime is Runtime.PYTORCH else None
    idle = annotations.get(names.IDLE_ANNOTATION)
    return Features(runtime, barrier, elastic or {}, None if idle is None else _words(idle))


def elastic_ranges(annotations: Mapping[str, str]) -> Mapping[str, TaskRange] | None:
    """Return the ranges of elastic roles, by role; None if the annotation is invalid."""
    found = {}
    for written in filter(None, annotations.get(names.ELASTIC_ANNOTATION, "").split(",")):
        match = _ELASTIC.fullmatch(written.strip())
        if match is None or int(match[2]) > int(match[3]):
            return None
        found[match[1]] = TaskRange(int(match[2]), int(match[3]))
    return found


def elastic_annotation(ranges: Mapping[str, TaskRange]) -> str:
    return ",".join(f"{role}={task_range}" for role, task_range in ranges.items())


def keeps_role_names(annotations: Mapping[str, str]) -> bool:
    """Return whether the names of roles are TensorFlow's task types, unchanged."""
    return annotations.get(names.TASK_TYPES_ANNOTATION) == TaskTypes.ROLES


def unknown_values(
    annotations: Mapping[str, str], roles: Collection[str]
) -> list[tuple[str, str, tuple[str, ...]]]:
    """Return each annotation with an unknown value, that value, and the known values. `roles` are all role names."""
    known = {
        names.RUNTIME_ANNOTATION: tuple(_RUNTIMES),
        names.BARRIER_ANNOTATION: tuple(_BARRIERS),
        names.TASK_TYPES_ANNOTATION: tuple(map(str, TaskTypes)),
    }
    found = [
        (name, annotations[name], values)
        for name, values in known.items()
        if name in annotations and annotations[name] not in values
    ]
    idle = _words(annotations.get(names.IDLE_ANNOTATION, NONE))
    if idle not in ((ALL,), (NONE,)):
        members = tuple(filter(role_names.is_member, roles))
        found += [
            (names.IDLE_ANNOTATION, role, (ALL, NONE, *members)) for role in idle if role not in members
        ]
    return found


def _words(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(","))
