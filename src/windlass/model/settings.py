"""What a platform engineer configures, under the reference's names, with its defaults where we keep them.

Only the values and their meaning, which docs/configuration.md is made from. Reading a file, the environment and flags
is in `windlass.wire.settings.file`.
"""

import re
from enum import StrEnum
from typing import Annotated, NamedTuple

import msgspec

from windlass import __version__
from windlass.model import names
from windlass.model.base import Sparse
from windlass.model.failures import FailureClass

Positive = Annotated[int, msgspec.Meta(ge=1)]
NotNegative = Annotated[int, msgspec.Meta(ge=0)]
Seconds = Annotated[float, msgspec.Meta(ge=0.1)]
Namespace = Annotated[str, msgspec.Meta(pattern=names.DNS_LABEL_PATTERN)]

OFF = "off"
IMAGE = f"windlass:{__version__}"
"""Of the controller and of the barrier: there is one for both."""
BURST_PER_QPS = 1.5
"""What the reference's 120 is to its 80."""

_ADDRESS = re.compile(r"(?:\[(?P<v6>[0-9A-Fa-f:.%]+)\]|(?P<host>[^\[\]:/\s]*)):(?P<port>[0-9]{1,5})")


class LogFormat(StrEnum):
    JSON = "json"
    """One JSON object per line."""
    TEXT = "text"
    """One line for people."""


class LogLevel(StrEnum):
    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class Address(NamedTuple):
    """Where a server listens. An empty host means every address of the machine."""

    host: str
    port: int


class LogFrameworkSnapshot(Sparse, frozen=True):
    on_framework_retry: bool = True
    """Before a Framework is tried again: its status of the attempt that ended."""
    on_framework_deletion: bool = True
    """Before a Framework goes."""


class LogTaskSnapshot(Sparse, frozen=True):
    on_task_retry: bool = True
    """Before a task is tried again: its status of the attempt that ended."""
    on_task_deletion: bool = True
    """Before a task that was scaled away leaves the status."""


class LogPodSnapshot(Sparse, frozen=True):
    on_pod_deletion: bool = True
    """Before a pod goes."""


class LogObjectSnapshot(Sparse, frozen=True):
    """Which moments of an object's life leave a whole copy of it in the log."""

    framework: LogFrameworkSnapshot = LogFrameworkSnapshot()
    """Copies of Frameworks."""
    task: LogTaskSnapshot = LogTaskSnapshot()
    """Copies of Frameworks with the one task that it is about."""
    pod: LogPodSnapshot = LogPodSnapshot()
    """Copies of pods."""


class Settings(Sparse, frozen=True):
    kube_api_server_address: str = ""
    """The URL of the API server, in place of the one in the kubeconfig. `$KUBE_APISERVER_ADDRESS` is its default."""
    kube_config_file_path: str = ""
    """The kubeconfig. `$KUBECONFIG` is its default; without either, the pod's own service account, or
    `~/.kube/config` outside of a cluster."""
    kube_context: str = ""
    """The context of the kubeconfig. Empty: its current one."""
    kube_client_qps: Annotated[float, msgspec.Meta(ge=0)] = 0
    """How many requests the controller may make per second in the long run. 0: no limit of its own, since the API
    server has priority and fairness (the reference's default is 80)."""
    kube_client_burst: NotNegative = 0
    """How many requests may be made at once before `kubeClientQps` holds them back. 0: half as many again as
    `kubeClientQps`. Without `kubeClientQps` it means nothing."""
    request_timeout_sec: Seconds = 10
    """How long the controller waits for the answer to a request. No request is begun with less of the lease left than
    this, so it is at most `leaseRenewDeadlineSec` where there is a leader election."""
    worker_number: Positive = 200
    """How many Frameworks are worked on at once."""
    namespaces: tuple[Namespace, ...] = ()
    """The namespaces whose Frameworks are run. Empty: all."""
    manage_crds: bool = False
    """Create the CustomResourceDefinitions at the start, and bring them up to date. Needs rights that the controller
    does not have otherwise."""
    leader_election: bool = True
    """Of several controllers, only the one that holds the lease works. Off: this one works, whoever else does."""
    lease_namespace: str = ""
    """Where the lease is. Empty: the controller's own namespace, or that of the kubeconfig's context."""
    lease_name: str = "windlass-controller"
    """The name of the lease. Controllers that divide the namespaces between them need a lease each."""
    lease_duration_sec: Positive = 15
    """How long a lease that is not renewed is respected by the others. Whole seconds, as the Lease has it."""
    lease_renew_deadline_sec: Seconds = 10
    """How long the leader tries to renew its lease before it stops working. Less than `leaseDurationSec`."""
    lease_retry_period_sec: Seconds = 2
    """How often the lease is renewed, or tried for. Less than `leaseRenewDeadlineSec`."""
    metrics_address: str = ":8080"
    """Where `/metrics`, `/healthz` and `/readyz` are served: `host:port`, `[v6]:port`, or `:port` for every address of
    the machine. Empty or `"off"`: nowhere."""
    log_format: LogFormat = LogFormat.JSON
    """`json` for machines, `text` for people."""
    log_level: LogLevel = LogLevel.INFO
    """The least important kind of message that is logged."""
    events: bool = True
    """Write Kubernetes events about Frameworks."""
    barrier_image: str = IMAGE
    """The image of the init container that waits for a gang, in pods of Frameworks that ask for one. `windlass install`
    sets it to the controller's own."""
    large_framework_compression: bool = True
    """Store the task statuses of a large Framework compressed. The reference's default is false; without it a Framework
    of some 2,000 tasks cannot be stored."""
    crd_established_check_interval_sec: Positive = 1
    """How often to look whether the CustomResourceDefinitions are served, at the start."""
    crd_established_check_timeout_sec: Annotated[int, msgspec.Meta(ge=10)] = 60
    """How long to wait for that before giving up."""
    object_local_cache_creation_timeout_sec: Annotated[int, msgspec.Meta(ge=60)] = 300
    """When an object that was created and does not show in the watch counts as lost."""
    framework_completed_retain_sec: NotNegative = 30 * 24 * 3600
    """How long a completed Framework is kept that does not say so itself."""
    framework_min_retry_delay_sec_for_transient_conflict_failed: NotNegative = 60
    """The shortest delay before a Framework that failed over a conflict is tried again."""
    framework_max_retry_delay_sec_for_transient_conflict_failed: NotNegative = 900
    """The longest one."""
    log_object_snapshot: LogObjectSnapshot = LogObjectSnapshot()
    """Which moments of an object's life leave a whole copy of it in the log."""
    pod_failure_spec: tuple[FailureClass, ...] = ()
    """Failure classes in place of the built-in ones, tried in order after the codes 200, 201 and 210. Each has a
    `code`, a `phrase`, a `type` and `podPatterns`: expressions in RE2 syntax for a pod's name, reason and message and
    for those of its containers, with ranges of exit codes and signals."""

    @property
    def client_burst(self) -> int:
        """How many requests may be made at once, if there is a limit."""
        return self.kube_client_burst or max(1, round(self.kube_client_qps * BURST_PER_QPS))

    @property
    def metrics_listener(self) -> Address | None:
        return None if self.metrics_address in ("", OFF) else parse_address(self.metrics_address)


def parse_address(text: str) -> Address:
    """`host:port`, `[v6]:port` or `:port`. Raises ValueError for anything else."""
    found = _ADDRESS.fullmatch(text)
    if found is None or int(found["port"]) > 65535:
        raise ValueError(f"{text!r} is not host:port, [v6]:port or :port")
    return Address(found["v6"] or found["host"], int(found["port"]))
