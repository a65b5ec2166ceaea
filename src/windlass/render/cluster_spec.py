"""Addresses of the tasks of a job as text, for companions, which may start before the tasks.

On a shared network tasks have other ports, which are known only when they run: see `windlass env`.
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
    """Return the addresses for a reader in `namespace`.

    Task names are those of a Framework or, with `is_plain`, those of plain objects, which begin with `prefix`.
    """
    if is_plain:
        members = roles.peers_of(job, roles.roles_of(job, prefix=prefix))
    else:
        members = peers.peers_with_dns_names(msgspec.convert(builder.framework(job), Framework))
        if job.namespace != namespace:
            members = _fully_qualified(members, job.namespace)
    return addresses_json(job, members)


def addresses_json(job: Job, members: Peers) -> str:
    """Return the addresses by role or, with TensorFlow, by its task type, e.g. `chief` instead of `master`."""
    if job.runtime is Runtime.TENSORFLOW:
        variables = environment.variables_for_peers(job.runtime, members, job.name)
        return variables(next(iter(job.roles)), 0)[VARIABLE]
    addresses_by_role = {role: list(map(str, addresses)) for role, addresses in members.roles.items()}
    return msgspec.json.encode(addresses_by_role).decode()


def _fully_qualified(members: Peers, namespace: str) -> Peers:
    """Return the peers with fully qualified names, or unchanged if the namespace of the job is unknown (empty)."""
    domain = f".{namespace}.{roles.CLUSTER_DOMAIN}" if namespace else ""
    return msgspec.structs.replace(
        members,
        roles={
            role: tuple(Address(f"{address.host}{domain}", address.port) for address in addresses)
            for role, addresses in members.roles.items()
        },
    )
