"""Why a container or a volume cannot be had: the kubelet's message and the reason under which it says so."""

CONFIG_ERROR = "CreateContainerConfigError"
CREATE_ERROR = "CreateContainerError"
FAILED_MOUNT = "FailedMount"
FAILED_SANDBOX = "FailedCreatePodSandBox"


class SetupError(Exception):
    """A container waits with this reason and message; a volume or a pod that cannot be set up gets them as an event."""

    def __init__(self, message: str, reason: str = CONFIG_ERROR) -> None:
        super().__init__(message)
        self.message = message
        self.reason = reason


def failed_mount(volume: str, problem: str) -> SetupError:
    return SetupError(f'MountVolume.SetUp failed for volume "{volume}" : {problem}', FAILED_MOUNT)


def not_found(kind: str, name: str) -> SetupError:
    """The kubelet writes the kind in lower case and, unlike the API server, in the singular."""
    return SetupError(f'{kind.lower()} "{name}" not found')
