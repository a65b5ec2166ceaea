"""The sandbox of one pod on this machine: its directory, addresses, volumes, supervisor and container plans."""

import asyncio
import contextlib
import functools
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from windlass.localcluster import file_trees
from windlass.localcluster.apiserver.service_account_tokens import ServiceAccountTokens
from windlass.localcluster.kubelet import log_reader
from windlass.localcluster.kubelet.addresses import PodAddresses, PodNetwork
from windlass.localcluster.kubelet.containers import plan as container_plan
from windlass.localcluster.kubelet.containers import security
from windlass.localcluster.kubelet.containers.errors import SetupError
from windlass.localcluster.kubelet.containers.facts import PodFacts
from windlass.localcluster.kubelet.containers.network_files import Entry
from windlass.localcluster.kubelet.host import Host
from windlass.localcluster.kubelet.images import Images
from windlass.localcluster.kubelet.lifecycle import specs, termination_message
from windlass.localcluster.kubelet.lifecycle.records import PodRecord
from windlass.localcluster.kubelet.log_archive import LogArchive, LogOwner
from windlass.localcluster.kubelet.object_lookup import ObjectLookup
from windlass.localcluster.kubelet.pods import directory, disk
from windlass.localcluster.kubelet.pods.directory import PodDirectory
from windlass.localcluster.kubelet.spawner_client import SpawnerClient
from windlass.localcluster.kubelet.supervisor_client import SupervisorClient
from windlass.localcluster.kubelet.volumes import setup
from windlass.localcluster.kubelet.volumes.pod_tokens import PodTokens
from windlass.localcluster.kubelet.volumes.setup import PodVolumes, VolumeContext
from windlass.localcluster.sandbox import log_format, messages
from windlass.localcluster.sandbox.process import cgroups, processes
from windlass.model.base import Json

_DEFAULT_CONTAINER = "kubectl.kubernetes.io/default-container"


class PodDirectories(msgspec.Struct, frozen=True):
    """The directories of all pods of a cluster."""

    path: Path
    cluster: str
    """Name of the cluster, part of the names of its cgroups."""
    is_ephemeral: bool
    """Whether the data directory is deleted when the cluster stops."""
    archive: LogArchive | None = None
    """The logs of deleted pods."""

    def all(self) -> list[PodDirectory]:
        return [PodDirectory(path) for path in sorted(self.path.iterdir())] if self.path.is_dir() else []

    async def end_pod(self, folder: PodDirectory) -> None:
        """Kill the processes of a pod. Its object in the API server is not needed."""
        try:
            supervisor = SupervisorClient(folder.path, lambda _: None, lambda: None)
        except FileNotFoundError:
            return  # the supervisor has removed its socket, after all processes had ended
        except OSError:
            await self.kill_orphaned_processes(folder)
        else:
            await supervisor.end()

    async def kill_orphaned_processes(self, folder: PodDirectory) -> None:
        """Kill the processes of a pod whose supervisor was killed, and remove their cgroups.

        With PID namespaces, the kernel has already killed them.
        """
        await asyncio.to_thread(self._kill_orphaned_processes, folder)

    def _kill_orphaned_processes(self, folder: PodDirectory) -> None:
        variable, uid = container_plan.POD_UID_VARIABLE.encode(), folder.uid.encode()
        processes.kill_all(functools.partial(processes.pids_with_variable, variable, uid))
        groups = cgroups.find(self.cluster)
        if groups is not None:
            groups.remove_named(folder.run_ids())


def log_owner(pod: Json) -> LogOwner:
    """Return the owner of the logs in the directory of a pod."""
    meta, spec = pod["metadata"], pod["spec"]
    containers = [each["name"] for each in (*spec["containers"], *(spec.get("initContainers") or ()))]
    default = (meta.get("annotations") or {}).get(_DEFAULT_CONTAINER)
    ordered = sorted(containers, key=lambda name: name != default)
    return LogOwner(meta["namespace"], meta["name"], tuple(ordered))


class PodSandbox:
    def __init__(
        self,
        pod: Json,
        *,
        directories: PodDirectories,
        host: Host,
        network: PodNetwork,
        objects: ObjectLookup,
        account_tokens: ServiceAccountTokens,
        claim_folder: Callable[[Json], Path],
        images: Images,
        spawner: SpawnerClient,
    ) -> None:
        meta = pod["metadata"]
        self.uid: str = meta["uid"]
        self.pod_name = f"{meta['namespace']}/{meta['name']}"
        self.folder = PodDirectory(directories.path / self.uid)
        self.is_isolated = network.is_isolated(pod)
        self._directories = directories
        self._host = host
        self._network = network
        self._objects = objects
        self._tokens = PodTokens(account_tokens)
        self._claim_folder = claim_folder
        self._images = images
        self._spawner = spawner
        self._addresses = PodAddresses()
        self._volumes: PodVolumes | None = None
        # Whether the volumes have been prepared, by this daemon or an earlier one.
        self._has_volumes = False
        # The entries and addresses with which /etc/hosts was last written.
        self._written_hosts: tuple[tuple[Entry, ...], PodAddresses] | None = None

    # Addresses

    def allocate_addresses(self, pod: Json) -> PodAddresses:
        self._addresses = self._network.allocate(pod)
        return self._addresses

    def adopt_addresses(self, pod: Json, record: PodRecord) -> None:
        self._addresses = PodAddresses(record.pod_ips, record.host_ips)
        self._network.adopt(pod, self._addresses)

    def release_addresses(self) -> None:
        self._network.release(self.uid)

    # Creation

    async def create(self, pod: Json) -> None:
        """Create the directory, files and volumes, and start a supervisor.

        Raises SetupError, CannotSpawnError or SandboxCallError.
        """
        directory.make(self.folder)
        if self._directories.archive is not None:
            self._directories.archive.describe(self.folder, log_owner(pod))
        self._written_hosts = None
        self.refresh_hosts(pod)
        nameservers = self._network.nameservers if self.is_isolated else ()
        directory.write_resolv_conf(self.folder, pod, self._host.resolv_conf, nameservers)
        hostname = directory.hostname(pod, self._host.hostname)
        directory.write_hostname(self.folder, hostname)
        shared_memory = setup.shared_memory(pod, self.folder, self._host)
        plan = messages.PodPlan(
            uid=self.uid,
            folder=str(self.folder.path),
            hostname=hostname,
            link=self._network.link(pod, self._addresses),
            volumes=(
                *self.prepare_volumes(pod).mounted,
                *(() if shared_memory is None else (shared_memory,)),
            ),
        )
        await self._spawner.spawn(plan)

    def prepare_volumes(self, pod: Json) -> PodVolumes:
        self._volumes = setup.prepare(self._volume_context(pod))
        self._has_volumes = True
        return self._volumes

    def adopt_volumes(self, pod: Json) -> None:
        """Use the volumes that an earlier daemon has prepared.

        An object to which a volume refers may have been deleted. This fails only the next start of a container. The
        other volumes, e.g. that of the token, are still refreshed.
        """
        self._has_volumes = True
        try:
            self.prepare_volumes(pod)
        except SetupError:
            self.refresh_volumes(pod)

    def refresh_volumes(self, pod: Json) -> None:
        """Rewrite volumes whose ConfigMap, Secret, label or annotation changed. Skip volumes with an error."""
        if self._has_volumes:
            with contextlib.suppress(SetupError):
                setup.refresh(self._volume_context(pod))

    def renew_tokens(self, pod: Json) -> None:
        if self._tokens.are_due:
            self.refresh_volumes(pod)

    def _volume_context(self, pod: Json) -> VolumeContext:
        namespace = pod["metadata"]["namespace"]
        return VolumeContext(
            pod=pod,
            folder=self.folder,
            host=self._host,
            now=datetime.now(UTC),
            facts=self._facts(pod),
            lookup=self._objects.lookup(namespace),
            token=functools.partial(self._tokens.token, pod),
            claim=self._objects.claim_lookup(namespace),
            claim_folder=self._claim_folder,
        )

    def refresh_hosts(self, pod: Json) -> None:
        """Write /etc/hosts if its input has changed.

        Every change of a pod or Service in the namespace leads to this call.
        """
        entries = self._objects.host_entries(pod)
        if self._written_hosts != (entries, self._addresses):
            directory.write_hosts(self.folder, pod, self._facts(pod), entries, self._host.hosts_file)
            self._written_hosts = (entries, self._addresses)

    def _facts(self, pod: Json) -> PodFacts:
        return self._objects.facts(pod, *self._addresses)

    # Containers

    def remove_old_runs(self, name: str, restart_count: int, kept_run_ids: set[str]) -> None:
        """Delete the logs of the container's runs before the previous one, and the directories of all runs of the pod
        except `kept_run_ids`."""
        directory.remove_old_logs(self.folder, name, restart_count - 1)
        directory.remove_runs_except(self.folder, kept_run_ids)

    def plan(self, pod: Json, name: str, run_id: str, restart_count: int) -> messages.ContainerPlan:
        container = specs.container(pod, name)
        context = container_plan.PodContext(
            folder=self.folder,
            volumes=self._volumes or self.prepare_volumes(pod),
            facts=self._facts(pod),
            lookup=self._objects.lookup(pod["metadata"]["namespace"]),
            hostname=directory.hostname(pod, self._host.hostname),
            host=self._host,
        )
        return container_plan.plan(
            pod,
            container,
            context,
            run_id=run_id,
            restart_count=restart_count,
            image=self._images.folder_of(container.get("image", "")),
        )

    def unapplied_security_fields(self, pod: Json, name: str) -> list[str]:
        """Return the fields of the securityContext that this machine cannot apply."""
        return security.unapplied_fields(pod, specs.container(pod, name), self._host)

    def image_id(self, pod: Json, name: str) -> str:
        """Return the imageID for the status: the existing directory of a local image, otherwise empty."""
        with contextlib.suppress(SetupError):
            return self._images.folder_of(specs.container(pod, name).get("image", ""))
        return ""

    def termination_message(self, pod: Json, name: str, restart_count: int, end: messages.Ended) -> str:
        container = specs.container(pod, name)
        try:
            with self.folder.termination_log(end.run_id).open("rb") as file:
                file.seek(max(file.seek(0, 2) - termination_message.FILE_BYTES, 0))
                content = file.read()
        except OSError:
            content = b""
        return termination_message.message(
            container.get("terminationMessagePolicy", "File"),
            content,
            self._last_lines(name, restart_count),
            exit_code=end.exit_code or end.signal,
        )

    def _last_lines(self, name: str, restart_count: int) -> list[bytes]:
        try:
            return log_reader.last_lines(
                self.folder.logs(name),
                log_format.file_name(restart_count),
                termination_message.LOG_LINES,
                termination_message.LOG_BYTES,
            )
        except OSError:
            return []

    # Removal

    def remove(self) -> None:
        """Delete the directory, and keep the logs in the archive if there is enough disk space. In an ephemeral cluster
        with enough disk space, delete only volumes and runs: the logs stay readable until the cluster stops."""
        directories = self._directories
        has_shortage = disk.shortage(directories.path) is not None
        if not directories.is_ephemeral or has_shortage:
            if directories.archive is not None and not has_shortage:
                directories.archive.keep(self.folder)
            file_trees.remove(self.folder.path)
            return
        for folder in (self.folder.volumes, self.folder.run("")):
            file_trees.remove(folder)

    def free_disk(self) -> None:
        """Delete the logs, and the volumes in the pod's directory, as far as possible."""
        for folder in (self.folder.all_logs, self.folder.volumes):
            with contextlib.suppress(OSError):
                file_trees.remove(folder)

    async def kill_orphaned_processes(self) -> None:
        await self._directories.kill_orphaned_processes(self.folder)
