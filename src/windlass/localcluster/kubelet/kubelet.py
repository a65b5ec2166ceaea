"""The kubelet: runs a worker for every pod of its nodes, and adopts the pods of an earlier daemon.

For the API server it implements `PodRuntime`: logs, exec, attach and port-forward.
"""

import asyncio
import logging
import signal
from collections.abc import AsyncGenerator, Callable, Iterator
from datetime import UTC, datetime

from windlass.k8s import api_errors
from windlass.localcluster import file_trees
from windlass.localcluster.apiserver import bodies
from windlass.localcluster.apiserver.streams.requests import LogOptions
from windlass.localcluster.kubelet import log_archive, log_reader, streaming
from windlass.localcluster.kubelet.containers.environment import assigned_gpus
from windlass.localcluster.kubelet.directory_watch import DirectoryWatcher
from windlass.localcluster.kubelet.eviction import EvictionManager
from windlass.localcluster.kubelet.fault_injection import FaultInjector
from windlass.localcluster.kubelet.lifecycle import specs
from windlass.localcluster.kubelet.lifecycle.records import Running
from windlass.localcluster.kubelet.pods.container_tracker import STATE_FILE, PodState
from windlass.localcluster.kubelet.pods.directory import PodDirectory
from windlass.localcluster.kubelet.pods.events import PodEvents
from windlass.localcluster.kubelet.pods.pod_sandbox import PodDirectories, PodSandbox
from windlass.localcluster.kubelet.pods.status_manager import StatusManager
from windlass.localcluster.kubelet.pods.worker import PodWorker
from windlass.localcluster.kubelet.sandbox_connection import SandboxCallError
from windlass.localcluster.kubelet.streaming import RemoteProcess
from windlass.localcluster.kubelet.usage_collector import ContainerRun
from windlass.localcluster.sandbox import log_format, state_file
from windlass.localcluster.sandbox.process import cgroups
from windlass.localcluster.sandbox.process.usage import Target
from windlass.localcluster.store_types import Change, object_key
from windlass.model.base import Json

logger = logging.getLogger(__name__)

_PODS = "pods"
_NAMESPACES = "namespaces"
_VOLUME_SOURCES = frozenset({"configmaps", "secrets", "persistentvolumeclaims"})
# Resources whose objects have names in /etc/hosts.
_RESOURCES_IN_HOSTS = frozenset({_PODS, "services"})
# The delay of a refresh: if many objects change together, the files that depend on them are written only once.
_REFRESH_DELAY_SECONDS = 0.02
_TOKEN_CHECK_SECONDS = 60


class Kubelet:
    def __init__(
        self,
        *,
        directories: PodDirectories,
        new_sandbox: Callable[[Json], PodSandbox],
        status_manager: StatusManager,
        events: PodEvents,
        faults: FaultInjector,
        log_watcher: DirectoryWatcher,
    ) -> None:
        self._directories = directories
        self._archive = directories.archive
        self._new_sandbox = new_sandbox
        self._status_manager = status_manager
        self._events = events
        self._faults = faults
        self._log_watcher = log_watcher
        self._workers: dict[str, PodWorker] = {}
        # Namespace and name → UID of the current pod; an earlier pod of that name may still be terminating.
        self._uids: dict[str, str] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self.evictions = EvictionManager(directories, self._workers, log_watcher.prepare_removal)
        self.on_pod_added: Callable[[Json], None] = lambda _pod: None
        self._to_refresh: set[tuple[str, str]] = set()
        self._refresh_timer: asyncio.TimerHandle | None = None
        self._token_timer: asyncio.TimerHandle | None = None

    async def start(self) -> None:
        """Adopt the pods of an earlier daemon or kill their processes, then run a worker for every bound pod."""
        pods = {pod["metadata"]["uid"]: pod for pod in self._status_manager.pods()}
        folders = self._directories.all()
        adopted = await asyncio.gather(*(self._adopt(folder, pods.get(folder.uid)) for folder in folders))
        workers = [worker for worker in adopted if worker is not None]
        if folders:
            # This precedes the start of the workers, because it would also remove the cgroups of new runs.
            run_ids = {run_id for worker in workers for run_id in worker.containers.active_run_ids()}
            await asyncio.to_thread(self._remove_cgroups_except, run_ids)
        for worker in workers:
            self._add(worker)
        for pod in pods.values():
            self._on_pod(pod)
        self._status_manager.listen(self._on_change)
        self._renew_tokens()

    def _remove_cgroups_except(self, run_ids: set[str]) -> None:
        groups = cgroups.find(self._directories.cluster)
        if groups is not None:
            groups.remove_all_except(run_ids)

    async def _adopt(self, folder: PodDirectory, pod: Json | None) -> PodWorker | None:
        """Adopt a pod and return its worker, or remove it and return None if it has been deleted.

        An ephemeral cluster does not adopt pods, because adopted pods could outlive it.
        """
        if pod is None or self._directories.is_ephemeral:
            await self._remove_unadopted(folder)
            return None
        worker = self._new_worker(pod, state_file.read(folder.path / STATE_FILE, PodState))
        await worker.adopt()
        return worker

    def _new_worker(self, pod: Json, state: PodState | None = None) -> PodWorker:
        return PodWorker(
            pod,
            self._new_sandbox(pod),
            status_manager=self._status_manager,
            events=self._events,
            faults=self._faults,
            log_watcher=self._log_watcher,
            on_store_error=self.evictions.check_soon,
            state=state,
        )

    async def shut_down(self) -> None:
        """Stop all containers, and wait for them to end within their grace periods."""
        await asyncio.gather(*(worker.shut_down() for worker in tuple(self._workers.values())))

    async def stop(self, *, ends_pods: bool) -> None:
        for timer in (self._refresh_timer, self._token_timer):
            if timer is not None:
                timer.cancel()
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        if ends_pods:
            await asyncio.gather(*map(self._directories.end_pod, self._directories.all()))
        self._tasks.clear()

    async def _remove_unadopted(self, folder: PodDirectory) -> None:
        """Remove the processes and files of a pod of an earlier daemon."""
        await self._directories.end_pod(folder)
        try:
            if self._archive is not None and not self._directories.is_ephemeral:
                await asyncio.to_thread(self._archive.keep, folder)
            await asyncio.to_thread(file_trees.remove, folder.path)
        except OSError as error:
            logger.warning("cannot remove %s: %s", folder.path, error)

    # Changes in the API server

    def _on_change(self, change: Change) -> None:
        if change.resource == _NAMESPACES and change.after is None and self._archive is not None:
            asyncio.get_running_loop().run_in_executor(None, self._archive.remove_namespace, change.key)
            return
        namespace = change.key.partition("/")[0]
        if change.resource == _PODS:
            self._on_pod_change(change)
        elif change.resource in _VOLUME_SOURCES:
            self._refresh_later(change.resource, namespace)
        if change.resource in _RESOURCES_IN_HOSTS:
            self._refresh_later(_PODS, namespace)

    def _on_pod_change(self, change: Change) -> None:
        if change.after is not None:
            self._on_pod(bodies.decode_stored(change.after))
            return
        uid = self._uids.pop(change.key, None)
        if uid in self._workers:
            self._workers[uid].on_deleted()

    def _on_pod(self, pod: Json) -> None:
        uid = pod["metadata"]["uid"]
        if uid in self._workers:
            self._workers[uid].set_pod(pod)
        elif pod["spec"].get("nodeName"):
            before = self._uids.get(_pod_key(pod))
            if before is not None and before != uid and before in self._workers:
                self._workers[before].on_deleted()
            self._add(self._new_worker(pod))

    def _add(self, worker: PodWorker) -> None:
        uid = worker.pod["metadata"]["uid"]
        self._uids[_pod_key(worker.pod)] = uid
        self._workers[uid] = worker
        self.on_pod_added(worker.pod)
        task = self._tasks[uid] = asyncio.create_task(worker.run())
        task.add_done_callback(lambda _: self._remove(uid))

    def _remove(self, uid: str) -> None:
        self._workers.pop(uid, None)
        self._tasks.pop(uid, None)

    # Injected faults

    def end_containers(self, namespace: str, pod: str, uid: str, container: str, code: int) -> bool:
        """Kill containers, report `code` as their exit code, and return whether any was running.

        An empty container name means all containers but init containers; an empty UID means any pod of that name.
        """
        try:
            worker = self._worker(namespace, pod)
        except api_errors.ApiError:
            return False
        if uid and worker.pod["metadata"]["uid"] != uid:
            return False
        candidates = worker.record.all_containers if container else worker.record.containers
        selected = (each.current for each in candidates if container in ("", each.name))
        running = [current.id for current in selected if isinstance(current, Running)]
        for run_id in running:
            self._faults.set_exit_code(run_id, code)
            worker.containers.signal(run_id, signal.SIGKILL)
        return bool(running)

    # Files that depend on other objects

    def _refresh_later(self, resource: str, namespace: str) -> None:
        self._to_refresh.add((resource, namespace))
        if self._refresh_timer is None:
            loop = asyncio.get_running_loop()
            self._refresh_timer = loop.call_later(_REFRESH_DELAY_SECONDS, self._refresh)

    def _refresh(self) -> None:
        self._refresh_timer = None
        due, self._to_refresh = self._to_refresh, set()
        for worker in self._workers.values():
            namespace = worker.pod["metadata"]["namespace"]
            if any((resource, namespace) in due for resource in _VOLUME_SOURCES):
                worker.refresh_volumes()
            if (_PODS, namespace) in due:
                worker.refresh_hosts()

    def _renew_tokens(self) -> None:
        """Renew the tokens that are due, and check again later."""
        for worker in self._workers.values():
            worker.sandbox.renew_tokens(worker.pod)
        loop = asyncio.get_running_loop()
        self._token_timer = loop.call_later(_TOKEN_CHECK_SECONDS, self._renew_tokens)

    # Resource usage

    def pods(self) -> Iterator[Json]:
        return (worker.pod for worker in tuple(self._workers.values()))

    def runs(self) -> Iterator[ContainerRun]:
        for uid, worker in self._workers.items():
            node = worker.pod["spec"]["nodeName"]
            for container, started in worker.containers.running_containers():
                target = Target(started.init_pid, started.cgroups)
                gpus = assigned_gpus(worker.pod, specs.container(worker.pod, container.name))
                yield ContainerRun(uid, node, container.name, started.run_id, started.at, target, gpus)

    # PodRuntime, for the API server

    def _worker(self, namespace: str, pod: str) -> PodWorker:
        worker = self._workers.get(self._uids.get(object_key(namespace, pod), ""))
        if worker is None:
            raise api_errors.not_found("", _PODS, pod)
        return worker

    async def logs(
        self, namespace: str, pod: str, container: str, options: LogOptions
    ) -> AsyncGenerator[bytes, None]:
        if options.uid and self._uids.get(object_key(namespace, pod)) != options.uid:
            return self._archived_log(namespace, pod, container, options)
        worker = self._worker(namespace, pod)
        record = worker.record.container(container)
        # While a container waits for its restart, its current run is the one that has ended.
        count = record.restart_count - (1 if options.previous else 0)
        folder, file = worker.sandbox.folder.logs(container), log_format.file_name(max(count, 0))

        def is_over() -> bool:
            latest = worker.record.container(container)
            is_restarted = latest.restart_count != record.restart_count
            return is_restarted or not latest.is_running or options.previous or worker.is_over

        selection = log_reader.selection(options, datetime.now(UTC))
        return log_reader.read(
            folder, file, selection, follow=options.follow, is_over=is_over, watcher=self._log_watcher
        )

    def _archived_log(
        self, namespace: str, pod: str, container: str, options: LogOptions
    ) -> AsyncGenerator[bytes, None]:
        """Return the log of a deleted pod of this namespace and name. If the pod with
        this UID has another name or namespace, it is not found."""
        found = None if self._archive is None else self._archive.find(options.uid)
        if found is None or (found[0].namespace, found[0].name) != (namespace, pod):
            raise api_errors.not_found("", _PODS, pod)
        owner, folder = found
        container = container or owner.containers[0]
        if container not in owner.containers:
            raise api_errors.bad_request(f"container {container} is not valid for pod {pod}")
        file = log_archive.newest_file(folder, container, previous=options.previous)
        if file is None:
            raise api_errors.bad_request(f"container {container} of the deleted pod {pod} has no such log")
        return log_reader.read(
            folder.logs(container),
            file,
            log_reader.selection(options, datetime.now(UTC)),
            follow=False,
            is_over=lambda: True,
            watcher=self._log_watcher,
        )

    async def exec(
        self, namespace: str, pod: str, container: str, command: list[str], *, tty: bool, stdin: bool
    ) -> RemoteProcess:
        worker = self._worker(namespace, pod)
        supervisor = worker.containers.require_supervisor()
        executed = await supervisor.execute(_run_id(worker, container), command, is_terminal=tty)
        process = streaming.executed_process(supervisor, executed)
        if not stdin and not tty:
            await process.close_stdin()
        return process

    async def attach(
        self,
        namespace: str,
        pod: str,
        container: str,
        *,
        tty: bool,
        stdin: bool,  # noqa: ARG002 — fixed when the container was started
    ) -> RemoteProcess:
        worker = self._worker(namespace, pod)
        supervisor = worker.containers.require_supervisor()
        call, descriptors = await supervisor.attach(_run_id(worker, container))
        return streaming.attached_process(supervisor, call, descriptors, is_terminal=tty)

    async def open_port(
        self, namespace: str, pod: str, port: int
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        worker = self._worker(namespace, pod)
        supervisor, addresses = worker.containers.require_supervisor(), worker.record.pod_ips
        return await streaming.connect_to_pod(
            supervisor, addresses, port, is_isolated=worker.sandbox.is_isolated
        )


def _run_id(worker: PodWorker, container: str) -> str:
    current = worker.record.container(container).current
    if not isinstance(current, Running):
        raise SandboxCallError(f"container {container} is not running")
    return current.id


def _pod_key(pod: Json) -> str:
    return object_key(pod["metadata"]["namespace"], pod["metadata"]["name"])
