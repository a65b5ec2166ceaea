"""The environment variables with peer information that a Framework requests."""

from collections.abc import Callable, Mapping

from windlass.discovery import ranks
from windlass.discovery.peers import LOOPBACK, Peers, by_name, by_port
from windlass.discovery.tensorflow import TensorFlow
from windlass.model import names
from windlass.model.feature_annotations import Runtime, requested_features
from windlass.model.framework import Framework

HOSTFILE = f"{names.BARRIER_FOLDER}/hostfile"

Variables = Callable[[str, int], dict[str, str]]
"""Role and index → the variables of the task."""


def variables_of(framework: Framework, ports: Mapping[str, int] | None = None) -> Variables:
    """Return the variables of each task. `ports` has the port of the first task of each role if pods share one
    network."""
    runtime = requested_features(framework.metadata.annotations).runtime
    if runtime is None:
        return _no_variables
    peers = by_name(framework) if ports is None else by_port(framework, ports)
    return variables_for_peers(runtime, peers, _rendezvous(framework))


def variables_for_peers(runtime: Runtime, peers: Peers, rendezvous: str) -> Variables:
    """Return the variables of each task. `rendezvous` is a unique ID of this group of tasks."""
    return _FORMATTERS[runtime](peers, rendezvous)


def _rendezvous(framework: Framework) -> str:
    attempt = None if framework.status is None else framework.status.attempt_status.instance_uid
    return attempt or framework.uid


def _no_variables(_role: str, _index: int) -> dict[str, str]:
    return {}


def _tensorflow(peers: Peers, _rendezvous: str) -> Variables:
    return TensorFlow(peers).variables


def _pytorch(peers: Peers, rendezvous: str) -> Variables:
    numbered = ranks.Ranks(peers)
    return lambda role, index: ranks.pytorch(numbered, rendezvous, role, index)


def _jax(peers: Peers, _rendezvous: str) -> Variables:
    numbered = ranks.Ranks(peers)
    return lambda role, index: ranks.jax(numbered, role, index)


def _plain(peers: Peers, _rendezvous: str) -> Variables:
    """Return variables for programs that use no framework library: PS_HOSTS etc., JOB_NAME and TASK_INDEX."""
    hosts = {
        f"{role.upper()}_HOSTS": ",".join(map(str, addresses)) for role, addresses in peers.roles.items()
    }
    return lambda role, index: {**hosts, "JOB_NAME": role, "TASK_INDEX": str(index)}


def _mpi(peers: Peers, rendezvous: str) -> Variables:
    """Return settings of Open MPI as environment variables, with the prefix of PRRTE too, which it uses since 5.0."""
    settings = {
        "WINDLASS_HOSTFILE": HOSTFILE,
        "OMPI_MCA_orte_default_hostfile": HOSTFILE,
        "PRTE_MCA_prte_default_hostfile": HOSTFILE,
        # By default it truncates names at the first dot.
        "OMPI_MCA_orte_keep_fqdn_hostnames": "true",
        "PRTE_MCA_prte_keep_fqdn_hostnames": "true",
    }
    if any(address.host == LOOPBACK for addresses in peers.roles.values() for address in addresses):
        # By default it excludes the loopback interface, which may be the only one.
        settings |= {"OMPI_MCA_btl_tcp_if_include": "lo", "OMPI_MCA_oob_tcp_if_include": "lo"}
    plain = _plain(peers, rendezvous)
    return lambda role, index: {**settings, **plain(role, index)}


_FORMATTERS: Mapping[Runtime, Callable[[Peers, str], Variables]] = {
    Runtime.TENSORFLOW: _tensorflow,
    Runtime.PYTORCH: _pytorch,
    Runtime.JAX: _jax,
    Runtime.MPI: _mpi,
    Runtime.PLAIN: _plain,
}
