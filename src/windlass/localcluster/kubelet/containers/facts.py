"""What a container learns about its surroundings, and how the objects that a pod refers to are found."""

from collections.abc import Callable, Mapping

import msgspec

from windlass.model.base import Json

Lookup = Callable[[str, str], Json | None]
"""(kind, name) → the ConfigMap or Secret of that name in the pod's own namespace."""


class Facts(msgspec.Struct, frozen=True):
    pod_ips: tuple[str, ...]
    host_ips: tuple[str, ...]
    allocatable: Mapping[str, str]
    """What the pod's node can give, as in the node's status: the limit of a container that has none."""
    services: tuple[Json, ...] = ()
    """All that there are, or at least those of the pod's namespace and `kubernetes`."""
