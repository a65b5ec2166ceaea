"""Resources and ports: used by roles and companions of a job file."""

from typing import Annotated

import msgspec

from windlass.model.base import Sparse

Port = Annotated[int, msgspec.Meta(ge=1, le=65535)]
Quantity = Annotated[
    int | float | str,
    msgspec.Meta(description="a Kubernetes quantity, e.g. 2, 0.5, 500m or 4Gi"),
]


class Resources(Sparse, frozen=True, kw_only=True):
    """Requests and limits of a task or a companion."""

    cpus: Quantity | None = None
    """CPU cores, e.g. 2 or 500m."""
    memory: Quantity | None = None
    """Memory, e.g. 8Gi. A task that uses more is killed (OOMKilled)."""
    gpus: Annotated[int, msgspec.Meta(ge=0)] = 0
    """Number of GPUs (nvidia.com/gpu)."""
