"""The environment variables with peer information that a Framework requests.

PyTorch and JAX number their processes from 0 to n - 1:

MASTER_ADDR              worker-0.digits
MASTER_PORT              2222
RANK, WORLD_SIZE         1, 2
LOCAL_RANK               0            one process per task; torchrun sets the ranks of each process that it starts
LOCAL_WORLD_SIZE         1
NODE_RANK, GROUP_RANK    1            the task is a node of Lightning and a group of torchrun
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
COORDINATOR_ADDRESS      worker-0.digits  without the port, as in jobs of Kubeflow
COORDINATOR_PORT         2222
PROCESS_ID               1
NUM_PROCESSES            2
"""

from collections.abc import Callable, Mapping

from windlass.discovery import mpi
from windlass.discovery.peers import Address, Peers, peers_on_shared_network, peers_with_dns_names
from windlass.discovery.tensorflow import TensorFlow
from windlass.model import names, role_names
from windlass.model.feature_annotations import Runtime, TaskRange, requested_features
from windlass.model.framework import Framework

_FIRST_ROLES = ("master", "chief", "launcher", "coordinator")
"""Roles whose tasks have the first ranks, even if other roles precede them in the spec."""

_NO_RANGES: Mapping[str, TaskRange] = {}
_MAX_RESTARTS = "3"
"""How often torchrun restarts the training processes of an elastic task before the task fails."""
_LAST_CALL_SECONDS = 10
"""How long torchrun waits for more tasks once the minimum of an elastic job is there."""

TaskVariables = Callable[[str, int], dict[str, str]]
"""A function that returns the variables of the task with the given role and index."""


def variables_of(framework: Framework, first_ports: Mapping[str, int] | None = None) -> TaskVariables:
    """Return a function for the variables of each task. `first_ports` has the port of the first task of each role if
    pods share one network."""
    features = requested_features(framework.metadata.annotations)
    if features.runtime is None:
        return lambda _role, _index: {}
    peers = (
        peers_with_dns_names(framework)
        if first_ports is None
        else peers_on_shared_network(framework, first_ports)
    )
    attempt = None if framework.status is None else framework.status.attempt_status.instance_uid
    return variables_for_peers(features.runtime, peers, attempt or framework.uid, elastic=features.elastic)


def variables_for_peers(
    runtime: Runtime,
    peers: Peers,
    rendezvous: str,
    *,
    elastic: Mapping[str, TaskRange] = _NO_RANGES,
    host_files: str = names.BARRIER_FOLDER,
) -> TaskVariables:
    """Return a function for the variables of each task.

    `rendezvous` is a unique ID of this group of tasks, `elastic` contains the ranges of elastic roles by role, and
    `host_files` is the folder with the host files of MPI.
    """
    if runtime is Runtime.MPI:
        return _mpi(peers, host_files)
    variables = _FORMATTERS[runtime](peers, rendezvous)
    return _elastic(variables, peers, elastic) if elastic else variables


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
            "LOCAL_WORLD_SIZE": "1",
            "NODE_RANK": str(rank),
            "GROUP_RANK": str(rank),
            "PET_NNODES": str(ranks.size),
            "PET_NODE_RANK": str(rank),
            **{f"PET_{name}": value for name, value in address.items()},
            "PET_RDZV_BACKEND": "c10d",
            "PET_RDZV_ENDPOINT": str(master),
            "PET_RDZV_ID": rendezvous,
            "PET_RDZV_CONF": f"is_host={str(rank == 0).lower()}",
        }

    return variables


def _elastic(variables: TaskVariables, peers: Peers, ranges: Mapping[str, TaskRange]) -> TaskVariables:
    """Let torchrun train with any number of tasks in the ranges."""
    numbers = {
        role: ranges.get(role, TaskRange(len(addresses), len(addresses)))
        for role, addresses in peers.roles.items()
        if role_names.is_member(role)
    }
    total = TaskRange(sum(each.min for each in numbers.values()), sum(each.max for each in numbers.values()))

    def elastic_variables(role: str, index: int) -> dict[str, str]:
        found = variables(role, index)
        if "PET_NNODES" not in found:
            return found
        # When a peer is lost, the training processes of all tasks fail, and torchrun restarts them.
        changed = {
            "PET_NNODES": str(total),
            "PET_MAX_RESTARTS": _MAX_RESTARTS,
            "PET_RDZV_CONF": f"{found['PET_RDZV_CONF']},last_call_timeout={_LAST_CALL_SECONDS}",
            # torchrun publishes the address of a shared store only once: tasks that join later would time out.
            "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",
        }
        return {**found, **changed}

    return elastic_variables


def _jax(peers: Peers, _rendezvous: str) -> TaskVariables:
    ranks = _Ranks(peers)

    def variables(role: str, index: int) -> dict[str, str]:
        rank, coordinator = ranks.rank(role, index), ranks.master
        if rank is None or coordinator is None:
            return {}
        process = {"PROCESS_ID": str(rank), "NUM_PROCESSES": str(ranks.size)}
        return {
            "JAX_COORDINATOR_ADDRESS": str(coordinator),
            **{f"JAX_{name}": value for name, value in process.items()},
            "COORDINATOR_ADDRESS": coordinator.host,
            "COORDINATOR_PORT": str(coordinator.port),
            **process,
        }

    return variables


def _plain(peers: Peers, _rendezvous: str) -> TaskVariables:
    """Return variables for programs that use no framework library: PS_HOSTS etc., JOB_NAME and TASK_INDEX."""
    hosts = {
        f"{role.upper()}_HOSTS": ",".join(map(str, addresses)) for role, addresses in peers.roles.items()
    }
    return lambda role, index: {**hosts, "JOB_NAME": role, "TASK_INDEX": str(index)}


def _mpi(peers: Peers, host_files: str) -> TaskVariables:
    """Return the variables of `_plain` and those of MPI. `host_files` is the folder with the host files."""
    settings, plain = mpi.variables(peers, host_files), _plain(peers, "")
    return lambda role, index: {**settings, **plain(role, index)}


_FORMATTERS: Mapping[Runtime, Callable[[Peers, str], TaskVariables]] = {
    Runtime.TENSORFLOW: lambda peers, _: TensorFlow(peers).variables,
    Runtime.PYTORCH: _pytorch,
    Runtime.JAX: _jax,
    Runtime.PLAIN: _plain,
}
