"""The embedded cluster in one process: API server, controllers, scheduler and kubelet over one data directory."""

import asyncio
import contextlib
import fcntl
import functools
import hashlib
import logging
import os
import resource
import socket
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec

from windlass.localcluster import private_files, store_file
from windlass.localcluster.apiserver import credentials
from windlass.localcluster.controllers.workloads.controller import WorkloadController
from windlass.localcluster.events import EventRecorder
from windlass.localcluster.kubelet import images, machine, node_objects
from windlass.localcluster.kubelet.addresses import PodNetwork
from windlass.localcluster.kubelet.containers import environment
from windlass.localcluster.kubelet.directory_watch import DirectoryWatcher
from windlass.localcluster.kubelet.fault_injection import SIGKILL_EXIT_CODE, FaultInjector
from windlass.localcluster.kubelet.gpu_monitor import GpuMonitor
from windlass.localcluster.kubelet.gpus import MachineGpus
from windlass.localcluster.kubelet.host import Host
from windlass.localcluster.kubelet.images import Images
from windlass.localcluster.kubelet.kubelet import Kubelet
from windlass.localcluster.kubelet.log_archive import LogArchive
from windlass.localcluster.kubelet.object_lookup import ObjectLookup
from windlass.localcluster.kubelet.pods import events
from windlass.localcluster.kubelet.pods.pod_sandbox import PodDirectories, PodSandbox
from windlass.localcluster.kubelet.pods.status_manager import StatusManager
from windlass.localcluster.kubelet.spawner_client import CannotSpawnError, SpawnerClient
from windlass.localcluster.kubelet.usage_collector import UsageCollector
from windlass.localcluster.sandbox import kernel
from windlass.localcluster.sandbox.messages import Ready
from windlass.localcluster.sandbox.process import cgroups
from windlass.localcluster.sandbox.process.launcher import SpawnerOptions
from windlass.localcluster.scheduler import nodes
from windlass.localcluster.scheduler.nodes import Machine
from windlass.localcluster.scheduler.scheduler import Scheduler
from windlass.localcluster.server import DATABASE, ApiServer, CannotListenError
from windlass.localcluster.store_types import StoreError
from windlass.model.base import Json

logger = logging.getLogger(__name__)

_LOCK = "lock"
_SOCKET = "api.socket"
_EMPTY = "empty"
_MAX_SOCKET_PATH = 100
# Each pod and each request needs a file descriptor. The usual default limit (1024) is too low.
_MAX_OPEN_FILES = 65536
PODS = "pods"
"""The folder in the data directory with one subfolder per pod UID."""
LOG_ARCHIVE = "pod-logs"
"""The folder in the data directory with the logs of deleted pods."""

_SANDBOX_VARIABLE = "WINDLASS_SANDBOX"
_API_PORT = 443


class ClusterOptions(msgspec.Struct, frozen=True, kw_only=True):
    nodes: int = 1
    # auto, isolated or shared
    network: str = "auto"
    # Whether pods end with this process, even if it is killed.
    is_ephemeral: bool = False
    host: str = "127.0.0.1"
    port: int = 0
    pod_pids_limit: int | None = 4096
    # Number of simulated GPUs, which replace those of the machine; 0: none.
    fake_gpus: int = 0
    # Folders that appear empty in pods, like the data directory.
    hidden_folders: tuple[Path, ...] = ()


class CannotStartError(Exception):
    """The cluster cannot start. The message contains the cause and, where known, a remedy."""


class LocalCluster:
    def __init__(self, data: Path, options: ClusterOptions) -> None:
        self.data = data.absolute()
        self.url = ""
        self.socket = self.data / _SOCKET
        self.kubeconfig = self.data / "kubeconfig"
        self.notes: tuple[str, ...] = ()
        """Reasons for missing isolation of the pods or a missing uplink."""
        self.network = ""
        self.has_mounts = False
        """Whether pods have their own mounts, so that any mountPath is possible."""
        self.idle_gpus: tuple[str, ...] = ()
        """Names of the GPUs that no process used when the cluster started."""
        self._options = options
        self._exit_stack = contextlib.AsyncExitStack()
        self._kubelet: Kubelet | None = None
        self._workloads: asyncio.Task[None] | None = None
        self._faults = FaultInjector()

    async def start(self) -> None:
        try:
            await self._start()
        except (CannotListenError, CannotSpawnError, StoreError, OSError) as error:
            await self._abort()
            message = str(error)
            if isinstance(error, OSError) and error.strerror:
                message = f"{error.filename or self.data}: {error.strerror}"
            raise CannotStartError(message) from error
        except BaseException:
            await self._abort()
            raise

    async def _abort(self) -> None:
        """Undo a failed start. The pods of a lasting cluster keep running."""
        await self.stop()
        self._kubelet = None

    async def _start(self) -> None:
        if not _is_utf8(self.data):
            raise CannotStartError(
                f"the path of the data directory {str(self.data)!r} is not UTF-8. Choose another one."
            )
        private_files.make_folder(self.data)
        private_files.check(self.data)
        self._exit_stack.callback(os.close, _lock(self.data / _LOCK))
        _raise_open_file_limit()
        if len(os.fsencode(self.socket)) > _MAX_SOCKET_PATH:
            self.socket = (
                Path(self._exit_stack.enter_context(tempfile.TemporaryDirectory(prefix="windlass-")))
                / _SOCKET
            )
        spawner = SpawnerClient(self._spawner_options(), self.data / PODS)
        self._exit_stack.push_async_callback(spawner.stop)
        # Do not wait for the spawner yet: only later steps need it.
        await spawner.begin()
        with self._reporting_damage():
            server = ApiServer(self.data)
        self._exit_stack.push_async_callback(server.stop)
        await server.start(self._options.host, self._options.port, self.socket)
        self.url = server.url
        credentials.write_kubeconfig(self.kubeconfig, server.url, server.credentials)
        ready = await spawner.ready()
        self.notes = ready.notes
        self.network = "isolated" if ready.gateway else "shared"
        self.has_mounts = ready.has_namespaces
        # In a thread, since drivers may take a second.
        gpus = await asyncio.to_thread(MachineGpus, simulated=self._options.fake_gpus)
        with self._reporting_damage():
            self._kubelet = await self._new_kubelet(server, spawner, ready, gpus)
            server.on_store_failure = self._kubelet.evictions.check_soon
            await self._kubelet.start()
            gpu_monitor = await self._start_gpu_monitor(server, gpus, self._kubelet)
        disk_watch = asyncio.create_task(self._kubelet.evictions.run())
        self._exit_stack.push_async_callback(_cancel, disk_watch)
        # The kubelet has adopted the earlier pods. Until now, requests for streams failed with 503; clients retry.
        server.set_pod_runtime(self._kubelet)
        server.set_pod_meter(UsageCollector(self._kubelet.runs, gpu_usage=gpu_monitor.usage))
        self._exit_stack.push_async_callback(_cancel, asyncio.create_task(Scheduler(server.lifecycle).run()))
        self._workloads = asyncio.create_task(WorkloadController(server.lifecycle).run())
        self._exit_stack.push_async_callback(_cancel, self._workloads)

    @contextlib.contextmanager
    def _reporting_damage(self) -> Iterator[None]:
        """Raise StoreError if the stored objects cannot be loaded in the block."""
        try:
            yield
        except store_file.LOAD_ERRORS as error:
            logger.exception("cannot load the objects of the cluster")
            problem = f"its objects cannot be loaded ({type(error).__name__}: {error})"
            raise store_file.damaged_error(self.data / DATABASE, problem) from error

    async def stop(self, *, ends_pods: bool = False) -> None:
        """Stop the cluster.

        With `ends_pods`, pods are stopped within their grace period. Otherwise the pods of an ephemeral cluster are
        killed; other pods keep running and are adopted by the next start.
        """
        try:
            if self._workloads is not None:
                # No controller may replace the pods that end now.
                await _cancel(self._workloads)
            if self._kubelet is not None:
                if ends_pods:
                    await self._kubelet.shut_down()
                await self._kubelet.stop(ends_pods=ends_pods or self._options.is_ephemeral)
        finally:
            await self._exit_stack.aclose()

    # Fault injection

    def end_container(
        self, namespace: str, pod: str, *, uid: str = "", container: str = "", code: int = SIGKILL_EXIT_CODE
    ) -> bool:
        """Kill the processes of a container and report `code` as its exit code (default: that of SIGKILL).

        An empty `container` means all containers except init containers. With a uid, a pod of the same name but another
        uid is ignored. Return whether anything was killed.
        """
        if self._kubelet is None:
            return False
        return self._kubelet.end_containers(namespace, pod, uid, container, code)

    def delay_pods(self, seconds_of: Callable[[Json], float]) -> None:
        """Delay the start of pods bound from now on, like a slow image pull. `seconds_of` returns a pod's delay."""
        self._faults.start_delay = seconds_of

    def _spawner_options(self) -> SpawnerOptions:
        lifeline = None
        if self._options.is_ephemeral:
            # Only this process has the write end, so the pipe is closed whenever this process ends, even if killed.
            lifeline, write_end = os.pipe()
            self._exit_stack.callback(os.close, write_end)
            self._exit_stack.callback(os.close, lifeline)
        return SpawnerOptions(
            folder=self.data,
            cluster=_short_name(self.data),
            level=os.environ.get(_SANDBOX_VARIABLE, "auto"),
            network=self._options.network,
            lifeline=lifeline,
        )

    async def _start_gpu_monitor(self, server: ApiServer, gpus: MachineGpus, kubelet: Kubelet) -> GpuMonitor:
        """Start the monitor. It finds the GPUs in use before the scheduler assigns any."""
        recorder = EventRecorder(server.lifecycle, events.COMPONENT, socket.gethostname())
        monitor = GpuMonitor(gpus, server.lifecycle, events.PodEvents(recorder), kubelet.pods)
        await monitor.check()
        self.idle_gpus = await monitor.idle()
        kubelet.on_pod_added = monitor.report
        self._exit_stack.push_async_callback(_cancel, asyncio.create_task(monitor.run()))
        return monitor

    async def _new_kubelet(
        self, server: ApiServer, spawner: SpawnerClient, ready: Ready, gpus: MachineGpus
    ) -> Kubelet:
        found = machine.detect(self.data, gpus=gpus.inventory.assignable)
        lifecycle = server.lifecycle
        node_objects.sync(lifecycle, nodes.nodes(found, self._options.nodes, lifecycle.now()))
        await server.wait_for_commit()
        pods = self.data / PODS
        pods.mkdir(exist_ok=True, mode=0o700)
        log_watcher = DirectoryWatcher()
        self._exit_stack.callback(log_watcher.close)
        api_server = await _api_server_address(server, spawner, ready)
        objects = ObjectLookup(lifecycle, api_server, server.credentials.certificate.read_text)
        host = self._host(ready, found, gpus)
        archive = LogArchive(self.data / LOG_ARCHIVE, pods)
        directories = PodDirectories(pods, _short_name(self.data), self._options.is_ephemeral, archive)
        return Kubelet(
            directories=directories,
            new_sandbox=functools.partial(
                PodSandbox,
                directories=directories,
                host=host,
                network=PodNetwork(ready, found.address, self.data),
                objects=objects,
                account_tokens=server.account_tokens,
                claim_folder=server.volumes.folder_of,
                images=Images(self.data / images.FILE),
                spawner=spawner,
            ),
            status_manager=StatusManager(lifecycle),
            events=events.PodEvents(EventRecorder(lifecycle, events.COMPONENT, found.host_name)),
            faults=self._faults,
            log_watcher=log_watcher,
        )

    def _host(self, ready: Ready, found: Machine, gpus: MachineGpus) -> Host:
        no_mounts_reason = "; ".join(ready.notes) or "disabled by a setting"
        empty = self.data / _EMPTY
        empty.mkdir(exist_ok=True, mode=0o755)
        return Host(
            uid=os.getuid(),
            gid=os.getgid(),
            groups=tuple(os.getgroups()),
            environment=environment.inherited_environment(
                os.environ, environment.virtual_environment_programs()
            ),
            gpus=gpus.inventory,
            pids_limit=self._options.pod_pids_limit,
            no_mounts_because="" if ready.has_namespaces else no_mounts_reason,
            security=ready.security,
            hidden_folders=self._hidden_folders(),
            empty_folder=str(empty),
            address=found.address,
            hostname=socket.gethostname(),
            hosts_file=kernel.read_text(Path("/etc/hosts")),
            resolv_conf=kernel.read_text(Path("/etc/resolv.conf")),
        )

    def _hidden_folders(self) -> tuple[str, ...]:
        """Return resolved paths: a volume could replace a link in a path, but not the folder that it leads to."""
        folders = (*self._options.hidden_folders, self.data, self.socket.parent)
        return tuple(dict.fromkeys(str(folder.resolve()) for folder in folders))


async def _api_server_address(
    server: ApiServer, spawner: SpawnerClient, ready: Ready
) -> Callable[[Json], tuple[str, int]]:
    """Return a function that returns the address and port at which a pod reaches the API server.

    If pods have an isolated network, let the server also listen at the gateway of that network.
    """
    url = urlsplit(server.url)
    outside = inside = (url.hostname or "127.0.0.1", url.port or 0)
    if ready.gateway:
        await server.listen_on(await spawner.listen(_API_PORT))
        inside = (ready.gateway, _API_PORT)
    return lambda pod: outside if pod["spec"].get("hostNetwork") else inside


async def kill_pods(data: Path) -> None:
    """Kill the pods of a daemon that was killed. Their objects are not read, because the database may be damaged."""
    directories = PodDirectories(data / PODS, _short_name(data), is_ephemeral=False)
    await asyncio.gather(*map(directories.end_pod, directories.all()))
    remove_cgroups(data)


def remove_cgroups(data: Path) -> None:
    """Remove the cgroups of a killed cluster whose pods have ended. Other than these, it leaves only files."""
    groups = cgroups.find(_short_name(data))
    if groups is not None:
        groups.remove_all_except(set())


def _lock(path: Path) -> int:
    """Return a descriptor that locks the data directory for this process. The lock file contains the process ID."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        holder = os.pread(descriptor, 32, 0).decode(errors="replace").strip() or "unknown"
        os.close(descriptor)
        raise CannotStartError(
            f"{path.parent} is in use by another cluster (process {holder}). Stop it or choose another folder."
        ) from error
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
    return descriptor


def _raise_open_file_limit() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = _MAX_OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, _MAX_OPEN_FILES)
    if soft != resource.RLIM_INFINITY and soft < limit:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))


def _is_utf8(path: Path) -> bool:
    try:
        str(path).encode()
    except UnicodeEncodeError:
        return False
    return True


def _short_name(data: Path) -> str:
    """Return a name that is unique among the data directories of the machine."""
    return hashlib.sha256(os.fsencode(data.resolve())).hexdigest()[:12]


async def _cancel(task: "asyncio.Future[Any]") -> None:
    task.cancel()
    # The control loops log their own errors.
    with contextlib.suppress(asyncio.CancelledError, Exception):
        await task
