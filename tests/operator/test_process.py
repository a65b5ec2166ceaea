"""The controller as a process: its endpoints, its log, its end, and what it says when it cannot begin."""

import json
from collections.abc import Iterator

import msgspec
import pytest
from operated.controllers import Controller
from operated.jobs import FOREVER, fails, framework, role
from operated.place import Place
from operated.world import World
from prometheus_client.parser import text_string_to_metric_families


def test_endpoints(place: Place, controller: Controller) -> None:
    place.submit(framework("job", role(tasks=2, life=FOREVER)))
    place.wait_for_running("job", 2)
    assert controller.ask("/healthz")[0] == 200
    assert controller.ask("/readyz")[0] == 200
    assert controller.ask("/nothing")[0] == 404


@pytest.mark.parametrize(
    "part", ["frameworks", "tasks", "queue", "pass", "requests", "retries", "first_pod", "barrier"]
)
def test_metrics(place: Place, controller: Controller, part: str) -> None:
    code, text = controller.ask("/metrics")
    assert code == 200
    families = {family.name for family in text_string_to_metric_families(text)}
    assert [name for name in families if name.startswith("windlass_") and part in name], sorted(families)


def test_metrics_count_what_runs(place: Place, controller: Controller) -> None:
    place.submit(framework("job", role(tasks=2, life=FOREVER)))
    place.wait_for_running("job", 2)

    def look() -> bool:
        _, text = controller.ask("/metrics")
        samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
        running = [
            sample.value
            for sample in samples
            if "task" in sample.name and "AttemptRunning" in sample.labels.values()
        ]
        requests = [sample for sample in samples if "request" in sample.name and "code" in sample.labels]
        return sum(running) >= 2 and bool(requests)

    place.world.wait_for("the metrics to show it", look)


def test_the_log_is_structured(place: Place, controller: Controller) -> None:
    """Each line is JSON with a time, a level and a message, but for snapshots, which are as the reference has them."""
    place.submit(framework("job", role()))
    place.wait_for_completed("job")
    for line in controller.process.text().splitlines():
        if ": ObjectSnapshot: " not in line:
            assert {"time", "level", "message"} <= json.loads(line).keys(), line


class Configured(msgspec.Struct, frozen=True):
    minded: Place
    other: Place
    controller: Controller


@pytest.fixture(scope="module")
def configured(second_world: World) -> Iterator[Configured]:
    """A controller that is told something by a file, something by the environment and something by flags."""
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


def test_the_file_and_the_environment_are_read(configured: Configured) -> None:
    """Failure classes in the reference's format; what the environment says comes before what the file says."""
    place = configured.minded
    uid = place.submit(framework("unlucky", role(life=fails(13))))["metadata"]["uid"]
    events = place.wait_for_events(uid, "FrameworkCompleted")
    assert any("Unlucky (-2000)" in event["message"] for event in events)
    place.wait_until_gone("unlucky")


def test_namespaces(configured: Configured) -> None:
    """It minds those that it is told to, and asks about no other."""
    configured.other.submit(framework("job", role()))
    uid = configured.minded.submit(framework("job", role()))["metadata"]["uid"]
    configured.minded.wait_for_events(uid, "FrameworkCompleted")
    assert not configured.other.framework("job").get("status")
    foreign = configured.controller.proxy.asked(
        lambda asked: "/namespaces/" not in asked.path and "customresourcedefinitions" not in asked.path
    )
    assert not [str(asked) for asked in foreign]
    assert not configured.controller.proxy.asked(lambda asked: asked.is_of_lease), "it needs no lease"
