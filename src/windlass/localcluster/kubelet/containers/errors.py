"""Errors in setting up a container, a volume or a sandbox, with the reason and message that the kubelet reports."""

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


def not_found(kind: str, name: str) -> SetupError:
    """Return the error for a missing object. Unlike the API server, the kubelet writes the kind in the singular."""
    return SetupError(f'{kind.lower()} "{name}" not found')
