"""What a task is told before it starts, as its Framework has asked for it."""

from collections.abc import Callable, Mapping

from windlass.discovery import peers as where
from windlass.discovery import ranks
from windlass.discovery.peers import Peers
from windlass.discovery.plain import Plain
from windlass.discovery.tensorflow import TensorFlow
from windlass.model import names
from windlass.model.feature_annotations import Runtime, requested_features
from windlass.model.framework import Framework

HOSTFILE = f"{names.BARRIER_FOLDER}/hostfile"

Variables = Callable[[str, int], dict[str, str]]
"""Role and index → the variables of that task."""


def variables_of(framework: Framework, ports: Mapping[str, int] | None = None) -> Variables:
    """`ports`, by role, where the pods share one network: the port of the role's first task."""
    runtime = requested_features(framework.metadata.annotations).runtime
    if runtime is None:
        return _nothing
    peers = where.by_name(framework) if ports is None else where.by_port(framework, ports)
    return variables_among(runtime, peers, _rendezvous(framework))


def variables_among(runtime: Runtime, peers: Peers, rendezvous: str) -> Variables:
    """`rendezvous` is a name that nobody else meets under."""
    return _FORMS[runtime](peers, rendezvous)


def _rendezvous(framework: Framework) -> str:
    attempt = None if framework.status is None else framework.status.attempt_status.instance_uid
    return attempt or framework.uid


def _nothing(_role: str, _index: int) -> dict[str, str]:
    return {}


def _tensorflow(peers: Peers, _rendezvous: str) -> Variables:
    return TensorFlow(peers).variables


def _pytorch(peers: Peers, rendezvous: str) -> Variables:
    counted = ranks.Ranks(peers)
    return lambda role, index: ranks.pytorch(counted, rendezvous, role, index)


def _jax(peers: Peers, _rendezvous: str) -> Variables:
    counted = ranks.Ranks(peers)
    return lambda role, index: ranks.jax(counted, role, index)


def _plain(peers: Peers, _rendezvous: str) -> Variables:
    return Plain(peers).variables


def _mpi(peers: Peers, _rendezvous: str) -> Variables:
    """Open MPI reads the names of its settings with a prefix; what it is built on since 5.0 has one of its own."""
    settings = {
        "WINDLASS_HOSTFILE": HOSTFILE,
        "OMPI_MCA_orte_default_hostfile": HOSTFILE,
        "PRTE_MCA_prte_default_hostfile": HOSTFILE,
        # It would cut a name at the first dot, and nobody knows the rest.
        "OMPI_MCA_orte_keep_fqdn_hostnames": "true",
        "PRTE_MCA_prte_keep_fqdn_hostnames": "true",
    }
    if any(address.host == where.LOOPBACK for addresses in peers.roles.values() for address in addresses):
        # It would leave the loopback out, which may be all that there is.
        settings |= {"OMPI_MCA_btl_tcp_if_include": "lo", "OMPI_MCA_oob_tcp_if_include": "lo"}
    plain = Plain(peers)
    return lambda role, index: {**settings, **plain.variables(role, index)}


_FORMS: Mapping[Runtime, Callable[[Peers, str], Variables]] = {
    Runtime.TENSORFLOW: _tensorflow,
    Runtime.PYTORCH: _pytorch,
    Runtime.JAX: _jax,
    Runtime.MPI: _mpi,
    Runtime.PLAIN: _plain,
}
