"""Who the tasks of a job are, as text: for whoever stands beside them, before any of them runs.

On a network that tasks share they have other ports, which nobody knows before: `windlass env` does, when they run.
"""

import msgspec

from windlass.discovery import environment, peers
from windlass.discovery.peers import Address, Peers
from windlass.model.feature_annotations import Runtime
from windlass.model.framework import Framework
from windlass.model.job import Job
from windlass.render.framework import builder
from windlass.render.plain import roles

VARIABLE = "CLUSTER_CONFIG"


def of_job(job: Job, namespace: str, *, is_plain: bool = False, prefix: str | None = None) -> str:
    """For somebody in `namespace`. Tasks are called as those of a Framework, or as those of plain objects are, whose
    names begin with `prefix` if that is given."""
    if is_plain:
        members = roles.peers_of(job, roles.roles_of(job, prefix=prefix))
    else:
        members = peers.by_name(msgspec.convert(builder.framework(job), Framework))
        if job.namespace != namespace:
            members = _in_full(members, job.namespace)
    return text(job, members)


def text(job: Job, members: Peers) -> str:
    """The addresses by role, or by what TensorFlow calls it: to that, a master is a chief."""
    if job.runtime is Runtime.TENSORFLOW:
        told = environment.variables_for_peers(job.runtime, members, job.name)
        return told(next(iter(job.roles)), 0)[VARIABLE]
    return msgspec.json.encode(
        {role: list(map(str, found)) for role, found in members.roles.items()}
    ).decode()


def _in_full(members: Peers, namespace: str) -> Peers:
    """For whoever is in another namespace. Nothing is added to a namespace that nobody knows yet."""
    domain = f".{namespace}.{roles.CLUSTER_DOMAIN}" if namespace else ""
    return Peers(
        {
            role: tuple(Address(f"{address.host}{domain}", address.port) for address in addresses)
            for role, addresses in members.roles.items()
        }
    )
