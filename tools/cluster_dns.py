"""Serve the names of a cluster's Services by DNS over UDP and TCP, from its API server.

    python tools/cluster_dns.py --kubeconfig FILE --address 198.18.0.1 --port 53

Print `serving` and the address once all objects have been listed. Names outside the domain do not exist unless
--upstream names a server to ask, so that lookups on a machine without internet access fail at once. While the API
server is unavailable, the last known names are served.

`service_names` contains the zone and the answers; this module contains the sockets.
"""

import argparse
import asyncio
import contextlib
import functools
import logging
import signal
import socket
import sys
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, NoReturn

import dns.asyncquery
import dns.exception

from service_names import answers  # next to this file
from service_names.directory import Directory
from service_names.zone import Zone
from windlass.kubeapi import access
from windlass.kubeapi.errors import AccessError, ApiError
from windlass.kubeapi.reflector import Reflector
from windlass.kubeapi.resources import Resource
from windlass.kubeapi.transport import Transport

log = logging.getLogger(__name__)

SERVICES = Resource("", "v1", "services")
ENDPOINTS = Resource("", "v1", "endpoints")
UPSTREAM_SECONDS = 5.0
IDLE_SECONDS = 30.0
"""How long a connection may stay open without a complete query."""

Reply = Callable[[bytes, bool], Awaitable[bytes]]
"""A function from a query, and whether it came over UDP, to the response. Empty: no response."""


class Upstream(NamedTuple):
    address: str
    port: int


class BindError(Exception):
    """The address is not available."""


def bind(address: str, port: int) -> tuple[socket.socket, socket.socket]:
    """Bind a UDP and a TCP socket on the same port. Raise BindError."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with contextlib.ExitStack() as stack:
        udp = stack.enter_context(socket.socket(family, socket.SOCK_DGRAM))
        tcp = stack.enter_context(socket.socket(family, socket.SOCK_STREAM))
        tcp.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            tcp.bind((address, port))
            udp.bind((address, tcp.getsockname()[1]))
        except OSError as error:
            raise BindError(
                f"cannot serve DNS at {address} port {port}: {error.strerror or error}"
            ) from error
        stack.pop_all()
    udp.setblocking(False)
    return udp, tcp


async def reply(zone: Zone, upstream: Upstream | None, wire: bytes, by_udp: bool) -> bytes:
    try:
        query = answers.read(wire) if answers.is_query(wire) else None
        if upstream is None or query is None or not answers.belongs_elsewhere(query, zone):
            return answers.answer(wire, zone, by_udp=by_udp)
        try:
            response, _ = await dns.asyncquery.udp_with_fallback(
                query, upstream.address, UPSTREAM_SECONDS, upstream.port
            )
        except (dns.exception.DNSException, OSError):
            response = answers.failure(query)
        return answers.packed(query, response, by_udp=by_udp)
    except Exception:
        log.exception("cannot answer a query of %d bytes: %s", len(wire), wire[:600].hex())
        return b""


async def answer_datagrams(reply: Reply, udp: socket.socket) -> NoReturn:
    loop = asyncio.get_running_loop()

    async def answer(question: bytes, sender: tuple[Any, ...]) -> None:
        if response := await reply(question, True):
            with contextlib.suppress(OSError):  # the client may be gone
                await loop.sock_sendto(udp, response, sender)

    async with asyncio.TaskGroup() as group:
        while True:
            with contextlib.suppress(OSError):
                question, sender = await loop.sock_recvfrom(udp, answers.LARGEST)
                group.create_task(answer(question, sender))


async def converse(reply: Reply, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer the queries on a connection; each message is preceded by its length."""
    with contextlib.suppress(OSError, TimeoutError, asyncio.IncompleteReadError):
        while True:
            async with asyncio.timeout(IDLE_SECONDS):
                length = int.from_bytes(await reader.readexactly(2), "big")
                question = await reader.readexactly(length)
            answer = await reply(question, False)
            if not answer:
                break
            writer.write(len(answer).to_bytes(2, "big") + answer)
            async with asyncio.timeout(IDLE_SECONDS):
                await writer.drain()
    writer.close()


async def serve(kubeconfig: str, address: str, port: int, domain: str, upstream: Upstream | None) -> None:
    """Serve until cancelled. Raise BindError and AccessError."""
    udp, tcp = bind(address, port)
    with udp, tcp:
        zone = Zone(domain, address)
        directory = Directory(zone, domain)
        answering: Reply = functools.partial(reply, zone, upstream)
        async with Transport(await access.load(kubeconfig), user_agent="windlass-dns") as transport:
            followers = [
                _follower(transport, SERVICES, directory.on_services),
                _follower(transport, ENDPOINTS, directory.on_endpoints),
            ]
            async with asyncio.TaskGroup() as group:
                for follower in followers:
                    group.create_task(follower.run())
                for follower in followers:
                    # Until then UDP queries wait in the socket, so that no name is reported missing too
                    # early.
                    await follower.listed.wait()
                group.create_task(answer_datagrams(answering, udp))
                await asyncio.start_server(functools.partial(converse, answering), sock=tcp)
                print(f"serving {domain} at {address} port {tcp.getsockname()[1]}", flush=True)


def _follower(transport: Transport, resource: Resource, receive: Callable[..., None]) -> Reflector:
    def on_error(error: ApiError) -> None:
        log.warning("%s: %s", resource.full_name, error)

    return Reflector(transport, resource, receive=receive, on_error=on_error)


async def _until_told_to_stop(serving: Awaitable[None]) -> None:
    task = asyncio.ensure_future(serving)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, task.cancel)
    with contextlib.suppress(asyncio.CancelledError):
        await task


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--kubeconfig",
        required=True,
        help="kubeconfig of a user who may list and watch services and endpoints",
    )
    parser.add_argument("--address", required=True, help="address to listen on")
    parser.add_argument(
        "--port", type=int, default=53, help="UDP and TCP port (default: 53; 0: any free port)"
    )
    parser.add_argument(
        "--domain", default="cluster.local", help="domain of the cluster (default: cluster.local)"
    )
    parser.add_argument("--upstream", default="", help="address of a DNS server for other names")
    parser.add_argument("--upstream-port", type=int, default=53, help="port of that server (default: 53)")
    options = parser.parse_args()
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", level=logging.INFO)
    upstream = Upstream(options.upstream, options.upstream_port) if options.upstream else None
    domain = options.domain.strip(".").lower()
    serving = serve(options.kubeconfig, options.address, options.port, domain, upstream)
    try:
        asyncio.run(_until_told_to_stop(serving))
    except (BindError, AccessError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
