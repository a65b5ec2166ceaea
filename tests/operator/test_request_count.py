"""Number of requests of the controller for a job that succeeds: the write budget in docs/architecture.md.

The pods are created, start and end in three bursts. Watches, the lease and Events do not count.
"""

from collections.abc import Iterator

import pytest
from fake_kubelet.lifecycle import Life
from operated import clusters, world
from operated.clusters import CONTROLLER
from operated.controllers import Controller
from operated.jobs import PENDING, SUCCEEDS, fails, framework, role
from operated.place import Place, completion_of, tasks_of
from operated.proxy import Exchange, ProxiedRequest

from windlass.model.base import Json

EVENTS = 2
"""The start of the attempt and the completion."""
POD_BYTES = 3200
POD_PROTOBUF_BYTES = 2600
KEPT = 6
"""The ConfigMap and five statuses."""
REMOVED = 9
"""Besides: the pods in one request, the ConfigMap, one more status."""


@pytest.mark.parametrize("completed_pods", ["Keep", "Delete"])
@pytest.mark.parametrize("tasks", [2, 50])
def test_write_budget_is_kept(place: Place, controller: Controller, tasks: int, completed_pods: str) -> None:
    place.submit(framework("job", role(tasks=tasks, life=PENDING), completedPods=completed_pods))
    place.wait("job", lambda body: _are_all(body, "AttemptPreparing", tasks), "its pods")
    place.world.override_life(place, "job", Life(gang=tasks, runs_for=None))
    place.wait_for_running("job", tasks)
    place.world.override_life(place, "job", Life(gang=tasks))
    assert completion_of(place.wait_for_completed("job"))["code"] == 0

    place.world.wait_for("the answer to its last status", lambda: _is_last_status_answered(place, controller))
    exchanges = _exchanges(place, controller)
    counted = [each.asked for each in exchanges if each.asked.is_counted]
    budget = tasks + (KEPT if completed_pods == "Keep" else REMOVED)
    assert len(counted) <= budget, _table(counted)
    assert not [each for each in exchanges if each.code == 409], "a quiet run has no conflict"
    assert all(200 <= each.code < 300 for each in exchanges)
    events = {(each.asked.path, each.asked.body) for each in exchanges if each.asked.is_of_event}
    assert len(events) <= EVENTS
    pods = [each for each in counted if each.method == "POST" and each.path.endswith("/pods")]
    assert len(pods) == tasks
    assert max(len(each.body) for each in pods) <= POD_BYTES
    if place.world.cluster.is_real:
        assert all(each.is_protobuf for each in pods)
        assert max(len(each.sent) for each in pods) <= POD_PROTOBUF_BYTES
    if place.world.cluster.is_real:
        what = f"the server's own count to be {len(counted)} as well"
        place.world.wait_for(what, lambda: _audited(place) == len(counted))


STATUS_WRITES = 3
"""The tasks before their pods are created, the observed pods, and the completion: see docs/architecture.md."""
LOAD = 25
"""Number of jobs that are submitted together."""
CONNECTIONS = 50
"""Each costs both sides a TLS handshake."""


@pytest.mark.parametrize("completed_pods", ["Keep", "Delete"])
def test_success_under_load_stores_few_statuses(
    place: Place, controller: Controller, completed_pods: str
) -> None:
    before = len(controller.proxy.connections)
    for number in range(LOAD):
        place.submit(framework(f"job{number}", role(tasks=2, life=SUCCEEDS), completedPods=completed_pods))
    for number in range(LOAD):
        place.wait_for_completed(f"job{number}")
    asked = [each.asked for each in _exchanges(place, controller)]
    stored = [each for each in asked if each.method == "PATCH" and each.path.endswith("/status")]
    extra = 0 if completed_pods == "Keep" else 1
    assert len(stored) <= LOAD * (STATUS_WRITES + extra)
    posted = [each for each in asked if each.is_of_event]
    assert len(posted) <= LOAD * EVENTS
    deleted = [each for each in asked if each.method == "DELETE"]
    assert len(deleted) == (0 if completed_pods == "Keep" else LOAD * 2)
    assert not [each for each in asked if each.method == "GET" and not each.is_watch], "nothing is read"
    assert len(controller.proxy.connections) - before <= CONNECTIONS


RECORDED = 1
"""Besides: the record of the attempt."""


@pytest.fixture(scope="module")
def recording_place() -> Iterator[Place]:
    """A namespace of a cluster whose controller records attempts."""
    with clusters.running() as cluster:
        cluster.install()
        with world.on(cluster) as own:
            own.start_kubelet()
            own.controller("recording", "--history-enabled")
            yield own.new_place()


def test_record_costs_one_request_per_attempt(recording_place: Place) -> None:
    place, controller = recording_place, recording_place.world.controllers["recording"]
    counted: dict[str, int] = {}
    for name, retry, life in (("succeeds", 0, SUCCEEDS), ("fails", 2, fails(3))):
        spec = framework(
            name, role(tasks=2, life=life), retryPolicy={"maxRetryCount": retry}, completedPods="Keep"
        )
        place.submit(spec)
        place.wait_for_completed(name)
        _wait_for_records(place, name, retry + 1)
        counted[name] = len(_records(place, name))
    posted = [
        each.asked for each in _exchanges(place, controller) if each.asked.path.endswith("/attemptrecords")
    ]
    assert [each.method for each in posted] == ["POST"] * sum(counted.values())
    assert sum(counted.values()) / (1 + 3) == RECORDED


@pytest.mark.parametrize("tasks", [2, 50])
def test_write_budget_is_kept_with_records(recording_place: Place, tasks: int) -> None:
    place, controller = recording_place, recording_place.world.controllers["recording"]
    name = f"job{tasks}"
    before = len(_exchanges(place, controller))
    place.submit(framework(name, role(tasks=tasks, life=PENDING), completedPods="Keep"))
    place.wait(name, lambda body: _are_all(body, "AttemptPreparing", tasks), "its pods")
    place.world.override_life(place, name, Life(gang=tasks, runs_for=None))
    place.wait_for_running(name, tasks)
    place.world.override_life(place, name, Life(gang=tasks))
    place.wait_for_completed(name)
    place.world.wait_for("its record", lambda: len(_records(place, name)) == 1)
    counted = [each.asked for each in _exchanges(place, controller)[before:] if each.asked.is_counted]
    assert len(counted) <= tasks + KEPT + RECORDED, _table(counted)


def _wait_for_records(place: Place, name: str, count: int) -> None:
    place.world.wait_for(f"{count} records of {name}", lambda: len(_records(place, name)) == count)


def _records(place: Place, name: str) -> list[Json]:
    path = f"/apis/windlass.dev/v1/namespaces/{place.name}/attemptrecords"
    found: list[Json] = (
        place.client.get(path, labelSelector=f"FC_FRAMEWORK_NAME={name}").expect(200).body["items"]
    )
    return found


def _are_all(body: Json, state: str, tasks: int) -> bool:
    """Wait until the status has each burst before the next one starts."""
    return [task["state"] for task in tasks_of(body)] == [state] * tasks if body.get("status") else False


def _exchanges(place: Place, controller: Controller) -> list[Exchange]:
    return [each for each in controller.proxy.exchanges if f"/namespaces/{place.name}/" in each.asked.path]


def _is_last_status_answered(place: Place, controller: Controller) -> bool:
    """A watch event may arrive before the answer to the writer and before the audit log."""
    return any(
        each.asked.method == "PATCH" and b'"state":"Completed"' in each.asked.body.replace(b" ", b"")
        for each in _exchanges(place, controller)
    )


def _audited(place: Place) -> int:
    return sum(
        entry["verb"] != "watch" and entry["objectRef"]["resource"] not in ("events", "leases")
        for entry in place.world.cluster.audited(CONTROLLER)
        if entry.get("objectRef", {}).get("namespace") == place.name
    )


def _table(counted: list[ProxiedRequest]) -> str:
    shown = [str(each) for each in counted if not (each.method == "POST" and each.path.endswith("/pods"))]
    return f"{len(counted)} requests, those that created pods left out:\n" + "\n".join(shown)
