# ruff: noqa: E501, ISC004 — expected output
"""`lint`, `run`, `submit` and `render` reject jobs that cannot work before they start."""

import os
import shutil
from pathlib import Path

import pytest
from windlass_command import windlass

from windlass.client.submit import code_archive, node_capacity
from windlass.client.submit.node_capacity import Node

JOB = """\
name: digits
image: python:3
code: ./src
command: python train.py
roles: {worker: {tasks: 2}}
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "train.py").write_text("print('ok')\n")
    (tmp_path / "job.yaml").write_text(JOB)
    return tmp_path


def change(project: Path, old: str, new: str) -> None:
    text = (project / "job.yaml").read_text()
    assert old in text
    (project / "job.yaml").write_text(text.replace(old, new))


def test_complete_job_passes_the_checks(project: Path) -> None:
    done = windlass(project, "lint", "job.yaml")

    assert (done.stdout, done.returncode) == ("1 file, 0 errors, 0 warnings\n", 0)


@pytest.mark.parametrize("command", ["lint", "run", "submit", "render"])
def test_missing_code_folder_is_an_error_of_every_command(command: str, project: Path) -> None:
    shutil.rmtree(project / "src")

    done = windlass(project, command, "job.yaml")

    expected = f"job.yaml:3:7: error: code: {project}/src does not exist. Expected a folder or a file.\n"
    assert (done.stdout + done.stderr).startswith(expected)
    assert done.returncode == (1 if command == "lint" else 2)


@pytest.mark.parametrize("command", ["lint", "run", "submit", "render"])
@pytest.mark.parametrize("folder", ["/", "'~'"])
def test_home_and_root_folders_are_rejected_as_code(command: str, folder: str, project: Path) -> None:
    change(project, "./src", folder)

    done = windlass(project, command, "job.yaml", environment={"HOME": str(project)})

    path, name = ("/", "the root folder") if folder == "/" else (project, "your home folder")
    assert (done.stdout + done.stderr).splitlines()[0] == (
        f"job.yaml:3:7: error: code: {path} is {name}, which is not code: move the job file and its scripts to a folder of "
        "their own, or name a single file, such as code: ./train.py"
    )
    assert done.returncode == (1 if command == "lint" else 2)


@pytest.mark.parametrize("command", ["lint", "render"])
def test_too_large_code_is_an_error_with_alternatives(command: str, project: Path) -> None:
    (project / "src" / "weights.bin").write_bytes(os.urandom(code_archive.MAX_BYTES + 1))

    done = windlass(project, command, "job.yaml")

    assert (
        f"{project}/src is larger than 10 MiB when compressed. The largest files: weights.bin (10 MiB), train.py (12 B). "
        f"Exclude files that tasks do not need (in {project}/src/.windlassignore), or put data into a volume (`windlass upload "
        "./data pvc://my-data`, and `volumes: {data: {pvc: my-data, at: /data}}` in the job file), or the code into an image "
        "(a Dockerfile with `FROM python:3` and `COPY . /app`, `docker build -t REGISTRY/NAME .`, `docker push "
        "REGISTRY/NAME`, and `image: REGISTRY/NAME` instead of `code` in the job file)."
    ) in done.stdout + done.stderr
    assert done.returncode == (1 if command == "lint" else 2)


def test_large_code_is_rendered_as_several_config_maps(project: Path) -> None:
    (project / "src" / "weights.bin").write_bytes(os.urandom(2_000_000))

    done = windlass(project, "render", "job.yaml", "--target", "plain")

    lines = done.stdout.splitlines()
    assert [line for line in lines if line.startswith("  name: digits-code")] == [
        "  name: digits-code",
        "  name: digits-code-1",
        "  name: digits-code-2",
    ]
    assert sum("configMap:" in line for line in lines) >= 3
    assert all(len(document) < 1.4 * 2**20 for document in done.stdout.split("---\n"))


@pytest.mark.parametrize(
    ("old", "new", "warning"),
    [
        (
            "train.py",
            "trian.py",
            "job.yaml:4:10: {severity}: command: there is no file trian.py in {project}/src, {where}",
        ),
        (
            "code: ./src\ncommand: python train.py",
            "command: python src/train.py",
            "job.yaml:3:10: warning: command: src/train.py is next to the job file, but the job has no code: on Kubernetes, "
            "its tasks do not get the file. Add `code: .`",
        ),
    ],
)
def test_lint_warns_about_a_missing_script(old: str, new: str, warning: str, project: Path) -> None:
    change(project, old, new)

    done = windlass(project, "lint", "job.yaml")

    expected = warning.format(project=project, severity="warning", where="the code of the job")
    assert (done.stdout, done.returncode) == (f"{expected}\n1 file, 0 errors, 1 warning\n", 0)


def test_lint_warns_about_a_script_that_is_ignored(project: Path) -> None:
    (project / "src" / ".gitignore").write_text("train.py\n")
    (project / "src" / "other.py").touch()

    done = windlass(project, "lint", "job.yaml")

    assert done.stdout.splitlines()[0] == (
        f"job.yaml:4:10: warning: command: train.py is not sent to the tasks: an ignore file in {project}/src excludes it. "
        "Remove the pattern"
    )


def test_run_rejects_a_missing_script(project: Path) -> None:
    change(project, "train.py", "trian.py")

    done = windlass(project, "run", "job.yaml")

    assert (done.stdout, done.stderr, done.returncode) == (
        "",
        f"job.yaml:4:10: error: command: there is no file trian.py in {project}/src, where the tasks start\n",
        2,
    )


@pytest.mark.parametrize(
    "command",
    [
        "cd /app && python train2.py",
        "python -m train2",
        "[python, /app/train2.py]",
        "git clone x && python train2.py",
    ],
)
def test_scripts_outside_of_the_code_are_not_reported(command: str, project: Path) -> None:
    change(project, "python train.py", command)

    assert windlass(project, "lint", "job.yaml").stdout == "1 file, 0 errors, 0 warnings\n"


@pytest.mark.parametrize(
    ("resources", "needed"),
    [
        ("cpus: 6400", "6400 CPUs, this machine has "),
        ("memory: 900Ti", "900 TiB of memory, this machine has "),
        ("gpus: 640", "640 GPUs, this machine has "),
    ],
)
def test_job_that_can_never_fit_this_machine_fails_at_once(
    resources: str, needed: str, project: Path
) -> None:
    change(project, "tasks: 2", f"tasks: 2, resources: {{{resources}}}")

    done = windlass(project, "run", "job.yaml")

    assert done.stderr.startswith(f"windlass: digits cannot run: each task of worker needs {needed}")
    assert done.stderr.endswith(". Request less, or submit the job to a cluster.\n")
    assert (done.stdout, done.returncode) == ("", 2)


def test_tasks_behind_a_barrier_must_fit_together(project: Path) -> None:
    change(project, "tasks: 2", "tasks: 2, resources: {gpus: 2}")
    (project / "job.yaml").write_text(f"{(project / 'job.yaml').read_text()}barrier: true\n")

    done = windlass(project, "run", "--fake-gpus", "3", "job.yaml")

    assert (done.stdout, done.stderr, done.returncode) == (
        "",
        "windlass: digits cannot run: its tasks wait for each other (barrier), and together need 4 GPUs, this machine has 3. "
        "Request less, or submit the job to a cluster.\n",
        2,
    )


def test_submit_warns_when_no_node_is_large_enough() -> None:
    def node(cpus: str, **fields: bool) -> Node:
        return Node(
            spec=node_capacity.NodeSpec(**fields),
            status=node_capacity.NodeStatus({"cpu": cpus, "memory": "8Gi"}),
        )

    container = {"name": "main", "resources": {"limits": {"cpu": "64", "memory": "1Gi"}}}
    role = {"name": "worker", "taskNumber": 2, "task": {"pod": {"spec": {"containers": [container]}}}}

    nodes = [node("2"), node("32"), node("99", unschedulable=True)]
    assert list(node_capacity.role_shortages(role, nodes)) == [
        "each task of worker needs 64 CPUs, the largest of 2 nodes has 32"
    ]
    assert list(node_capacity.role_shortages(role, [node("64")])) == []
    assert list(node_capacity.role_shortages(role, [])) == []
