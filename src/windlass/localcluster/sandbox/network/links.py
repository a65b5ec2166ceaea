"""Links, addresses and routes in the network namespace of a netlink connection, for `bridge` and `egress`.

`bring_up`, `enable_forwarding` and `add_address` require that the calling process is in the same namespace.
"""

import errno
import ipaddress
import socket
import struct
import time

from windlass.localcluster.sandbox.network import netlink

_NEW_LINK = 16
_DELETE_LINK = 17
_GET_LINK = 18
_NEW_ADDRESS = 20
_NEW_ROUTE = 24

_UP = 1
_LINK_HEADER = struct.Struct("=BxHiII")
_ADDRESS_HEADER = struct.Struct("=BBBBI")
_ROUTE_HEADER = struct.Struct("=BBBBBBBBI")

# Attributes of a link, an address and a route: linux/if_link.h, if_addr.h, rtnetlink.h, veth.h.
_HARDWARE_ADDRESS = 1
_NAME = 3
_MASTER = 10
_OPERATIONAL_STATE = 16
_OPERATIONAL_STATE_UP = b"\x06"
_LINK_INFO = 18
_AF_SPEC = 26
_NAMESPACE = 28
_INFO_KIND = 1
_INFO_DATA = 2
_INFO_PORT_DATA = 5
_PORT_STATE = 1
_PORT_STATE_FORWARDING = b"\x03"
_PEER = 1
_DEVICE_SETTINGS = 1
_FORWARDING = 1
_ADDRESS = 1
_LOCAL_ADDRESS = 2
_BROADCAST = 4
_ROUTE_GATEWAY = 5
_MAIN_TABLE = 254
_PROTOCOL_STATIC = 4
_UNICAST = 1


def connection() -> netlink.Connection:
    return netlink.Connection(socket.NETLINK_ROUTE)


def create_bridge(netlink_connection: netlink.Connection, name: str, hardware_address: bytes) -> None:
    """Create a bridge. Its hardware address is fixed, since otherwise it changes with the ports."""
    body = (
        _link_header(_UP) + netlink.text(_NAME, name) + netlink.attribute(_HARDWARE_ADDRESS, hardware_address)
    )
    _create(netlink_connection, name, body, netlink.nested(_LINK_INFO, [netlink.text(_INFO_KIND, "bridge")]))


def create_veth_pair(
    netlink_connection: netlink.Connection,
    name: str,
    peer: str,
    peer_namespace: int,
    peer_hardware_address: bytes | None = None,
    bridge: int | None = None,
) -> None:
    """Create a veth pair. The end `name` is up and, if `bridge` is given, attached to the bridge.

    The end `peer` is created in `peer_namespace`, and is down.
    """
    body = _link_header(_UP) + netlink.text(_NAME, name)
    if bridge is not None:
        body += netlink.number(_MASTER, bridge)
    other = _link_header(0) + netlink.text(_NAME, peer) + netlink.number(_NAMESPACE, peer_namespace)
    if peer_hardware_address is not None:
        other += netlink.attribute(_HARDWARE_ADDRESS, peer_hardware_address)
    data = netlink.nested(_INFO_DATA, [netlink.nested(_PEER, [other])])
    _create(
        netlink_connection, name, body, netlink.nested(_LINK_INFO, [netlink.text(_INFO_KIND, "veth"), data])
    )


def bring_up(netlink_connection: netlink.Connection, name: str) -> None:
    index = socket.if_nametoindex(name)
    netlink_connection.request(f"bringing up link {name}", _NEW_LINK, _link_header(_UP, index))


def wait_for_bridge_port(
    netlink_connection: netlink.Connection, bridge: str, port: str, deadline: float
) -> None:
    """Wait until the bridge forwards packets of a port, at most until the deadline.

    The kernel enables forwarding asynchronously. Earlier packets are dropped, and retransmitted only after a second.
    """
    while not _is_forwarding(netlink_connection, bridge, port) and time.monotonic() < deadline:
        time.sleep(0.001)


def enable_forwarding(netlink_connection: netlink.Connection, name: str) -> None:
    """Enable forwarding of packets from this link. It is set through netlink because /proc/sys may be read-only."""
    settings = netlink.nested(_DEVICE_SETTINGS, [netlink.number(_FORWARDING, 1)])
    families = netlink.nested(_AF_SPEC, [netlink.nested(socket.AF_INET, [settings])])
    body = _LINK_HEADER.pack(socket.AF_UNSPEC, 0, socket.if_nametoindex(name), 0, 0) + families
    netlink_connection.request(f"forwarding from link {name}", _NEW_LINK, body)


def delete(netlink_connection: netlink.Connection, name: str) -> None:
    """Delete a link if it exists."""
    try:
        netlink_connection.request(
            f"deleting link {name}", _DELETE_LINK, _link_header(0) + netlink.text(_NAME, name)
        )
    except OSError as error:
        if error.errno != errno.ENODEV:
            raise


def add_address(netlink_connection: netlink.Connection, name: str, address: str, prefix_length: int) -> None:
    """Add an address unless it exists."""
    index = socket.if_nametoindex(name)
    network = ipaddress.IPv4Interface(f"{address}/{prefix_length}").network
    packed = socket.inet_aton(address)
    body = _ADDRESS_HEADER.pack(socket.AF_INET, prefix_length, 0, 0, index)
    body += netlink.attribute(_ADDRESS, packed) + netlink.attribute(_LOCAL_ADDRESS, packed)
    body += netlink.attribute(_BROADCAST, network.broadcast_address.packed)
    what = f"adding address {address}/{prefix_length} to link {name}"
    try:
        netlink_connection.request(what, _NEW_ADDRESS, body, netlink.CREATE | netlink.EXCLUSIVE)
    except OSError as error:
        if error.errno != errno.EEXIST:
            raise


def add_default_route(netlink_connection: netlink.Connection, gateway: str) -> None:
    header = _ROUTE_HEADER.pack(socket.AF_INET, 0, 0, 0, _MAIN_TABLE, _PROTOCOL_STATIC, 0, _UNICAST, 0)
    body = header + netlink.attribute(_ROUTE_GATEWAY, socket.inet_aton(gateway))
    flags = netlink.CREATE | netlink.EXCLUSIVE
    netlink_connection.request(f"adding the default route via {gateway}", _NEW_ROUTE, body, flags)


def _is_forwarding(netlink_connection: netlink.Connection, bridge: str, port: str) -> bool:
    info = netlink.attributes(_attributes(netlink_connection, port).get(_LINK_INFO, b""))
    state = netlink.attributes(info.get(_INFO_PORT_DATA, b"")).get(_PORT_STATE)
    return (
        state == _PORT_STATE_FORWARDING
        and _attributes(netlink_connection, bridge).get(_OPERATIONAL_STATE) == _OPERATIONAL_STATE_UP
    )


def _attributes(netlink_connection: netlink.Connection, name: str) -> dict[int, bytes]:
    (answer,) = netlink_connection.request(
        f"looking at link {name}", _GET_LINK, _link_header(0) + netlink.text(_NAME, name)
    )
    return netlink.attributes(answer[_LINK_HEADER.size :])


def _link_header(flags: int, index: int = 0) -> bytes:
    return _LINK_HEADER.pack(socket.AF_UNSPEC, 0, index, flags, flags)


def _create(netlink_connection: netlink.Connection, name: str, body: bytes, info: bytes) -> None:
    """Create a link, in place of a leftover link of the same name."""
    flags = netlink.CREATE | netlink.EXCLUSIVE
    what = f"creating link {name}"
    try:
        netlink_connection.request(what, _NEW_LINK, body + info, flags)
    except OSError as error:
        if error.errno != errno.EEXIST:
            raise
        delete(netlink_connection, name)
        netlink_connection.request(what, _NEW_LINK, body + info, flags)
