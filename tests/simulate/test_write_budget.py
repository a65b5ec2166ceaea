"""The write budget: what a success costs the API server when its pods are created, start and end in three bursts."""

import builders
import pytest

from windlass.model.framework import CompletedPods
from windlass.model.states import State
from windlass.simulate.scenario import Scenario, Submission
from windlass.simulate.simulation import Simulation

SIZES = [1, 2, 50, 300]


def play(tasks: int, completed_pods: CompletedPods) -> dict[str, int]:
    job = builders.framework("job", builders.role("worker", tasks), completed_pods=completed_pods)
    played = Simulation(Scenario(seed=1, submissions=(Submission(10, job),), is_lockstep=True)).run()
    (done,) = played.server.frameworks.values()
    assert done.status is not None
    assert done.status.state is State.COMPLETED
    assert done.status.summary.succeeded == tasks
    return played.requests()


@pytest.mark.parametrize("tasks", SIZES)
def test_success_with_kept_pods_costs_five_requests_and_one_per_pod(tasks: int) -> None:
    assert play(tasks, CompletedPods.KEEP) == {"create_config_map": 1, "create_pod": tasks, "store_status": 4}


@pytest.mark.parametrize("tasks", SIZES)
def test_success_with_removal_costs_eight_requests_and_one_per_pod(tasks: int) -> None:
    assert play(tasks, CompletedPods.DELETE) == {
        "create_config_map": 1,
        "create_pod": tasks,
        "store_status": 5,
        "delete_pods_of_attempt": 1,
        "delete_config_map": 1,
    }
