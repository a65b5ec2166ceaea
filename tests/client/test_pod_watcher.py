"""When a pod is considered unrecoverable: by the events of its node and their count."""

import pytest

from windlass.client import pod_watcher
from windlass.client.events import ApiEvent
from windlass.client.pod_watcher import FATAL_COUNT


def mount(volume: str, why: str, count: int = 1) -> ApiEvent:
    message = f'MountVolume.SetUp failed for volume "{volume}" : {why}'
    return ApiEvent(type="Warning", reason="FailedMount", message=message, count=count)


UNABLE = ApiEvent(
    type="Warning",
    reason="FailedMount",
    message="Unable to attach or mount volumes: unmounted volumes=[data], unattached volumes=[data token]: "
    "timed out waiting for the condition",
    count=1,
)
UNHEARD_OF = "failed to sync configmap cache: timed out waiting for the condition"
NOT_THERE = "mount failed: exit status 32"

UNRECOVERABLE: dict[str, list[ApiEvent]] = {
    "repeated mount failure": [mount("data", NOT_THERE, FATAL_COUNT)],
    "different messages": [mount("data", NOT_THERE, 2), mount("data", "the server is silent")],
    "messages without a volume": [mount("data", NOT_THERE, 2), UNABLE],
    "image pull": [ApiEvent(reason="Failed", message="ErrImagePull", count=FATAL_COUNT)],
}
RECOVERABLE: dict[str, list[ApiEvent]] = {
    "no events": [],
    "each volume once": [mount(each, NOT_THERE) for each in ("hub", "secret", "token")],
    "object cache not synced yet": [
        mount("hub", UNHEARD_OF, FATAL_COUNT),
        mount("token", UNHEARD_OF.replace("configmap", "secret"), FATAL_COUNT),
    ],
    "other reasons": [ApiEvent(reason="Unhealthy", message="no answer", count=FATAL_COUNT)],
    "image pull, different messages": [
        ApiEvent(reason="Failed", message=each, count=1)
        for each in ("ErrImagePull", "not found", "no such host")
    ],
}


@pytest.mark.parametrize("case", UNRECOVERABLE)
def test_repeated_warnings_are_unrecoverable(case: str) -> None:
    assert pod_watcher.are_unrecoverable(UNRECOVERABLE[case])


@pytest.mark.parametrize("case", RECOVERABLE)
def test_other_warnings_are_recoverable(case: str) -> None:
    assert not pod_watcher.are_unrecoverable(RECOVERABLE[case])
