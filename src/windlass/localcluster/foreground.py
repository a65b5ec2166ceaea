"""The command `python -m windlass.localcluster`."""

import argparse
import asyncio
import logging
import signal
import sys
from pathlib import Path

from windlass.localcluster import private_files
from windlass.localcluster.apiserver import credentials
from windlass.localcluster.cluster import CannotStartError, ClusterOptions, LocalCluster
from windlass.localcluster.server import ApiServer, CannotListenError
from windlass.localcluster.store import HISTORY_LENGTH
from windlass.localcluster.store_types import StoreError

DESCRIPTION = (
    "Run the API server, or with --pods a complete cluster, in the foreground until SIGTERM or SIGINT."
)


async def serve(arguments: argparse.Namespace) -> None:
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    await (_run_cluster if arguments.pods else _run_server)(arguments, stopped)


async def _run_cluster(arguments: argparse.Namespace, stopped: asyncio.Event) -> None:
    options = ClusterOptions(
        nodes=arguments.nodes,
        network=arguments.network,
        is_ephemeral=arguments.ephemeral,
        host=arguments.host,
        port=arguments.port,
        pod_pids_limit=arguments.pod_pids_limit,
    )
    cluster = LocalCluster(arguments.data, options)
    await cluster.start()
    try:
        kubeconfig = arguments.kubeconfig or cluster.kubeconfig
        if kubeconfig != cluster.kubeconfig:
            private_files.write(kubeconfig, cluster.kubeconfig.read_bytes())
        for note in cluster.notes:
            print(f"note: {note}", file=sys.stderr)
        print(f"{cluster.url} is ready: export KUBECONFIG={kubeconfig}", flush=True)
        await stopped.wait()
    finally:
        await cluster.stop()


async def _run_server(arguments: argparse.Namespace, stopped: asyncio.Event) -> None:
    server = ApiServer(
        arguments.data, body_timeout_seconds=arguments.body_seconds, history_length=arguments.history
    )
    try:
        await server.start(arguments.host, arguments.port, arguments.socket)
        kubeconfig = arguments.kubeconfig or arguments.data / "kubeconfig"
        credentials.write_kubeconfig(kubeconfig, server.url, server.credentials)
        print(f"{server.url} is ready: export KUBECONFIG={kubeconfig}", flush=True)
        await stopped.wait()
    finally:
        await server.stop()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m windlass.localcluster", description=DESCRIPTION)
    parser.add_argument("--data", type=Path, required=True, help="data directory of the cluster")
    parser.add_argument(
        "--kubeconfig", type=Path, help="path of the kubeconfig to write (default: in the data directory)"
    )
    parser.add_argument(
        "--host", default="127.0.0.1", help="loopback address to listen on (default: 127.0.0.1)"
    )
    parser.add_argument("--port", type=int, default=0, help="port to listen on (default: any free port)")
    parser.add_argument(
        "--socket", type=Path, help="unix socket for clients of the same user (ignored with --pods)"
    )
    parser.add_argument(
        "--body-seconds",
        type=float,
        default=60,
        help="timeout for the body of a request in seconds (default: 60; ignored with --pods)",
    )
    parser.add_argument(
        "--history",
        type=int,
        default=HISTORY_LENGTH,
        help=f"number of changes kept for watches (default: {HISTORY_LENGTH}; ignored with --pods)",
    )
    parser.add_argument("--pods", action="store_true", help="run pods, with a scheduler and a kubelet")
    parser.add_argument(
        "--nodes", type=int, default=1, help="with --pods: number of logical nodes (default: 1)"
    )
    parser.add_argument(
        "--network",
        choices=("auto", "isolated", "shared"),
        default="auto",
        help="with --pods: network of pods (default: auto)",
    )
    parser.add_argument(
        "--ephemeral", action="store_true", help="with --pods: stop all pods when this process exits"
    )
    parser.add_argument(
        "--pod-pids-limit",
        type=int,
        default=4096,
        help="with --pods: maximum number of processes per container (default: 4096)",
    )
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    try:
        asyncio.run(serve(arguments))
    except (CannotStartError, CannotListenError, StoreError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0
