"""What a success costs, in requests of the controller: the write budget that the documentation promises.

The pods are created, start and end in three bursts. Watches, the lease and Events do not count.
"""

import pytest
from fake_kubelet.lifecycle import Life
from operated.clusters import CONTROLLER
from operated.controllers import Controller
from operated.jobs import PENDING, framework, role
from operated.place import Place, completion_of, tasks_of
from operated.proxy import Exchange, ProxiedRequest

from windlass.model.base import Json

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
    assert len(events) <= 3
    if place.world.cluster.is_real:
        what = f"the server's own count to be {len(counted)} as well"
        place.world.wait_for(what, lambda: _audited(place) == len(counted))


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
