"""The Gang of an attempt, from the stored status of its Framework."""

from collections.abc import Mapping

import msgspec

from windlass.discovery import peers, ports
from windlass.model import names
from windlass.model.feature_annotations import requested_features
from windlass.model.framework import Framework, TaskRoleSpec
from windlass.model.gang import GangMember, GangRole, GangSpec, members_of


def gang_of(framework: Framework, first_ports: Mapping[str, int] | None = None) -> GangSpec | None:
    """Return the Gang, or None while a task of the spec has no address.

    `first_ports` has the port of the first task of each role if pods share one network.
    """
    status = framework.status
    if status is None or status.attempt_status.instance_uid is None:
        return None
    members = members_of(framework.spec, status.attempt_status)
    if members is None:
        return None
    uses_dns_names = requested_features(framework.metadata.annotations).uses_dns_names
    return GangSpec(
        framework_name=framework.name,
        framework_uid=framework.uid,
        attempt_instance_uid=status.attempt_status.instance_uid,
        service=names.service_name(framework.name) if uses_dns_names else "",
        roles=tuple(
            GangRole(
                role.name,
                ports.port_of(role.task.pod),
                ports.slots_of(role.task.pod),
                _with_addresses(
                    members[role.name],
                    (first_ports or {}).get(role.name, 0),
                    _own_dns_names(framework, role) if uses_dns_names else (),
                ),
            )
            for role in framework.spec.task_roles
        ),
    )


def _own_dns_names(framework: Framework, role: TaskRoleSpec) -> tuple[str, ...]:
    """Return the DNS names of the tasks if their pod template sets them."""
    spec = role.task.pod.get("spec")
    is_own = isinstance(spec, dict) and bool(spec.get("hostname") or spec.get("subdomain"))
    return peers.dns_names(framework, role) if is_own else ()


def _with_addresses(
    members: tuple[GangMember, ...], first_port: int, dns_names: tuple[str, ...]
) -> tuple[GangMember, ...]:
    if not first_port and not dns_names:
        return members
    return tuple(
        msgspec.structs.replace(
            member,
            port=first_port + index if first_port else 0,
            dns_name=dns_names[index] if dns_names else "",
        )
        for index, member in enumerate(members)
    )
