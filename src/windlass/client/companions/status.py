"""Status and URLs of the companions of a job, and port forwarding to them.

The companions are found by their labels. Objects that the user may not read are reported to `note` and left out.
"""

from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import NoReturn, TypeVar

import msgspec

from windlass.client import lookup, pod_watcher, pods, workload_watcher
from windlass.client.connection import Connection
from windlass.client.errors import ClientError, ObjectNotFoundError, RejectedError, TimedOutError
from windlass.client.owned_objects import MAX_LABEL_LENGTH
from windlass.client.pod_watcher import PodWatcher
from windlass.client.pods import ContainerStatus, Pod, PodSpec
from windlass.client.port_forward import LOOPBACK, Forward
from windlass.k8s import formats
from windlass.k8s.metadata import OwnedObjectMeta
from windlass.kubeapi.errors import ForbiddenError, NotFoundError
from windlass.kubeapi.resources import DEPLOYMENTS, PODS, SERVICES, Resource
from windlass.model import names
from windlass.model.base import Sparse
from windlass.model.companions import Companion, ServiceType, companion_from_labels
from windlass.model.pods import PodPhase
from windlass.render.companions import servers

READY_SECONDS = 300.0
"""Time limit for the start of a companion, including the pull of its image."""

_PERMANENT_EXIT_CODES = (126, 127)
"""Exit codes of a shell for a program that cannot be executed or does not exist. A retry does not fix this."""
_MAX_FAILURES = 2
"""Number of failures after which a companion is considered unrecoverable."""
_LOGDIR = "--logdir="
_NOT_INSTALLED = " is not installed. "

Note = Callable[[str], None]
"""Receives messages, e.g. about objects that could not be read."""


# Objects as the API server returns them


class _Template(Sparse, frozen=True):
    spec: PodSpec = PodSpec()


class _DeploymentSpec(Sparse, frozen=True):
    template: _Template = _Template()


class Deployment(Sparse, frozen=True):
    metadata: OwnedObjectMeta = OwnedObjectMeta()
    spec: _DeploymentSpec = _DeploymentSpec()


class ServicePort(Sparse, frozen=True):
    port: int = 0
    target_port: int | str = 0
    node_port: int = 0


class _ServiceSpec(Sparse, frozen=True):
    type: str = ""
    ports: tuple[ServicePort, ...] = ()


class _Ingress(Sparse, frozen=True):
    ip: str = ""
    hostname: str = ""


class _LoadBalancer(Sparse, frozen=True):
    ingress: tuple[_Ingress, ...] | None = ()


class _ServiceStatus(Sparse, frozen=True):
    load_balancer: _LoadBalancer = _LoadBalancer()


class Service(Sparse, frozen=True):
    metadata: OwnedObjectMeta = OwnedObjectMeta()
    spec: _ServiceSpec = _ServiceSpec()
    status: _ServiceStatus = _ServiceStatus()


_decode_deployment = msgspec.json.Decoder(Deployment).decode
_decode_service = msgspec.json.Decoder(Service).decode

_Labelled = TypeVar("_Labelled", Deployment, Service, Pod)


# Views


class State(StrEnum):
    RUNNING = "Running"
    """The companion is ready."""
    STARTING = "Starting"
    """The pod of the companion is starting or running, and not ready yet."""
    WAITING = "Waiting"
    """The companion has no pod, or its pod is being deleted or waits, e.g. for a node or an image."""
    FAILED = "Failed"
    """The companion failed and may be restarted."""


class CompanionView(msgspec.Struct, frozen=True, kw_only=True):
    companion: Companion
    job: str
    namespace: str
    name: str = ""
    """Name of the Deployment. Empty if it does not exist or the user may not read it."""
    uid: str = ""
    """UID of the Deployment."""
    state: State
    reason: str = ""
    pod: str = ""
    """Name of the newest pod."""
    service: str = ""
    service_type: str = ""
    port: int = 0
    """Port of the Service."""
    pod_port: int = 0
    """Port of the pod."""
    url: str = ""
    """URL outside or inside the cluster: see `is_exposed`."""
    is_exposed: bool = False
    """Whether the URL works outside the cluster. Otherwise use `open_command`."""
    is_kept: bool = False
    """Whether the companion is kept when only the Framework of the job is deleted. `delete` of the client also deletes
    the companion by default."""
    logdir: str = ""
    """Log directory of a TensorBoard."""
    secrets: tuple[str, ...] = ()
    """Names of the Secrets that the pod reads."""

    def __str__(self) -> str:
        return f"{self.companion} of {self.job}"

    @property
    def open_command(self) -> str:
        """The command that forwards a local port to the companion, without the option --namespace."""
        return f"windlass {self.companion} {self.job}"

    @property
    def label_selector(self) -> str:
        return selector(self.job, self.companion)


def selector(job: str, companion: Companion) -> str:
    """Return the label selector of a companion's objects."""
    return ",".join(f"{label}={value}" for label, value in servers.labels_of(job, companion).items())


async def read(connection: Connection, job: str, note: Note = lambda _: None) -> tuple[CompanionView, ...]:
    """Return the companions of a job, in the order of `Companion`. Raises the errors of `Connection.send`."""
    if not formats.is_object_name(job) or len(job) > MAX_LABEL_LENGTH:
        return ()
    label_selector = f"{names.JOB_LABEL}={job},{names.COMPANION_LABEL}"
    deployments = list(
        map(_decode_deployment, await _list_readable(connection, DEPLOYMENTS, label_selector, note))
    )
    services = list(map(_decode_service, await _list_readable(connection, SERVICES, label_selector, note)))
    found_pods = list(map(pods.decode, await _list_readable(connection, PODS, label_selector, note)))
    uses_node_ports = any(service.spec.type == ServiceType.NODE_PORT for service in services)
    # An embedded cluster assigns node ports, but nothing listens on them.
    has_open_node_ports = uses_node_ports and not await connection.is_embedded()
    found = []
    for each in Companion:
        own_pods = sorted(
            _belonging_to(each, found_pods), key=lambda pod: str(pod.metadata.creation_timestamp)
        )
        deployment = next(iter(_belonging_to(each, deployments)), None)
        service = next(iter(_belonging_to(each, services)), None)
        if deployment is None and service is None and not own_pods:
            continue
        found.append(
            _view(
                connection.namespace,
                job,
                each,
                deployment or Deployment(),
                service or Service(),
                own_pods[-1] if own_pods else None,
                has_open_node_ports=has_open_node_ports,
            )
        )
    return tuple(found)


def _belonging_to(companion: Companion, objects: list[_Labelled]) -> list[_Labelled]:
    return [each for each in objects if companion_from_labels(each.metadata.labels) is companion]


async def find(
    connection: Connection, job: str, companion: Companion, note: Note = lambda _: None
) -> CompanionView:
    """Return a companion of a job.

    Raises ObjectNotFoundError. If the job exists, the message contains the steps to add the companion.
    """
    found = {view.companion: view for view in await read(connection, job, note)}
    if companion in found:
        return found[companion]
    if not found and await lookup.find_or_none(connection, job) is None:
        raise await lookup.not_found_error(connection, job, await _jobs_with_companions(connection))
    has = f", only {', '.join(found)}" if found else ""
    raise ObjectNotFoundError(
        f"{job} has no {companion}{has}. Add `{companion}: {{}}` to its job file, and start it with "
        "`windlass submit FILE --companions-only`."
    )


async def until_ready(
    connection: Connection, job: str, companion: Companion, timeout: float | None = READY_SECONDS
) -> CompanionView:
    """Wait until the companion is ready and return it. Raises ClientError: after a failure or a timeout, with the
    last lines of the log, if any."""
    view = await find(connection, job, companion)
    watcher = PodWatcher(connection, label_selector=view.label_selector)
    failure = f"{companion} of {job} is not ready"

    async def raise_if_unrecoverable() -> NoReturn:
        await watcher.wait_until(lambda: _is_unrecoverable(watcher.pods))
        raise RejectedError(f"cannot start {companion} of {job}: {_failure_text(watcher.pods[-1])}")

    try:
        with connection.converting_errors():
            await workload_watcher.run_with_pods(
                _wait_until_available(connection, view, watcher),
                watcher,
                timeout,
                failure,
                raise_if_unrecoverable(),
            )
    except (RejectedError, TimedOutError) as error:
        lines = await workload_watcher.last_lines(connection, watcher.pods[-1]) if watcher.pods else ""
        last_line = next(reversed(lines.splitlines()), "")
        if _NOT_INSTALLED in last_line:
            # The line contains the command that installs the program.
            raise type(error)(last_line) from error
        raise type(error)(f"{error}\n{lines}" if lines else str(error)) from error
    return await find(connection, job, companion)


def forward(
    connection: Connection,
    view: CompanionView,
    *,
    port: int | None = None,
    address: str = LOOPBACK,
    note: Note = lambda _: None,
) -> Forward:
    """Return a context manager that forwards a local port (default: the port of the Service). Raises ClientError."""
    if not view.pod_port:
        raise ClientError(f"{view.companion} of {view.job} declares no port")
    return Forward(
        connection,
        view.label_selector,
        view.pod_port,
        port=(view.port or view.pod_port) if port is None else port,
        address=address,
        note=note,
    )


async def _wait_until_available(connection: Connection, view: CompanionView, watcher: PodWatcher) -> None:
    """Wait for the Deployment, or for the pod if the Deployment does not exist or may not be read."""
    if view.uid:
        await workload_watcher.wait_until(connection, DEPLOYMENTS, view, lambda found: found.is_available)
    else:
        await watcher.wait_until(lambda: bool(watcher.pods) and watcher.pods[-1].is_ready)


# Reading


async def _list_readable(
    connection: Connection, resource: Resource, label_selector: str, note: Note
) -> list[msgspec.Raw]:
    """Return the selected objects; none if the user may not list them or the server does not serve their kind."""
    try:
        return await lookup.list_objects(connection, resource, connection.namespace, label_selector)
    except ForbiddenError as error:
        note(f"cannot read all companions of the job: {error.failure.message}")
        return []
    except NotFoundError:
        return []  # e.g. a server that serves only Frameworks


async def _jobs_with_companions(connection: Connection) -> set[str]:
    """Return the names of jobs with companions, including deleted jobs whose companions were kept."""
    listed = await _list_readable(connection, DEPLOYMENTS, names.COMPANION_LABEL, lambda _: None)
    return {_decode_deployment(each).metadata.labels.get(names.JOB_LABEL, "") for each in listed} - {""}


def _view(
    namespace: str,
    job: str,
    companion: Companion,
    deployment: Deployment,
    service: Service,
    pod: Pod | None,
    *,
    has_open_node_ports: bool,
) -> CompanionView:
    state, reason = _state_of(pod)
    port = service.spec.ports[0] if service.spec.ports else ServicePort()
    spec = deployment.spec.template.spec if deployment.metadata.uid or pod is None else pod.spec
    declared_port = next((port.container_port for each in spec.containers for port in each.ports), 0)
    external = _external_address(service, port, pod, has_open_node_ports=has_open_node_ports)
    internal = f"{service.metadata.name}.{namespace}.svc:{port.port}" if service.metadata.name else ""
    return CompanionView(
        companion=companion,
        job=job,
        namespace=namespace,
        name=deployment.metadata.name,
        uid=deployment.metadata.uid,
        state=state,
        reason=reason,
        pod=pod.name if pod is not None else "",
        service=service.metadata.name,
        service_type=service.spec.type,
        port=port.port,
        pod_port=port.target_port
        if isinstance(port.target_port, int) and port.target_port
        else declared_port,
        url=f"http://{external or internal}/" if external or internal else "",
        is_exposed=bool(external),
        is_kept=bool(deployment.metadata.uid) and not deployment.metadata.owner_references,
        logdir=_logdir(spec),
        secrets=tuple(volume.secret.secret_name for volume in spec.volumes if volume.secret is not None),
    )


def _logdir(spec: PodSpec) -> str:
    arguments = (each for container in spec.containers for each in container.command)
    return next((each.removeprefix(_LOGDIR) for each in arguments if each.startswith(_LOGDIR)), "")


def _external_address(
    service: Service, port: ServicePort, pod: Pod | None, *, has_open_node_ports: bool
) -> str:
    """Return the host and port for access from outside the cluster; empty if there are none."""
    match service.spec.type:
        case ServiceType.LOAD_BALANCER:
            hosts = [each.ip or each.hostname for each in service.status.load_balancer.ingress or ()]
            return f"{_host(hosts[0])}:{port.port}" if hosts and hosts[0] else ""
        case ServiceType.NODE_PORT if pod is not None and pod.status.host_ip and has_open_node_ports:
            return f"{_host(pod.status.host_ip)}:{port.node_port}"
    return ""


def _host(address: str) -> str:
    return f"[{address}]" if ":" in address else address


# State


def _state_of(pod: Pod | None) -> tuple[State, str]:
    if pod is None:
        return State.WAITING, "its pod is not created yet"
    if pod.is_deleting:
        return State.WAITING, f"the pod {pod.name} is being deleted, and the next one is not created yet"
    if pod.is_ready:
        return State.RUNNING, ""
    if _has_failed(pod):
        last = pod_watcher.termination_message(pod).splitlines()[-1:]
        return State.FAILED, ": ".join((_failure_text(pod), *last))
    blocking_reason = pod_watcher.blocking_reason(pod)
    return (State.WAITING, blocking_reason) if blocking_reason else (State.STARTING, "")


def _has_failed(pod: Pod) -> bool:
    """Return whether the pod failed, or one of its containers failed and is not running again."""
    return pod.status.phase == PodPhase.FAILED or any(map(_failure_count, pod.container_statuses))


def _is_unrecoverable(pods_by_age: Sequence[Pod]) -> bool:
    if not pods_by_age or pods_by_age[-1].is_deleting:
        return False
    pod = pods_by_age[-1]
    keeps_failing = any(
        _failure_count(each) >= _MAX_FAILURES or _exit_code(each) in _PERMANENT_EXIT_CODES
        for each in pod.container_statuses
        if _failure_count(each)
    )
    return pod.status.phase == PodPhase.FAILED or keeps_failing


def _failure_count(status: ContainerStatus) -> int:
    """Return how often a container has ended, if it failed and does not run now; otherwise 0."""
    return status.restart_count + 1 if not status.is_running and _exit_code(status) else 0


def _exit_code(status: ContainerStatus) -> int:
    ended = status.state.terminated or status.last_state.terminated
    return ended.exit_code if ended is not None else 0


def _failure_text(pod: Pod) -> str:
    """Return how a pod failed, in one line."""
    failed = pod_watcher.failed_container(pod)
    if failed is None:
        return f"the pod {pod.name} has failed"
    count = f" ({failed.restart_count + 1} times)" if failed.restart_count else ""
    return f"the pod {pod.name} exited with code {_exit_code(failed)}{count}"
