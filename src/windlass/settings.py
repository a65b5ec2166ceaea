"""What a platform engineer configures, under the reference's names, with its defaults where we keep them.

Only the values and their meaning. Reading a file is in `windlass.wire.configuration`.
"""

from typing import Annotated

import msgspec

from windlass.model.base import Sparse
from windlass.model.failures import FailureClass

Positive = Annotated[int, msgspec.Meta(ge=1)]
NotNegative = Annotated[int, msgspec.Meta(ge=0)]


class LogFrameworkSnapshot(Sparse, frozen=True):
    on_framework_retry: bool = True
    on_framework_deletion: bool = True


class LogTaskSnapshot(Sparse, frozen=True):
    on_task_retry: bool = True
    on_task_deletion: bool = True


class LogPodSnapshot(Sparse, frozen=True):
    on_pod_deletion: bool = True


class LogObjectSnapshot(Sparse, frozen=True):
    """Which moments of an object's life leave a whole copy of it in the log."""

    framework: LogFrameworkSnapshot = LogFrameworkSnapshot()
    task: LogTaskSnapshot = LogTaskSnapshot()
    pod: LogPodSnapshot = LogPodSnapshot()


class Settings(Sparse, frozen=True):
    kube_api_server_address: str = ""
    kube_config_file_path: str = ""
    kube_client_qps: Annotated[float, msgspec.Meta(ge=0)] = 80
    kube_client_burst: NotNegative = 120
    worker_number: Positive = 200
    large_framework_compression: bool = True
    """The reference's default is false; without it a Framework of some 2,000 tasks cannot be stored."""
    crd_established_check_interval_sec: Positive = 1
    crd_established_check_timeout_sec: Annotated[int, msgspec.Meta(ge=10)] = 60
    object_local_cache_creation_timeout_sec: Annotated[int, msgspec.Meta(ge=60)] = 300
    framework_completed_retain_sec: NotNegative = 30 * 24 * 3600
    framework_min_retry_delay_sec_for_transient_conflict_failed: NotNegative = 60
    framework_max_retry_delay_sec_for_transient_conflict_failed: NotNegative = 900
    log_object_snapshot: LogObjectSnapshot = LogObjectSnapshot()
    pod_failure_spec: tuple[FailureClass, ...] = ()
