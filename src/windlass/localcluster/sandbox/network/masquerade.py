"""Masquerading through the netlink interface of nf_tables, so that no tool like `nft` is needed.

Everything applies to the network namespace in which the connection was opened.
"""

import socket
import struct

from windlass.localcluster.sandbox.network import netlink

# linux/netfilter/nfnetlink.h and nf_tables.h.
_PROTOCOL = 12
_SUBSYSTEM = 10 << 8
_NEW_TABLE = _SUBSYSTEM | 0
_DELETE_TABLE = _SUBSYSTEM | 2
_NEW_CHAIN = _SUBSYSTEM | 3
_GET_CHAIN = _SUBSYSTEM | 4
_NEW_RULE = _SUBSYSTEM | 6
_BEGIN = 16
_END = 17
_EVERY_FAMILY = 0
_IPV4_FAMILIES = (1, 2)
_IPV4 = 2
_FORWARDING_HOOK = 2
_LEAVING_HOOK = 4
_SOURCE_TRANSLATION_PRIORITY = 100
_OWNED_TABLE = 2
_DROP = 0
_REGISTER = 1
_LENGTH_OF_NAME = 16

# Attributes of chains and of their hooks.
_CHAIN_TABLE, _CHAIN_NAME, _CHAIN_HOOK, _CHAIN_POLICY, _CHAIN_TYPE = 1, 3, 4, 5, 7
_HOOK_NUMBER, _HOOK_PRIORITY = 1, 2


def connection() -> netlink.Connection:
    return netlink.Connection(_PROTOCOL)


def leaving_by(link: str) -> tuple[bytes, ...]:
    """Return expressions that match packets leaving through a link."""
    name_of_link = 7
    load = _expression("meta", _number(1, _REGISTER), _number(2, name_of_link))
    return load, _equals(link.encode().ljust(_LENGTH_OF_NAME, b"\0"))


def coming_from(address: str) -> tuple[bytes, ...]:
    """Return expressions that match packets with this source address."""
    network_header, offset_of_source, length = 1, 12, 4
    where = (_number(2, network_header), _number(3, offset_of_source), _number(4, length))
    return _expression("payload", _number(1, _REGISTER), *where), _equals(socket.inet_aton(address))


def masquerade(
    nft_connection: netlink.Connection, table: str, match: tuple[bytes, ...], *, ends_with_connection: bool
) -> None:
    """Replace the source address of matching packets by that of the outgoing link.

    With `ends_with_connection`, the kernel (5.12 or newer) removes the table when the connection is closed.
    """
    named = netlink.text(1, table)
    flags = _number(2, _OWNED_TABLE) if ends_with_connection else b""
    hook = netlink.nested(
        _CHAIN_HOOK,
        [_number(_HOOK_NUMBER, _LEAVING_HOOK), _number(_HOOK_PRIORITY, _SOURCE_TRANSLATION_PRIORITY)],
    )
    chain = named + netlink.text(_CHAIN_NAME, "leaving") + hook + netlink.text(_CHAIN_TYPE, "nat")
    rule = named + netlink.text(2, "leaving") + netlink.nested(4, [*match, _expression("masq")])
    # Replace a table of this name: creating it first makes the deletion valid in any case.
    steps = [
        (_NEW_TABLE, named + flags, netlink.CREATE),
        (_DELETE_TABLE, named, 0),
        (_NEW_TABLE, named + flags, netlink.CREATE),
        (_NEW_CHAIN, chain, netlink.CREATE),
        (_NEW_RULE, rule, netlink.CREATE | netlink.APPEND),
    ]
    batch = [netlink.message(_BEGIN, _header(0, _SUBSYSTEM >> 8))]
    for message_type, body, extra in steps:
        batch.append(netlink.message(message_type, _header(_IPV4) + body, netlink.ACKNOWLEDGE | extra))
    batch.append(netlink.message(_END, _header(0, _SUBSYSTEM >> 8)))
    nft_connection.send(b"".join(batch))
    nft_connection.wait(f"creating table {table} of nf_tables", acknowledgements=len(steps))


def dropping_chain(nft_connection: netlink.Connection) -> str:
    """Return the table and name of a chain that drops forwarded packets by default; empty if there is none."""
    for body in nft_connection.dump("listing the chains of nf_tables", _GET_CHAIN, _header(_EVERY_FAMILY)):
        family = body[0]
        found = netlink.attributes(body[4:])
        hook = netlink.attributes(found.get(_CHAIN_HOOK, b""))
        is_forward_chain = _value(hook.get(_HOOK_NUMBER)) == _FORWARDING_HOOK and family in _IPV4_FAMILIES
        if is_forward_chain and _value(found.get(_CHAIN_POLICY)) == _DROP:
            return f"{_name(found[_CHAIN_TABLE])} {_name(found[_CHAIN_NAME])}"
    return ""


def _header(family: int, resource: int = 0) -> bytes:
    return struct.pack("!BBH", family, 0, resource)


def _number(attribute_type: int, value: int) -> bytes:
    """Return a number attribute. nf_tables uses big-endian numbers."""
    return netlink.attribute(attribute_type, struct.pack("!I", value))


def _expression(name: str, *data: bytes) -> bytes:
    # The data attribute is required even if it is empty.
    return netlink.nested(1, [netlink.text(1, name), netlink.nested(2, data)])


def _equals(value: bytes) -> bytes:
    equal = 0
    wanted = netlink.nested(3, [netlink.attribute(1, value)])
    return _expression("cmp", _number(1, _REGISTER), _number(2, equal), wanted)


def _value(data: bytes | None) -> int | None:
    return None if data is None else int(struct.unpack("!I", data)[0])


def _name(data: bytes) -> str:
    return data.rstrip(b"\0").decode(errors="replace")
