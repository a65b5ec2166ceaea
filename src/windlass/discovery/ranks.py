"""Peer information for runtimes that number their processes from 0 to n - 1: PyTorch and JAX.

MASTER_ADDR              worker-0.digits
MASTER_PORT              2222
RANK, WORLD_SIZE         1, 2
LOCAL_RANK               0            one process per task; torchrun sets it for each process that it starts
PET_NNODES               2            read by torchrun instead of --nnodes, and so on
PET_NODE_RANK            1
PET_MASTER_ADDR, _PORT   worker-0.digits, 2222
PET_RDZV_BACKEND         c10d
PET_RDZV_ENDPOINT        worker-0.digits:2222
PET_RDZV_ID              ID of the attempt, so that tasks of different attempts do not join

JAX_COORDINATOR_ADDRESS  worker-0.digits:2222
JAX_PROCESS_ID           1
JAX_NUM_PROCESSES        2
"""

from windlass.discovery.peers import Address, Peers
from windlass.model import role_names

FIRST = ("master", "chief", "launcher", "coordinator")
"""Roles whose first task is rank 0, at any position in the spec."""


class Ranks:
    """The ranks of all members of the cluster."""

    def __init__(self, peers: Peers) -> None:
        roles = [role for role, addresses in peers.roles.items() if addresses and role_names.is_member(role)]
        roles.sort(key=lambda role: role not in FIRST)
        self._first_rank: dict[str, int] = {}
        self.size = 0
        for role in roles:
            self._first_rank[role] = self.size
            self.size += len(peers.roles[role])
        self.master: Address | None = peers.roles[roles[0]][0] if roles else None

    def rank(self, role: str, index: int) -> int | None:
        """Return the rank, or None for a task outside the cluster, e.g. a notebook."""
        first = self._first_rank.get(role)
        return None if first is None else first + index


def pytorch(ranks: Ranks, rendezvous: str, role: str, index: int) -> dict[str, str]:
    rank, master = ranks.rank(role, index), ranks.master
    if rank is None or master is None:
        return {}
    where = {"MASTER_ADDR": master.host, "MASTER_PORT": str(master.port)}
    return {
        **where,
        "RANK": str(rank),
        "WORLD_SIZE": str(ranks.size),
        "LOCAL_RANK": "0",
        "PET_NNODES": str(ranks.size),
        "PET_NODE_RANK": str(rank),
        **{f"PET_{name}": value for name, value in where.items()},
        "PET_RDZV_BACKEND": "c10d",
        "PET_RDZV_ENDPOINT": str(master),
        "PET_RDZV_ID": rendezvous,
        "PET_RDZV_CONF": f"is_host={str(rank == 0).lower()}",
    }


def jax(ranks: Ranks, role: str, index: int) -> dict[str, str]:
    rank, master = ranks.rank(role, index), ranks.master
    if rank is None or master is None:
        return {}
    return {
        "JAX_COORDINATOR_ADDRESS": str(master),
        "JAX_PROCESS_ID": str(rank),
        "JAX_NUM_PROCESSES": str(ranks.size),
    }
