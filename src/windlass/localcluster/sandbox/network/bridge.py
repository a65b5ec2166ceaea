"""The pods' own network: a namespace with a bridge, the hub, to which every pod's namespace has a cable.

The spawner stays in the network of the machine and holds the hub by a descriptor; a supervisor joins it with a
namespace of its own; a pod on the machine's network is one whose supervisor does not. The hub lives as long as one of
them holds it, and everything in it ends with it.
"""

import os
import socket
import time
from enum import StrEnum
from ipaddress import IPv4Network

import msgspec

from windlass.localcluster.sandbox import kernel, messages
from windlass.localcluster.sandbox.network import egress, links, netns_exec

BRIDGE = "windlass0"
_POD_LINK = "eth0"
_ANCHOR = "anchor"
_ANCHORED = "anchored"
_PATIENCE_SECONDS = 2.0


class Mode(StrEnum):
    ISOLATED = "isolated"
    SHARED = "shared"
    AUTO = "auto"


class Shared(msgspec.Struct, frozen=True):
    """Pods are on the network of the machine, and why."""

    reason: str


class Hub(msgspec.Struct, frozen=True):
    namespace: int
    gateway: str
    prefix_length: int
    # Why there is none; empty if there is one.
    reason: str
    uplink: egress.Uplink | None

    @property
    def nameservers(self) -> tuple[str, ...]:
        """What pods can ask when the machine's name server is on its loopback, where no pod reaches it."""
        return self.uplink.nameservers if self.uplink else ()

    def listen(self, port: int) -> socket.socket:
        """At the gateway, for pods."""
        (descriptor,) = netns_exec.visit(self.namespace, lambda: [_listening(self.gateway, port)])
        return socket.socket(fileno=descriptor)

    def with_new_uplink(self) -> "Hub":
        """For one that has ended by itself."""
        if self.uplink:
            self.uplink.keeper.end()
        try:
            return msgspec.structs.replace(self, uplink=egress.open_uplink(self.namespace), reason="")
        except (egress.NoUplinkError, OSError) as error:
            return msgspec.structs.replace(self, uplink=None, reason=str(error))

    def close(self) -> None:
        if self.uplink:
            self.uplink.keeper.end()
        os.close(self.namespace)


def open_network(subnet: str, mode: Mode, namespace: int | None = None) -> Hub | Shared:
    """For a spawner that serves no pods yet, in its user namespace if it has one.

    `namespace` is the hub of an earlier spawner, whose pods live on: they stay isolated whatever the mode. An OSError
    says that there can be no such network though it was asked for.
    """
    if namespace is None and mode is Mode.SHARED:
        return Shared("asked for")
    network = IPv4Network(subnet)
    gateway = str(network.network_address + 1)
    may_be_shared = namespace is None and mode is Mode.AUTO
    try:
        (hub,) = netns_exec.visit(namespace, lambda: _set_up(gateway, network.prefixlen))
    except OSError as error:
        if may_be_shared:
            return Shared(f"pods cannot have a network of their own: {error.strerror}")
        raise
    try:
        uplink = egress.open_uplink(hub)
    except egress.NoUplinkError as error:
        reason = f"no way out of a network of their own for pods: {error}"
        if may_be_shared:
            os.close(hub)
            return Shared(reason)
        return Hub(hub, gateway, network.prefixlen, reason, None)
    return Hub(hub, gateway, network.prefixlen, "", uplink)


def join(hub: int, link: messages.Link) -> None:
    """The calling process has a network namespace of its own from here on, with a cable to the hub."""
    kernel.set_namespace(hub, kernel.NEW_NETWORK)
    bridge = socket.if_nametoindex(BRIDGE)
    # Named and numbered after the address: what a pod of the same address left is replaced, and peers that remember
    # its hardware address find the new one.
    name = f"pod{socket.inet_aton(link.address).hex()}"
    with links.connection() as from_hub:
        kernel.unshare(kernel.NEW_NETWORK)
        own = _own_namespace()
        try:
            links.make_pair(from_hub, name, _POD_LINK, own, _hardware_address(link.address), bridge)
        finally:
            os.close(own)
        with links.connection() as route:
            links.set_up(route, "lo")
            links.set_up(route, _POD_LINK)
            links.add_address(route, _POD_LINK, link.address, link.prefix_length)
            links.add_default_route(route, link.gateway)
        links.wait_for_port(from_hub, BRIDGE, name, time.monotonic() + _PATIENCE_SECONDS)


def _set_up(gateway: str, prefix_length: int) -> list[int]:
    own = _own_namespace()
    with links.connection() as route:
        links.set_up(route, "lo")
        if BRIDGE not in {name for _, name in socket.if_nameindex()}:
            links.make_bridge(route, BRIDGE, _hardware_address(gateway))
            # A bridge without a port that is up is down itself, and takes up to a second to come back: it keeps one.
            links.make_pair(route, _ANCHOR, _ANCHORED, own, bridge=socket.if_nametoindex(BRIDGE))
            links.set_up(route, _ANCHORED)
        links.add_address(route, BRIDGE, gateway, prefix_length)
        links.forward(route, BRIDGE)
    return [own]


def _own_namespace() -> int:
    return os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)


def _hardware_address(address: str) -> bytes:
    """A locally administered one."""
    return b"\x02\x00" + socket.inet_aton(address)


def _listening(address: str, port: int) -> int:
    return socket.create_server((address, port), backlog=128).detach()
