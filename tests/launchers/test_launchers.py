"""Training with each launcher of docs/discovery.md, whose table contains the command line that is run here: two tasks,
with one or two processes each.

Every process imports PyTorch for seconds, so each launcher runs on one network. Launchers that find each other in the
same way (by the variables of PyTorch, by the rendezvous of torchrun, by options for torchrun, or as Lightning does) run
on both.
"""

import re
from pathlib import Path
from typing import Final

import msgspec
import pytest
from pods.daemons import Network

import examples

DOCS: Final = Path(__file__).parents[2] / "docs" / "discovery.md"
FOLDER: Final = Path(__file__).parent / "scripts"
_ROW: Final = re.compile(r"\| (?P<launcher>[^|]+) \| (?P<runtime>[^|]+) \| [^|]+ \| `(?P<command>[^`]+)` \|")


class Training(msgspec.Struct, frozen=True):
    script: str
    processes: int
    network: Network
    packages: tuple[str, ...]


TRAININGS: Final = {
    "python, one process per task": Training("train_torch.py", 2, "isolated", ("torch",)),
    "torchrun": Training("train_torch.py", 2, "shared", ("torch",)),
    "torchrun, several processes per task": Training("train_torch.py", 4, "isolated", ("torch",)),
    "DeepSpeed-style, with the node's rank as an option": Training(
        "train_torch.py", 4, "isolated", ("torch",)
    ),
    "DeepSpeed": Training("train_deepspeed.py", 2, "shared", ("torch", "deepspeed")),
    "accelerate": Training("train_accelerate.py", 2, "isolated", ("torch", "accelerate")),
    "accelerate, several processes per task": Training(
        "train_accelerate.py", 4, "shared", ("torch", "accelerate")
    ),
    "Lightning": Training("train_lightning.py", 2, "isolated", ("torch", "lightning")),
    "Lightning, several processes per task": Training(
        "train_lightning.py", 4, "shared", ("torch", "lightning")
    ),
    "Lightning with torchrun": Training("train_lightning.py", 4, "shared", ("torch", "lightning")),
    "jax.distributed": Training("train_jax.py", 2, "shared", ("jax",)),
}
ELSEWHERE: Final = {"MultiWorkerMirroredStrategy", "ParameterServerStrategy"}
"""Launchers that `tests/examples/test_tensorflow.py` runs."""


def rows() -> dict[str, re.Match[str]]:
    """Return the rows of the table of launchers."""
    _, _, section = DOCS.read_text().partition("## Launchers\n")
    return {row["launcher"].strip(): row for row in _ROW.finditer(section.partition("\n## ")[0])}


def test_every_launcher_of_the_documentation_is_tested() -> None:
    assert rows().keys() == TRAININGS.keys() | ELSEWHERE


@pytest.mark.parametrize(("launcher", "training"), TRAININGS.items(), ids=TRAININGS)
def test_launcher_trains(launcher: str, training: Training) -> None:
    examples.needs(*training.packages)
    row = rows()[launcher]
    command = row["command"].replace("train.py", training.script)
    job = (
        f"name: launched\nruntime: {row['runtime']}\ncode: {FOLDER}\n"
        f"command: {command}\nroles: {{worker: {{tasks: 2}}}}\n"
    )
    with examples.begun_with(job, "--network", training.network) as running:
        result = running.result().expect("Succeeded")
    ends = [each for task in ("worker-0", "worker-1") for each in result.values(task, "ends ")]
    assert sorted(int(each["rank"]) for each in ends) == list(range(training.processes)), str(result)
    assert {each["size"] for each in ends} == {str(training.processes)}
    assert len({each["weights"] for each in ends}) == 1, "all processes have taken the same steps"
    assert all(float(each["accuracy"]) > 0.85 for each in ends)
