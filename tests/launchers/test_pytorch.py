"""PyTorch configured by environment variables: as a plain script, and with torchrun."""

from pathlib import Path
from typing import Final

import pytest
from pods import machine
from pods.machine import Process

import examples
from conformance.waiting import wait_for

NAME: Final = "digits-ddp"
FOLDER: Final = "/tmp/digits-ddp"  # noqa: S108 — of the example
WORKERS: Final = ("worker-0", "worker-1")
DIGITS: Final = 1797 - 360
"""Number of training samples."""


@pytest.fixture(autouse=True)
def packages() -> None:
    examples.needs("torch", "sklearn")


@pytest.mark.parametrize(
    ("file", "network"),
    [
        ("framework.yaml", "isolated"),
        ("job.yaml", "shared"),
        ("torchrun.yaml", "isolated"),
        ("torchrun.yaml", "shared"),
    ],
)
def test_pytorch_training(file: str, network: str, output: Path) -> None:
    replaced = {FOLDER: str(output)}
    result = examples.run_example(NAME, "--network", network, file=file, replaced=replaced)
    result.expect("Succeeded")

    begins = [result.value(worker, "begins ") for worker in WORKERS]
    assert {each["rank"] for each in begins} == {"0", "1"}
    assert all((each["size"], each["step"]) == ("2", "0") for each in begins)
    assert sum(int(each["examples"]) for each in begins) == DIGITS

    ends = [result.value(worker, "ends ") for worker in WORKERS]
    assert ends[0]["weights"] == ends[1]["weights"], "all ranks have taken the same steps"
    assert float(ends[0]["accuracy"]) > 0.9
    losses = [float(each["loss"]) for worker in WORKERS for each in result.values(worker, "step=")]
    assert len(losses) == 6, "only rank 0 prints them"
    assert losses[-1] < losses[0]
    assert len(checkpoints(output)) == 1


def test_killed_worker_restarts_both_from_the_checkpoint(output: Path) -> None:
    """The other worker cannot continue: both restart at the same addresses."""
    replaced = {FOLDER: str(output), "--steps=300": "--steps=2000"}
    with examples.begun(NAME, "--network", "shared", replaced=replaced) as running:
        wait_for("a checkpoint", lambda: any(checkpoints(output)), examples.SECONDS)
        (job,) = output.iterdir()
        trainer(job.name, index=1).kill()
        result = running.result().expect("Succeeded")

    assert result.reasons_of(NAME).count("AttemptStarted") == 2
    for worker in WORKERS:
        first, again = result.values(worker, "begins ")
        assert int(first["step"]) == 0
        assert 0 < int(again["step"]) < 2000
    ends = [result.value(worker, "ends ") for worker in WORKERS]
    assert ends[0]["weights"] == ends[1]["weights"]
    assert float(ends[0]["accuracy"]) > 0.9


def checkpoints(output: Path) -> list[Path]:
    """Return the folder of the job, named by its UID."""
    return list(output.glob("*/checkpoint.pt"))


def trainer(framework_uid: str, index: int) -> Process:
    those_of_job = machine.marked(framework_uid, "FC_FRAMEWORK_UID")
    those_of_index = machine.marked(str(index), "FC_TASK_INDEX")
    (found,) = (each for each in those_of_job if each in those_of_index and "/code/train.py" in each.command)
    return found
