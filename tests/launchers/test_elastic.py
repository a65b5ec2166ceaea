"""An elastic job of torchrun trains on after the death of each of its tasks and after each change of their number."""

import contextlib
import sys
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Final

import pytest
from pods import commands
from pods.commands import Home, Local

import examples
from conformance.client import Json
from conformance.waiting import wait_for

FRAMEWORK: Final = "/apis/frameworkcontroller.microsoft.com/v1/namespaces/default/frameworks/elastic"
MORE_STEPS: Final = 5
TRAIN: Final = """\
import pathlib, sys, time
import torch
from torch import distributed, nn

folder = pathlib.Path(sys.argv[1])
distributed.init_process_group("gloo")
rank, size = distributed.get_rank(), distributed.get_world_size()
torch.manual_seed(0)
model = nn.Linear(4, 1)
torch.manual_seed(rank + 1)
checkpoint = folder / "checkpoint.pt"
state = [torch.load(checkpoint) if rank == 0 and checkpoint.exists() else None]
distributed.broadcast_object_list(state)
step = 0
if state[0]:
    step = state[0]["step"]
    model.load_state_dict(state[0]["model"])
is_over = torch.zeros(1)
while not is_over.item():
    model.zero_grad()
    inputs = torch.rand(8, 4)
    nn.functional.mse_loss(model(inputs), inputs.sum(1, keepdim=True)).backward()
    with torch.no_grad():
        for each in model.parameters():
            distributed.all_reduce(each.grad)
            each -= 0.1 * each.grad / size
    step += 1
    if rank == 0:
        with (folder / "steps").open("a") as steps:
            steps.write(f"{step} {size}\\n")
        torch.save({"step": step, "model": model.state_dict()}, checkpoint.with_suffix(".new"))
        checkpoint.with_suffix(".new").rename(checkpoint)
        is_over.fill_((folder / "finish").exists())
    distributed.broadcast(is_over, 0)
    time.sleep(0.02)
weights = torch.cat([each.flatten() for each in model.parameters()]).norm()
(folder / f"end-{rank}").write_text(f"{step} {weights:.6f}")
distributed.destroy_process_group()
"""


@pytest.fixture(autouse=True)
def packages() -> None:
    examples.needs("torch")


class Training:
    """A running job with the file of its steps: the number of each step, and how many processes took it together."""

    def __init__(self, home: Home, local: Local, folder: Path) -> None:
        self._home = home
        self._local = local
        self.folder = folder

    def windlass(self, command: str, *arguments: str | Path, code: int = 0) -> str:
        done = self._home.windlass(command, "--kubeconfig", self._local.status()["kubeconfig"], *arguments)
        return done.expect(code).stdout + done.stderr

    @property
    def steps(self) -> list[tuple[int, int]]:
        with contextlib.suppress(FileNotFoundError):
            lines = (self.folder / "steps").read_text().splitlines(keepends=True)
            complete = [line.split() for line in lines if line.endswith("\n")]
            return [(int(step), int(size)) for step, size in complete]
        return []

    def continues(self, size: int, after: int = 0) -> int:
        """Wait until `size` processes have taken some steps together after the given one, and return the last step."""

        def has_continued() -> bool:
            recent = self.steps[-MORE_STEPS:]
            return len(recent) == MORE_STEPS and all(
                step > after and together == size for step, together in recent
            )

        self._wait_for(f"{size} processes to continue after step {after}", has_continued)
        return self.steps[-1][0]

    def completes(self) -> None:
        # The timeout is shorter than the 300 seconds that torchrun waits at its end for a failed task.
        self._wait_for("the job to complete", lambda: self._framework["status"]["state"] == "Completed")

    @property
    def retries(self) -> list[int]:
        """The number of retries of each task."""
        (workers,) = self._framework["status"]["attemptStatus"]["taskRoleStatuses"]
        return [each["retryPolicyStatus"]["totalRetriedCount"] for each in workers["taskStatuses"]]

    def kill(self, task: str) -> int:
        """Kill torchrun in a task with all its processes, and return the last step that they can have taken."""
        uid = self._framework["metadata"]["uid"]
        torchrun = examples.process_of(uid, task, str(Path(sys.executable).with_name("torchrun")))
        # torchrun starts Python with -u.
        process = examples.process_of(uid, task, "-u")
        torchrun.kill()
        wait_for(f"{task} to be dead", lambda: not torchrun.is_alive and not process.is_alive)
        # The other task may be about to write the step that it has just taken.
        return self.steps[-1][0] + 1

    @property
    def _framework(self) -> Json:
        return self._local.client.get(FRAMEWORK).expect(200).body

    def _wait_for(self, what: str, look: Callable[[], bool]) -> None:
        try:
            wait_for(what, look, commands.SECONDS)
        except AssertionError as error:
            error.add_note(self.windlass("logs", "elastic") + self.windlass("status", "elastic"))
            raise


@pytest.fixture
def training(output: Path) -> Iterator[Training]:
    (output / "train.py").write_text(TRAIN)
    job = f"""
name: elastic
runtime: pytorch
command: torchrun {output}/train.py {output}
roles:
  worker: {{tasks: 2, elastic: {{min: 1, max: 3}}}}
volumes:
  output: {{hostPath: {output}, at: {output}}}
"""
    with commands.home(commands.best()) as home, commands.local(home) as local:
        made = Training(home, local, output)
        made.windlass("submit", home.file(job))
        yield made


# A second try would hide that tasks find each other only by chance.
@pytest.mark.flaky(reruns=0)
def test_elastic_training_survives_kills_and_rescales(training: Training) -> None:
    training.continues(2)
    training.continues(2, after=training.kill("worker-1"))

    last = training.steps[-1][0]
    assert "scaled worker from 2 to 3 tasks" in training.windlass("scale", "elastic", "worker=3")
    last = training.continues(3, after=last)
    assert training.retries == [0, 1, 0]
    assert "expected 1 to 3 tasks" in training.windlass("scale", "elastic", "worker=4", code=2)
    training.windlass("scale", "elastic", "worker=2")
    training.continues(2, after=last)
    assert training.retries[:2] == [0, 1]

    # The other task has lost the rendezvous, and is retried as well.
    training.continues(2, after=training.kill("worker-0"))
    assert training.retries[0] == 1

    (training.folder / "finish").touch()
    training.completes()
    training.windlass("wait", "elastic")
    numbers = [step for step, _ in training.steps]
    assert numbers[0] == 1
    assert all(later - earlier in (0, 1) for earlier, later in pairwise(numbers)), "no step was lost"
    ends = [(training.folder / f"end-{rank}").read_text() for rank in range(2)]
    assert ends[0] == ends[1]
    assert ends[0].split()[0] == str(numbers[-1])
