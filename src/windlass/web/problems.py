"""Errors of the API: a status code, a code for programs and a message for users."""

from windlass.client import errors as client_errors
from windlass.client.connection import Connection


class ProblemError(Exception):
    def __init__(self, status: int, code: str, message: str, *, line: int | None = None) -> None:
        """`line` is the line of the viewer's file."""
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.line = line


def session_expired(message: str) -> ProblemError:
    return ProblemError(401, "session-expired", message)


def forbidden(message: str) -> ProblemError:
    return ProblemError(403, "forbidden", message)


def invalid(message: str) -> ProblemError:
    return ProblemError(400, "invalid-request", message)


_CLIENT_ERRORS: tuple[tuple[type[client_errors.ClientError], int, str], ...] = (
    (client_errors.NoClusterError, 503, "no-cluster"),
    (client_errors.UnreachableError, 503, "unreachable"),
    (client_errors.CredentialsRejectedError, 401, "session-expired"),
    (client_errors.AccessDeniedError, 403, "forbidden"),
    (client_errors.NotInstalledError, 404, "not-installed"),
    (client_errors.ObjectNotFoundError, 404, "not-found"),
    (client_errors.ObjectExistsError, 409, "exists"),
    (client_errors.CompletedError, 409, "completed"),
    (client_errors.TimedOutError, 504, "timed-out"),
    (client_errors.InvalidJobError, 422, "invalid-job"),
    (client_errors.ClientError, 502, "rejected"),
)


def from_error(error: Exception, connection: Connection | None) -> ProblemError | None:
    """Return the problem; None for an unexpected error."""
    if isinstance(error, ProblemError):
        return error
    if connection is not None:
        error = connection.expected_error(error) or error
    for kind, status, code in _CLIENT_ERRORS:
        if isinstance(error, kind):
            return ProblemError(status, code, str(error))
    return None
