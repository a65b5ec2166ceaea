"""What real training does when something of it is killed."""

from pathlib import Path

import pytest
import task_processes

from examples import Result, begun, needs, run_example

STEPS = 2400
"""Of both workers together: enough for something to happen meanwhile."""


def changes(output: Path) -> dict[str, str]:
    """What stands in the file of digits-ps, and what stands there for a test."""
    return {"--steps=300": f"--steps={STEPS}", "path: /tmp/digits-ps": f"path: {output}"}


@pytest.fixture(autouse=True)
def _tensorflow() -> None:
    needs("tensorflow", "sklearn")


def loss_of(result: Result) -> float:
    return float(result.value("worker-0", "result:")["loss"])


def test_a_killed_worker_goes_on_and_the_result_is_as_good(tmp_path: Path) -> None:
    undisturbed = run_example("digits-ps", replaced=changes(tmp_path / "undisturbed")).expect("Succeeded")
    with begun("digits-ps", replaced=changes(tmp_path / "killed")) as running:
        running.says("worker 1: own=")
        task_processes.kill("digits-ps", "worker-1", "train.py")
        result = running.result().expect("Succeeded")
    reasons = result.reasons_of("digits-ps")
    assert (reasons.count("TaskRetried"), reasons.count("FrameworkRetried")) == (1, 0)
    done = result.value("worker-1", "done:")
    assert int(done["own"]) == STEPS // 2
    assert 0 < int(done["now"]) < STEPS // 2, "it began where it was, not at the beginning"
    assert loss_of(result) <= loss_of(undisturbed) + 0.02


def test_a_killed_parameter_server_ends_the_attempt_and_the_next_one_finishes(tmp_path: Path) -> None:
    with begun("digits-ps", replaced=changes(tmp_path)) as running:
        running.says("worker 0: own=100 ")  # there are checkpoints by then
        task_processes.kill("digits-ps", "ps-0", "train.py")
        result = running.result().expect("Succeeded")
    assert result.reasons_of("digits-ps").count("FrameworkRetried") == 1
    restored = result.value("worker-0", "restored:")
    assert 0 < int(restored["step"]) < STEPS
    assert float(result.value("worker-0", "result:")["accuracy"]) > 0.9
