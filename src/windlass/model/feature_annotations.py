"""Features beyond FrameworkController that a Framework requests by annotations. Without annotations, it gets none.

Variables such as TF_CONFIG, RANK and WORLD_SIZE change the behaviour of libraries, so they are set only on request.
"""

from collections.abc import Mapping
from enum import StrEnum

import msgspec

from windlass.model import names


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


class Features(msgspec.Struct, frozen=True):
    runtime: Runtime | None = None
    barrier: Barrier = Barrier.NONE

    @property
    def uses_dns_names(self) -> bool:
        return self.runtime is not None

    @property
    def uses_gang(self) -> bool:
        return self.barrier is not Barrier.NONE


NO_FEATURES = Features()
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
    return Features(runtime, barrier)


def unknown_values(annotations: Mapping[str, str]) -> list[tuple[str, str, tuple[str, ...]]]:
    """Return each annotation with an unknown value, that value, and the known values."""
    known = {names.RUNTIME_ANNOTATION: tuple(_RUNTIMES), names.BARRIER_ANNOTATION: tuple(_BARRIERS)}
    return [
        (name, annotations[name], values)
        for name, values in known.items()
        if name in annotations and annotations[name] not in values
    ]
