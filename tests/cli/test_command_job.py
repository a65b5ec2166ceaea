"""Conversion of a command to a job: name, roles, runtime."""

from pathlib import Path

import click
import pytest

from windlass.cli import command_job
from windlass.cli.command_job import ALL_GPUS, JobOptions
from windlass.model.feature_annotations import Runtime
from windlass.model.job import Job
from windlass.model.resources import Gpus, Resources


def job(folder: Path, *words: str, options: JobOptions | None = None) -> Job:
    made = command_job.submission(words or ("python", "train.py"), options or JobOptions(), folder).job
    assert made is not None
    return made


NAMES = {
    "script": (("python", "train.py"), "train"),
    "path": (("python3.11", "-u", "src/Train_Model.v2.py", "--name", "x"), "train-model-v2"),
    "shell-script": (("./run_it.sh",), "run-it"),
    "program": (("/usr/bin/env", "sleep", "3"), "sleep"),
    "no-script": (("python", "-c", "print()"), "print"),
    "no-letters": (("python", "___.py"), "job"),
    "long": (("python", f"{'x' * 100}.py"), "x" * 40),
}


@pytest.mark.parametrize(("words", "expected"), NAMES.values(), ids=NAMES.keys())
def test_name_is_derived_from_the_command(tmp_path: Path, words: tuple[str, ...], expected: str) -> None:
    made = job(tmp_path, *words)
    assert (made.name, made.command, made.code) == (expected, words, "")


ROLES = {
    "none": (JobOptions(), {"worker": 1}),
    "ps-alone": (JobOptions(numbers={"ps": 2}), {"ps": 2, "worker": 1}),
    "ps-and-workers": (JobOptions(numbers={"ps": 2, "workers": 3}), {"ps": 2, "worker": 3}),
    "chief": (JobOptions(numbers={"chief": 1, "ps": 1}), {"chief": 1, "ps": 1}),
    "others": (JobOptions(roles=("evaluator=1", "worker=2")), {"evaluator": 1, "worker": 2}),
}


@pytest.mark.parametrize(("options", "expected"), ROLES.values(), ids=ROLES.keys())
def test_roles_are_set_by_options(tmp_path: Path, options: JobOptions, expected: dict[str, int]) -> None:
    assert {name: role.tasks for name, role in job(tmp_path, options=options).roles.items()} == expected


RUNTIMES = {
    "tensorflow": ("import tensorflow as tf\n", JobOptions(), Runtime.TENSORFLOW),
    "pytorch": ("from torch import nn\n", JobOptions(), Runtime.PYTORCH),
    "jax": ("import jax\n", JobOptions(), Runtime.JAX),
    "none": ("import os\n", JobOptions(), Runtime.PLAIN),
    "mpi": ("from mpi4py import MPI\n", JobOptions(), Runtime.PLAIN),
    "parameter-servers": ("import os\n", JobOptions(numbers={"ps": 1}), Runtime.TENSORFLOW),
    "told": ("import tensorflow\n", JobOptions(runtime=Runtime.PLAIN), Runtime.PLAIN),
    "no-python": ("import tensorflow (\n", JobOptions(runtime=Runtime.JAX), Runtime.JAX),
}


@pytest.mark.parametrize(("source", "options", "expected"), RUNTIMES.values(), ids=RUNTIMES.keys())
def test_runtime_is_inferred_from_the_script(
    tmp_path: Path, source: str, options: JobOptions, expected: Runtime
) -> None:
    (tmp_path / "train.py").write_text(source)
    assert job(tmp_path, options=options).runtime is expected


def test_unreadable_script_gives_no_hints(tmp_path: Path) -> None:
    assert job(tmp_path).runtime is Runtime.PLAIN


OLD_STYLE = """
import tensorflow as tf
tf.app.flags.DEFINE_string("ps_hosts", "", "")
tf.app.flags.DEFINE_integer("task_index", 0, "")
"""
UNSET_OPTIONS = {
    "all of them": (("python", "train.py"), ("--ps_hosts=$(PS_HOSTS)", "--task_index=$(TASK_INDEX)")),
    "one of them": (("python", "train.py", "--ps_hosts=a:1"), ("--task_index=$(TASK_INDEX)",)),
    "none": (("python", "train.py", "-ps_hosts", "a:1", "--task_index=0"), ()),
    "another script": (("python", "other.py"), ()),
    "no script": (("sleep", "1"), ()),
}


@pytest.mark.parametrize(("words", "expected"), UNSET_OPTIONS.values(), ids=UNSET_OPTIONS.keys())
def test_unset_peer_options_of_the_script_are_found(
    tmp_path: Path, words: tuple[str, ...], expected: tuple[str, ...]
) -> None:
    (tmp_path / "train.py").write_text(OLD_STYLE)
    assert command_job.missing_options(words, tmp_path) == expected


def test_environment_and_barrier_are_set(tmp_path: Path) -> None:
    made = job(tmp_path, options=JobOptions(env=("A=1", "B=x=y", "C="), has_barrier=True))
    assert (made.env, made.barrier) == ({"A": "1", "B": "x=y", "C": ""}, True)


WRONG = {
    "name": (JobOptions(name="Bad_Name"), "name: "),
    "role": (JobOptions(roles=("evaluator",)), "--role: found 'evaluator', expected NAME=N"),
    "number": (JobOptions(roles=("evaluator=many",)), "--role: found 'evaluator=many', expected NAME=N"),
    "role-name": (JobOptions(roles=("Bad_Name=1",)), "roles"),
    "no-tasks": (JobOptions(numbers={"workers": 0}), "roles"),
    "variable": (JobOptions(env=("A",)), "--env: found 'A', expected NAME=VALUE"),
    "variable-name": (JobOptions(env=("1 2=3",)), "env"),
}


@pytest.mark.parametrize(("options", "words"), WRONG.values(), ids=WRONG.keys())
def test_invalid_options_are_rejected(tmp_path: Path, options: JobOptions, words: str) -> None:
    with pytest.raises(click.UsageError) as error:
        job(tmp_path, options=options)
    assert error.value.message.startswith(words)
    assert "\n" not in error.value.message


MIG = "nvidia.com/mig-1g.10gb"
RESOURCES = {
    "number": (JobOptions(gpus=2), {}, {"worker": 2}),
    "none": (JobOptions(gpus=0), {"nvidia.com/gpu": 8}, {"worker": None}),
    "all": (JobOptions(gpus=ALL_GPUS), {"nvidia.com/gpu": 8}, {"worker": 8}),
    "divided": (
        JobOptions(gpus=ALL_GPUS, numbers={"workers": 3, "ps": 2}),
        {"nvidia.com/gpu": 8},
        {"ps": None, "worker": 2},
    ),
    "amd": (JobOptions(gpus=1), {"amd.com/gpu": 4}, {"worker": Gpus(count=1, resource="amd.com/gpu")}),
    "instances": (JobOptions(gpus=ALL_GPUS), {MIG: 7}, {"worker": Gpus(count=7, resource=MIG)}),
}


@pytest.mark.parametrize(("options", "machine", "expected"), RESOURCES.values(), ids=RESOURCES.keys())
def test_gpus_are_per_task_except_parameter_servers(
    tmp_path: Path, options: JobOptions, machine: dict[str, int], expected: dict[str, int | Gpus | None]
) -> None:
    made = command_job.submission(("python", "train.py"), options, tmp_path, machine).job
    assert made is not None
    found = {name: role.resources and role.resources.gpus for name, role in made.roles.items()}
    assert found == expected


def test_cpus_and_memory_are_per_task(tmp_path: Path) -> None:
    options = JobOptions(numbers={"ps": 1, "workers": 2}, cpus="500m", memory="1Gi")
    roles = job(tmp_path, options=options).roles
    assert {role.resources for role in roles.values()} == {Resources(cpus="500m", memory="1Gi")}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (JobOptions(gpus=ALL_GPUS), "this machine has 0 GPUs, too few for 1 tasks"),
        (JobOptions(gpus=ALL_GPUS, numbers={"workers": 5}), "this machine has 4 GPUs, too few for 5 tasks"),
        (JobOptions(cpus="many"), "a quantity above 0"),
        (JobOptions(memory="8"), "Did you mean 8Gi?"),
    ],
)
def test_impossible_resources_are_rejected(tmp_path: Path, options: JobOptions, message: str) -> None:
    machine = {"nvidia.com/gpu": 4} if "workers" in options.numbers else {}
    with pytest.raises(click.UsageError) as error:
        command_job.submission(("python", "train.py"), options, tmp_path, machine)
    assert message in error.value.message


def test_given_options_are_listed() -> None:
    options = JobOptions(
        name="a", runtime=Runtime.JAX, numbers={"ps": 0}, env=("A=1",), gpus=0, cpus="1", memory="1Gi"
    )
    assert options.given_options == ["--name", "--runtime", "--ps", "--gpus", "--cpus", "--memory"]
    assert JobOptions().given_options == []
