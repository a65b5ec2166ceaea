"""Properties of this machine on which every container depends, collected once when the cluster starts."""

from collections.abc import Mapping

import msgspec

from windlass.localcluster.kubelet.gpus import Inventory
from windlass.localcluster.sandbox.messages import Security


class Host(msgspec.Struct, frozen=True):
    uid: int
    gid: int
    groups: tuple[int, ...]
    environment: Mapping[str, str]
    """Environment variables that containers inherit, see `inherited_environment`."""
    gpus: Inventory = Inventory()
    pids_limit: int | None = None
    no_mounts_because: str = ""
    """Reason why pods cannot have their own mounts; empty if they can."""
    security: Security = Security()
    """The restrictions that this machine can apply to containers."""
    hidden_folders: tuple[str, ...] = ()
    """Folders with the administrator's credentials. They appear empty in pods with their own mounts."""
    empty_folder: str = ""
    """The empty folder that is mounted over them."""
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
