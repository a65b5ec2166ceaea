"""The same training from job files, without a Framework or a ConfigMap."""

from typing import Final

import msgspec
import pytest

import examples
from examples import EXAMPLES


class Example(msgspec.Struct, frozen=True):
    packages: tuple[str, ...]
    result: tuple[str, str]
    """The task that prints the accuracy, and the start of that line."""
    steps: str = "--steps 300"
    completed: tuple[str, ...] = ("worker-0", "worker-1")


JOBS: Final = {
    "digits-ps": Example(("tensorflow", "sklearn"), ("worker-0", "result:"), "--steps 2000"),
    "digits-mwms": Example(("tensorflow", "sklearn"), ("worker-0", "result:")),
    "digits-ddp": Example(("torch", "sklearn"), ("worker-0", "ends ")),
    "digits-jax": Example(("jax", "sklearn"), ("worker-0", "ends ")),
}


@pytest.mark.parametrize(("name", "example"), JOBS.items(), ids=JOBS.keys())
def test_job_file_trains(name: str, example: Example) -> None:
    examples.needs(*example.packages)
    replaced = {"code: .": f"code: {EXAMPLES / name}", example.steps: "--steps 200"}
    result = examples.run_example(name, file="job.yaml", replaced=replaced, has_code=False).expect(
        "Succeeded"
    )
    assert float(result.value(*example.result)["accuracy"]) > 0.85
    for task in example.completed:
        assert "Succeeded" in result.reasons_of(task)
