"""Configuration by file, environment and flags, and the watched namespaces."""

import json
from collections.abc import Iterator

import msgspec
import pytest
from operated.controllers import Controller
from operated.jobs import fails, framework, role
from operated.place import Place
from operated.world import World


class Configured(msgspec.Struct, frozen=True):
    minded: Place
    other: Place
    controller: Controller


@pytest.fixture(scope="module")
def configured(second_world: World) -> Iterator[Configured]:
    """A controller that is configured by file, environment and flags."""
    entry = {
        "code": -2000,
        "phrase": "Unlucky",
        "type": {"attributes": ["Permanent"]},
        "podPatterns": [{"containers": [{"codeRange": {"min": 13, "max": 13}}]}],
    }
    config = second_world.cluster.folder / "frameworkcontroller.yaml"
    written = {"podFailureSpec": [entry], "frameworkCompletedRetainSec": 3600, "leaderElection": True}
    config.write_text(json.dumps(written))
    minded, other = second_world.new_place(), second_world.new_place()
    environment = {"WINDLASS_NAMESPACES": other.name, "WINDLASS_FRAMEWORK_COMPLETED_RETAIN_SEC": "0"}
    flags = ("--config", str(config), "--namespace", minded.name, "--no-leader-election")
    yield Configured(minded, other, second_world.controller("configured", *flags, environment=environment))
    second_world.stop_controllers()
    second_world.leave_places()


def test_file_environment_and_flags_are_combined(configured: Configured) -> None:
    """Failure classes in the reference's format; what the environment says comes before what the file says."""
    place = configured.minded
    uid = place.submit(framework("unlucky", role(life=fails(13))))["metadata"]["uid"]
    events = place.wait_for_events(uid, "FrameworkCompleted")
    assert any(": Unlucky" in event["message"] for event in events)
    place.wait_until_gone("unlucky")


def test_only_configured_namespaces_are_watched(configured: Configured) -> None:
    """The controller watches the configured namespaces only."""
    configured.other.submit(framework("job", role()))
    uid = configured.minded.submit(framework("job", role()))["metadata"]["uid"]
    configured.minded.wait_for_events(uid, "FrameworkCompleted")
    assert not configured.other.framework("job").get("status")
    foreign = configured.controller.proxy.asked(
        lambda asked: "/namespaces/" not in asked.path and "customresourcedefinitions" not in asked.path
    )
    assert not [str(asked) for asked in foreign]
    assert not configured.controller.proxy.asked(lambda asked: asked.is_of_lease), "it needs no lease"
