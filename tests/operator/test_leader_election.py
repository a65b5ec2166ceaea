"""Two controllers, one lease: only the leader acts, and when it falls or leaves, the other goes on."""

from datetime import UTC, datetime, timedelta

import pytest
from fake_kubelet import history
from operated.controllers import Controller, options
from operated.jobs import FOREVER, SUCCEEDS, framework, role
from operated.place import Place, completion_of
from operated.proxy import ProxiedRequest
from operated.world import World

pytestmark = pytest.mark.pods

THREE_SECONDS = options(
    lease_duration_sec="3",
    lease_renew_deadline_sec="2",
    lease_retry_period_sec="0.3",
    request_timeout_sec="1",
)
LONG = options(
    lease_duration_sec="3600",
    lease_renew_deadline_sec="1800",
    lease_retry_period_sec="0.2",
    request_timeout_sec="2",
)
"""A lease that does not expire during a test."""


TWO_SECONDS = options(
    lease_duration_sec="2",
    lease_renew_deadline_sec="1.2",
    lease_retry_period_sec="0.2",
    request_timeout_sec="0.8",
)


def acts(controller: Controller) -> list[ProxiedRequest]:
    return controller.proxy.asked(lambda asked: asked.is_act)


def leader_and_standby(world: World, place: Place, *lease: str) -> tuple[Controller, Controller]:
    """Found out by who does the work."""
    pair = [world.controller(name, *lease) for name in ("one", "two")]
    place.submit(framework("first", role()))
    place.wait_for_completed("first")
    leader, standby = sorted(pair, key=lambda each: len(acts(each)), reverse=True)
    assert not acts(standby)
    return leader, standby


def test_standby_takes_over_from_a_killed_leader(own_world: World) -> None:
    place = own_world.new_place()
    leader, standby = leader_and_standby(own_world, place, *THREE_SECONDS)
    place.submit(framework("job", role("ps", 1, FOREVER), role("worker", 2, FOREVER, min_succeeded=2)))
    place.wait_for_running("job", 3)
    leader.process.kill()
    for index in range(2):
        place.end_pod(f"job-worker-{index}")
    assert completion_of(place.wait_for_completed("job"))["code"] == 0
    assert max(asked.number for asked in acts(leader)) < min(asked.number for asked in acts(standby))
    assert not history.started_more_than_once(own_world.history.of(place.name, "job"))


def test_standby_takes_over_from_a_stopped_leader(own_world: World) -> None:
    """On SIGTERM it hands over at once, long before its lease is over. Both were ready all the time."""
    place = own_world.new_place()
    leader, standby = leader_and_standby(own_world, place, *LONG)
    place.submit(framework("job", role(tasks=2, life=FOREVER)))
    place.wait_for_running("job", 2)
    for each in (leader, standby):
        own_world.wait_for(f"{each.name} to be ready", lambda it=each: it.ask("/readyz")[0] == 200)  # type: ignore[misc]
        assert each.ask("/healthz")[0] == 200
    assert leader.process.stop() == 0
    for index in range(2):
        place.end_pod(f"job-worker-{index}")
    assert completion_of(place.wait_for_completed("job"))["code"] == 0
    assert max(asked.number for asked in acts(leader)) < min(asked.number for asked in acts(standby))


def test_disconnected_leader_stops_acting(own_world: World) -> None:
    """A leader that cannot renew its lease is replaced, and does not act after it reconnects."""
    place = own_world.new_place()
    leader, standby = leader_and_standby(own_world, place, *TWO_SECONDS)
    leader.proxy.is_refusing = True
    place.submit(framework("job", role(tasks=2, life=SUCCEEDS)))
    assert completion_of(place.wait_for_completed("job"))["code"] == 0
    assert acts(standby)
    leader.proxy.is_refusing = False
    before = len(acts(leader))
    place.submit(framework("another", role(tasks=2, life=SUCCEEDS)))
    assert completion_of(place.wait_for_completed("another"))["code"] == 0
    seen = [pod for pod in own_world.history.pods if pod.namespace == place.name]
    assert not history.started_more_than_once(seen)
    assert len(acts(leader)) == before, "two have acted at a time"


def wait_for_finish_time(place: Place, pod: str) -> datetime:
    def look() -> datetime | None:
        status = place.client.get(place.path("pods", pod)).expect(200).body["status"]
        ended = status["containerStatuses"][0]["state"].get("terminated")
        return None if ended is None else datetime.fromisoformat(ended["finishedAt"])

    return place.wait_for(f"{pod} to end", look)


def test_job_that_succeeded_while_no_leader_ran_is_not_failed_by_a_later_failure(own_world: World) -> None:
    """Statement 30: the next leader finds both tasks completed, and the master finished first."""
    place = own_world.new_place()
    controller = own_world.controller("only", *LONG)
    master = role("master", 1, FOREVER, min_failed=-1, min_succeeded=1)
    place.submit(framework("job", role("worker", 1, FOREVER), master))
    place.wait_for_running("job", 2)
    assert controller.process.stop() == 0
    place.end_pod("job-master-0")
    finished = wait_for_finish_time(place, "job-master-0")
    own_world.wait_for("the next second", lambda: datetime.now(UTC) >= finished + timedelta(seconds=1))
    place.end_pod("job-worker-0", exit_code=7)
    assert wait_for_finish_time(place, "job-worker-0") > finished
    controller.start_again()
    ended = completion_of(place.wait_for_completed("job"))
    assert (ended["code"], ended["trigger"]["taskRoleName"]) == (0, "master")
