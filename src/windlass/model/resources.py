"""What a pod needs, and where it listens: what roles and companions of a job file share."""

from typing import Annotated

import msgspec

from windlass.model.base import Sparse

Port = Annotated[int, msgspec.Meta(ge=1, le=65535)]
Quantity = Annotated[
    int | float | str,
    msgspec.Meta(description="a quantity as Kubernetes has it, such as 2, 0.5, 500m or 4Gi"),
]


class Resources(Sparse, frozen=True, kw_only=True):
    """What one task needs: it is given that much, and held to it."""

    cpus: Quantity | None = None
    """CPU cores, such as 2 or 500m."""
    memory: Quantity | None = None
    """Such as 8Gi. A task that takes more is ended (OOMKilled)."""
    gpus: Annotated[int, msgspec.Meta(ge=0)] = 0
    """Whole GPUs, of the kind nvidia.com/gpu."""
