# ruff: noqa: E501, ISC004 — expected output
"""Warnings of `windlass init` and `windlass run --workers N` about a script, which they read and do not run."""

from pathlib import Path

import pytest
import yaml
from windlass_command import task_lines, windlass

from windlass.cli import script_hints
from windlass.model.feature_annotations import Runtime

COPY = "import sys\nprint(sys.argv[1:])\n"
RANKS = """\
import argparse, os
parser = argparse.ArgumentParser()
parser.add_argument("--rank", type=int)
parser.add_argument("--world-size", type=int)
parser.add_argument("--dist-url", default="tcp://10.0.0.1:23456")
arguments = parser.parse_args()
print(arguments.rank, arguments.world_size, arguments.dist_url)
"""
REQUIRED = """\
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("-d", "--data", required=True)
parser.add_argument("--lr", type=float, default=0.1)
parser.add_argument("output")
parser.add_argument("extra", nargs="*")
parser.parse_args()
"""
ALONE = "its 3 tasks do the same work, and overwrite each other's files"


def test_run_warns_if_all_tasks_do_the_same_work(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(COPY)

    done = windlass(tmp_path, "run", "--workers", "3", "--", "python", "train.py")

    assert done.stderr == (
        f"warning: train.py does not distribute its work: {ALONE}. Use one task, or distribute the work, e.g. by the "
        "variable TASK_INDEX\n"
    )
    assert done.returncode == 0


@pytest.mark.parametrize(
    ("options", "words"), [(("--workers", "1"), ()), (("--workers", "2"), ("--shard", "$(TASK_INDEX)"))]
)
def test_run_does_not_warn_about_a_single_task_or_a_used_task_index(
    options: tuple[str, ...], words: tuple[str, ...], tmp_path: Path
) -> None:
    (tmp_path / "train.py").write_text(COPY)

    assert windlass(tmp_path, "run", *options, "--", "python", "train.py", *words).stderr == ""


def test_run_fills_options_for_ranks(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(RANKS)

    done = windlass(tmp_path, "run", "--workers", "2", "--", "python", "train.py")

    assert done.stderr == (
        "added the script's options for peer discovery: '--rank=$(RANK)' '--world-size=$(WORLD_SIZE)' '--dist-url=env://'\n"
    )
    assert sorted(task_lines(done.stdout)) == ["0 2 env://", "1 2 env://"]


def test_run_warns_about_an_overwritten_address_and_missing_arguments(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        f"import os\nimport torch.distributed\nos.environ['MASTER_ADDR'] = 'localhost'\n{REQUIRED}"
    )

    done = windlass(tmp_path, "run", "--workers", "2", "--", "python", "train.py", "--lr", "1")

    assert done.stderr.splitlines()[:2] == [
        "warning: train.py requires arguments that the command lacks: --data",
        "warning: train.py:3 sets MASTER_ADDR, which Windlass sets for each task: the tasks do not find each other. Set it "
        "only if it is missing, e.g. with os.environ.setdefault",
    ]


def test_run_names_the_command_for_mpi(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import mpi4py\n")

    done = windlass(tmp_path, "run", "--workers", "2", "--", "python", "train.py")

    assert done.stderr.splitlines()[0] == (
        "warning: train.py uses MPI, and without mpirun its 2 tasks do not find each other: use `windlass run --runtime mpi "
        "--role launcher=1 --workers 2 -- mpirun python train.py`"
    )


def test_init_writes_a_first_job_file(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(RANKS + REQUIRED)

    done = windlass(tmp_path, "init", "--name", "digits", "train.py")

    assert done.stderr == (
        "train.py takes --rank, takes --world-size and takes --dist-url\n"
        "warning: train.py requires arguments: add --data, output to the command in the job file\n"
        "the job: digits, pytorch, 2 workers\n"
        "wrote job.yaml. Run it on this machine with: windlass run job.yaml\n"
    )
    text = (tmp_path / "job.yaml").read_text()
    assert text.startswith("# yaml-language-server: $schema=.windlass.schema.json\n")
    assert (tmp_path / ".windlass.schema.json").exists()
    assert "    # resources: {gpus: 1}  # GPUs per task" in text
    assert "\n# retry: {job: 3}" in text
    job = yaml.safe_load(text)
    assert (job["code"], job["command"]) == (
        ".",
        "python3 train.py --rank=$(RANK) --world-size=$(WORLD_SIZE) --dist-url=env://",
    )
    assert "retry" not in job


def test_init_warns_if_all_tasks_do_the_same_work(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(COPY)

    done = windlass(tmp_path, "init", "--name", "digits", "--workers", "3", "train.py")

    assert done.stderr.splitlines()[1] == f"warning: train.py does not distribute its work: {ALONE}"


def test_init_sends_only_the_script_from_a_home_folder(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(COPY)
    environment = {"HOME": str(tmp_path)}

    windlass(tmp_path, "init", "--name", "digits", "train.py", environment=environment)
    done = windlass(tmp_path, "lint", "job.yaml", environment=environment)

    assert yaml.safe_load((tmp_path / "job.yaml").read_text())["code"] == "./train.py"
    assert done.stdout == "1 file, 0 errors, 0 warnings\n"


DISTRIBUTED: dict[str, tuple[str, Runtime | None]] = {
    "accelerate": ("from accelerate import Accelerator\nAccelerator()", Runtime.PYTORCH),
    "Lightning": ("import lightning as L\nL.Trainer(num_nodes=2)", Runtime.PYTORCH),
    "env://": ("import torch\nconnect(init_method='env://')", Runtime.PYTORCH),
    "PROCESS_ID": ("import os\nint(os.environ['PROCESS_ID'])", Runtime.JAX),
    "mpi4py": ("from mpi4py import MPI", Runtime.MPI),
    "a task index": ("import os\nint(os.environ['TASK_INDEX'])", None),
    "options of JAX": ("p.add_argument('--process-id')\np.add_argument('--num-processes')", Runtime.JAX),
}


@pytest.mark.parametrize(("source", "runtime"), DISTRIBUTED.values(), ids=DISTRIBUTED)
def test_distributed_scripts_are_recognised(source: str, runtime: Runtime | None) -> None:
    found = script_hints.inspect_script(source.encode())

    assert (found.is_distributed, found.runtime) == (True, runtime)


ALONE_SCRIPTS = {
    "Lightning on one node": "import lightning as L\nL.Trainer()",
    "a rank of matrices": "import torch\np.add_argument('--rank')",
}


@pytest.mark.parametrize("source", ALONE_SCRIPTS.values(), ids=ALONE_SCRIPTS)
def test_other_scripts_are_not_distributed(source: str) -> None:
    found = script_hints.inspect_script(source.encode())

    assert (found.is_distributed, found.arguments) == (False, ())


def test_imported_modules_next_to_the_script_are_inspected(tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "__init__.py").touch()
    (tmp_path / "lib" / "peers.py").write_text(
        "import torch.distributed as dist\ndist.init_process_group()\n"
    )
    (tmp_path / "lib" / "broken.py").write_text("def :\n")

    found = script_hints.inspect_script(b"from lib import peers, broken\n", tmp_path)

    assert (found.is_distributed, found.runtime) == (True, Runtime.PYTORCH)


SETS_ADDRESS: dict[str, tuple[str, bool]] = {
    "an assignment": ("os.environ['MASTER_ADDR'] = 'localhost'", True),
    "in a function": ("def setup():\n    os.environ['MASTER_ADDR'] = 'localhost'", True),
    "an update": ("os.environ.update({'MASTER_ADDR': 'localhost'})", True),
    "a default": ("os.environ.setdefault('MASTER_ADDR', 'localhost')", False),
    "a check": ("if 'MASTER_ADDR' not in os.environ:\n    os.environ['MASTER_ADDR'] = 'localhost'", False),
    "a fallback": ("os.environ['MASTER_ADDR'] = os.environ.get('MASTER_ADDR', 'localhost')", False),
    "an argument": ("os.environ['MASTER_ADDR'] = args.master_addr", False),
    "after an error": (
        "try:\n    x = os.environ['MASTER_ADDR']\nexcept KeyError:\n    os.environ['MASTER_ADDR'] = 'a'",
        False,
    ),
    "another variable": ("os.environ['OMP_NUM_THREADS'] = '1'", False),
}


@pytest.mark.parametrize(("source", "is_reported"), SETS_ADDRESS.values(), ids=SETS_ADDRESS)
def test_overwritten_address_is_found(source: str, is_reported: bool) -> None:
    found = script_hints.inspect_script(f"import os\n{source}\n".encode()).overwritten

    assert [each.name for each in found] == (["MASTER_ADDR"] if is_reported else [])


ARGUMENTS: dict[str, tuple[str, list[str]]] = {
    "argparse": (REQUIRED, ["--data", "output"]),
    "click": (
        "import click\n@click.option('--data', required=True)\n@click.argument('out')\ndef main(): ...",
        ["--data", "out"],
    ),
    "absl": ("flags.DEFINE_string('data', None, '')\nflags.mark_flag_as_required('data')", ["--data"]),
    "subcommands": ("p.add_subparsers()\np.add_argument('x')\np.parse_args()", []),
    "a parser that is not used": ("p.add_argument('x')", []),
    "defaults": ("p.add_argument('x', nargs='?')\np.add_argument('y', default=1)\np.parse_args()", []),
}


@pytest.mark.parametrize(("source", "names"), ARGUMENTS.values(), ids=ARGUMENTS)
def test_required_arguments_are_found(source: str, names: list[str]) -> None:
    assert [each.name for each in script_hints.inspect_script(source.encode()).required] == names
