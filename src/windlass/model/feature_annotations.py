"""What a Framework asks for beyond the reference, by its annotations. One that asks for nothing gets nothing.

TF_CONFIG, RANK or WORLD_SIZE switch libraries on: nobody gets them who did not ask.
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
    """The names of the peers, and nothing that a library would take for itself."""


class Barrier(StrEnum):
    NONE = "false"
    INJECTED = "true"
    """Every pod gets an init container that waits for all the others."""
    OWN = "own"
    """The pods bring one themselves, and are told where it finds the addresses."""


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
    """A value that nobody knows asks for nothing here: `unknown_values` tells of it."""
    if names.RUNTIME_ANNOTATION not in annotations and names.BARRIER_ANNOTATION not in annotations:
        return NO_FEATURES
    runtime = _RUNTIMES.get(annotations.get(names.RUNTIME_ANNOTATION, ""))
    barrier = _BARRIERS.get(annotations.get(names.BARRIER_ANNOTATION, ""), Barrier.NONE)
    if runtime is Runtime.MPI and barrier is Barrier.NONE:
        # mpirun reads its hosts from a file, and they have to be there when it does.
        barrier = Barrier.INJECTED
    return Features(runtime, barrier)


def unknown_values(annotations: Mapping[str, str]) -> list[tuple[str, str, tuple[str, ...]]]:
    """Each annotation with a value that nobody knows, that value, and the ones that are known."""
    known = {names.RUNTIME_ANNOTATION: tuple(_RUNTIMES), names.BARRIER_ANNOTATION: tuple(_BARRIERS)}
    return [
        (name, annotations[name], values)
        for name, values in known.items()
        if name in annotations and annotations[name] not in values
    ]
