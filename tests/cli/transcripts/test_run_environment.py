# ruff: noqa: ISC004 — expected output
"""Working directory, Python and environment variables of the tasks of `windlass run`."""

import os
import sys
from pathlib import Path

import pytest
from windlass_command import OWN_PROGRAMS, task_lines, windlass

from windlass.client.submit import shell_variables
from windlass.model.job import Job
from windlass.runner import host_environment

PRINT_FOLDER = "import os\nprint(os.getcwd())\n"
PRINT_VARIABLES = """\
import os
for name in ("OMP_NUM_THREADS", "HF_HOME", "HF_TOKEN", "TF_CONFIG", "CUDA_VISIBLE_DEVICES", "WANDB_API_KEY", "LR"):
    print(name, os.environ.get(name))
"""


def job_file(folder: Path, text: str = "") -> Path:
    folder.mkdir(exist_ok=True)
    file = folder / "job.yaml"
    file.write_text(f"name: digits\ncommand: python ok.py\nroles: {{worker: {{tasks: 1}}}}\n{text}")
    return file


def test_job_without_code_starts_in_the_folder_of_its_file(tmp_path: Path) -> None:
    job_file(tmp_path / "project")
    (tmp_path / "project" / "ok.py").write_text(PRINT_FOLDER)

    done = windlass(tmp_path, "run", "project/job.yaml")

    assert (task_lines(done.stdout), done.returncode) == ([str(tmp_path / "project")], 0)


def test_command_starts_in_the_current_folder(tmp_path: Path) -> None:
    (tmp_path / "ok.py").write_text(PRINT_FOLDER)

    done = windlass(tmp_path, "run", "--", "python", "ok.py", environment={"HOME": str(tmp_path)})

    assert (task_lines(done.stdout), done.returncode) == ([str(tmp_path)], 0)


@pytest.mark.parametrize("command", [("render",), ("render", "--target", "plain")])
def test_render_adds_no_code(command: tuple[str, ...], tmp_path: Path) -> None:
    job_file(tmp_path, "image: python:3\n")

    done = windlass(tmp_path, *command, "job.yaml")

    assert done.returncode == 0
    assert "workingDir" not in done.stdout
    assert "digits-code" not in done.stdout


@pytest.mark.parametrize("variable", ["VIRTUAL_ENV", "CONDA_PREFIX", "PATH"])
def test_tasks_use_the_python_of_the_active_environment(variable: str, tmp_path: Path) -> None:
    python = tmp_path / "env" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\necho from the environment\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    job_file(tmp_path)
    (tmp_path / "ok.py").write_text("print('from the script')\n")
    path = os.pathsep.join(each for each in os.environ["PATH"].split(os.pathsep) if each != str(OWN_PROGRAMS))
    environment = {"PATH": path, "VIRTUAL_ENV": "", "CONDA_PREFIX": ""}
    environment[variable] = str(tmp_path / "env")
    if variable == "PATH":
        environment["PATH"] = f"{python.parent}{os.pathsep}{path}"

    done = windlass(tmp_path, "run", "job.yaml", environment=environment)

    assert task_lines(done.stdout) == ["from the environment", "from the script"]
    assert done.stderr.splitlines() == [f"tasks use {python}; Windlass itself uses {sys.executable}"]


def test_no_note_is_printed_if_tasks_use_the_python_of_windlass(tmp_path: Path) -> None:
    job_file(tmp_path)
    (tmp_path / "ok.py").write_text("import sys\nprint(sys.prefix)\n")

    done = windlass(tmp_path, "run", "job.yaml")

    assert (task_lines(done.stdout), done.stderr) == ([sys.prefix], "")


SHELL = {
    "OMP_NUM_THREADS": "2",
    "HF_HOME": "/cache",
    "HF_TOKEN": "hf_sesame",
    "TF_CONFIG": "{}",
    "CUDA_VISIBLE_DEVICES": "3",
    "WANDB_API_KEY": "sesame",
    "LR": "0.1",
}


def test_training_variables_of_the_shell_reach_the_tasks(tmp_path: Path) -> None:
    job_file(tmp_path, "env: {inherit: [CUDA_VISIBLE_DEVICES, HF_TOKEN, LR, ABSENT], OMP_NUM_THREADS: 4}\n")
    (tmp_path / "ok.py").write_text(PRINT_VARIABLES)

    done = windlass(tmp_path, "run", "--verbose", "job.yaml", environment=SHELL)

    assert task_lines(done.stdout) == [
        "OMP_NUM_THREADS 4",
        "HF_HOME /cache",
        "HF_TOKEN hf_sesame",
        "TF_CONFIG None",
        "CUDA_VISIBLE_DEVICES 3",
        "WANDB_API_KEY None",
        "LR 0.1",
    ]
    assert "job.yaml: warning: env.inherit: not set in this shell: ABSENT\n" in done.stderr
    (listed,) = [line for line in done.stderr.splitlines() if line.startswith("variables of the shell")]
    names = listed.partition(": ")[2].split(", ")
    assert {"HF_HOME", "CUDA_VISIBLE_DEVICES", "HF_TOKEN", "LR"} <= set(names)
    assert not {"ABSENT", "TF_CONFIG", "WANDB_API_KEY"} & set(names)


def test_tasks_on_the_local_cluster_find_the_programs_of_this_shell() -> None:
    programs = host_environment.program_variables({"PATH": "/bin", "VIRTUAL_ENV": "/venv", "USER": "me"})

    changed = shell_variables.applied(Job(name="digits", env={"SEED": 1}), {}, programs)

    assert changed.env == {"PATH": f"/venv/bin:/bin:{OWN_PROGRAMS}", "VIRTUAL_ENV": "/venv", "SEED": 1}


def test_named_secrets_of_the_shell_are_not_in_the_framework() -> None:
    job = Job(name="digits", env={"inherit": ("HF_TOKEN", "LR"), "SEED": 1})

    changed = shell_variables.applied(job, SHELL)

    assert changed.secrets == {"HF_TOKEN": "hf_sesame"}
    assert changed.env == {"HF_HOME": "/cache", "OMP_NUM_THREADS": "2", "LR": "0.1", "SEED": 1}
    assert shell_variables.applied(job, None).variables == {"SEED": 1}


@pytest.mark.parametrize(
    ("name", "value", "passes"),
    [
        ("MKL_NUM_THREADS", "2", True),
        ("PYTHONHASHSEED", "0", True),
        ("TRANSFORMERS_CACHE", "/cache", True),
        ("WANDB_MODE", "offline", True),
        ("XLA_FLAGS", "--xla_x=1", True),
        ("NCCL_DEBUG", "INFO", True),
        ("GLOO_SOCKET_IFNAME", "lo", True),
        ("TF_CPP_MIN_LOG_LEVEL", "2", True),
        ("TF_VAR_region", "eu", False),
        ("HF_HUB_TOKEN", "x", False),
        ("HF_ENDPOINT", "https://me:sesame@hub.example", False),
        ("HF_ENDPOINT", "https://hub.example", True),
        ("NCCL_AUTH_KEY", "x", False),
        ("TF_XLA_VISIBLE_DEVICES", "0", False),
        ("WANDB_API_KEY", "x", False),
        ("AWS_REGION", "eu", False),
    ],
)
def test_training_variables_are_passed_and_secrets_are_not(name: str, value: str, passes: bool) -> None:
    assert shell_variables.training_variables({name: value}) == ({name: value} if passes else {})


def test_submit_and_render_warn_that_they_pass_no_variables(tmp_path: Path) -> None:
    job_file(tmp_path, "image: python:3\nenv: {inherit: [LR]}\n")

    done = windlass(tmp_path, "render", "job.yaml", environment=SHELL)

    assert done.stderr.splitlines() == [
        "job.yaml: warning: env.inherit is for `windlass run`: the tasks of digits do not get LR. Set them in `env` or "
        "`secrets`."
    ]
    assert "LR" not in done.stdout
    assert "inherit" not in done.stdout
