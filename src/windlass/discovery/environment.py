"""The environment variables with peer information that a Framework requests.

PyTorch and JAX number their processes from 0 to n - 1:

MASTER_ADDR              worker-0.digits
MASTER_PORT              2222
RANK, WORLD_SIZE         1, 2
LOCAL_RANK               0            one process per task; torchrun sets it for each process that it starts
PET_NNODES               2            read by torchrun instead of --nnodes, and so on
PET_NODE_RANK            1
PET_MASTER_ADDR, _PORT   worker-0.digits, 2222
PET_RDZV_BACKEND         c10d
PET_RDZV_ENDPOINT        worker-0.digits:2222
PET_RDZV_ID              ID of the attempt, so that tasks of different attempts do not join each other
PET_RDZV_CONF            is_host=false  true for rank 0, which hosts the rendezvous

JAX_COORDINATOR_ADDRESS  worker-0.digits:2222
JAX_PROCESS_ID           1
JAX_NUM_PROCESSES        2
"""

from collections.abc import Callable, Mapping

from windlass.discovery.peers import LOOPBACK, Address, Peers, peers_on_shared_network, peers_with_dns_names
from windlass.discovery.tensorflow import TensorFlow
from windlass.model import names, role_names
from windlass.model.feature_annotations import Runtime, requested_features
from windlass.model.framework import Framework

HOSTFILE_PATH = f"{names.BARRIER_FOLDER}/hostfile"

_FIRST_ROLES = ("master", "chief", "launcher", "coordinator")
"""Roles whose tasks have the first ranks, even if other roles precede them in the spec."""

TaskVariables = Callable[[str, int], dict[str, str]]
"""A function that returns the variables of the task with the given role and index."""


def variables_of(framework: Framework, first_ports: Mapping[str, int] | None = None) -> TaskVariables:
    """Return a function for the variables of each task. `first_ports` has the port of the first task of each role if
    pods share one network."""
    runtime = requested_features(framework.metadata.annotations).runtime
    if runtime is None:
        return lambda _role, _index: {}
    peers = (
        peers_with_dns_names(framework)
        if first_ports is None
        else peers_on_shared_network(framework, first_ports)
    )
    attempt = None if framework.status is None else framework.status.attempt_status.instance_uid
    return variables_for_peers(runtime, peers, attempt or framework.uid)


def variables_for_peers(runtime: Runtime, peers: Peers, rendezvous: str) -> TaskVariables:
    """Return a function for the variables of each task. `rendezvous` is a unique ID of this group of tasks."""
    return _FORMATTERS[runtime](peers, rendezvous)


class _Ranks:
    """The ranks of all members of the cluster."""

    def __init__(self, peers: Peers) -> None:
        roles = [role for role, addresses in peers.roles.items() if addresses and role_names.is_member(role)]
        roles.sort(key=lambda role: role not in _FIRST_ROLES)
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


def _pytorch(peers: Peers, rendezvous: str) -> TaskVariables:
    ranks = _Ranks(peers)

    def variables(role: str, index: int) -> dict[str, str]:
        rank, master = ranks.rank(role, index), ranks.master
        if rank is None or master is None:
            return {}
        address = {"MASTER_ADDR": master.host, "MASTER_PORT": str(master.port)}
        return {
            **address,
            "RANK": str(rank),
            "WORLD_SIZE": str(ranks.size),
            "LOCAL_RANK": "0",
            "PET_NNODES": str(ranks.size),
            "PET_NODE_RANK": str(rank),
            **{f"PET_{name}": value for name, value in address.items()},
            "PET_RDZV_BACKEND": "c10d",
            "PET_RDZV_ENDPOINT": str(master),
            "PET_RDZV_ID": rendezvous,
            "PET_RDZV_CONF": f"is_host={str(rank == 0).lower()}",
        }

    return variables


def _jax(peers: Peers, _rendezvous: str) -> TaskVariables:
    ranks = _Ranks(peers)

    def variables(role: str, index: int) -> dict[str, str]:
        rank = ranks.rank(role, index)
        if rank is None:
            return {}
        return {
            "JAX_COORDINATOR_ADDRESS": str(ranks.master),
            "JAX_PROCESS_ID": str(rank),
            "JAX_NUM_PROCESSES": str(ranks.size),
        }

    return variables


def _plain(peers: Peers, _rendezvous: str) -> TaskVariables:
    """Return variables for programs that use no framework library: PS_HOSTS etc., JOB_NAME and TASK_INDEX."""
    hosts = {
        f"{role.upper()}_HOSTS": ",".join(map(str, addresses)) for role, addresses in peers.roles.items()
    }
    return lambda role, index: {**hosts, "JOB_NAME": role, "TASK_INDEX": str(index)}


def _mpi(peers: Peers, rendezvous: str) -> TaskVariables:
    """Return the variables of `_plain` and settings of Open MPI, which uses PRRTE (prefix PRTE) since 5.0."""
    settings = {
        "WINDLASS_HOSTFILE": HOSTFILE_PATH,
        "OMPI_MCA_orte_default_hostfile": HOSTFILE_PATH,
        "PRTE_MCA_prte_default_hostfile": HOSTFILE_PATH,
        # By default Open MPI truncates names at the first dot.
        "OMPI_MCA_orte_keep_fqdn_hostnames": "true",
        "PRTE_MCA_prte_keep_fqdn_hostnames": "true",
    }
    if any(address.host == LOOPBACK for addresses in peers.roles.values() for address in addresses):
        # By default Open MPI excludes the loopback interface, which may be the only one.
        settings |= {"OMPI_MCA_btl_tcp_if_include": "lo", "OMPI_MCA_oob_tcp_if_include": "lo"}
    plain = _plain(peers, rendezvous)
    return lambda role, index: {**settings, **plain(role, index)}


_FORMATTERS: Mapping[Runtime, Callable[[Peers, str], TaskVariables]] = {
    Runtime.TENSORFLOW: lambda peers, _: TensorFlow(peers).variables,
    Runtime.PYTORCH: _pytorch,
    Runtime.JAX: _jax,
    Runtime.MPI: _mpi,
    Runtime.PLAIN: _plain,
}
