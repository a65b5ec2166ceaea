"""Sockets of connections to the API server."""

import socket
from typing import Any


def with_keepalive(address: Any) -> socket.socket:
    """Return a socket with keepalive, so that a lost connection is detected within a minute."""
    family, kind, protocol, _, _ = address
    created = socket.socket(family, kind, protocol)
    created.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    # The names differ on macOS, and not all options exist everywhere.
    for name, value in (
        ("TCP_KEEPIDLE", 30),
        ("TCP_KEEPALIVE", 30),
        ("TCP_KEEPINTVL", 10),
        ("TCP_KEEPCNT", 3),
        ("TCP_USER_TIMEOUT", 60_000),
    ):
        option = getattr(socket, name, None)
        if option is not None:
            created.setsockopt(socket.IPPROTO_TCP, option, value)
    return created
