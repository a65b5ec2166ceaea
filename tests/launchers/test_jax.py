"""JAX configured by environment variables."""

from typing import Final

import pytest

import examples

NAME: Final = "digits-jax"
WORKERS: Final = ("worker-0", "worker-1")
DIGITS: Final = 1797 - 360
"""Number of training samples."""


@pytest.mark.parametrize(("file", "network"), [("framework.yaml", "isolated"), ("job.yaml", "shared")])
def test_jax_training(file: str, network: str) -> None:
    examples.needs("jax", "sklearn")
    result = examples.run_example(NAME, "--network", network, file=file).expect("Succeeded")

    begins = [result.value(worker, "begins ") for worker in WORKERS]
    assert [(each["process"], each["devices"]) for each in begins] == [("0", "2"), ("1", "2")]
    assert sum(int(each["examples"]) for each in begins) == DIGITS

    ends = [result.value(worker, "ends ") for worker in WORKERS]
    assert ends[0]["weights"] == ends[1]["weights"], "one step spans both of them"
    assert float(ends[0]["accuracy"]) > 0.9
    losses = [float(each["loss"]) for each in result.values("worker-0", "step=")]
    assert losses[-1] < losses[0] / 2
