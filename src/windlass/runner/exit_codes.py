"""Exit codes of `windlass`. They are an interface: scripts depend on them."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from windlass.client.errors import ClientError

SUCCESS = 0
FAILED = 1
"""The command failed; the message says why. For lint: there are errors."""
USAGE = 2
"""The command line or a file is invalid, and nothing was done; or the cluster of a run rejected an object."""
TIMED_OUT = 124
"""Timeout: the API server cannot be reached, the cluster of a run cannot start or fails, or --timeout has expired."""
OTHER_CODE = 125
"""The job failed without a code, or with a code outside 1 to 255, which an exit code cannot represent."""
INTERRUPTED = 130
"""Ctrl-C."""
CLOSED_PIPE = 141
"""The reader of the output has closed the pipe, e.g. `| head`."""


def of_job(code: int | None, *, has_succeeded: bool) -> int:
    """Return the exit code for a completion code: 0 only for success, and the code itself if it is 1 to 255."""
    if has_succeeded:
        return SUCCESS
    return code if code is not None and 1 <= code <= 255 else OTHER_CODE


def of_client_error(error: "ClientError") -> int:
    # Imported here: `windlass --help` needs the codes but not the client.
    from windlass.client import errors

    if isinstance(error, errors.InvalidJobError):
        return USAGE
    is_timeout = isinstance(error, errors.UnreachableError | errors.TimedOutError)
    return TIMED_OUT if is_timeout else FAILED
