"""Resources and ports: used by roles and companions of a job file."""

from typing import Annotated

import msgspec

from windlass.model.base import Sparse

Port = Annotated[int, msgspec.Meta(ge=1, le=65535)]
Quantity = Annotated[
    int | float | str,
    msgspec.Meta(description="a Kubernetes quantity, e.g. 2, 0.5, 500m or 4Gi"),
]

NVIDIA_GPU = "nvidia.com/gpu"
AMD_GPU = "amd.com/gpu"
GPU_RESOURCE_PATTERN = r"^(nvidia\.com/(gpu|mig-[a-z0-9.]+)|amd\.com/gpu)$"
SHARED_SUFFIX = ".shared"
"""Suffix of a resource whose devices several tasks share, as in the device plugin of NVIDIA."""
TASKS_PER_GPU_ANNOTATION = "windlass.dev/tasks-per-gpu"
"""On a pod that shares GPUs: the number of pods that may use each of them at the same time."""


class Gpus(Sparse, frozen=True, kw_only=True):
    """GPUs of a task."""

    count: Annotated[int, msgspec.Meta(ge=0)] = 1
    """Number of GPUs."""
    shared: Annotated[int, msgspec.Meta(ge=2, le=100)] | None = None
    """Number of tasks that may use each GPU at the same time. The memory is not divided among them. Default: tasks do
    not share GPUs."""
    resource: Annotated[str, msgspec.Meta(pattern=GPU_RESOURCE_PATTERN)] = NVIDIA_GPU
    """Resource: nvidia.com/gpu, a MIG instance such as nvidia.com/mig-1g.10gb, or amd.com/gpu."""

    @property
    def requested_resource(self) -> str:
        return self.resource + (SHARED_SUFFIX if self.shared else "")


class Resources(Sparse, frozen=True, kw_only=True):
    """Requests and limits of a task or a companion."""

    cpus: Quantity | None = None
    """CPU cores, e.g. 2 or 500m."""
    memory: Quantity | None = None
    """Memory, e.g. 8Gi. A task that uses more is killed (OOMKilled)."""
    gpus: Annotated[
        Annotated[int, msgspec.Meta(ge=0)] | Gpus,
        msgspec.Meta(description="an integer of at least 0, or a mapping such as {count: 1, shared: 2}"),
    ] = 0
    """Number of GPUs (nvidia.com/gpu), or a mapping for other or shared GPUs."""

    @property
    def requested_gpus(self) -> Gpus:
        return Gpus(count=self.gpus) if isinstance(self.gpus, int) else self.gpus
