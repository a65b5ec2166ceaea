"""The spec of a Volcano Job as it is written, and its tasks with their defaults."""

import msgspec

from windlass.convert.conversion import Keys
from windlass.convert.pod_parts import PodTemplate
from windlass.model.base import Json, Sparse
from windlass.model.framework import Count


class LifecyclePolicy(Sparse, frozen=True):
    action: str | None = None
    event: str | None = None
    events: tuple[str, ...] | None = None
    exit_code: int | None = None
    timeout: str | None = None


class DependsOn(Sparse, frozen=True):
    name: tuple[str, ...] | None = None
    iteration: str | None = None


class PartitionPolicy(Sparse, frozen=True):
    min_partitions: Count | None = None
    partition_size: Count | None = None
    total_partitions: Count | None = None


class TaskSpec(Sparse, frozen=True):
    name: str | None = None
    replicas: Count | None = None
    min_available: Count | None = None
    max_retry: int | None = None
    policies: tuple[LifecyclePolicy, ...] | None = None
    depends_on: DependsOn | None = None
    partition_policy: PartitionPolicy | None = None
    template: PodTemplate | None = None


class Volume(Sparse, frozen=True):
    mount_path: str | None = None
    volume_claim: Json | None = None
    volume_claim_name: str | None = None


class JobSpec(Sparse, frozen=True):
    """The fields that the conversion reads."""

    max_retry: Count | None = None
    min_available: Count | None = None
    min_success: Count | None = None
    plugins: dict[str, tuple[str, ...] | None] | None = None
    policies: tuple[LifecyclePolicy, ...] | None = None
    priority_class_name: str | None = None
    queue: str | None = None
    scheduler_name: str | None = None
    tasks: tuple[TaskSpec, ...] | None = None
    ttl_seconds_after_finished: Count | None = None
    volumes: tuple[Volume, ...] | None = None


class Task(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    role: str
    replicas: int
    min_available: int
    max_restarts: int
    """Number of container restarts of the event TaskFailed; -1: the event never occurs."""
    body: Json
    keys: Keys
    """Path of the task."""

    def host_names(self, job: str) -> list[str]:
        """Return the DNS names of the pods in the namespace. With a hostname of its own, a task has one name."""
        spec: Json = (self.body.get("template") or {}).get("spec") or {}
        subdomain = spec.get("subdomain") or job
        if spec.get("hostname"):
            return [f"{spec['hostname']}.{subdomain}"][: self.replicas]
        return [f"{job}-{self.name}-{index}.{subdomain}" for index in range(self.replicas)]
