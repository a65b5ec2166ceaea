"""Facts about a pod (addresses, node, Services), and the lookup of ConfigMaps and Secrets that it refers to."""

from collections.abc import Callable, Mapping

import msgspec

from windlass.model.base import Json

Lookup = Callable[[str, str], Json | None]
"""Function from kind and name to the ConfigMap or Secret in the pod's namespace; None if it does not exist."""


class PodFacts(msgspec.Struct, frozen=True):
    pod_ips: tuple[str, ...]
    host_ips: tuple[str, ...]
    allocatable: Mapping[str, str]
    """Allocatable resources of the pod's node, reported as the limits of a container that has none."""
    services: tuple[Json, ...] = ()
    """Services, at least those of the pod's namespace and `kubernetes`."""
