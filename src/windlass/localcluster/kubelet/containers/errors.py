"""Errors in setting up a container, a volume or a sandbox, with the reason and message that the kubelet reports."""

import contextlib
from collections.abc import Callable, Iterator

CONFIG_ERROR = "CreateContainerConfigError"
CREATE_ERROR = "CreateContainerError"
FAILED_MOUNT = "FailedMount"
FAILED_SANDBOX = "FailedCreatePodSandBox"


class SetupError(Exception):
    """A container, volume or sandbox cannot be set up.

    Reason and message appear in the container's waiting state, or in an event of the pod.
    """

    def __init__(self, message: str, reason: str = CONFIG_ERROR) -> None:
        super().__init__(message)
        self.message = message
        self.reason = reason


def failed_mount(volume: str, problem: str) -> SetupError:
    return SetupError(f'MountVolume.SetUp failed for volume "{volume}" : {problem}', FAILED_MOUNT)


def failed_sandbox(problem: str) -> SetupError:
    return SetupError(f"Failed to create pod sandbox: {problem}", FAILED_SANDBOX)


@contextlib.contextmanager
def disk_errors_as(new_error: Callable[[str], SetupError]) -> Iterator[None]:
    """Convert an OSError, e.g. disk full, read-only or no permission, to the error that `new_error` returns."""
    try:
        yield
    except OSError as error:
        text = error.strerror or str(error)
        raise new_error(f"{error.filename}: {text}" if error.filename else text) from error


def not_found(kind: str, name: str) -> SetupError:
    """Return the error for a missing object. Unlike the API server, the kubelet writes the kind in the singular."""
    return SetupError(f'{kind.lower()} "{name}" not found')
