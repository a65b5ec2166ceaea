"""The process behind `windlass local`: a cluster and a controller over one data directory, until a signal ends it.

SIGTERM and SIGINT end the daemon and leave its pods running, for the next one to adopt; SIGUSR1 ends both.
"""

import asyncio
import contextlib
import logging
import os
import secrets
import signal
import socket
from collections.abc import AsyncIterator, Callable
from pathlib import Path

from windlass.localcluster.cluster import CannotStartError as CannotStartError
from windlass.localcluster.cluster import ClusterOptions, LocalCluster
from windlass.runner import free_ports
from windlass.runner.local import data_folders, records
from windlass.runner.local.data_folders import Lock
from windlass.runner.local.records import Record, Wanted

TAKE_OVER_SECONDS = 2.0
"""For so long a lock is waited for that somebody only looks at."""
START_AGAIN_SECONDS = 5.0

log = logging.getLogger(__name__)


def serve(wanted: Wanted, ready: Callable[[Record], None]) -> None:
    """Raises InUseError, CannotStartError and OSError before it is ready."""
    with Lock.take(wanted.data / data_folders.LOCK, TAKE_OVER_SECONDS):
        asyncio.run(_serve(wanted, ready))


def end_pods(data: Path) -> None:
    """Those that a daemon left behind which was killed. Raises what `serve` raises."""

    last = records.read(data)
    options = (
        ClusterOptions() if last is None else ClusterOptions(nodes=last.nodes, network=last.wanted_network)
    )

    async def adopt_and_end() -> None:
        cluster = LocalCluster(data, options)
        try:
            await cluster.start()
        finally:
            await cluster.stop(ends_pods=True)

    with Lock.take(data / data_folders.LOCK, TAKE_OVER_SECONDS):
        asyncio.run(adopt_and_end())


async def _serve(wanted: Wanted, ready: Callable[[Record], None]) -> None:
    is_asked_to_stop, is_asked_to_end_pods = asyncio.Event(), asyncio.Event()

    def end_pods_too() -> None:
        is_asked_to_end_pods.set()
        is_asked_to_stop.set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, is_asked_to_stop.set)
    loop.add_signal_handler(signal.SIGUSR1, end_pods_too)
    options = ClusterOptions(nodes=wanted.nodes, network=wanted.network, host=wanted.host, port=_port(wanted))
    cluster = LocalCluster(wanted.data, options)
    try:
        await cluster.start()
        is_shared = cluster.network == "shared"
        controlled = _controlled(cluster.socket, is_network_shared=is_shared)
        async with controlled if wanted.has_controller else contextlib.nullcontext():
            record = Record(
                pid=os.getpid(),
                url=cluster.url,
                kubeconfig=str(cluster.kubeconfig),
                socket=str(cluster.socket),
                network=cluster.network,
                wanted_network=wanted.network,
                nodes=wanted.nodes,
                has_controller=wanted.has_controller,
                has_mounts=cluster.has_mounts,
                notes=cluster.notes,
            )
            records.write(wanted.data, record)
            ready(record)
            await is_asked_to_stop.wait()
    finally:
        await cluster.stop(ends_pods=is_asked_to_end_pods.is_set())


def _port(wanted: Wanted) -> int:
    """Where nobody asked for one, that of the last time: kubeconfigs that were copied and pods that run on know it."""
    last = records.read(wanted.data)
    if wanted.port or last is None:
        return wanted.port
    with socket.socket(socket.AF_INET6 if ":" in wanted.host else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((wanted.host, last.port))
        except OSError:
            return 0
    return last.port


@contextlib.asynccontextmanager
async def _controlled(socket_path: Path, *, is_network_shared: bool) -> AsyncIterator[None]:
    """With a controller beside it, which is begun anew if it fails."""
    from windlass.controller.engine.system_clock import SystemClock
    from windlass.controller.leader import election
    from windlass.controller.operator import Operator
    from windlass.kubeapi import access
    from windlass.model.settings import OFF, Settings

    stop = asyncio.Event()
    settings = Settings(leader_election=False, metrics_address=OFF, manage_crds=True)

    async def control() -> None:
        while not stop.is_set():
            identity = election.identity(socket.gethostname(), secrets.token_hex(8))
            operator = Operator(
                settings,
                access.unix(socket_path),
                SystemClock(),
                identity=identity,
                stream=None,
                choose_ports=free_ports.choose if is_network_shared else None,
            )
            try:
                await operator.run(stop)
            except Exception:
                log.exception("the controller has failed, and is begun anew in %g s", START_AGAIN_SECONDS)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(START_AGAIN_SECONDS):
                        await stop.wait()

    controller = asyncio.create_task(control())
    try:
        yield
    finally:
        stop.set()
        await controller
