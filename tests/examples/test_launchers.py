"""Training with each launcher of docs/discovery.md, whose table contains the command line that is run here: two tasks,
with one or two processes each."""

import re
from pathlib import Path
from typing import Final

import msgspec
import pytest
from pods import commands

import examples
from examples import Running

DOCS: Final = Path(__file__).parents[2] / "docs" / "discovery.md"
FOLDER: Final = Path(__file__).parent / "launchers"
_ROW: Final = re.compile(r"\| (?P<launcher>[^|]+) \| (?P<runtime>[^|]+) \| [^|]+ \| `(?P<command>[^`]+)` \|")


class Training(msgspec.Struct, frozen=True):
    script: str
    processes: int
    packages: tuple[str, ...]


TRAININGS: Final = {
    "python, one process per task": Training("train_torch.py", 2, ("torch",)),
    "torchrun": Training("train_torch.py", 2, ("torch",)),
    "torchrun, several processes per task": Training("train_torch.py", 4, ("torch",)),
    "DeepSpeed-style, with the node's rank as an option": Training("train_torch.py", 4, ("torch",)),
    "DeepSpeed": Training("train_deepspeed.py", 2, ("torch", "deepspeed")),
    "accelerate": Training("train_accelerate.py", 2, ("torch", "accelerate")),
    "accelerate, several processes per task": Training("train_accelerate.py", 4, ("torch", "accelerate")),
    "Lightning": Training("train_lightning.py", 2, ("torch", "lightning")),
    "Lightning, several processes per task": Training("train_lightning.py", 4, ("torch", "lightning")),
    "Lightning with torchrun": Training("train_lightning.py", 4, ("torch", "lightning")),
    "jax.distributed": Training("train_jax.py", 2, ("jax",)),
}


def rows() -> dict[str, re.Match[str]]:
    """Return the rows of the table of launchers."""
    _, _, section = DOCS.read_text().partition("## Launchers\n")
    return {row["launcher"].strip(): row for row in _ROW.finditer(section.partition("\n## ")[0])}


@pytest.mark.parametrize("network", ["isolated", "shared"])
@pytest.mark.parametrize(("launcher", "training"), TRAININGS.items(), ids=TRAININGS)
def test_launcher_trains(launcher: str, training: Training, network: str) -> None:
    examples.needs(*training.packages, "sklearn")
    row = rows()[launcher]
    command = row["command"].replace("train.py", training.script)
    job = (
        f"name: launched\nruntime: {row['runtime']}\ncode: {FOLDER}\n"
        f"command: {command}\nroles: {{worker: {{tasks: 2}}}}\n"
    )
    with commands.home(commands.best()) as home:
        if network == "isolated" and not home.level.has_own_network:
            pytest.skip("pods cannot have a network of their own on this machine")
        begun = home.begin("run", "--output", "json", "--network", network, home.file(job))
        result = Running(home, begun).result().expect("Succeeded")
    ends = [each for task in ("worker-0", "worker-1") for each in result.values(task, "ends ")]
    assert sorted(int(each["rank"]) for each in ends) == list(range(training.processes)), str(result)
    assert {each["size"] for each in ends} == {str(training.processes)}
    assert len({each["weights"] for each in ends}) == 1, "all processes have taken the same steps"
    assert all(float(each["accuracy"]) > 0.85 for each in ends)
