"""The controller as a process: its endpoints, its log, its end, and what it says when it cannot begin."""

import json

import pytest
from operated.controllers import Controller
from operated.jobs import FOREVER, framework, role
from operated.place import Place
from prometheus_client.parser import text_string_to_metric_families


def test_endpoints_answer(place: Place, controller: Controller) -> None:
    place.submit(framework("job", role(tasks=2, life=FOREVER)))
    place.wait_for_running("job", 2)
    assert controller.ask("/healthz")[0] == 200
    assert controller.ask("/readyz")[0] == 200
    assert controller.ask("/nothing")[0] == 404


@pytest.mark.parametrize(
    "part", ["frameworks", "tasks", "queue", "pass", "requests", "retries", "first_pod", "barrier"]
)
def test_metrics_are_valid(place: Place, controller: Controller, part: str) -> None:
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
