"""Unchanged TFJobs train by `windlass run`: with parameter servers and with MultiWorkerMirroredStrategy."""

from pathlib import Path
from typing import Final

import foreign_jobs
import pytest

import examples

NETWORKS: Final = pytest.mark.parametrize("network", ["isolated", "shared"])


@pytest.fixture(autouse=True)
def packages() -> None:
    examples.needs("tensorflow", "sklearn")


@NETWORKS
def test_tfjob_with_parameter_servers_trains(network: str, tmp_path: Path) -> None:
    folder = foreign_jobs.image_of_example("digits-ps", tmp_path)
    result = foreign_jobs.run("tfjob-ps", folder, network).expect("Succeeded")

    trained = result.value("worker-0", "result:")
    assert int(trained["steps"]) == 100
    assert float(trained["accuracy"]) > 0.8
    assert "Stopped" in result.reasons_of("ps-0"), "worker-0 decides the success"


@NETWORKS
def test_tfjob_with_multi_worker_mirrored_strategy_trains(network: str, tmp_path: Path) -> None:
    folder = foreign_jobs.image_of_example("digits-mwms", tmp_path)
    result = foreign_jobs.run("tfjob-mwms", folder, network).expect("Succeeded")

    trained = result.value("worker-0", "result:")
    assert int(trained["steps"]) == 100
    assert float(trained["accuracy"]) > 0.8
    assert "Succeeded" in result.reasons_of("worker-1"), "AllWorkers decide the success"
