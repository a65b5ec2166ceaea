"""The leader is killed with -9, again and again, at whichever request it is about to make, while a hundred jobs run.

Two controllers share a lease of a second. Whenever the leader falls, the other takes over, and the fallen one comes
back as the standby. The request at which it falls arrives all the same, late, or never does. KILLS says how often.

It is the lease that takes the time: many kills are shared out to several worlds, which need nothing of each other.
"""

import os
import random
import signal
import threading
from collections.abc import Callable

import pytest
from fake_kubelet import history, lifecycle
from operated.controllers import Controller, options
from operated.jobs import framework, role
from operated.place import Place, completion_of, condition_of, retries_of, state_of
from operated.proxy import LOST, PASS, ProxiedRequest, Verdict, no_faults
from operated.world import World

from conformance import servers

pytestmark = pytest.mark.pods

WORLDS = 2 if servers.chosen() == "real" else 1
KILLS = int(os.environ.get("KILLS") or (300 if servers.chosen() == "real" else 20)) // WORLDS
FRAMEWORKS = 100 // WORLDS
TASKS = 2
ACTS = FRAMEWORKS * (TASKS + 5)
"""So many requests change something in a world until all is done, at the very least."""
SHORTEST_LEASE = options(
    lease_duration_sec="1",
    lease_renew_deadline_sec="0.7",
    lease_retry_period_sec="0.2",
    request_timeout_sec="0.5",
)
SHORT = lifecycle.annotations(runs_for=0.2)


class Assassin:
    """Kills the controller that sends the n-th write request."""

    def __init__(self, acts: int, verdict: Verdict) -> None:
        self._acts = acts
        self._verdict = verdict
        self._lock = threading.Lock()
        self.victim: Controller | None = None

    def beside(self, controller: Controller) -> Callable[[ProxiedRequest], Verdict]:
        def fault_rule(asked: ProxiedRequest) -> Verdict:
            with self._lock:
                if self.victim is not None or not asked.is_act:
                    return PASS
                self._acts -= 1
                if self._acts > 0:
                    return PASS
                os.kill(controller.process.pid, signal.SIGKILL)
                self.victim = controller
                return self._verdict

        return fault_rule


@pytest.mark.parametrize("number_of_world", range(WORLDS))
def test_no_task_runs_twice_and_none_is_lost(own_world: World, number_of_world: int) -> None:
    place = own_world.new_place()
    controllers = [
        own_world.controller(name, *SHORTEST_LEASE, is_forked=True) for name in ("first", "second")
    ]
    for number in range(FRAMEWORKS):
        kept = "Keep" if number % 4 == 0 else "Delete"
        place.submit(framework(f"job-{number}", role(tasks=TASKS, life=SHORT), completedPods=kept))
    chance = random.Random(number_of_world)
    for _ in range(KILLS):
        assassin = Assassin(chance.randint(1, max(1, ACTS // KILLS)), chance.choice((PASS, LOST)))
        for controller in controllers:
            controller.proxy.fault_rule = assassin.beside(controller)
        victim = own_world.wait_for("the leader to act", lambda: assassin.victim)  # noqa: B023
        victim.process.kill()
        victim.start_again()
    for controller in controllers:
        controller.proxy.fault_rule = no_faults
    _insist_on_perfection(place)


def _insist_on_perfection(place: Place) -> None:
    def all_completed() -> list[dict[str, object]] | None:
        items = place.client.get(place.framework_path()).expect(200).body["items"]
        return items if all(state_of(item) == "Completed" for item in items) else None

    found = place.world.wait_for("all jobs to complete", all_completed)
    assert len(found) == FRAMEWORKS
    for each in found:
        assert completion_of(each)["code"] == 0
        assert condition_of(each, "Complete")
        assert retries_of(each) == 0
    seen = [pod for pod in place.world.history.pods if pod.namespace == place.name]
    tasks = history.by_name(seen)
    assert len(tasks) == FRAMEWORKS * TASKS
    assert not {name: pods for name, pods in tasks.items() if len(pods) > 1}, "a task had two pods"
    assert not history.started_more_than_once(seen)
    assert all(pod.started is not None and pod.exit_code == 0 for pod in seen)
    kept = {f"job-{number}" for number in range(FRAMEWORKS) if number % 4 == 0}
    place.world.wait_for("what was kept to be all", lambda: len(place.pods()) == len(kept) * TASKS)
    assert set(place.config_maps()) == {f"{name}-attempt" for name in kept}
