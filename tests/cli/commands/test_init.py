"""`windlass init`: lint finds no problems in the job file, whatever the script and the options are."""

import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import jsonschema
import msgspec
import pytest
import yaml
from click.testing import CliRunner, Result

from windlass.cli.commands import lint
from windlass.cli.main import main
from windlass.jobfile import schema as jobfile_schema
from windlass.model.feature_annotations import Runtime

TENSORFLOW = "import tensorflow as tf\n"
COORDINATOR = f"{TENSORFLOW}tf.distribute.coordinator.ClusterCoordinator(s)\n"
OLD_TENSORFLOW = f"{TENSORFLOW}f.DEFINE_string('ps_hosts', '', '')\nf.DEFINE_string('job_name', '', '')\n"
PYTORCH = "import torch.distributed\n"


def init(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, ["init", *(str(argument) for argument in arguments)])


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "digits"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


JOBS: dict[str, tuple[str | None, tuple[str, ...], str, dict[str, int], str]] = {
    # script, options, and the expected runtime, tasks and command
    "no script": (None, (), "plain", {"worker": 1}, "python3 train.py"),
    "no hints": ("print(1)", (), "plain", {"worker": 1}, "python3 train.py"),
    "a library without distribution": (TENSORFLOW, (), "tensorflow", {"worker": 1}, "python3 train.py"),
    "from the issue": (TENSORFLOW, ("--runtime", "tensorflow", "--ps", "2", "--workers", "2"), "tensorflow",
                       {"ps": 2, "worker": 2}, "python3 train.py"),
    "a ps means TensorFlow": ("print(1)", ("--ps", "1"), "tensorflow", {"ps": 1, "worker": 2}, "python3 train.py"),
    "the coordinator": (COORDINATOR, (), "tensorflow", {"chief": 1, "ps": 1, "worker": 2}, "python3 train.py"),
    "no chief": (COORDINATOR, ("--chief", "0"), "tensorflow", {"ps": 1, "worker": 2}, "python3 train.py"),
    "old options": (OLD_TENSORFLOW, (), "tensorflow", {"ps": 1, "worker": 2},
                    "python3 train.py --ps_hosts=$(PS_HOSTS) --job_name=$(JOB_NAME)"),
    "PyTorch": (PYTORCH, (), "pytorch", {"worker": 2}, "python3 train.py"),
    "PyTorch with several GPUs": (PYTORCH, ("--gpus", "4"), "pytorch", {"worker": 2},
                                  "torchrun --nproc-per-node=4 train.py"),
    "JAX": ("import jax\njax.distributed.initialize()", (), "jax", {"worker": 2}, "python3 train.py"),
    "MPI": ("from mpi4py import MPI", (), "mpi", {"launcher": 1, "worker": 2}, ""),
    "runtime option overrides the hints": (PYTORCH, ("--runtime", "plain"), "plain", {"worker": 2}, "python3 train.py"),
    "Python 2": ("print 'x'\nimport tensorflow\n", (), "tensorflow", {"worker": 1}, "python3 train.py"),
    "an image": ("", ("--image", "registry.example:5000/a/b@sha256:0f"), "plain", {"worker": 1}, "python3 train.py"),
    "only a chief": ("", ("--chief", "1", "--workers", "0"), "plain", {"chief": 1}, "python3 train.py"),
}  # fmt: skip


@pytest.mark.parametrize(("script", "options", "runtime", "tasks", "command"), JOBS.values(), ids=JOBS)
def test_job_file_passes_lint(
    here: Path,
    script: str | None,
    options: tuple[str, ...],
    runtime: str,
    tasks: dict[str, int],
    command: str,
) -> None:
    (here / "train.py").write_text(script or "")

    result = init(*(["train.py"] if script is not None else []), *options)

    job = yaml.safe_load((here / "job.yaml").read_text())
    assert result.exit_code == 0, result.output
    assert (job["name"], job["runtime"], job["code"]) == ("digits", runtime, ".")
    assert {role: of_role["tasks"] for role, of_role in job["roles"].items()} == tasks
    assert job.get("command", "") == command
    assert lint.check_files(["job.yaml"], is_fixing=False).faults == ()
    assert f"the job: digits, {runtime}, " in result.stderr


def test_init_prints_what_it_found_in_the_script(here: Path) -> None:
    (here / "train.py").write_text(OLD_TENSORFLOW)

    result = init("train.py")

    assert result.stderr.splitlines() == [
        "train.py imports tensorflow, takes --ps_hosts and takes --job_name",
        "the job: digits, tensorflow, 1 ps, 2 workers",
        "wrote job.yaml. Run it on this machine with: windlass run job.yaml",
    ]


def test_schema_of_the_first_line_accepts_the_job(here: Path) -> None:
    init()

    text = (here / "job.yaml").read_text()
    first, *_ = text.splitlines()
    found = re.fullmatch(r"# yaml-language-server: \$schema=(\S+)", first)
    assert found is not None
    schema = msgspec.json.decode((here / found[1]).read_bytes())
    assert schema == msgspec.json.decode(jobfile_schema.read_published())
    jsonschema.Draft202012Validator(schema).validate(yaml.safe_load(text))


@pytest.mark.parametrize("runtime", list(map(str, Runtime)))
def test_commented_fields_are_valid(here: Path, runtime: str) -> None:
    (here / "train.py").touch()
    init("--runtime", runtime)
    text = (here / "job.yaml").read_text()
    optional = re.compile(r"^( *)# (?=(?: *)\w+:(?: [^/\s]|$))", re.MULTILINE)

    (here / "job.yaml").write_text(optional.sub(r"\1", text))

    job = yaml.safe_load((here / "job.yaml").read_text())
    assert {"env", "volumes", "image"} <= set(job)
    assert job["roles"]["worker"]["resources"]["gpus"] == 1
    assert lint.check_files(["job.yaml"], is_fixing=False).faults == ()


NAMES = {
    "src/train.py": ("digits-2", "./src", "python3 train.py"),
    "My Model_v2.py": ("my-model-v2", ".", "python3 'My Model_v2.py'"),
    "2024.py": ("job-2024", ".", "python3 2024.py"),
    "études.py": ("tudes", ".", "python3 'études.py'"),
    f"{'long' * 30}.py": ("long" * 10, ".", f"python3 {'long' * 30}.py"),
    "fit": ("fit", ".", "./fit"),
}


@pytest.mark.parametrize(("script", "expected"), NAMES.items(), ids=NAMES)
def test_name_is_derived_from_the_script(here: Path, script: str, expected: tuple[str, str, str]) -> None:
    (here / script).parent.mkdir(exist_ok=True)
    (here / script).write_text("")

    init(script, *(("--name", "digits-2") if "/" in script else ()))

    job = yaml.safe_load((here / "job.yaml").read_text())
    assert (job["name"], job["code"], job["command"]) == expected
    assert lint.check_files(["job.yaml"], is_fixing=False).faults == ()


def test_code_path_is_relative_to_the_job_file(here: Path) -> None:
    (here / "jobs").mkdir()
    (here / "train.py").write_text("")

    init("train.py", "--output-file", "jobs/a.yaml")

    assert yaml.safe_load((here / "jobs" / "a.yaml").read_text())["code"] == ".."


def test_existing_file_is_not_replaced(here: Path) -> None:
    (here / "job.yaml").write_text("mine")

    refused = init()

    assert (refused.exit_code, refused.stdout) == (2, "")
    assert (here / "job.yaml").read_text() == "mine"
    assert init("--force").exit_code == 0
    assert (here / "job.yaml").read_text() != "mine"


REFUSED: dict[str, tuple[tuple[str, ...], str]] = {
    "no script": (("missing.py",), "the script missing.py does not exist. Check its path"),
    "a folder": (("..",), ".. is a directory. Give the script in it that every task runs."),
    "an invalid name": (("--name", "My Job"), "a DNS label"),
    "a name that is invalid for a Service": (
        ("--name", "1job", "--runtime", "jax"),
        "expected a name that starts with a letter",
    ),
    "no workers": (("--workers", "0"), "no task would train"),
    "only parameter servers": (("--ps", "2", "--workers", "0"), "no task would train"),
    "too many": (("--workers", "20000"), "20000"),
    "no number": (("--workers", "two"), "is not a valid integer"),
    "an unknown runtime": (("--runtime", "caffe"), "'tensorflow'"),
}


@pytest.mark.parametrize(("arguments", "words"), REFUSED.values(), ids=REFUSED)
def test_invalid_options_are_rejected(here: Path, arguments: tuple[str, ...], words: str) -> None:
    run = subprocess.run(  # noqa: S603
        [sys.executable, "-m", "windlass.cli.main", "init", *arguments],
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )

    assert (run.returncode, run.stdout) == (2, "")
    assert words in " ".join(run.stderr.split())
    assert "Traceback" not in run.stderr
    assert list(here.iterdir()) == []


def test_missing_output_directory_is_reported(here: Path) -> None:
    run = subprocess.run(
        [sys.executable, "-m", "windlass.cli.main", "init", "--output-file", "no/job.yaml"],
        capture_output=True,
        text=True,
        check=False,
    )

    assert run.returncode == 1
    assert "windlass: cannot write no/job.yaml: No such file or directory" in run.stderr


def test_full_disk_leaves_no_partial_file(here: Path) -> None:
    """The file size limit of the shell simulates a full disk."""
    command = f"ulimit -f 0; trap '' XFSZ; exec {sys.executable} -m windlass.cli.main init"
    run = subprocess.run(  # noqa: S603
        ["/bin/sh", "-c", command], capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
    )

    assert run.returncode == 1
    assert "windlass: cannot write job.yaml: File too large" in run.stderr
    assert list(here.iterdir()) == []


def test_prompts_on_a_terminal(here: Path) -> None:
    """An empty answer selects the value inferred from the script."""
    (here / "train.py").write_text(COORDINATOR)
    terminal, ours = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "windlass.cli.main", "init", "train.py"],
        stdin=ours,
        stdout=ours,
        stderr=ours,
    ) as process:
        os.close(ours)
        os.write(terminal, b"mine\n\n3\n\n1\n")
        shown = b""
        try:
            while chunk := os.read(terminal, 4096):
                shown += chunk
        except OSError:  # all other holders have closed it
            pass
    os.close(terminal)

    job = yaml.safe_load((here / "job.yaml").read_text())
    assert process.returncode == 0, shown
    assert b"Parameter servers [1]" in shown
    assert (job["name"], job["runtime"]) == ("mine", "tensorflow")
    assert {role: of_role["tasks"] for role, of_role in job["roles"].items()} == {
        "chief": 1,
        "ps": 3,
        "worker": 2,
    }
    assert job["roles"]["worker"]["resources"] == {"gpus": 1}
