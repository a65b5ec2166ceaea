"""The place of a pod on this machine: its folder, its volumes, its addresses, its supervisor, its containers' plans."""

import asyncio
import contextlib
import functools
from datetime import UTC, datetime
from typing import NamedTuple

from windlass.localcluster.kubelet import disk_errors, log_reader
from windlass.localcluster.kubelet.containers import plan as container_plan
from windlass.localcluster.kubelet.containers.errors import SetupError
from windlass.localcluster.kubelet.context import Means
from windlass.localcluster.kubelet.lifecycle import specs
from windlass.localcluster.kubelet.lifecycle import termination_message as lifecycle_termination_message
from windlass.localcluster.kubelet.lifecycle.records import PodRecord
from windlass.localcluster.kubelet.pods import directory
from windlass.localcluster.kubelet.pods.directory import PodFolder
from windlass.localcluster.kubelet.volumes import setup
from windlass.localcluster.kubelet.volumes.setup import PodVolumes, Sources
from windlass.localcluster.sandbox import log_format, messages
from windlass.localcluster.sandbox.process import cgroups, processes
from windlass.model.base import Json


class PodAddresses(NamedTuple):
    pod: tuple[str, ...]
    host: tuple[str, ...]


class PodSandbox:
    def __init__(self, pod: Json, means: Means) -> None:
        meta = pod["metadata"]
        self.uid: str = meta["uid"]
        self.shown = f"{meta['namespace']}/{meta['name']}"
        self.folder = directory.of(means.folder, self.uid)
        self._means = means
        self._is_on_host_network = bool(pod["spec"].get("hostNetwork"))
        self._addresses = PodAddresses((), ())
        self._volumes: PodVolumes | None = None

    # Addresses

    def take_addresses(self, pod: Json) -> PodAddresses:
        """One that belongs to the pod's name: who comes after it under the same name has it again."""
        host = self._means.host_address
        if self._is_on_host_network:
            own = host
        else:
            meta = pod["metadata"]
            own = self._means.addresses.take(meta["namespace"], meta["name"], self.uid)
        self._addresses = PodAddresses((own,), (host,))
        return self._addresses

    def adopt_addresses(self, record: PodRecord) -> None:
        self._addresses = PodAddresses(record.pod_ips, record.host_ips)
        if record.pod_ips and not self._is_on_host_network:
            self._means.addresses.adopt(self.uid, record.pod_ips[0])

    def give_back_addresses(self) -> None:
        self._means.addresses.give_back(self.uid)

    # The place

    async def make(self, pod: Json) -> None:
        """Folder, files, volumes, and a supervisor that listens. Raises SetupError, SandboxCallError."""
        means = self._means
        directory.make(self.folder)
        self.refresh_hosts(pod)
        directory.write_resolv_conf(self.folder, pod, means.files.resolv_conf, means.ready.nameservers)
        hostname = directory.hostname(pod, means.files.hostname)
        directory.write_hostname(self.folder, hostname)
        self.prepare_volumes(pod)
        plan = messages.PodPlan(
            uid=self.uid,
            folder=str(self.folder.path),
            hostname=hostname,
            link=self._link,
            volumes=self._prepared(pod).mounted,
        )
        await means.spawning.spawn(plan)

    @property
    def _link(self) -> messages.Link | None:
        ready = self._means.ready
        if self._is_on_host_network or not ready.gateway:
            return None
        return messages.Link(self._addresses.pod[0], ready.prefix_length, ready.gateway)

    def prepare_volumes(self, pod: Json) -> None:
        self._volumes = setup.prepare(pod, self.folder, self._sources(pod), self._means.host, _now())

    def _prepared(self, pod: Json) -> PodVolumes:
        if self._volumes is None:
            self.prepare_volumes(pod)
        assert self._volumes is not None  # noqa: S101 — prepared above
        return self._volumes

    def refresh_volumes(self, pod: Json) -> None:
        """What a ConfigMap or a label says now. What has gone is kept as it was."""
        if self._volumes is not None:
            with contextlib.suppress(SetupError):
                setup.refresh(pod, self.folder, self._sources(pod), self._means.host, _now())

    def refresh_hosts(self, pod: Json) -> None:
        means = self._means
        entries = means.surroundings.host_entries(pod)
        facts = means.surroundings.facts(pod, *self._addresses)
        directory.write_hosts(self.folder, pod, facts, entries, means.files.hosts)

    def _sources(self, pod: Json) -> Sources:
        namespace, surroundings = pod["metadata"]["namespace"], self._means.surroundings
        return Sources(
            facts=surroundings.facts(pod, *self._addresses),
            lookup=surroundings.lookup(namespace),
            token=lambda *_: self._means.token,
            claim=surroundings.claim(namespace),
            claim_folder=self._means.claim_folder,
        )

    # Containers

    def drop_old_runs(self, name: str, restart_count: int, known: set[str]) -> None:
        """Besides the coming run of a container, one that has ended is kept: more cannot be asked for."""
        directory.drop_logs(self.folder, name, restart_count - 1)
        directory.drop_runs(self.folder, known)

    def plan(self, pod: Json, name: str, run_id: str, restart_count: int) -> messages.ContainerPlan:
        means, container = self._means, specs.container(pod, name)
        setting = container_plan.Setting(
            folder=self.folder,
            volumes=self._prepared(pod),
            facts=means.surroundings.facts(pod, *self._addresses),
            lookup=means.surroundings.lookup(pod["metadata"]["namespace"]),
            hostname=directory.hostname(pod, means.files.hostname),
            host=means.host,
        )
        return container_plan.plan(
            pod,
            container,
            setting,
            run_id=run_id,
            restart_count=restart_count,
            image=means.images.folder_of(container.get("image", "")),
        )

    def image_id(self, pod: Json, name: str) -> str:
        """What stands in the status: a folder of the machine, or nothing, for no image was needed."""
        with contextlib.suppress(SetupError):
            return self._means.images.folder_of(specs.container(pod, name).get("image", ""))
        return ""

    def termination_message(self, pod: Json, name: str, restart_count: int, end: messages.Ended) -> str:
        container = specs.container(pod, name)
        try:
            with self.folder.termination_log(end.container).open("rb") as file:
                file.seek(max(file.seek(0, 2) - lifecycle_termination_message.FILE_BYTES, 0))
                said = file.read()
        except OSError:
            said = b""
        return lifecycle_termination_message.message(
            container.get("terminationMessagePolicy", "File"),
            said,
            self._last_lines(name, restart_count),
            exit_code=end.exit_code or end.signal,
        )

    def _last_lines(self, name: str, restart_count: int) -> list[bytes]:
        try:
            return log_reader.last_lines(
                self.folder.logs(name),
                log_format.file_name(restart_count),
                lifecycle_termination_message.LOG_LINES,
                lifecycle_termination_message.LOG_BYTES,
            )
        except OSError:
            return []

    @property
    def is_isolated(self) -> bool:
        """It has a network of its own."""
        return self._link is not None

    def remove(self) -> None:
        """All of it; the logs of an ephemeral cluster, whose data go soon enough, stay for who has yet to read them,
        unless their room is needed."""
        if not self._means.is_ephemeral or disk_errors.free_if_short(self._means.folder) is not None:
            directory.remove(self.folder)
            return
        for folder in (self.folder.volumes, self.folder.run("")):
            directory.remove(PodFolder(folder))

    def give_back_disk(self) -> None:
        """What the pod has written: its logs and the volumes that are its own. What cannot be removed stays."""
        for folder in (self.folder.path / "logs", self.folder.volumes):
            with contextlib.suppress(OSError):
                directory.remove(PodFolder(folder))

    async def end_leftovers(self) -> None:
        await end_leftovers(self.folder, self._means.cluster)


async def end_leftovers(folder: PodFolder, cluster: str) -> None:
    """Of a pod whose supervisor is no more. Where there are PID namespaces, the kernel has killed it all already."""
    await asyncio.to_thread(_end_leftovers, folder, cluster)


def _end_leftovers(folder: PodFolder, cluster: str) -> None:
    uid = folder.path.name
    processes.kill_all(functools.partial(processes.marked, container_plan.MARKER.encode(), uid.encode()))
    groups = cgroups.find(cluster)
    if groups is not None:
        groups.remove_those(folder.run_ids())


def _now() -> datetime:
    return datetime.now(UTC)
