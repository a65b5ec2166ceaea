"""The pod network: a network namespace with a bridge (the hub), linked to the namespace of every pod by a veth pair.

The spawner stays in the host network and holds a descriptor of the hub. The supervisor of a pod creates the pod's
namespace and its link to the hub, except for a pod on the host network. The hub exists as long as a process, e.g. a
supervisor, holds a descriptor of it.
"""

import os
import shutil
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
_ANCHOR_PEER = "anchored"
_TIMEOUT_SECONDS = 2.0


class Mode(StrEnum):
    ISOLATED = "isolated"
    SHARED = "shared"
    AUTO = "auto"


class Shared(msgspec.Struct, frozen=True):
    """Pods share the host network for this reason."""

    reason: str


class PodNetwork(msgspec.Struct, frozen=True):
    # Descriptor of the hub.
    namespace: int
    gateway: str
    prefix_length: int
    # Why there is no uplink; empty if there is one.
    reason: str
    uplink: egress.Uplink | None

    @property
    def nameservers(self) -> tuple[str, ...]:
        """Nameservers for pods if the machine's nameserver is on its loopback, which isolated pods cannot reach."""
        return self.uplink.nameservers if self.uplink else ()

    def listen(self, port: int) -> socket.socket:
        """Return a socket that listens at the gateway, for pods."""

        def listen() -> list[int]:
            return [socket.create_server((self.gateway, port), backlog=128).detach()]

        (descriptor,) = netns_exec.run_in_namespace(self.namespace, listen)
        return socket.socket(fileno=descriptor)

    def with_new_uplink(self) -> "PodNetwork":
        """Return the network with a new uplink in place of the old one, or without an uplink if none can be opened."""
        if self.uplink:
            self.uplink.helper.end()
        try:
            return msgspec.structs.replace(self, uplink=egress.open_uplink(self.namespace), reason="")
        except (egress.NoUplinkError, OSError) as error:
            return msgspec.structs.replace(self, uplink=None, reason=str(error))

    def close(self) -> None:
        if self.uplink:
            self.uplink.helper.end()
        os.close(self.namespace)


def open_network(subnet: str, mode: Mode, namespace: int | None = None) -> PodNetwork | Shared:
    """Create the pod network, or return why pods share the host network.

    The spawner must already be in its user namespace. `namespace` is the hub of an earlier spawner: its pods stay
    isolated in any mode. Raises OSError if the network must be isolated but cannot be.
    """
    if namespace is None and mode is Mode.SHARED:
        return Shared("requested")
    network = IPv4Network(subnet)
    gateway = str(network.network_address + 1)
    may_be_shared = namespace is None and mode is Mode.AUTO
    try:
        (hub_namespace,) = netns_exec.run_in_namespace(namespace, lambda: _set_up(gateway, network.prefixlen))
    except OSError as error:
        if may_be_shared:
            return Shared(f"pods share the host network: {error.strerror}")
        raise
    try:
        uplink = egress.open_uplink(hub_namespace)
    except egress.NoUplinkError as error:
        if may_be_shared:
            os.close(hub_namespace)
            details = f": {error}" if shutil.which("pasta") else " (install `passt` to isolate them)"
            return Shared(f"pods share the host network{details}")
        reason = f"pods cannot reach other networks: {error}. Install `passt` or `slirp4netns`."
        return PodNetwork(hub_namespace, gateway, network.prefixlen, reason, None)
    return PodNetwork(hub_namespace, gateway, network.prefixlen, "", uplink)


def join(hub_namespace: int, link: messages.Link) -> None:
    """Move the calling process into a new network namespace that is linked to the hub."""
    kernel.set_namespace(hub_namespace, kernel.CLONE_NEWNET)
    bridge = socket.if_nametoindex(BRIDGE)
    # Name and hardware address depend on the IP address, so that a leftover link is replaced and cached ARP entries of
    # peers stay valid.
    name = f"pod{socket.inet_aton(link.address).hex()}"
    with links.connection() as hub_connection:
        kernel.unshare(kernel.CLONE_NEWNET)
        own = _own_namespace()
        try:
            links.create_veth_pair(
                hub_connection, name, _POD_LINK, own, _hardware_address(link.address), bridge
            )
        finally:
            os.close(own)
        with links.connection() as pod_connection:
            links.bring_up(pod_connection, "lo")
            links.bring_up(pod_connection, _POD_LINK)
            links.add_address(pod_connection, _POD_LINK, link.address, link.prefix_length)
            links.add_default_route(pod_connection, link.gateway)
        links.wait_for_bridge_port(hub_connection, BRIDGE, name, time.monotonic() + _TIMEOUT_SECONDS)


def _set_up(gateway: str, prefix_length: int) -> list[int]:
    own = _own_namespace()
    with links.connection() as netlink_connection:
        links.bring_up(netlink_connection, "lo")
        if BRIDGE not in {name for _, name in socket.if_nameindex()}:
            links.create_bridge(netlink_connection, BRIDGE, _hardware_address(gateway))
            # A bridge without active ports goes down, and needs up to a second to come back: this port stays up.
            links.create_veth_pair(
                netlink_connection, _ANCHOR, _ANCHOR_PEER, own, bridge=socket.if_nametoindex(BRIDGE)
            )
            links.bring_up(netlink_connection, _ANCHOR_PEER)
        links.add_address(netlink_connection, BRIDGE, gateway, prefix_length)
        links.enable_forwarding(netlink_connection, BRIDGE)
    return [own]


def _own_namespace() -> int:
    return os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)


def _hardware_address(address: str) -> bytes:
    """Return a locally administered hardware address that contains the IP address."""
    return b"\x02\x00" + socket.inet_aton(address)
