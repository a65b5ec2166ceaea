"""What the machine gives to every container, and what it lets us do: found out once, by whoever starts the kubelet."""

from collections.abc import Mapping

import msgspec


class Host(msgspec.Struct, frozen=True):
    uid: int
    gid: int
    groups: tuple[int, ...]
    environment: Mapping[str, str]
    """From `base_environment`."""
    gpu_ids: tuple[str, ...] = ()
    """As CUDA knows them; the scheduler counts them from 0."""
    pids_limit: int | None = None
    no_mounts_because: str = ""
    """Why pods cannot have mounts of their own; empty when they can."""

    @property
    def can_mount(self) -> bool:
        return not self.no_mounts_because

    @property
    def is_root(self) -> bool:
        return self.uid == 0
