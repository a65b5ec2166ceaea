"""The delay of a workload after a failed pod."""

import pytest
from tests.localcluster.controllers.workloads.samples import at, pod

from windlass.localcluster.controllers.workloads import back_off


@pytest.mark.parametrize(
    ("failures", "successes", "expected"),
    [
        pytest.param([], [], 100, id="none"),
        pytest.param([50], [], 60, id="one"),
        pytest.param([50, 60], [], 80, id="two"),
        pytest.param([10, 20, 30, 50], [], 130, id="four"),
        pytest.param([50, 60], [55], 70, id="those before a success are forgotten"),
        pytest.param([50], [55], 100, id="all before a success"),
        pytest.param([0] * 40, [], 600, id="no longer than ten minutes"),
    ],
)
def test_delay_doubles_with_each_failure_since_the_last_success(
    failures: list[float], successes: list[float], expected: float
) -> None:
    succeeded = [pod(f"s{number}", "Succeeded", ended=end) for number, end in enumerate(successes)]
    gone = [pod(f"f{number}", "Failed", ended=end) for number, end in enumerate(failures)]
    assert back_off.next_creation_time(gone, succeeded, at(100)) == at(expected)


def test_end_of_a_pod_that_never_ran_is_its_deletion() -> None:
    assert back_off.next_creation_time([pod("p", "Pending", deleted=7)], [], at(8)) == at(17)
