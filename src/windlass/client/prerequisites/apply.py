"""Create the prerequisites of a job step by step. `plan` determines which ones there are.

If a step fails, the objects that were created here are deleted again, except volumes and the NFS server. Waits use
watches. If the events of a pod show that it cannot start, a wait fails before its timeout: see `pod_watcher`.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping

from windlass.client import lookup, pod_watcher, pods, workload_watcher
from windlass.client.companions import creation
from windlass.client.connection import Connection
from windlass.client.errors import ClientError, RejectedError, TimedOutError
from windlass.client.pod_watcher import PodWatcher
from windlass.client.prerequisites import objects as prerequisites_objects
from windlass.client.prerequisites import ssh_keys
from windlass.client.prerequisites.objects import Object
from windlass.client.prerequisites.plan import Prerequisites
from windlass.client.submit.progress import Progress
from windlass.kubeapi.errors import ApiError, ResponseError
from windlass.kubeapi.resources import DEPLOYMENTS, JOBS, PODS
from windlass.model.base import Json
from windlass.model.framework import Framework
from windlass.model.pods import PodPhase
from windlass.render.manifest_parts import Part
from windlass.render.ssh import KeyPair
from windlass.render.storage import preflight
from windlass.render.storage.nfs_shares import Direct, Served

_NO_ADDRESS = ("", "None")
SERVER_SECONDS = 300.0
"""Time limit for the start of an NFS server, including the pull of its image and the mount of its volume."""
START_SECONDS = 300.0
"""Time limit until data loading starts. Loading itself has no limit."""
SKIP_HINT = "skip it with --no-preflight, in Python with preflight=False"

Report = Callable[[Progress], None]


class AppliedPrerequisites:
    def __init__(
        self, connection: Connection, prerequisites: Prerequisites, report: Report, owner: str = ""
    ) -> None:
        self.share = prerequisites.share
        self.servers: tuple[Object, ...] = ()
        """Deployments of the companions."""
        self._connection = connection
        self._prerequisites = prerequisites
        self._name = prerequisites.job.name
        self._report = report
        self._owner = owner
        self._created: list[Object] = []
        """Objects that are deleted again if a step fails."""
        self._owned: list[Object] = []
        """Objects that are deleted together with the job."""
        self._permanent: list[Object] = []
        """Volumes and objects of the NFS server that were created here. They are kept if a step fails."""

    async def apply(self) -> None:
        """Create the prerequisites in order. Raises ClientError and ResponseError."""
        for body in self._bodies(Part.SECRETS):
            await self._apply_secret(body)
        await self._create_ssh_key()
        for body in self._bodies(Part.VOLUMES):
            await self._create_or_reuse(body)
        await self._start_nfs_server()
        await self._load_data()
        await self._run_preflight()
        await self._start_companions()

    async def set_owner(self, framework: Framework) -> None:
        """Set the owner of the objects that are deleted together with the job. An error response is only reported."""
        try:
            await prerequisites_objects.set_owner(self._connection, self._owned, framework)
        except ResponseError as error:
            names = ", ".join(map(str, self._owned))
            self._report_step(f"{names} will not be deleted together with the job: {error.failure.message}")

    async def delete_created(self) -> None:
        await prerequisites_objects.delete_all(self._connection, self._created)

    @property
    def kept_objects_message(self) -> str:
        """A sentence about the objects that are kept; empty if there are none."""
        names = ", ".join(map(str, self._permanent))
        return f"These objects for the job's files were created and are kept: {names}." if names else ""

    async def _apply_secret(self, body: Json) -> None:
        """Create, replace or update the job's Secret. Companions use it too: it is kept if one of them is."""
        companions = self._prerequisites.job.companions.values()
        if not companions:
            await self._recreate(body)
            return
        is_kept = any(each.keep for each in companions)
        self._report_object(await self._create_or_adopt(body, is_kept=is_kept), "updated")

    async def _create_ssh_key(self) -> None:
        """Create the Secret with a new key. The key of an earlier job of this name is deleted."""
        if self._bodies(Part.SSH):
            for body in self._bodies(Part.SSH, ssh_keys.generate()):
                await self._recreate(body)

    async def _start_nfs_server(self) -> None:
        bodies = self._bodies(Part.NFS)
        if not bodies:
            return
        applied = [await self._create_or_reuse(body) for body in bodies]
        if isinstance(self.share, Direct):
            return
        by_kind = {each.body["kind"]: each for each in applied}
        service, deployment = by_kind["Service"], by_kind["Deployment"]
        address = service.body["spec"].get("clusterIP", "")
        if address in _NO_ADDRESS:
            raise RejectedError(
                f"{service} has no cluster IP, so nodes cannot mount its files: delete the Service"
            )
        self._report_step(f"waiting for the NFS server {service.name} at {address}")
        await _until_served(self._connection, deployment)
        self.share = Served(address)

    async def _load_data(self) -> None:
        for body in self._bodies(Part.LOAD_DATA):
            applied = await self._recreate(body)
            if body["kind"] == "Job":
                self._report_step("loading data")
                await _until_loaded(self._connection, applied, self._volume_locations)
                self._report_step("data loaded")

    async def _run_preflight(self) -> None:
        seconds = self._prerequisites.preflight_seconds
        for body in self._bodies(Part.PREFLIGHT) if seconds is not None else ():
            created: list[Object] = []
            try:
                pod = await prerequisites_objects.recreate(self._connection, body, self._name, created.append)
                self._report_step("preflight: checking required files")
                await _until_checked(self._connection, pod, self._volume_locations, seconds or 0.0)
                self._report_step("preflight: all files exist")
            finally:
                await asyncio.shield(prerequisites_objects.delete_all(self._connection, created))

    async def _start_companions(self) -> None:
        companions = self._prerequisites.job.companions
        if not companions:
            return
        resolved = await creation.resolve_on_cluster(
            self._connection, self._prerequisites, self._owner, self._report
        )
        for companion, options in companions.items():
            bodies = creation.bodies(self._prerequisites, companion, self.share, resolved)
            applied = [await self._create_or_adopt(body, is_kept=options.keep) for body in bodies]
            await creation.delete_unused(self._connection, self._name, companion, applied)
            creation.report_started(self._prerequisites, companion, applied, resolved, self._report)
            self.servers += tuple(each for each in applied if each.body["kind"] == "Deployment")

    def _bodies(self, part: Part, ssh_key: KeyPair | None = None) -> list[Json]:
        """Render the objects of a part, with the current value of `share`."""
        rendered = self._prerequisites.rendered_objects(self.share, ssh_key=ssh_key)
        return [each.body for each in rendered if each.part is part]

    @property
    def _volume_locations(self) -> Mapping[str, str]:
        """Descriptions of where the files of the job's volumes are, by volume name."""
        volumes = self._prerequisites.job.volumes
        return {name: preflight.place_of(volume, name, self.share) for name, volume in volumes.items()}

    async def _recreate(self, body: Json) -> Object:
        applied = await prerequisites_objects.recreate(
            self._connection, body, self._name, self._created.append
        )
        self._owned.append(applied)
        self._report_object(applied, "created")
        return applied

    async def _create_or_adopt(self, body: Json, *, is_kept: bool) -> Object:
        applied = await prerequisites_objects.create_or_adopt(
            self._connection, body, self._name, self._created.append, owner=self._owner, is_kept=is_kept
        )
        if not is_kept:
            self._owned.append(applied)
        return applied

    async def _create_or_reuse(self, body: Json) -> Object:
        applied = await prerequisites_objects.create_or_reuse(
            self._connection, body, self._name, self._permanent.append
        )
        self._report_object(applied, "reused")
        return applied

    def _report_object(self, applied: Object, change: str) -> None:
        """Report a new object as created, and an existing one as `change`."""
        self._report_step(f"{'created' if applied.is_new else change} {applied}")

    def _report_step(self, message: str) -> None:
        self._report(Progress(self._name, message))


@contextlib.asynccontextmanager
async def applied(
    connection: Connection,
    prerequisites: Prerequisites,
    report: Report,
    *,
    is_ephemeral: bool = False,
    owner: str = "",
) -> AsyncIterator[AppliedPrerequisites]:
    """Create the prerequisites. If that or the block fails, the created objects are deleted again, except volumes and
    the NFS server.

    `is_ephemeral`: the cluster ends with the run, so that kept objects are not reported. `owner` is the uid of an
    existing Framework, whose companions keep running. Raises ClientError.
    """
    work = AppliedPrerequisites(connection, prerequisites, report, owner)
    if is_ephemeral and prerequisites.share is not None:
        text = "the files of nfsServer are deleted when the run ends, unless --keep is given"
        report(Progress(prerequisites.job.name, text))
    try:
        await work.apply()
        yield work
    except (ClientError, ApiError) as error:
        await asyncio.shield(work.delete_created())
        client_error = connection.to_client_error(error)
        if is_ephemeral or not work.kept_objects_message:
            raise client_error from error
        raise type(client_error)(
            f"{str(client_error).removesuffix('.')}. {work.kept_objects_message}"
        ) from error
    except (Exception, asyncio.CancelledError):
        await asyncio.shield(work.delete_created())
        if work.kept_objects_message and not is_ephemeral:
            report(Progress(prerequisites.job.name, work.kept_objects_message))
        raise


# Waits


async def _until_served(connection: Connection, deployment: Object) -> None:
    """Wait until the NFS server is available. Raises ClientError."""
    watcher = PodWatcher(connection, label_selector=_selector(deployment))
    try:
        await workload_watcher.run_with_pods(
            workload_watcher.wait_until(
                connection, DEPLOYMENTS, deployment, lambda found: found.is_available
            ),
            watcher,
            SERVER_SECONDS,
            f"the NFS server {deployment.name} is not ready",
        )
    except TimedOutError as error:
        message = await workload_watcher.last_lines(connection, watcher.pods[-1]) if watcher.pods else ""
        raise TimedOutError(f"{error}\n{message}" if message else str(error)) from error


async def _until_loaded(connection: Connection, job: Object, locations: Mapping[str, str]) -> None:
    """Wait until the Job has succeeded. Raises ClientError, with the end of the log if the Job failed."""
    watcher = PodWatcher(connection, label_selector=_selector(job), volume_locations=locations)
    ended = await workload_watcher.run_with_pods(
        workload_watcher.wait_until(
            connection, JOBS, job, lambda found: found.is_complete or found.failure is not None
        ),
        watcher,
        START_SECONDS,
        "cannot load the data of the job",
        may_continue=lambda: watcher.has_started,
    )
    if not ended.is_complete:
        message = await _failure_message(connection, job) or ended.failure or "unknown reason"
        raise RejectedError(f"cannot load the data of the job: {message}")


async def _until_checked(
    connection: Connection, pod: Object, locations: Mapping[str, str], seconds: float
) -> None:
    """Wait until all required files exist. Raises ClientError, with the names of missing files."""
    watcher = PodWatcher(connection, name=pod.name, volume_locations=locations)
    ended = await workload_watcher.run_with_pods(
        watcher.wait_until_finished(),
        watcher,
        seconds,
        f"the preflight ({SKIP_HINT}) has not finished",
        may_continue=lambda: watcher.has_started_pulling,
    )
    if ended.status.phase != PodPhase.SUCCEEDED:
        message = pod_watcher.termination_message(ended) or await workload_watcher.last_lines(
            connection, ended
        )
        raise RejectedError(f"the preflight failed: {message or 'unknown reason'}")


def _selector(workload: Object) -> str:
    """Return the label selector of the workload's pods. The API server sets the selector of a Job."""
    labels: Mapping[str, str] = workload.body["spec"]["selector"]["matchLabels"]
    return ",".join(f"{name}={value}" for name, value in labels.items())


async def _failure_message(connection: Connection, job: Object) -> str:
    """Describe the newest failed pod: its failed container and the end of its log; empty if no pod failed."""
    listed = await lookup.list_objects(connection, PODS, connection.namespace, _selector(job))
    failed = [pod for pod in map(pods.decode, listed) if pod.status.phase == PodPhase.FAILED]
    if not failed:
        return ""
    pod = max(failed, key=lambda each: str(each.metadata.creation_timestamp))
    message = await workload_watcher.last_lines(connection, pod) or pod_watcher.termination_message(pod)
    container = pod_watcher.failed_container(pod)
    ended = container.state.terminated if container is not None else None
    if container is None or ended is None:
        return message
    return (
        f"step {container.name} exited with code {ended.exit_code}{':' if message else ''} {message}".strip()
    )
