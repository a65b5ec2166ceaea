"""Replicas with the real Elector: at most one leads, and late requests of an old leader do no harm."""

from collections.abc import Callable
from typing import Any

import builders
import pytest

from windlass.controller.engine.lease_guard import LeaseGuard
from windlass.controller.leader.election import ObservedLease
from windlass.model.framework import ALWAYS_RETRY, CompletedPods, RetryPolicySpec
from windlass.simulate import play
from windlass.simulate.api import SimulatedApi
from windlass.simulate.scenario import Event, EventType, Faults, Occurrence, Scenario, Submission
from windlass.simulate.simulation import Simulation

SEEDS = 10
TWO_LEADERS = "a request is sent while another replica holds the lease"


def leader_suspended(seed: int, lasts: float = 80) -> Scenario:
    """Suspend the machine of the leader after its first requests for a job that is retried again and again.

    The clocks of the replicas drift, and are set forward meanwhile.
    """
    retry = RetryPolicySpec(max_retry_count=ALWAYS_RETRY)
    job = builders.framework("job", builders.role("worker", 2), retry_policy=retry)
    return Scenario(
        seed,
        (Submission(6, job),),
        (
            Event(5, EventType.SUSPEND_MACHINE, number=1, lasts=lasts),
            Event(20, EventType.STEP_CLOCK, number=1, lasts=60),
        ),
        faults=Faults(clock_drift=0.01, duration=10),
        faults_end=100,
    )


def test_suspended_leader_is_replaced_and_its_requests_arrive_late() -> None:
    occurred: set[Occurrence] = set()
    for seed in range(SEEDS):
        played = Simulation(leader_suspended(seed)).run()
        assert len(played.controllers) == 2, seed
        occurred |= played.server.occurred
    assert Occurrence.LATE_REQUEST in occurred


def test_short_suspension_does_not_change_the_leader() -> None:
    played = Simulation(leader_suspended(seed=1, lasts=10)).run()
    assert len(played.controllers) == 1


def test_pod_that_an_old_leader_creates_after_the_end_of_the_job_is_removed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The machine is suspended while it sends the requests for the pods."""
    job = builders.framework("job", builders.role("worker", 5), completed_pods=CompletedPods.DELETE)
    simulation = Simulation(Scenario(1, (Submission(6, job),), faults=Faults(duration=5), faults_end=100))
    create_pods = SimulatedApi.create_pods

    async def create(api: SimulatedApi, *args: Any) -> Any:
        (leader, *successors) = simulation.controllers
        if not successors:
            leader.suspension = 80
        return await create_pods(api, *args)

    monkeypatch.setattr(SimulatedApi, "create_pods", create)
    simulation.run()
    assert simulation._invariants.pods_of_old_leaders
    assert not simulation.server.pods


@pytest.mark.parametrize(
    ("end", "occurrence"),
    [
        (Event(10, EventType.CRASH), None),
        (Event(10, EventType.CHANGE_LEADER, number=1), Occurrence.LEASE_RELEASED),
        (Event(10, EventType.CHANGE_LEADER, number=2), Occurrence.LEASE_LOST),
    ],
    ids=["crash", "stop", "no renewal"],
)
def test_next_leader_completes_the_job(end: Event, occurrence: Occurrence | None) -> None:
    job = builders.framework("job", builders.role("worker", 2))
    played = Simulation(Scenario(1, (Submission(6, job),), (end,), faults=Faults(duration=100))).run()
    assert len(played.controllers) == 2
    changes = {Occurrence.LEASE_RELEASED, Occurrence.LEASE_LOST}
    assert played.server.occurred & changes == {occurrence} - {None}


def _send_always(guard: LeaseGuard, timeout: float) -> None:
    """Send requests although the lease has expired."""


def _acquire_always(observed: ObservedLease, candidate: str, now: float) -> bool:
    """Acquire a lease that another replica holds."""
    return True


@pytest.mark.parametrize(
    ("owner", "name", "mistake"),
    [(LeaseGuard, "check", _send_always), (ObservedLease, "is_free_for", _acquire_always)],
    ids=["a leader does not stop when its lease expires", "a replica acquires the lease of the leader"],
)
def test_planted_bug_leads_to_two_leaders(
    owner: type, name: str, mistake: Callable[..., object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owner, name, mistake)
    assert any(play.failure_of(leader_suspended(seed)) == TWO_LEADERS for seed in range(SEEDS))
