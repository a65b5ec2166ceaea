"""How a use case may fail. Each error is one message: what, where, what to do."""

from collections.abc import Sequence

from windlass.wire.diagnostics import Diagnostic


class ClientError(Exception):
    """It could not be done."""


class NoClusterError(ClientError):
    """Where the cluster is, or who we are, is not known."""


class UnreachableError(ClientError):
    """The API server does not answer."""


class RefusedError(ClientError):
    """The API server answers, and does not do it: not allowed, not valid."""


class NotThereError(ClientError):
    """There is no job, task, pod or container of that name."""


class NotInstalledError(NotThereError):
    """The cluster knows no Frameworks."""


class GoneError(NotThereError):
    """It was deleted while somebody waited for something else."""


class AlreadyThereError(ClientError):
    """There is a job of that name."""


class CompletedError(ClientError):
    """The job has come to its end, and what was wanted of it cannot happen any more."""

    def __init__(self, message: str, code: int | None = None) -> None:
        super().__init__(message)
        self.code = code
        """That of the job's completion."""


class TimedOutError(ClientError):
    """It has not happened in time."""


class FaultyJobError(ClientError):
    """The job makes no sense as it is written."""

    def __init__(self, message: str, faults: Sequence[Diagnostic] = ()) -> None:
        super().__init__(message)
        self.diagnostics = tuple(faults)
