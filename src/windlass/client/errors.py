"""Errors of the operations of the client, e.g. submit and wait. Each message says what failed, why, and what to do."""

from collections.abc import Sequence

from windlass.wire.diagnostics import Diagnostic


class ClientError(Exception):
    """Base class of all errors of the client."""


class NoClusterError(ClientError):
    """No cluster is configured, or its configuration or credentials cannot be used."""


class UnreachableError(ClientError):
    """The API server does not respond, or is not a trusted Kubernetes API server."""


class RejectedError(ClientError):
    """The API server rejected the request, or the request could not be carried out."""


class CredentialsRejectedError(RejectedError):
    """The API server rejected the credentials of the user, e.g. because they have expired."""


class AccessDeniedError(RejectedError):
    """The user may not do this."""


class ObjectNotFoundError(ClientError):
    """An object, e.g. a job, task, pod or container, does not exist or is not running."""


class JobNotFoundError(ObjectNotFoundError):
    """The job does not exist, or there are no jobs."""


class NotInstalledError(JobNotFoundError):
    """The CustomResourceDefinition of Frameworks is not installed on the cluster."""


class ObjectDeletedError(ObjectNotFoundError):
    """The object was deleted during a wait for another condition."""


class ObjectExistsError(ClientError):
    """A job of that name already exists."""


class CompletedError(ClientError):
    """The job has completed, or is being stopped or deleted, so the operation is no longer possible."""

    def __init__(self, message: str, code: int | None = None) -> None:
        super().__init__(message)
        self.code = code
        """The completion code of the job, if it is known."""


class TimedOutError(ClientError):
    """The timeout of a wait has expired."""


class InvalidJobError(ClientError):
    """The job file, the command line or an argument, e.g. a file to upload, is invalid."""

    def __init__(self, message: str, diagnostics: Sequence[Diagnostic] = ()) -> None:
        super().__init__(message)
        self.diagnostics = tuple(diagnostics)
