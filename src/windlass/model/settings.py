"""The configuration of the controller. The names and most defaults are those of FrameworkController.

This module defines only the fields; docs/configuration.md is generated from it. `windlass.wire.settings` reads the
values from a file, the environment and flags.
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
"""Image of the controller and of the barrier."""
BURST_PER_QPS = 1.5
"""Ratio of FrameworkController's defaults: burst 120, QPS 80."""

_ADDRESS = re.compile(r"(?:\[(?P<v6>[0-9A-Fa-f:.%]+)\]|(?P<host>[^\[\]:/\s]*)):(?P<port>[0-9]{1,5})")


class LogFormat(StrEnum):
    JSON = "json"
    TEXT = "text"


class LogLevel(StrEnum):
    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class Address(NamedTuple):
    """Address that a server listens on. An empty host means all addresses of the machine."""

    host: str
    port: int


class LogFrameworkSnapshot(Sparse, frozen=True):
    on_framework_retry: bool = True
    """Log the status of the completed attempt before a Framework is retried."""
    on_framework_deletion: bool = True
    """Log a Framework when it has been deleted."""


class LogTaskSnapshot(Sparse, frozen=True):
    on_task_retry: bool = True
    """Log the status of the completed attempt before a task is retried."""
    on_task_deletion: bool = True
    """Log a task before a scale-down removes it from the status."""


class LogPodSnapshot(Sparse, frozen=True):
    on_pod_deletion: bool = True
    """Log a pod when it has been deleted."""


class LogObjectSnapshot(Sparse, frozen=True):
    """When complete objects are logged."""

    framework: LogFrameworkSnapshot = LogFrameworkSnapshot()
    """Snapshots of Frameworks."""
    task: LogTaskSnapshot = LogTaskSnapshot()
    """Snapshots of tasks."""
    pod: LogPodSnapshot = LogPodSnapshot()
    """Snapshots of pods."""


class History(Sparse, frozen=True):
    """Records of finished attempts, which remain when their Framework is deleted."""

    enabled: bool = False
    """Write an AttemptRecord when an attempt of a Framework has ended. The embedded cluster always does."""
    records_per_job: Positive = 100
    """Maximum number of records of one job name in a namespace. The oldest ones are deleted."""
    retain_sec: Positive = 90 * 24 * 3600
    """Time to keep a record."""
    bytes_per_namespace: Positive = 64 * 1024 * 1024
    """Maximum size of the records of a namespace. The oldest ones are deleted."""
    read_logs: bool = False
    """Add the last lines of failed containers to records, in namespaces with the annotation
    `windlass.dev/read-logs: "true"`. Requires the permissions of `windlass install --read-logs`."""


class Settings(Sparse, frozen=True):
    kube_api_server_address: str = ""
    """URL of the API server; overrides the kubeconfig. Default: `$KUBE_APISERVER_ADDRESS`."""
    kube_config_file_path: str = ""
    """Path of the kubeconfig. Default: `$KUBECONFIG`; otherwise the service account of the pod, or `~/.kube/config`
    outside a cluster."""
    kube_context: str = ""
    """Context of the kubeconfig. Default: its current context."""
    kube_client_qps: Annotated[float, msgspec.Meta(ge=0)] = 0
    """Maximum number of requests per second in the long run. 0: no client-side limit, because the API server has API
    Priority and Fairness (FrameworkController's default is 80)."""
    kube_client_burst: NotNegative = 0
    """Maximum number of requests before `kubeClientQps` limits them. 0: 1.5 times `kubeClientQps`. Without
    `kubeClientQps` it has no effect."""
    request_timeout_sec: Seconds = 10
    """Timeout of a request. With leader election, the controller starts a request only if the lease is valid for
    longer than this timeout. At most `leaseRenewDeadlineSec`."""
    worker_number: Positive = 200
    """Maximum number of Frameworks reconciled in parallel."""
    namespaces: tuple[Namespace, ...] = ()
    """Namespaces to manage. Empty: all."""
    manage_crds: bool = False
    """Create and update the CustomResourceDefinitions at startup. Requires additional permissions."""
    leader_election: bool = True
    """Act only while holding the lease. Off: the controller always acts, even if others run."""
    lease_namespace: str = ""
    """Namespace of the lease. Default: the namespace of the controller, or of the kubeconfig's context."""
    lease_name: str = "windlass-controller"
    """Name of the lease. Controllers that manage different namespaces need different leases."""
    lease_duration_sec: Positive = 15
    """Time after which another controller may take a lease that is not renewed. Whole seconds, as in the Lease
    object."""
    lease_renew_deadline_sec: Seconds = 10
    """Time after which the leader stops if it cannot renew its lease. Less than `leaseDurationSec`."""
    lease_retry_period_sec: Seconds = 2
    """Interval of attempts to renew or acquire the lease. Less than `leaseRenewDeadlineSec`."""
    metrics_address: str = ":8080"
    """Address of `/metrics`, `/healthz` and `/readyz`: `host:port`, `[v6]:port`, or `:port` for all addresses of the
    machine. Empty or `"off"`: not served."""
    log_format: LogFormat = LogFormat.JSON
    """Format of log lines: `json` (one object per line) or `text`."""
    log_level: LogLevel = LogLevel.INFO
    """Minimum severity of logged messages."""
    events: bool = True
    """Create Kubernetes events for Frameworks."""
    barrier_image: str = IMAGE
    """Image of the barrier, the init container that waits until all tasks have addresses, in pods of Frameworks that
    request it. `windlass install` sets it to the controller's image."""
    large_framework_compression: bool = True
    """Compress the task statuses of a large Framework. FrameworkController's default is false; without compression a
    Framework with about 2,000 tasks cannot be stored."""
    crd_established_check_interval_sec: Positive = 1
    """Interval of checks at startup that the CustomResourceDefinitions are served."""
    crd_established_check_timeout_sec: Annotated[int, msgspec.Meta(ge=10)] = 60
    """Timeout of the checks at startup that the CustomResourceDefinitions are served."""
    object_local_cache_creation_timeout_sec: Annotated[int, msgspec.Meta(ge=60)] = 300
    """Time after which a created object that the watch does not report counts as lost."""
    framework_completed_retain_sec: NotNegative = 30 * 24 * 3600
    """Time to keep a completed Framework that has no ttlSecondsAfterFinished."""
    framework_min_retry_delay_sec_for_transient_conflict_failed: NotNegative = 60
    """Minimum delay before a Framework with fancyRetryPolicy is retried after a Transient Conflict failure."""
    framework_max_retry_delay_sec_for_transient_conflict_failed: NotNegative = 900
    """Maximum delay before a Framework with fancyRetryPolicy is retried after a Transient Conflict failure, unless its
    retryBackoff is longer."""
    log_object_snapshot: LogObjectSnapshot = LogObjectSnapshot()
    """When complete objects are logged."""
    history: History = History()
    """Records of finished attempts."""
    pod_failure_spec: tuple[FailureClass, ...] = ()
    """Failure classes that replace the built-in ones. They are matched in order, after the built-in classes of the exit
    codes 200, 201 and 210, which are not replaced. Each has a `code`, a
    `phrase`, a `type` and `podPatterns`: RE2 expressions for name, reason and message of a pod and its
    containers, with ranges of exit codes and signals. A pattern without a range of exit codes also matches containers
    that exited with 0."""

    @property
    def client_burst(self) -> int:
        """Maximum number of requests before `kube_client_qps` limits them."""
        return self.kube_client_burst or max(1, round(self.kube_client_qps * BURST_PER_QPS))

    @property
    def metrics_listener(self) -> Address | None:
        return None if self.metrics_address in ("", OFF) else parse_address(self.metrics_address)


def parse_address(text: str) -> Address:
    """Parse `host:port`, `[v6]:port` or `:port`. Raises ValueError."""
    found = _ADDRESS.fullmatch(text)
    if found is None or int(found["port"]) > 65535:
        raise ValueError(f"{text!r} is not host:port, [v6]:port or :port")
    return Address(found["v6"] or found["host"], int(found["port"]))
