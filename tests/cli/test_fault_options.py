"""The value of `--inject`."""

import click
import pytest

from windlass.cli import fault_options

JOBS: tuple[dict[str, int], ...] = ({"worker": 2, "ps": 1}, {"worker": 1, "evaluator": 0}, {})

TAKEN = ("kill worker-0", "kill worker-1", "kill ps-0", "delay worker by 5s")


@pytest.mark.parametrize("written", TAKEN)
def test_fault_is_accepted_if_one_job_has_the_task(written: str) -> None:
    assert [str(each) for each in fault_options.parse([written], JOBS)] == [written]


REFUSED = {
    "misspelt": ("kil worker-0", 'Did you mean "kill"?'),
    "role": ("kill wroker-0", 'unknown role "wroker". Did you mean "worker"?'),
    "index": ("kill worker-2", "unknown task worker-2. The role worker has worker-0"),
    "no-tasks": ("kill evaluator-0", "unknown task evaluator-0. The role evaluator has no tasks."),
}


@pytest.mark.parametrize(("written", "words"), REFUSED.values(), ids=REFUSED)
def test_invalid_fault_is_rejected(written: str, words: str) -> None:
    with pytest.raises(click.UsageError) as refusal:
        fault_options.parse(["kill worker-1", written], JOBS)
    assert refusal.value.message.startswith("--inject: ")
    assert words in refusal.value.message
