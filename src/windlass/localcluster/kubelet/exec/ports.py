"""Connections to ports of a pod, opened in the network of the pod."""

import asyncio
import contextlib
import os
import socket
from collections.abc import Sequence

from windlass.localcluster.kubelet import sandbox_connection
from windlass.localcluster.kubelet.supervisor_client import SupervisorClient

LOOPBACK = "127.0.0.1"
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def forward(
    supervisor: SupervisorClient, addresses: Sequence[str], port: int, *, is_isolated: bool
) -> Streams:
    """Connect to a port on the loopback or the address of the pod. Raises OSError.

    On the host network all pods share the loopback: there the pod's address comes first.
    """
    hosts = (LOOPBACK, *addresses) if is_isolated else (*addresses, LOOPBACK)
    for host in hosts[:-1]:
        with contextlib.suppress(OSError):
            return await connect(supervisor, host, port)
    return await connect(supervisor, hosts[-1], port)


async def connect(supervisor: SupervisorClient, host: str, port: int) -> Streams:
    """Connect from within the pod. The machine resolves the host name. Raises OSError."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    connection = await supervisor.connect(str(found[0][4][0]), port)
    connection.setblocking(False)
    try:
        await sandbox_connection.writable(connection.fileno())
        code = connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            raise OSError(code, os.strerror(code))
        return await asyncio.open_connection(sock=connection)
    except BaseException:
        connection.close()
        raise
