"""Where everybody is: by name, by a port of its own, or by address.

Names are known before anything starts, and stay the same when a task is tried again. A TensorFlow server keeps the
addresses that it was started with: a peer that comes back elsewhere never comes back for it.
"""

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from windlass.discovery import ports
from windlass.model import names
from windlass.model.framework import Framework
from windlass.model.gang import GangSpec

LOOPBACK = "127.0.0.1"


class Address(NamedTuple):
    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


class Peers(msgspec.Struct, frozen=True):
    """The roles in the order of the spec, and the address of each of their tasks."""

    roles: Mapping[str, tuple[Address, ...]]


def by_name(framework: Framework) -> Peers:
    """`worker-0.digits:2222`, which the name servers of the namespace complete."""
    service = names.service_name(framework.name)
    return Peers(
        {
            role.name: tuple(
                Address(f"{names.host_name(role.name, index)}.{service}", port)
                for index in range(role.task_number)
            )
            for role in framework.spec.task_roles
            for port in (ports.port_of(role.task.pod),)
        }
    )


def by_port(framework: Framework, first: Mapping[str, int]) -> Peers:
    """On a network that all share: each task has a port of its own, and those of a role follow one another."""
    return Peers(
        {
            role.name: tuple(Address(LOOPBACK, start + index) for index in range(role.task_number))
            for role in framework.spec.task_roles
            for start in (first.get(role.name, ports.port_of(role.task.pod)),)
        }
    )


def by_address(gang: GangSpec) -> Peers:
    return Peers(
        {
            role.name: tuple(Address(member.ip, member.port or role.port) for member in role.members)
            for role in gang.roles
        }
    )


def by_name_in(gang: GangSpec) -> Peers:
    """As `by_name`, for whoever has only the Gang."""
    return Peers(
        {
            role.name: tuple(
                Address(f"{names.host_name(role.name, index)}.{gang.service}", role.port)
                for index in range(len(role.members))
            )
            for role in gang.roles
        }
    )
