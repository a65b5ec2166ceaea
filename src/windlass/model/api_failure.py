"""What the API server answered to a write that it refused."""

from windlass.model.base import Sparse


class ApiFailure(Sparse, frozen=True):
    """A refusal, in the terms of Kubernetes' `Status` object."""

    code: int = 0
    """The HTTP status; 0 when there was no answer at all."""
    reason: str = ""
    """The machine's word for it, such as `Forbidden`; empty when the answer was no `Status`."""
    message: str = ""
