"""Exit codes of `windlass`. They are an interface: scripts depend on them."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from windlass.client.errors import ClientError

SUCCESS = 0
FAILED = 1
"""It could not be done; the message says why. Of lint: there are errors."""
USAGE = 2
"""The command line or a file is wrong; nothing was done."""
NO_ANSWER = 124
"""No answer in time: the API server cannot be reached, or --timeout is over."""
OTHER_CODE = 125
"""Of `run` and `wait`: the job has failed with a code that no shell can hold. One of 1 to 255 is given as it is."""
INTERRUPTED = 130
"""Ctrl-C."""
CLOSED_PIPE = 141
"""Nobody reads the output any more, as after `| head`."""


def of_job(code: int | None, *, has_succeeded: bool) -> int:
    """Of a job that has ended with this completion code: 0 only for success, and the code where a shell can hold it."""
    if has_succeeded:
        return SUCCESS
    return code if code is not None and 1 <= code <= 255 else OTHER_CODE


def of_client_error(error: "ClientError") -> int:
    # Imported here: `windlass --help` needs the codes, and not the client.
    from windlass.client import errors

    if isinstance(error, errors.FaultyJobError):
        return USAGE
    is_late = isinstance(error, errors.UnreachableError | errors.TimedOutError)
    return NO_ANSWER if is_late else FAILED
