"""`--set`, `--env` and appended arguments: what the commands print, with files of a new user."""

import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from windlass.cli.main import main

JOB = """\
name: digits
image: python:3.12
command: python train.py
env: {LR: "1", SEED: "7"}
roles:
  evaluator: {env: {LR: "2"}}
  worker:
    tasks: 2
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "job.yaml").write_text(JOB)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def windlass(*words: str) -> Result:
    return CliRunner().invoke(main, words)


def roles(result: Result) -> dict[str, dict[str, object]]:
    """Return number of tasks, image and environment of each role."""
    assert result.exit_code == 0, result.output
    framework = next(
        each for each in yaml.safe_load_all(result.stdout) if each is not None and each["kind"] == "Framework"
    )
    found = {}
    for role in framework["spec"]["taskRoles"]:
        (container,) = role["task"]["pod"]["spec"]["containers"]
        env = {each["name"]: each.get("value") for each in container["env"]}
        found[role["name"]] = {
            "tasks": role["taskNumber"],
            "image": container["image"],
            "command": container["command"],
            **{name: env[name] for name in ("LR", "SEED", "NEW") if name in env},
        }
    return found


def test_set_and_env_override_fields() -> None:
    options = (
        "--set",
        "roles.worker.tasks=4",
        "--set",
        "image=python:3.13",
        "--env",
        "LR=0.1",
        "--env",
        "NEW=",
    )
    result = windlass("render", "job.yaml", *options)
    common = {"image": "python:3.13", "command": ["python", "train.py"], "LR": "0.1", "SEED": "7", "NEW": ""}
    assert roles(result) == {"evaluator": {"tasks": 1, **common}, "worker": {"tasks": 4, **common}}
    assert result.stderr == ""


def test_override_adds_and_removes_fields() -> None:
    options = ("--set", "roles.worker.image=x:1", "--set", "env=", "--set", "roles.chief={tasks: 1}")
    found = roles(windlass("render", "job.yaml", *options))
    assert found["worker"]["image"] == "x:1"
    assert found["chief"]["tasks"] == 1
    assert "SEED" not in found["worker"]


def test_items_of_lists_are_overridden(folder: Path) -> None:
    (folder / "job.yaml").write_text(JOB + "tolerations: [{key: a}, {key: b, operator: Exists}]\n")
    result = windlass("render", "job.yaml", "--set", "tolerations[1].key=gpu")
    assert "key: gpu" in result.stdout
    assert "key: b" not in result.stdout


ERRORS = {
    "role": (
        "roles.worke.tasks=4",
        (
            'job.yaml:6:3: error: roles.worke: there is no role "worke" (--set roles.worke.tasks=4). '
            'Did you mean "worker"?'
        ),
    ),
    "field of a role": (
        "roles.worker.taks=4",
        (
            'job.yaml:8:5: error: roles.worker.taks: unknown field "taks". Did you mean "tasks"? '
            "(--set roles.worker.taks=4)"
        ),
    ),
    "field": (
        "retries=3",
        'job.yaml:1:1: error: retries: unknown field "retries". Did you mean "retry"? (--set retries=3)',
    ),
    "value": (
        "roles.worker.tasks=-1",
        (
            "job.yaml:8:12: error: roles.worker.tasks: found the number -1, expected an integer from 0 to 10000 "
            "(--set roles.worker.tasks=-1)"
        ),
    ),
    "inside a value": (
        "image.tag=3",
        "job.yaml:2:8: error: image: has no fields, because it is a single value (--set image.tag=3)",
    ),
    "item": (
        "tolerations[0].key=3",
        "job.yaml:1:1: error: tolerations[0]: there is no such item in the list (--set tolerations[0].key=3)",
    ),
}


@pytest.mark.parametrize("case", ERRORS)
@pytest.mark.parametrize("command", ["render", "plan", "run", "submit"])
def test_wrong_override_is_reported_with_its_position(command: str, case: str) -> None:
    option, message = ERRORS[case]
    result = windlass(command, "job.yaml", "--set", option)
    assert (result.exit_code, result.stdout, result.stderr) == (2, "", f"{message}\n")


USAGE_ERRORS = {
    "no value": (("--set", "tasks"), "found 'tasks', expected PATH=VALUE, e.g. roles.worker.tasks=4"),
    "no path": (("--set", "a..b=1"), "found 'a..b=1', expected PATH=VALUE"),
    "no YAML": (("--set", "image={"), "found 'image={': the value is not YAML"),
    "no name": (("--env", "=1"), "found '=1', expected NAME=VALUE"),
}


@pytest.mark.parametrize("case", USAGE_ERRORS)
def test_invalid_option_is_reported(case: str) -> None:
    options, message = USAGE_ERRORS[case]
    result = windlass("render", "job.yaml", *options)
    assert result.exit_code == 2
    assert message in result.stderr


def test_override_applies_to_each_job_that_has_the_role(folder: Path) -> None:
    other = "name: other\nimage: x\ncommand: x\nroles: {chief: {}}\n"
    (folder / "job.yaml").write_text(f"{JOB}---\n{other}")
    result = windlass("plan", "job.yaml", "--set", "roles.worker.tasks=1", "--task-time", "1m")
    assert result.exit_code == 0, result.output
    assert "worker-1" not in result.stdout
    assert "chief-0" in result.stdout


def test_framework_cannot_be_overridden(folder: Path) -> None:
    framework = windlass("render", "job.yaml").stdout
    (folder / "framework.yaml").write_text(framework)
    result = windlass("render", "framework.yaml", "--env", "A=1")
    assert result.exit_code == 2
    assert result.stderr == (
        "framework.yaml:1:1: error: --env A=1: only job files can be changed this way, and there is none in this "
        "file\n"
    )


# Arguments of `windlass run job.yaml -- ARGUMENTS`


@pytest.mark.pods
def test_run_appends_arguments_to_the_command(folder: Path) -> None:
    script = "import os, sys; print(sys.argv[1:], os.environ['LR'])"
    (folder / "job.yaml").write_text(
        f'name: digits\ncommand: python -c "{script}" --data x\nroles: {{worker: {{}}}}\n'
    )
    command = (sys.executable, "-m", "windlass.cli.main", "run", "job.yaml", "--env", "LR=0.1")
    done = subprocess.run(  # noqa: S603
        (*command, "--", "--steps", "5", "a b"), cwd=folder, capture_output=True, text=True, check=True
    )
    assert "worker-0 | ['--data', 'x', '--steps', '5', 'a b'] 0.1" in done.stdout.splitlines()


LONGER = {
    "a string": ("command: python train.py", "python train.py --steps 5"),
    "a list": ("command: [python, train.py]", "python train.py --steps 5"),
    "a shell command": (
        "command: python train.py > $HOME/log",
        "/bin/sh -c python train.py > $HOME/log --steps 5",
    ),
}


@pytest.mark.parametrize("case", LONGER)
def test_arguments_are_appended_to_each_form_of_command(case: str, folder: Path) -> None:
    from windlass.jobfile.overrides import Overrides
    from windlass.render import documents
    from windlass.render.framework import builder

    written, expected = LONGER[case]
    data = f"name: digits\nimage: x\n{written}\nroles: {{worker: {{}}}}\n".encode()
    contents = documents.read(data, "job.yaml", changes=Overrides(arguments=("--steps", "5")))
    assert contents.diagnostics == ()
    job = contents.submissions[0].job
    assert job is not None
    pod = builder.framework(job)["spec"]["taskRoles"][0]["task"]["pod"]
    assert " ".join(pod["spec"]["containers"][0]["command"]) == expected


def test_arguments_are_appended_to_the_commands_of_roles_if_the_job_has_none(folder: Path) -> None:
    (folder / "job.yaml").write_text("name: digits\nroles: {a: {command: cd /tmp; ls}, b: {command: cat}}\n")
    result = windlass("run", "job.yaml", "--", "--steps", "5")
    assert result.exit_code == 2
    assert result.stderr == (
        "job.yaml:2:22: error: roles.a.command: arguments cannot be appended to a command that consists of several "
        "commands. Use a variable in the command instead, e.g. $ARGS, and set it with --env ARGS=…\n"
    )


def test_unknown_field_above_the_overridden_one_names_the_option() -> None:
    result = windlass("run", "job.yaml", "--set", "role.worker.tasks=4")
    assert result.exit_code == 2
    assert 'role: unknown field "role". Did you mean "roles"? (--set role.worker.tasks=4)' in result.stderr


@pytest.mark.parametrize("command", ["submit", "plan", "render"])
def test_arguments_after_the_file_are_appended(command: str, folder: Path) -> None:
    assert "FILE... [-- ARGUMENTS...]" in windlass("submit", "--help").stdout
    (folder / "job.yaml").write_text("name: digits\nimage: x\ncommand: cd /tmp; ls\nroles: {worker: {}}\n")
    result = windlass(command, "job.yaml", "--", "--steps", "5")
    assert result.exit_code == 2
    assert "arguments cannot be appended to a command that consists of several commands" in result.stderr


def test_set_requires_a_file() -> None:
    result = windlass("run", "--set", "image=x", "--", "true")
    assert result.exit_code == 2
    assert "--set image=x requires a job file: a command has no fields" in result.stderr
