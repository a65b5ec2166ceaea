"""Wait, with watches, for prerequisites of a job: its NFS server, its data and the result of its preflight.

If the events of a pod show that it cannot start, the wait fails before the timeout: see `pod_watcher`.
"""

from collections.abc import Mapping

from windlass.client import lookup, pod_watcher, pods, workload_watcher
from windlass.client.connection import Connection
from windlass.client.errors import RejectedError, TimedOutError
from windlass.client.pod_watcher import PodWatcher
from windlass.client.prerequisites.objects import Object
from windlass.kubeapi.resources import DEPLOYMENTS, JOBS, PODS
from windlass.model.pods import PodPhase

SERVER_SECONDS = 300.0
"""Time limit for the start of an NFS server, including the pull of its image and the mount of its volume."""
START_SECONDS = 300.0
"""Time limit until data loading starts. Loading itself has no limit."""
SKIP_HINT = "skip it with --no-preflight, in Python with preflight=False"


async def until_served(connection: Connection, deployment: Object) -> None:
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


async def until_loaded(connection: Connection, job: Object, locations: Mapping[str, str]) -> None:
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


async def until_checked(
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
