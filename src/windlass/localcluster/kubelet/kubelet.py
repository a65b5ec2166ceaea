"""The kubelet: has a worker for every pod of its nodes, from what the store says and what earlier daemons have left.

To the API server it is the `PodRuntime`: logs, exec, attach and port-forward of the pods that run here.
"""

import asyncio
import contextlib
import logging
import signal
from collections.abc import AsyncGenerator, Iterator
from datetime import UTC, datetime
from pathlib import Path

from windlass.k8s import api_errors
from windlass.localcluster.apiserver import bodies
from windlass.localcluster.apiserver.streams.requests import LogOptions
from windlass.localcluster.kubelet import disk_pressure, log_reader
from windlass.localcluster.kubelet.context import Means
from windlass.localcluster.kubelet.exec import ports, processes
from windlass.localcluster.kubelet.exec.processes import RemoteProcess
from windlass.localcluster.kubelet.lifecycle.records import Running
from windlass.localcluster.kubelet.pods import directory, runtime, state_file
from windlass.localcluster.kubelet.pods.worker import PodWorker
from windlass.localcluster.kubelet.sandbox_connection import SandboxCallError
from windlass.localcluster.kubelet.supervisor_client import SupervisorClient
from windlass.localcluster.kubelet.usage_collector import ContainerRun
from windlass.localcluster.sandbox import log_format
from windlass.localcluster.sandbox.process import cgroups
from windlass.localcluster.sandbox.process.usage import Target
from windlass.localcluster.store_types import Change, place_of
from windlass.model.base import Json

logger = logging.getLogger(__name__)

_PODS = "pods"
_REFERRED = frozenset({"configmaps", "secrets", "persistentvolumeclaims"})
_NAMED = frozenset({_PODS, "services"})
# Names and files of many pods change together: they are written once.
_SECONDS_TO_GATHER = 0.02


class Kubelet:
    def __init__(self, means: Means) -> None:
        self._means = means
        self._workers: dict[str, PodWorker] = {}
        # The uid of the pod that has a place of the store now; others of that name may still be ending.
        self._uids: dict[str, str] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._to_refresh: set[tuple[str, str]] = set()
        self._refreshing: asyncio.TimerHandle | None = None
        means.store_has_failed = self.relieve_disk

    async def start(self) -> None:
        """Adopt or end what an earlier daemon has left, then look after every pod that has a node."""
        found: dict[str, Json] = {}
        for body in self._means.lifecycle.store.all(_PODS):
            pod = bodies.decode_stored(body)
            found[pod["metadata"]["uid"]] = pod
        left = sorted(self._means.folder.iterdir()) if self._means.folder.is_dir() else []
        adopted = await asyncio.gather(*(self._take_over(folder, found.get(folder.name)) for folder in left))
        workers = [worker for worker in adopted if worker is not None]
        if left:
            # Before any of them goes on: nobody could tell the group of a run that begins from what is left over.
            known = {run_id for worker in workers for run_id in worker.run_ids()}
            await asyncio.to_thread(self._remove_groups, known)
        for worker in workers:
            self._add(worker.pod, worker)
        for pod in found.values():
            self._note(pod)
        self._means.lifecycle.store.listen(self._on_change)

    def _remove_groups(self, known: set[str]) -> None:
        """The cgroups of runs that are no more."""
        groups = cgroups.find(self._means.cluster)
        if groups is not None:
            groups.remove_all_but(known)

    async def _take_over(self, folder: Path, pod: Json | None) -> PodWorker | None:
        """An ephemeral cluster adopts nothing: what another has started would not end with it."""
        if pod is None or self._means.is_ephemeral:
            await self._end_left_over(folder.name)
            return None
        worker = PodWorker(pod, self._means, state_file.read(folder))
        await worker.adopt()
        return worker

    async def wind_down(self) -> None:
        """Ask all that runs to end, and wait for it, as long as the pods' grace periods last."""
        await asyncio.gather(*(worker.wind_down() for worker in tuple(self._workers.values())))

    async def stop(self, *, ends_pods: bool) -> None:
        if self._refreshing is not None:
            self._refreshing.cancel()
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        if ends_pods:
            folders = self._means.folder.iterdir() if self._means.folder.is_dir() else ()
            await asyncio.gather(*(self._end_supervisor(folder.name) for folder in folders))
        self._tasks.clear()

    async def _end_left_over(self, uid: str) -> None:
        """Its object has gone while no daemon was there."""
        await self._end_supervisor(uid)
        folder = directory.of(self._means.folder, uid)
        try:
            await asyncio.to_thread(directory.remove, folder)
        except OSError as error:
            logger.warning("%s cannot be removed: %s", folder.path, error)

    async def _end_supervisor(self, uid: str) -> None:
        folder = directory.of(self._means.folder, uid)
        with contextlib.suppress(OSError, SandboxCallError):
            supervision = SupervisorClient(folder.path, lambda _: None, lambda: None)
            await supervision.end()
            return
        await runtime.end_leftovers(folder, self._means.cluster)

    # What the store says

    def _on_change(self, change: Change) -> None:
        if change.resource == _PODS:
            self._on_pod(change)
        elif change.resource in _REFERRED:
            self._gather(change.resource, change.place.partition("/")[0])
        if change.resource in _NAMED:
            self._gather(_PODS, change.place.partition("/")[0])

    def _on_pod(self, change: Change) -> None:
        if change.after is not None:
            self._note(bodies.decode_stored(change.after))
            return
        uid = self._uids.pop(change.place, None)
        if uid in self._workers:
            self._workers[uid].lose_object()

    def _note(self, pod: Json) -> None:
        meta = pod["metadata"]
        uid = meta["uid"]
        if uid in self._workers:
            self._workers[uid].see(pod)
        elif pod["spec"].get("nodeName"):
            before = self._uids.get(_place(pod))
            if before is not None and before != uid and before in self._workers:
                self._workers[before].lose_object()
            self._add(pod, PodWorker(pod, self._means))

    def _add(self, pod: Json, worker: PodWorker) -> None:
        uid = pod["metadata"]["uid"]
        self._uids[_place(pod)] = uid
        self._workers[uid] = worker
        task = self._tasks[uid] = asyncio.create_task(worker.run())
        task.add_done_callback(lambda _: self._forget(uid))

    def _forget(self, uid: str) -> None:
        self._workers.pop(uid, None)
        self._tasks.pop(uid, None)

    def relieve_disk(self) -> None:
        """Something could not be stored: a pod may have to give back what it holds of the disk."""
        disk_pressure.relieve(self._means.folder, self._workers.values())

    def end_containers(self, namespace: str, pod: str, uid: str, container: str, code: int) -> bool:
        """Kills them, and tells that they ended with this code. An empty name is every container but those that
        initialise the pod; an empty uid any pod of the name. Whether there was anything to end."""
        try:
            worker = self._worker(namespace, pod)
        except api_errors.ApiError:
            return False
        if uid and worker.pod["metadata"]["uid"] != uid:
            return False
        record = worker.record
        known = record.all_containers if container else record.containers
        wanted = (each for each in known if container in ("", each.name))
        running = [each.current.id for each in wanted if isinstance(each.current, Running)]
        for run_id in running:
            self._means.interference.report(run_id, code)
            worker.signal(run_id, signal.SIGKILL)
        return bool(running)

    # Files that follow from other objects

    def _gather(self, resource: str, namespace: str) -> None:
        self._to_refresh.add((resource, namespace))
        if self._refreshing is None:
            loop = asyncio.get_running_loop()
            self._refreshing = loop.call_later(_SECONDS_TO_GATHER, self._refresh)

    def _refresh(self) -> None:
        self._refreshing = None
        due, self._to_refresh = self._to_refresh, set()
        for worker in self._workers.values():
            namespace = worker.pod["metadata"]["namespace"]
            if any(namespace == of and resource in _REFERRED for resource, of in due):
                worker.refresh_volumes()
            if (_PODS, namespace) in due:
                worker.refresh_hosts()

    # What is used

    def runs(self) -> Iterator[ContainerRun]:
        for uid, worker in self._workers.items():
            node = worker.pod["spec"]["nodeName"]
            for container, started in worker.runs():
                target = Target(started.init, started.groups)
                yield ContainerRun(uid, node, container.name, started.container, started.at, target)

    # The runtime of the API server

    def _worker(self, namespace: str, pod: str) -> PodWorker:
        worker = self._workers.get(self._uids.get(place_of(namespace, pod), ""))
        if worker is None:
            raise api_errors.not_found("", _PODS, pod)
        return worker

    async def logs(
        self, namespace: str, pod: str, container: str, options: LogOptions
    ) -> AsyncGenerator[bytes, None]:
        worker = self._worker(namespace, pod)
        record = worker.record.container(container)
        # A container that waits for its next run shows the run that has ended.
        count = record.restart_count - (1 if options.previous else 0)
        folder, file = worker.place.folder.logs(container), log_format.file_name(max(count, 0))

        def is_over() -> bool:
            now = worker.record.container(container)
            is_next = now.restart_count != record.restart_count
            return is_next or not now.is_running or options.previous or worker.is_over

        wanted = log_reader.selection(options, datetime.now(UTC))
        return log_reader.read(
            folder, file, wanted, follow=options.follow, is_over=is_over, news=self._means.log_news
        )

    async def exec(
        self, namespace: str, pod: str, container: str, command: list[str], *, tty: bool, stdin: bool
    ) -> RemoteProcess:
        worker = self._worker(namespace, pod)
        try:
            supervision = worker.supervision
            executed = await supervision.execute(_run_id(worker, container), command, is_terminal=tty)
        except SandboxCallError as error:
            raise OSError(str(error)) from error
        process = processes.of_executed(supervision, executed)
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
        stdin: bool,  # noqa: ARG002
    ) -> RemoteProcess:
        """Whether it has an input was decided when it was started."""
        worker = self._worker(namespace, pod)
        try:
            supervision = worker.supervision
            call, descriptors = await supervision.attach(_run_id(worker, container))
        except SandboxCallError as error:
            raise OSError(str(error)) from error
        return processes.of_attached(supervision, call, descriptors, is_terminal=tty)

    async def open_port(
        self, namespace: str, pod: str, port: int
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        worker = self._worker(namespace, pod)
        try:
            supervision = worker.supervision
        except SandboxCallError as error:
            raise OSError(str(error)) from error
        addresses = worker.record.pod_ips
        return await ports.forward(supervision, addresses, port, is_isolated=worker.place.is_isolated)


def _run_id(worker: PodWorker, container: str) -> str:
    current = worker.record.container(container).current
    if not isinstance(current, Running):
        raise SandboxCallError(f"container {container} does not run")
    return current.id


def _place(pod: Json) -> str:
    return place_of(pod["metadata"]["namespace"], pod["metadata"]["name"])
