"""The daemon of `windlass local`: a cluster and an optional controller with one data directory, until a signal ends it.

SIGTERM, SIGINT and SIGHUP (unless it is ignored, as under nohup) end the daemon but not its pods, which the next daemon
adopts; SIGUSR1 ends both.
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

from windlass.localcluster import cluster as local_cluster
from windlass.localcluster.cluster import CannotStartError as CannotStartError
from windlass.localcluster.cluster import ClusterOptions, LocalCluster
from windlass.runner import free_ports, interrupts
from windlass.runner.local import data_folders, records
from windlass.runner.local.data_folders import Lock
from windlass.runner.local.records import DaemonOptions, Record

LOCK_SECONDS = 2.0
"""How long to wait for the lock, which other processes hold for a moment when they check it."""
RESTART_SECONDS = 5.0
"""Delay before the controller is restarted after an error."""

log = logging.getLogger(__name__)


def serve(options: DaemonOptions, ready: Callable[[Record], None]) -> None:
    """Run until a signal. Raises InUseError, CannotStartError or OSError if the daemon does not become ready."""
    with Lock.take(options.data / data_folders.LOCK, LOCK_SECONDS):
        asyncio.run(_serve(options, ready))


def end_pods(data: Path) -> None:
    """End the pods of a daemon that was killed. Raises the same errors as `serve`."""

    last = records.read(data)
    options = (
        ClusterOptions()
        if last is None
        else ClusterOptions(nodes=last.nodes, network=last.wanted_network, fake_gpus=last.fake_gpus)
    )

    async def adopt_and_end() -> None:
        cluster = LocalCluster(data, options)
        try:
            await cluster.start()
        finally:
            await cluster.stop(ends_pods=True)

    with Lock.take(data / data_folders.LOCK, LOCK_SECONDS):
        asyncio.run(adopt_and_end())


def kill_pods(data: Path) -> None:
    """Kill the pods of a daemon that was killed, without reading its database. Raises InUseError."""
    with Lock.take(data / data_folders.LOCK, LOCK_SECONDS):
        asyncio.run(local_cluster.kill_pods(data))


async def _serve(options: DaemonOptions, ready: Callable[[Record], None]) -> None:
    stop, ends_pods = asyncio.Event(), asyncio.Event()

    def stop_with_pods() -> None:
        ends_pods.set()
        stop.set()

    loop = asyncio.get_running_loop()
    for number in interrupts.stop_signals():
        loop.add_signal_handler(number, stop.set)
    loop.add_signal_handler(signal.SIGUSR1, stop_with_pods)
    cluster_options = ClusterOptions(
        nodes=options.nodes,
        network=options.network,
        fake_gpus=options.fake_gpus,
        host=options.host,
        port=_port(options),
        hidden_folders=data_folders.hidden_folders(os.environ),
    )
    cluster = LocalCluster(options.data, cluster_options)
    try:
        await cluster.start()
        await _create_grants(cluster.socket)
        is_shared = cluster.network == "shared"
        controller = _controller(cluster.socket, is_network_shared=is_shared)
        async with controller if options.has_controller else contextlib.nullcontext():
            record = Record(
                pid=os.getpid(),
                url=cluster.url,
                kubeconfig=str(cluster.kubeconfig),
                socket=str(cluster.socket),
                network=cluster.network,
                wanted_network=options.network,
                nodes=options.nodes,
                has_controller=options.has_controller,
                has_mounts=cluster.has_mounts,
                notes=cluster.notes,
                fake_gpus=options.fake_gpus,
                idle_gpus=cluster.idle_gpus,
            )
            records.write(options.data, record)
            ready(record)
            await stop.wait()
    finally:
        await cluster.stop(ends_pods=ends_pods.is_set())


async def _create_grants(socket_path: Path) -> None:
    """Grant pods the permissions that `windlass install` grants. Raises CannotStartError."""
    from windlass.kubeapi import access
    from windlass.kubeapi.errors import ApiError
    from windlass.kubeapi.transport import Transport
    from windlass.runner import grants

    try:
        async with Transport(access.unix(socket_path), user_agent="windlass-local") as transport:
            await grants.create(transport)
    except ApiError as error:
        raise CannotStartError(f"cannot create the permissions of pods: {error}") from error


def _port(options: DaemonOptions) -> int:
    """Return the port to listen on. The default is the port of the last daemon, which running pods and copied
    kubeconfigs use, or 0 (any free port) if there was no daemon or that port is taken."""
    last = records.read(options.data)
    if options.port or last is None:
        return options.port
    with socket.socket(socket.AF_INET6 if ":" in options.host else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((options.host, last.port))
        except OSError:
            return 0
    return last.port


@contextlib.asynccontextmanager
async def _controller(socket_path: Path, *, is_network_shared: bool) -> AsyncIterator[None]:
    """Run a controller, and restart it if it fails."""
    from windlass.controller.engine.system_clock import SystemClock
    from windlass.controller.leader import election
    from windlass.controller.operator import Operator
    from windlass.kubeapi import access
    from windlass.model.settings import OFF, History, Settings

    stop = asyncio.Event()
    settings = Settings(
        leader_election=False, metrics_address=OFF, manage_crds=True, history=History(enabled=True)
    )

    async def control() -> None:
        while not stop.is_set():
            identity = election.identity(socket.gethostname(), secrets.token_hex(8))
            operator = Operator(
                settings,
                access.unix(socket_path),
                SystemClock(),
                identity=identity,
                snapshot_stream=None,
                choose_ports=free_ports.choose if is_network_shared else None,
                has_entrypoints=False,
            )
            try:
                await operator.run(stop)
            except Exception:
                log.exception("the controller failed and is restarted in %g s", RESTART_SECONDS)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(RESTART_SECONDS):
                        await stop.wait()

    controller = asyncio.create_task(control())
    try:
        yield
    finally:
        stop.set()
        await controller
