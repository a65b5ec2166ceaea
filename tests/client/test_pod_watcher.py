"""When a pod that somebody waits for is given up: what its node says of it, and how often."""

import pytest

from windlass.client import pod_watcher
from windlass.client.events import Written
from windlass.client.pod_watcher import GIVEN_UP_AFTER


def mount(volume: str, why: str, count: int = 1) -> Written:
    message = f'MountVolume.SetUp failed for volume "{volume}" : {why}'
    return Written(type="Warning", reason="FailedMount", message=message, count=count)


UNABLE = Written(
    type="Warning",
    reason="FailedMount",
    message="Unable to attach or mount volumes: unmounted volumes=[data], unattached volumes=[data token]: "
    "timed out waiting for the condition",
    count=1,
)
UNHEARD_OF = "failed to sync configmap cache: timed out waiting for the condition"
NOT_THERE = "mount failed: exit status 32"

HOPELESS: dict[str, list[Written]] = {
    "again and again": [mount("data", NOT_THERE, GIVEN_UP_AFTER)],
    "in several words": [mount("data", NOT_THERE, 2), mount("data", "the server is silent")],
    "in words that name no volume": [mount("data", NOT_THERE, 2), UNABLE],
    "its image": [Written(reason="Failed", message="ErrImagePull", count=GIVEN_UP_AFTER)],
}
HOPEFUL: dict[str, list[Written]] = {
    "nothing was said": [],
    "each volume once": [mount(each, NOT_THERE) for each in ("hub", "secret", "token")],
    "the node has not heard of it yet": [
        mount("hub", UNHEARD_OF, GIVEN_UP_AFTER),
        mount("token", UNHEARD_OF.replace("configmap", "secret"), GIVEN_UP_AFTER),
    ],
    "it may come right": [Written(reason="Unhealthy", message="no answer", count=GIVEN_UP_AFTER)],
    "its image, in several words": [
        Written(reason="Failed", message=each, count=1)
        for each in ("ErrImagePull", "not found", "no such host")
    ],
}


@pytest.mark.parametrize("case", HOPELESS)
def test_it_is_given_up(case: str) -> None:
    assert pod_watcher.are_hopeless(HOPELESS[case])


@pytest.mark.parametrize("case", HOPEFUL)
def test_it_is_waited_for(case: str) -> None:
    assert not pod_watcher.are_hopeless(HOPEFUL[case])
