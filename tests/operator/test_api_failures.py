"""The server dies and comes back, connections break, requests fail, answers get lost: nothing is done twice."""

import json
import random
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest
from fake_kubelet import history, lifecycle
from operated import processes
from operated.controllers import Controller
from operated.jobs import framework, role
from operated.place import Place, completion_of, retries_of, state_of
from operated.proxy import ANSWER_LOST, LOST, PASS, FaultRule, ProxiedRequest, Verdict, no_faults
from operated.world import World

pytestmark = pytest.mark.pods

FRAMEWORKS = 8
TASKS = 2
SHORT = lifecycle.annotations(runs_for=0.2)


@pytest.fixture(scope="module")
def shaken_controller(second_world: World) -> Iterator[Controller]:
    yield second_world.controller("shaken", "--no-leader-election")
    second_world.stop_controllers()


@pytest.fixture
def shaken(second_world: World, shaken_controller: Controller) -> Iterator[Place]:
    processes.STARTED.append(shaken_controller.process)
    yield second_world.new_place()
    shaken_controller.proxy.fault_rule = no_faults
    second_world.leave_places()
    shaken_controller.require_no_exceptions()


def controller_of(place: Place) -> Controller:
    return place.world.controllers["shaken"]


def submit(place: Place, numbers: Iterable[int] = range(FRAMEWORKS)) -> None:
    for number in numbers:
        place.submit(framework(f"job-{number}", role(tasks=TASKS, life=SHORT)))


def completed(place: Place) -> list[dict[str, Any]]:
    """Return all completed Frameworks; on a timeout, fail with the state of each."""
    seen: list[dict[str, Any]] = []

    def all_completed() -> bool:
        seen[:] = place.client.get(place.framework_path()).expect(200).body["items"]
        return all(state_of(item) == "Completed" for item in seen)

    try:
        place.world.wait_for("all jobs to complete", all_completed)
    except AssertionError as error:
        raise AssertionError(f"{error}: {json.dumps(seen)}, {json.dumps(place.pods())}") from error
    return seen


def require_one_pod_per_task(place: Place) -> None:
    found = completed(place)
    assert len(found) == FRAMEWORKS
    assert [completion_of(each)["code"] for each in found] == [0] * FRAMEWORKS
    assert [retries_of(each) for each in found] == [0] * FRAMEWORKS
    seen = [pod for pod in place.world.history.pods if pod.namespace == place.name]
    assert len(seen) == FRAMEWORKS * TASKS, "a task had two pods, or none"
    assert not history.started_more_than_once(seen)
    assert not place.pods()
    assert not place.config_maps()


def share(portion: float, *verdicts: Verdict) -> FaultRule:
    """Befalls that portion of all requests, watches too."""
    chance = random.Random(7)
    return lambda _: chance.choice(verdicts) if chance.random() < portion else PASS


def of_acts(portion: float, verdict: Verdict) -> FaultRule:
    fault = share(portion, verdict)
    return lambda asked: fault(asked) if asked.is_act else PASS


STORMS: dict[str, Callable[[], FaultRule]] = {
    "429": lambda: share(0.1, Verdict(code=429, retry_after="1")),
    "500": lambda: share(0.3, Verdict(code=500), Verdict(code=503)),
    "answers-lost": lambda: of_acts(0.3, ANSWER_LOST),
    "all-of-it": lambda: share(0.3, Verdict(code=500), Verdict(code=429), LOST, ANSWER_LOST),
}


@pytest.mark.parametrize("storm", STORMS)
def test_jobs_complete_despite_random_failures(shaken: Place, storm: str) -> None:
    controller_of(shaken).proxy.fault_rule = STORMS[storm]()
    submit(shaken)
    require_one_pod_per_task(shaken)


def test_forbidden_after_server_start_is_retried(shaken: Place) -> None:
    """A real server that has just started rejects all users but administrators until it has read the roles."""
    said = 'pods is forbidden: User "controller" cannot create resource "pods" in API group "" in the namespace "x"'
    fault = share(0.5, Verdict(code=403, message=said))
    controller_of(shaken).proxy.fault_rule = lambda asked: (
        fault(asked) if asked.method == "POST" and asked.path.endswith("/pods") else PASS
    )
    submit(shaken)
    require_one_pod_per_task(shaken)


def test_late_answers_are_tolerated(shaken: Place) -> None:
    chance = random.Random(3)
    controller_of(shaken).proxy.fault_rule = lambda _: Verdict(delay=chance.choice((0.0, 0.0, 0.2)))
    submit(shaken)
    require_one_pod_per_task(shaken)


def every(acts: int, times: int, then: Callable[[], object]) -> FaultRule:
    """Call a function each time the controller has made a number of write requests."""
    count = 0

    def fault_rule(asked: ProxiedRequest) -> Verdict:
        nonlocal count
        count += asked.is_act
        if asked.is_act and count % acts == 0 and count <= acts * times:
            then()
        return PASS

    return fault_rule


def test_closed_connections_are_tolerated(shaken: Place) -> None:
    proxy = controller_of(shaken).proxy
    proxy.fault_rule = every(8, 8, proxy.cut)
    submit(shaken)
    require_one_pod_per_task(shaken)


def test_killed_server_is_waited_for(shaken: Place) -> None:
    """With what it had stored; the kubelet has to find its way back too."""
    proxy, cluster = controller_of(shaken).proxy, shaken.world.cluster
    fallen: list[str] = []

    def kill() -> None:
        cluster.kill()
        fallen.append("again")

    for half in (range(FRAMEWORKS // 2), range(FRAMEWORKS // 2, FRAMEWORKS)):
        before = len(fallen)
        submit(shaken, half)
        proxy.fault_rule = every(6, 1, kill)
        shaken.world.wait_for("the controller to act", lambda before=before: len(fallen) > before)  # type: ignore[misc]
        cluster.restart()
    require_one_pod_per_task(shaken)


@pytest.mark.parametrize("number", [1, 2], ids=["first-status", "second-status"])
@pytest.mark.parametrize("is_recreated", [False, True], ids=["deleted", "re-created"])
def test_framework_deleted_while_its_status_write_is_unanswered(
    shaken: Place, number: int, is_recreated: bool
) -> None:
    """The server stores the status, and the Framework is deleted before the controller asks again."""
    writes = 0
    has_asked_again, is_deleted = threading.Event(), threading.Event()
    path = shaken.framework_path("job")

    def fault_rule(asked: ProxiedRequest) -> Verdict:
        nonlocal writes
        if writes >= number and asked.path.startswith(path) and not is_deleted.is_set():
            has_asked_again.set()
            assert is_deleted.wait(60)
        is_write = asked.path == f"{path}/status"
        writes += is_write
        return ANSWER_LOST if is_write and writes == number else PASS

    controller_of(shaken).proxy.fault_rule = fault_rule
    old = shaken.submit(framework("job", role(tasks=TASKS, life=SHORT)))
    shaken.world.wait_for("the controller to ask again", has_asked_again.is_set)
    shaken.delete("job")
    if is_recreated:
        shaken.submit(framework("job", role(tasks=TASKS, life=SHORT)))
    is_deleted.set()

    if is_recreated:
        found = shaken.wait_for_completed("job")
        assert (completion_of(found)["code"], retries_of(found)) == (0, 0)
    shaken.world.wait_for("no pod to be left", lambda: not shaken.pods())
    shaken.world.wait_for("no ConfigMap to be left", lambda: not shaken.config_maps())
    seen = shaken.world.history.of(shaken.name, "job")
    new = [pod for pod in seen if pod.framework_uid != old["metadata"]["uid"]]
    assert len(new) == (TASKS if is_recreated else 0)
    assert len(seen) - len(new) == (TASKS if number == 2 else 0), (
        "pods were created before the status was stored"
    )
    assert not history.started_together(seen)
