"""The addresses of all tasks: DNS names, ports on a shared network, or IP addresses.

DNS names are known before anything starts, and stay the same when a task is retried. A TensorFlow server keeps the
addresses that it was started with, so it could not reach a peer that restarts with another address.
"""

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from windlass.discovery import placeholders, ports
from windlass.model import feature_annotations, names
from windlass.model.framework import Framework, TaskRoleSpec
from windlass.model.gang import GangSpec

LOOPBACK = "127.0.0.1"


class Address(NamedTuple):
    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


class Peers(msgspec.Struct, frozen=True):
    """The address of each task by role, with the roles in the order of the spec."""

    roles: Mapping[str, tuple[Address, ...]]
    keeps_role_names: bool = False
    """Whether the names of the roles are TensorFlow's task types, unchanged."""


def peers_with_dns_names(framework: Framework) -> Peers:
    """Return DNS names such as `worker-0.digits:2222`, relative to the namespace."""
    return Peers(
        {
            role.name: tuple(Address(name, port) for name in dns_names(framework, role))
            for role in framework.spec.task_roles
            for port in (ports.port_of(role.task.pod),)
        },
        feature_annotations.keeps_role_names(framework.metadata.annotations),
    )


def dns_names(framework: Framework, role: TaskRoleSpec) -> tuple[str, ...]:
    """Return the DNS names of the role's tasks. The hostname and the subdomain of the pod template replace
    `{role}-{index}` and the Service of the Framework."""
    spec = role.task.pod.get("spec")
    spec = spec if isinstance(spec, dict) else {}
    own = str(spec.get("hostname") or "")
    subdomain = str(spec.get("subdomain") or "") or names.service_name(framework.name)
    return tuple(
        _filled(f"{own or names.host_name(role.name, index)}.{subdomain}", framework, role.name, index)
        for index in range(role.task_number)
    )


def _filled(text: str, framework: Framework, role: str, index: int) -> str:
    """Return the text with its placeholders replaced."""
    places = placeholders.find(text)
    if places is None:
        return text
    status = framework.status
    values = {
        names.FRAMEWORK_NAMESPACE: framework.namespace,
        names.FRAMEWORK_NAME: framework.name,
        names.TASKROLE_NAME: role,
        names.TASK_INDEX: str(index),
        names.CONFIGMAP_NAME: names.config_map_name(framework.name),
        names.POD_NAME: names.pod_name(framework.name, role, index),
        names.FRAMEWORK_ATTEMPT_ID: str(status.attempt_status.id if status is not None else 0),
    }
    filled: str = placeholders.fill(text, places, values)
    return filled


def peers_on_shared_network(framework: Framework, first_ports: Mapping[str, int]) -> Peers:
    """Return addresses on a shared network: each task has its own port, and the ports of a role are consecutive."""
    return Peers(
        {
            role.name: tuple(Address(LOOPBACK, start + index) for index in range(role.task_number))
            for role in framework.spec.task_roles
            for start in (first_ports.get(role.name, ports.port_of(role.task.pod)),)
        },
        feature_annotations.keeps_role_names(framework.metadata.annotations),
    )


def peers_with_ip_addresses(gang: GangSpec) -> Peers:
    return Peers(
        {
            role.name: tuple(Address(member.ip, member.port or role.port) for member in role.members)
            for role in gang.roles
        }
    )


def gang_peers_with_dns_names(gang: GangSpec) -> Peers:
    """Return the same as `peers_with_dns_names`, from a Gang."""
    return Peers(
        {
            role.name: tuple(
                Address(member.dns_name or f"{names.host_name(role.name, index)}.{gang.service}", role.port)
                for index, member in enumerate(role.members)
            )
            for role in gang.roles
        }
    )
