"""Properties of this machine on which every container depends, collected once when the cluster starts."""

from collections.abc import Mapping

import msgspec


class Host(msgspec.Struct, frozen=True):
    uid: int
    gid: int
    groups: tuple[int, ...]
    environment: Mapping[str, str]
    """Environment variables that containers inherit, see `inherited_environment`."""
    gpu_ids: tuple[str, ...] = ()
    """Device IDs as in CUDA_VISIBLE_DEVICES. The scheduler identifies a GPU by its position here, from 0."""
    pids_limit: int | None = None
    no_mounts_because: str = ""
    """Reason why pods cannot have their own mounts; empty if they can."""
    address: str = ""
    hostname: str = ""
    hosts_file: str = ""
    """Text of the machine's /etc/hosts."""
    resolv_conf: str = ""
    """Text of the machine's /etc/resolv.conf."""

    @property
    def can_mount(self) -> bool:
        return not self.no_mounts_because

    @property
    def is_root(self) -> bool:
        return self.uid == 0
