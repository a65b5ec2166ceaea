"""Commands as a new user types them: without names, with names of other programs, and for plain Jobs."""

import os
import re
from collections.abc import Iterator
from pathlib import Path

import in_process_cluster
import pytest
import yaml
from click.testing import CliRunner, Result
from fake_kubelet import lifecycle
from in_process_cluster import ClusterNamespace, InProcessCluster
from operated import jobs

from conformance.waiting import wait_for
from windlass.cli.main import main
from windlass.model import names


def windlass(place: ClusterNamespace, command: str, *words: str) -> Result:
    return CliRunner().invoke(main, [command, *place.options, *words])


def lines(text: str) -> list[str]:
    """Return the lines with single spaces, and times replaced."""
    return [
        re.sub(r" +", " ", re.sub(r"\b[0-9]+s\b|\b[0-9.]+ s\b", "<time>", line)) for line in text.splitlines()
    ]


@pytest.fixture(autouse=True)
def kept_outputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder with the output of runs, which does not exist."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path / "windlass" / "output"


# Without a name


@pytest.fixture
def digits(place: ClusterNamespace) -> ClusterNamespace:
    place.submit(jobs.framework("digits", jobs.role(life=jobs.fails(3))))
    place.wait_for_completed("digits")
    return place


@pytest.mark.parametrize("command", ["status", "logs", "why", "events", "describe"])
def test_only_job_is_the_default_name(command: str, digits: ClusterNamespace) -> None:
    named, unnamed = windlass(digits, command, "digits"), windlass(digits, command)
    assert (unnamed.exit_code, lines(unnamed.stdout)) == (named.exit_code, lines(named.stdout))
    note = f"windlass: digits is the only job in the namespace {digits.name}\n"
    assert unnamed.stderr == f"{note}{named.stderr}"


def test_latest_job_is_the_default_name(digits: ClusterNamespace) -> None:
    created = digits.framework("digits")["metadata"]["creationTimestamp"]

    def is_later() -> bool:
        digits.client.delete(digits.framework_path("a-later-one"))
        digits.wait_for(
            "its end", lambda: digits.client.get(digits.framework_path("a-later-one")).code == 404
        )
        digits.submit(jobs.framework("a-later-one", jobs.role(life=jobs.FOREVER)))
        later: str = digits.framework("a-later-one")["metadata"]["creationTimestamp"]
        return bool(later > created)

    wait_for("a later second", is_later)
    result = windlass(digits, "status")
    assert result.stderr == f"windlass: a-later-one is the latest of 2 jobs in the namespace {digits.name}\n"
    assert f"job         a-later-one in the namespace {digits.name}" in result.stdout.splitlines()


@pytest.mark.parametrize("command", ["status", "logs", "why", "events", "describe"])
def test_missing_job_is_reported_without_a_name(command: str, place: ClusterNamespace) -> None:
    result = windlass(place, command)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == (
        f"windlass: there are no jobs in the namespace {place.name}. "
        "List the jobs of all namespaces with `windlass list -A`.\n"
    )


@pytest.mark.parametrize("command", ["status", "logs", "why", "events", "describe"])
def test_output_of_the_last_run_is_named_if_its_job_is_gone(
    command: str, place: ClusterNamespace, kept_outputs: Path
) -> None:
    for name in ("digits-0a1b", "digits-0a1c", "digits-2-0a1b"):
        (kept_outputs / name).mkdir(parents=True)
    os.utime(kept_outputs / "digits-0a1c", (0, 0))
    result = windlass(place, command, "digits")
    assert result.exit_code == 1
    assert (
        f"the output of the tasks is in {kept_outputs / 'digits-0a1b'}. `windlass run --keep`"
        in result.stderr
    )
    assert "the output of the tasks" not in windlass(place, command, "other").stderr


def test_why_names_the_output_of_the_last_run(digits: ClusterNamespace, kept_outputs: Path) -> None:
    kept = kept_outputs / "digits-0a1b"
    kept.mkdir(parents=True)
    assert windlass(digits, "why").stdout.endswith(f"\nOutput of the last `windlass run` of digits: {kept}\n")


# Names of other programs


@pytest.mark.parametrize(
    ("command", "hint"),
    [
        ("ps", "Use windlass list, or windlass status NAME for the tasks of a job."),
        ("get", "Use windlass list, or windlass status NAME."),
        ("cancel", "Use windlass stop NAME."),
        ("rm", "Use windlass delete NAME."),
        ("statsu", "Did you mean 'status'?"),
    ],
)
def test_command_of_another_program_gets_a_hint(command: str, hint: str) -> None:
    result = CliRunner().invoke(main, [command, "digits"])
    assert result.exit_code == 2
    assert result.stderr.endswith(f"Error: No such command '{command}'. {hint}\n")


# Submit


def written(folder: Path, name: str, life: dict[str, str], tasks: int = 1) -> str:
    body = {"name": name, "image": "x", "command": "true", "roles": {"worker": {"tasks": tasks}}}
    (folder / f"{name}.yaml").write_text(yaml.safe_dump({**body, "pod": {"metadata": {"annotations": life}}}))
    return str(folder / f"{name}.yaml")


def test_submit_of_a_command_names_what_to_do() -> None:
    result = CliRunner().invoke(main, ["submit", "--", "sh", "train.sh"])
    assert result.exit_code == 2
    assert (
        "sh is a command, not a job file: run it on this machine with `windlass run -- sh …`" in result.stderr
    )


def test_submit_suggests_the_next_command(place: ClusterNamespace, tmp_path: Path) -> None:
    result = windlass(place, "submit", written(tmp_path, "digits", jobs.FOREVER))
    assert result.stdout == f"digits submitted to namespace {place.name}\n"
    command = f"windlass attach digits --kubeconfig {place.kubeconfig} -n {place.name}"
    assert result.stderr.splitlines()[-1] == f"Follow it with: {command}"


def test_submit_with_wait_reports_each_job_as_it_ends(place: ClusterNamespace, tmp_path: Path) -> None:
    """The first job never ends: with a timeout, the second one is reported before the first one."""
    files = (written(tmp_path, "endless", jobs.FOREVER), written(tmp_path, "short", jobs.fails(7)))
    result = windlass(place, "submit", *files, "--wait", "--timeout", "20s")
    assert result.exit_code == 124
    assert any(line.startswith("short failed: worker-0 exited with code 7") for line in lines(result.stdout))
    assert "windlass: endless is not completed after 20 s: endless is running" in result.stderr


# Plain Jobs


@pytest.fixture(scope="module")
def workloads() -> Iterator[InProcessCluster]:
    with in_process_cluster.opened(has_workloads=True, label=names.ROLE_LABEL) as opened:
        yield opened


def create_plain(place: ClusterNamespace, file: str, code: int = 0, *, name: str = "") -> None:
    """Create the objects of `windlass render --target plain`, as `kubectl create` does."""
    result = CliRunner().invoke(main, ["render", file, "--target", "plain", "--namespace", place.name])
    assert result.exit_code == 0, result.output
    for body in yaml.safe_load_all(result.stdout):
        group = body["apiVersion"]
        prefix = f"/apis/{group}" if "/" in group else f"/api/{group}"
        plural = f"{body['kind'].lower()}s"
        place.client.post(f"{prefix}/namespaces/{place.name}/{plural}", body).expect(201)


def test_plain_job_is_listed_with_its_tasks(workloads: InProcessCluster, tmp_path: Path) -> None:
    place = workloads.new_place()
    create_plain(place, written(tmp_path, "digits", jobs.FOREVER, tasks=2))
    wait_for("its tasks", lambda: "2 running of 2" in windlass(place, "list").stdout)
    assert lines(windlass(place, "list").stdout) == [
        "NAME STATE TASKS ATTEMPT AGE MESSAGE",
        "digits Running 2 running of 2 0 <time>",
    ]
    shown = lines(windlass(place, "status", "digits").stdout)
    assert shown[1:3] == [f"job digits in the namespace {place.name}", "state Running for <time>"]
    assert [line.split()[:3] for line in shown if line.startswith("worker-")] == [
        ["worker-0", "Running", "0"],
        ["worker-1", "Running", "0"],
    ]
    logs = windlass(place, "logs")
    assert logs.stderr == f"windlass: digits is the only job in the namespace {place.name}\n"
    assert {line.partition(" | ")[0] for line in logs.stdout.splitlines()} == {"worker-0", "worker-1"}


def test_plain_job_that_failed_is_explained(workloads: InProcessCluster, tmp_path: Path) -> None:
    place = workloads.new_place()
    create_plain(place, written(tmp_path, "digits", jobs.fails(3)))
    assert windlass(place, "wait", "digits").exit_code == 3
    shown = lines(windlass(place, "status", "digits").stdout)
    assert shown[0].startswith("digits failed: worker-0 exited with code 3")
    assert "state Failed for <time>" in shown
    assert "hint windlass why digits" in shown
    assert "digits failed: worker-0 exited with code 3" in windlass(place, "why", "digits").stdout


def test_plain_job_with_a_parameter_server_succeeds_with_its_workers(
    workloads: InProcessCluster, tmp_path: Path
) -> None:
    place = workloads.new_place()
    template = {"metadata": {"annotations": jobs.SUCCEEDS}}
    roles = {"ps": {"pod": {"metadata": {"annotations": lifecycle.annotations(runs_for="never")}}}}
    body = {"name": "digits", "image": "x", "command": "true", "runtime": "tensorflow"}
    (tmp_path / "job.yaml").write_text(
        yaml.safe_dump({**body, "roles": {**roles, "worker": {"tasks": 2, "pod": template}}})
    )
    create_plain(place, str(tmp_path / "job.yaml"))
    assert windlass(place, "wait", "digits").exit_code == 0
    assert "digits Succeeded 1 running, 2 succeeded of 3" in "\n".join(lines(windlass(place, "list").stdout))


def test_missing_plain_job_is_suggested(workloads: InProcessCluster, tmp_path: Path) -> None:
    place = workloads.new_place()
    create_plain(place, written(tmp_path, "digits", jobs.FOREVER))
    for command in ("status", "logs"):
        assert 'there is no job "digit"' in windlass(place, command, "digit").stderr
        assert 'Did you mean "digits"?' in windlass(place, command, "digit").stderr
