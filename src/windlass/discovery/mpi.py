"""Host files, ssh configuration and variables for mpirun and mpiexec.

hostfile         worker-0.pi slots=2     Open MPI and horovodrun
hostfile.hydra   worker-0.pi:2           MPICH and Intel MPI, whose launcher is Hydra
ssh_config       Host worker-0.pi        where the tasks accept ssh
                     Port 2222
"""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, Protocol, TypeVar

from windlass.discovery.peers import LOOPBACK, Address, Peers
from windlass.model import role_names
from windlass.model.gang import GangSpec

HOSTFILE = "hostfile"
HYDRA_HOSTFILE = "hostfile.hydra"
SSH_CONFIG = "ssh_config"
SSH_CONFIG_VARIABLE = "WINDLASS_SSH_CONFIG"
HOST_KEY_ALIAS = "windlass"
"""Name of every task in known_hosts. A host that has this alias in ssh_config is a task of the job."""

_LAUNCHER = "launcher"
"""The role that runs mpirun. Its tasks are not hosts if there are other roles."""


class Host(NamedTuple):
    """A task in which mpirun starts processes."""

    name: str
    slots: int
    address: Address
    """The address for ssh."""


class _Role(Protocol):
    @property
    def name(self) -> str: ...


_AnyRole = TypeVar("_AnyRole", bound=_Role)


def host_roles(roles: Sequence[_AnyRole]) -> Sequence[_AnyRole]:
    """Return the roles whose tasks are hosts."""
    members = tuple(role for role in roles if role_names.is_member(role.name))
    return tuple(role for role in members if role.name != _LAUNCHER) or members


def hosts_of(gang: GangSpec, address_of: Callable[[str, int], Address]) -> tuple[Host, ...]:
    """Return the hosts of an attempt. `address_of` returns the address of a task by role and index."""
    return tuple(
        Host(address.host, role.slots, Address(LOOPBACK, member.port) if member.port else address)
        for role in host_roles(gang.roles)
        for index, member in enumerate(role.members)
        for address in (address_of(role.name, index),)
    )


def files(hosts: Iterable[Host]) -> dict[str, str]:
    """Return the contents by file name."""
    every = tuple(hosts)
    return {
        HOSTFILE: "".join(f"{host.name} slots={host.slots}\n" for host in every),
        HYDRA_HOSTFILE: "".join(f"{host.name}:{host.slots}\n" for host in every),
        SSH_CONFIG: _ssh_config(every),
    }


def _ssh_config(hosts: Iterable[Host]) -> str:
    """Return a section per address: tasks of a shared network have ports of their own, all others the port of their
    role."""
    sections: dict[tuple[str, int], list[str]] = {}
    for host in hosts:
        host_name = "%h" if host.address.host == host.name else host.address.host
        sections.setdefault((host_name, host.address.port), []).append(host.name)
    return "".join(
        f"Host {' '.join(found)}\n    HostName {host_name}\n    Port {port}\n    HostKeyAlias {HOST_KEY_ALIAS}\n"
        for (host_name, port), found in sections.items()
    )


def variables(peers: Peers, folder: str) -> dict[str, str]:
    """Return the variables by which Open MPI, MPICH and Intel MPI find the files in `folder`.

    Open MPI uses PRRTE, whose variables begin with PRTE, since 5.0.
    """
    hostfile, hydra_hostfile = f"{folder}/{HOSTFILE}", f"{folder}/{HYDRA_HOSTFILE}"
    found = {
        "WINDLASS_HOSTFILE": hostfile,
        SSH_CONFIG_VARIABLE: f"{folder}/{SSH_CONFIG}",
        "OMPI_MCA_orte_default_hostfile": hostfile,
        "PRTE_MCA_prte_default_hostfile": hostfile,
        # By default Open MPI truncates names at the first dot.
        "OMPI_MCA_orte_keep_fqdn_hostnames": "true",
        "PRTE_MCA_prte_keep_fqdn_hostnames": "true",
        "HYDRA_HOST_FILE": hydra_hostfile,
        "I_MPI_HYDRA_HOST_FILE": hydra_hostfile,
    }
    if any(address.host == LOOPBACK for addresses in peers.roles.values() for address in addresses):
        # By default Open MPI excludes the loopback interface, which may be the only one.
        found |= {"OMPI_MCA_btl_tcp_if_include": "lo", "OMPI_MCA_oob_tcp_if_include": "lo"}
        found |= {"HYDRA_IFACE": "lo", "I_MPI_HYDRA_IFACE": "lo"}
    return found
