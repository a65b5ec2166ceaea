"""The events of a pod, with the reasons and messages of the Kubernetes release that the API server reports."""

import logging
from collections.abc import Iterable

from windlass.localcluster.events import EventRecorder
from windlass.localcluster.kubelet.containers.errors import SetupError
from windlass.localcluster.kubelet.lifecycle import back_off, specs, terminations
from windlass.localcluster.kubelet.lifecycle.records import ContainerRecord, Ending
from windlass.localcluster.kubelet.probes.schedule import Kill
from windlass.localcluster.store_types import StoreError
from windlass.model.base import Json

logger = logging.getLogger(__name__)

COMPONENT = "kubelet"
_NORMAL = "Normal"
_WARNING = "Warning"


def field_path(pod: Json, container: str) -> str:
    """Return the field path of a container for `involvedObject`."""
    field = "initContainers" if specs.is_init_container(pod, container) else "containers"
    return f"spec.{field}{{{container}}}"


class PodEvents:
    """Records events. Errors of the store are logged, not raised."""

    def __init__(self, recorder: EventRecorder) -> None:
        self._recorder = recorder

    def pulled(self, pod: Json, container: str) -> None:
        image = specs.container(pod, container).get("image", "")
        message = f'Container image "{image}" already present on machine and can be accessed by the pod'
        self._record(pod, _NORMAL, "Pulled", message, container)

    def created(self, pod: Json, container: str) -> None:
        self._record(pod, _NORMAL, "Created", "Container created", container)

    def started(self, pod: Json, container: str) -> None:
        self._record(pod, _NORMAL, "Started", "Container started", container)

    def security_not_applied(self, pod: Json, container: str, fields: Iterable[str]) -> None:
        """Report fields of the securityContext that this machine cannot apply."""
        message = (
            f"Container {container} runs without these settings of its securityContext, which this machine cannot"
            f' apply: {", ".join(fields)}. See "Security contexts" in docs/local.md.'
        )
        self._record(pod, _WARNING, "SecurityContextNotApplied", message, container)

    def stopping(self, pod: Json, container: str) -> None:
        self._record(pod, _NORMAL, "Killing", f"Stopping container {container}", container)

    def killing(self, pod: Json, container: str, kill: Kill) -> None:
        self._record(pod, _NORMAL, "Killing", kill.message, container)

    def backing_off(self, pod: Json, record: ContainerRecord) -> None:
        self._record(pod, _WARNING, "BackOff", back_off.event_message(pod, record), record.name)

    def failed(self, pod: Json, container: str, message: str) -> None:
        """A container could not be created or started."""
        self._record(pod, _WARNING, "Failed", f"Error: {message}", container)

    def unhealthy(self, pod: Json, container: str, message: str) -> None:
        self._record(pod, _WARNING, "Unhealthy", message, container)

    def hook_failed(self, pod: Json, container: str, hook: str, message: str) -> None:
        """`hook` is postStart or preStop."""
        text = f"{hook[0].upper()}{hook[1:]}Hook failed: {message}"
        self._record(pod, _WARNING, f"Failed{hook[0].upper()}{hook[1:]}Hook", text, container)

    def setup_failed(self, pod: Json, error: SetupError) -> None:
        """The pod's directory, a volume or the network could not be set up. The error has the reason of the event."""
        self._record(pod, _WARNING, error.reason, error.message)

    def sandbox_creation_failed(self, pod: Json, message: str) -> None:
        self._record(pod, _WARNING, "FailedCreatePodSandBox", f"Failed to create pod sandbox: {message}")

    def gpu_in_use(self, pod: Json, message: str) -> None:
        """A process that does not belong to the pod uses one of its GPUs."""
        self._record(pod, _WARNING, "GPUInUse", message)

    def ending(self, pod: Json, ending: Ending) -> None:
        """The pod was evicted or reached its deadline. A deletion has no reason and no event."""
        if ending.reason:
            type_ = _WARNING if ending.reason == terminations.EVICTED else _NORMAL
            self._record(pod, type_, ending.reason, ending.message)

    def _record(self, pod: Json, type_: str, reason: str, message: str, container: str = "") -> None:
        path = field_path(pod, container) if container else ""
        try:
            self._recorder.record(pod, type_, reason, message, path)
        except StoreError as error:
            logger.warning("cannot record an event of pod %s: %s", pod["metadata"]["name"], error)
