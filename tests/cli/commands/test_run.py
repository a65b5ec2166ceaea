"""`windlass run` with a fake kubelet: its output and its exit codes.

Runs with real pods are tested in tests/local.
"""

import asyncio
import io
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fake_cluster
import pytest
import yaml
from click.testing import CliRunner, Result

from windlass.cli.commands.run import OutputMode, output_mode
from windlass.cli.main import main
from windlass.cli.run_options import RunArguments
from windlass.cli.terminal.output import Output, Style
from windlass.client.submit import plan as planner
from windlass.client.submit.plan import Target
from windlass.client.submit.sources import Source
from windlass.render import documents
from windlass.runner.local import data_folders
from windlass.runner.options import RunOptions

SERVICE = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {"name": "peers"},
    "spec": {"clusterIP": "None", "selector": {"a": "b"}},
}
CONFIG = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "words"}, "data": {"a": "b"}}


def job(called: str = "job", **annotations: str) -> dict[str, Any]:
    """Return a job with two workers whose pods behave as the fake kubelet's annotations say."""
    life = {f"hollow.windlass.dev/{name.replace('_', '-')}": value for name, value in annotations.items()}
    pod = {
        "metadata": {"annotations": life},
        "spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "none"}]},
    }
    role = {
        "name": "worker",
        "taskNumber": 2,
        "frameworkAttemptCompletionPolicy": {"minFailedTaskCount": 1, "minSucceededTaskCount": 2},
        "task": {"pod": pod},
    }
    return {
        "apiVersion": "launcher.microsoft.com/v1",
        "kind": "Framework",
        "metadata": {"name": called},
        "spec": {"taskRoles": [role]},
    }


def written(*documents: Any) -> bytes:
    return yaml.safe_dump_all(documents).encode()


# The command


@pytest.fixture(autouse=True)
def state(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A short path: pytest's directory is too long for the path of a socket."""
    with tempfile.TemporaryDirectory() as folder:
        monkeypatch.setenv("XDG_STATE_HOME", folder)
        yield Path(folder) / "windlass"


@pytest.fixture
def clusters(monkeypatch: pytest.MonkeyPatch) -> type[fake_cluster.LocalCluster]:
    return fake_cluster.install(monkeypatch)


def windlass(*arguments: str | Path, given: bytes = b"") -> Result:
    return CliRunner().invoke(main, ["run", *map(str, arguments)], input=given)


def test_successful_run(clusters: type[fake_cluster.LocalCluster], state: Path) -> None:
    result = windlass("-", "--nodes", "3", "--network", "shared", given=written(CONFIG, SERVICE, job()))
    assert (result.exit_code, result.stderr) == (0, "")
    lines = [line[14:] for line in result.stdout.splitlines() if " | " not in line]
    assert lines[0] == "job       submitted", (
        "limits of the machine are shown if a task fails because of them"
    )
    assert lines.index("job       attempt started") > 0
    assert "worker-1  scheduled to hollow" in lines
    verdict, output = result.stdout.splitlines()[-2:]
    assert re.fullmatch(r"job succeeded in \d+ s \(2 workers\)", verdict)
    kept = Path(output.removeprefix("output: "))
    assert kept.parent == state / "output"
    assert sorted(file.name for file in kept.iterdir()) == ["worker-0.log", "worker-1.log"]
    assert (kept / "worker-0.log").read_bytes() == b"main of job-worker-0\n\nwithout end"
    written_by_containers = [line for line in result.stdout.splitlines() if line.startswith("worker-0 | ")]
    assert written_by_containers == [
        "worker-0 | main of job-worker-0",
        "worker-0 | ",
        "worker-0 | without end",
    ]
    (cluster,) = clusters.instances
    assert (cluster.options.nodes, cluster.options.network, cluster.options.is_ephemeral) == (
        3,
        "shared",
        True,
    )
    assert cluster.data.parent == state / "runs"
    assert not cluster.data.exists()


@pytest.mark.parametrize(
    ("documents", "arguments", "exit_code", "last"),
    [
        ([job()], [], 0, {"event": "completed", "code": 0, "phrase": "Succeeded", "type": "Succeeded"}),
        ([job(exit_code="3")], [], 3, {"event": "completed", "code": 3, "state": "Completed"}),
        ([job(exit_code="210")], [], 210, {"code": 210, "phrase": "ContainerPermanentFailed"}),
        ([job(reason="Evicted", exit_code="1")], [], 125, {"code": -1000, "phrase": "PodEvicted"}),
        ([job(runs_for="never")], ["--timeout", "0.001"], 124, {"event": "error"}),
        ([{**SERVICE, "spec": {"clusterIP": "nonsense"}}, job()], [], 2, {"event": "error"}),
        (
            [{**SERVICE, "kind": "Servant"}, job()],
            [],
            2,
            {"message": "job failed: the cluster has no kind Servant in v1"},
        ),
        ([{**CONFIG, "metadata": {"name": "a", "namespace": "team"}}, job()], [], 0, {"code": 0}),
    ],
    ids=["good", "code", "210", "evicted", "timeout", "refused", "unknown-kind", "namespace"],
)
@pytest.mark.usefixtures("clusters")
def test_exit_code_and_last_line(
    documents: list[Any], arguments: list[str], exit_code: int, last: dict[str, Any]
) -> None:
    result = windlass("-", "--output", "json", "--no-logs", *arguments, given=written(*documents))
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    assert result.exit_code == exit_code, result.output
    assert (lines[-1]["exit"], lines[-1]["object"]) == (exit_code, "job")
    assert {name: lines[-1][name] for name in last} == last
    assert [line for line in lines[:-1] if "exit" in line] == []
    assert "log" not in {line["event"] for line in lines}


def test_failed_cluster_start_is_reported(clusters: type[fake_cluster.LocalCluster], state: Path) -> None:
    clusters.trouble = "the disk is full"
    result = windlass("-", given=written(job()))
    assert result.exit_code == 124
    assert result.stdout.rstrip().endswith("job failed: the cluster cannot start: the disk is full")
    assert [folder for folder in (state / "runs").iterdir() if folder.is_dir()] == []


@pytest.mark.parametrize(
    ("arguments", "given", "words"),
    [
        ([], b"", "Missing argument 'FILE'"),
        (["/nowhere"], b"", "/nowhere: cannot be read: No such file or directory"),
        (["-"], b"a: [", "<stdin>:1:5: error: invalid YAML"),
        (
            ["train.py"],
            b"",
            "train.py: cannot be read: No such file or directory. Write a job file for a script with `windlass init",
        ),
        (
            ["-", "--", "true"],
            written(job()),
            "the arguments after --: only job files can be changed this way",
        ),
        (["--"], b"", "expected a command or arguments after --"),
        (
            ["train.py", "--workers", "2"],
            b"",
            "--workers requires a command after --: write `-- python train.py`",
        ),
        (["-", "--ps", "2"], written(job()), "--ps requires a command after --: set it in - instead"),
        (
            ["-"],
            b"name: a\ncommand: b\ncode: nowhere\nroles: {c: {}}",
            "nowhere does not exist. Expected a folder",
        ),
        (
            ["-"],
            written(job(), {**job(), "metadata": {"name": "job", "namespace": "default"}}),
            "the name of the job in line",
        ),
        (["-", "--inject", "kill ps-0"], written(job()), "--inject: "),
        (
            ["-", "--keep", "--inject", "kill worker-0"],
            written(job()),
            "--inject and --keep are mutually exclusive",
        ),
        (["-", "--image", "x"], written(job()), "--image: found 'x', expected NAME=DIR"),
        (["-", "--image", "x=/nowhere"], written(job()), 'cannot add image "x": /nowhere does not exist'),
        (["-", "--network", "fast"], written(job()), "'fast' is not one of"),
        (["-", "--timeout", "0"], written(job()), "Invalid value for '--timeout'"),
        (["--companions-only"], b"", "Missing argument 'FILE': a job file that has companions"),
        (
            ["--companions-only", "--", "true"],
            b"",
            "--companions-only and a command after -- are mutually exclusive",
        ),
        (
            ["-", "--companions-only", "--ps", "2"],
            written(job()),
            "--companions-only and --ps are mutually exclusive",
        ),
        (
            ["-", "--report", "no-such-folder/report.html"],
            written(job()),
            "--report: the folder no-such-folder does not exist",
        ),
        (
            ["-", "--companions-only", "--inject", "kill worker-0"],
            written(job()),
            "--companions-only and --inject are mutually exclusive",
        ),
        (
            ["-", "--companions-only"],
            written(job()),
            "<stdin>: no job has a companion: add `tensorboard: {}` or `jupyter: {}` or `hub: {}` to the job",
        ),
    ],
)
def test_invalid_usage_is_rejected(
    clusters: type[fake_cluster.LocalCluster], arguments: list[str], given: bytes, words: str
) -> None:
    result = windlass(*arguments, given=given)
    assert (result.exit_code, result.stdout) == (2, "")
    assert words in result.stderr
    assert clusters.instances == []


@pytest.mark.parametrize("options", [[], ["--keep"]], ids=["alone", "kept"])
def test_unusable_state_directory_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str]
) -> None:
    (tmp_path / "windlass").write_text("a file")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    result = windlass("-", *options, given=written(job()))
    assert (result.exit_code, result.stdout) == (2, "")
    assert f"cannot use {tmp_path}/windlass/runs: Not a directory" in result.stderr


def test_remains_of_killed_runs_are_deleted_and_kept_runs_are_not(
    clusters: type[fake_cluster.LocalCluster], state: Path
) -> None:
    left = state / "runs" / "deadbeef"
    left.mkdir(parents=True)
    (left / "daemon.lock").touch()
    kept = data_folders.create_kept_folder(state / "runs")
    assert windlass("-", given=written(job())).exit_code == 0
    assert [folder for folder in (state / "runs").iterdir() if folder.is_dir()] == [kept]


# Several jobs, job files, commands

JOB_FILE = {"name": "filed", "command": "true", "roles": {"worker": {"tasks": 1}, "ps": {"tasks": 1}}}


@pytest.mark.parametrize(
    ("documents", "exit_code", "ends"),
    [
        ([JOB_FILE], 0, {"filed": 0}),
        ([JOB_FILE, job()], 0, {"filed": 0, "job": 0, "jobs": 0}),
        (
            [job("first"), job("second", exit_code="7"), job("third", exit_code="3")],
            7,
            {"first": 0, "second": 7, "third": 3, "jobs": 7},
        ),
    ],
    ids=["job-file", "both", "failures"],
)
@pytest.mark.usefixtures("clusters")
def test_file_may_contain_jobs_and_other_objects(
    documents: list[Any], exit_code: int, ends: dict[str, int]
) -> None:
    result = windlass("-", "--output", "json", given=written(*documents))
    assert result.exit_code == exit_code, result.output
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    assert {line["object"]: line["exit"] for line in lines if "exit" in line} == ends
    assert [line["object"] for line in lines if "exit" in line][-1] == list(ends)[-1]
    prefixes = {line["object"].partition("/")[0] for line in lines if line["event"] == "log"}
    assert prefixes == ({"worker-0", "ps-0"} if len(documents) == 1 else set(ends) - {"jobs"})


@pytest.mark.usefixtures("clusters")
def test_command_is_run_as_a_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").touch()
    result = windlass(
        "--output", "json", "--workers", "2", "--ps", "1", "--", "python", "train.py", "--name", "x"
    )
    assert result.exit_code == 0, result.output
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    assert lines[-1]["object"] == "train"
    assert {line["object"] for line in lines if line["event"] == "log"} == {"worker-0", "worker-1", "ps-0"}


@pytest.mark.usefixtures("clusters")
def test_exit_code_of_several_jobs_with_a_timeout() -> None:
    jobs = [job("good"), job("endless", runs_for="never")]
    result = windlass("-", "--timeout", "0.001", "--output", "json", given=written(*jobs))
    last = json.loads(result.stdout.splitlines()[-1])
    assert (result.exit_code, last["exit"], last["object"]) == (124, 124, "jobs")


OUTPUT_MODES = {
    "pipe": (RunArguments(), False, {"TERM": "xterm"}, OutputMode.TEXT),
    "terminal": (RunArguments(), True, {"TERM": "xterm"}, OutputMode.LIVE),
    "terminal-without-logs": (RunArguments(logs=False), True, {"TERM": "xterm"}, OutputMode.LIVE),
    "logs": (RunArguments(logs=True), True, {"TERM": "xterm"}, OutputMode.TEXT),
    "verbose": (RunArguments(verbose=True), True, {"TERM": "xterm"}, OutputMode.TEXT),
    "dumb": (RunArguments(), True, {"TERM": "dumb"}, OutputMode.TEXT),
    "no-terminal-at-all": (RunArguments(), True, {}, OutputMode.TEXT),
    "json": (RunArguments(output="json"), True, {"TERM": "xterm"}, OutputMode.JSON),
}


@pytest.mark.parametrize(
    ("given", "is_terminal", "environment", "expected"), OUTPUT_MODES.values(), ids=OUTPUT_MODES.keys()
)
def test_output_mode_depends_on_options_and_terminal(
    given: RunArguments, is_terminal: bool, environment: dict[str, str], expected: OutputMode
) -> None:
    assert output_mode(given, is_terminal=is_terminal, environment=environment) == expected


# Images, Ctrl-C, imports


def test_images_of_the_machine_and_of_the_run_are_bound(
    clusters: type[fake_cluster.LocalCluster], tmp_path: Path
) -> None:
    for name in ("kept", "replaced"):
        assert CliRunner().invoke(main, ["local", "image", "add", name, str(tmp_path)]).exit_code == 0
    other = tmp_path / "other"
    other.mkdir()
    assert windlass("-", "--image", f"replaced={other}", given=written(job())).exit_code == 0
    (cluster,) = clusters.instances
    assert json.loads(cluster.images) == {
        "kept": str(tmp_path),
        "replaced": str(other),
    }


def test_folder_of_runs_that_others_can_write_is_not_used(
    clusters: type[fake_cluster.LocalCluster], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    runs = tmp_path / "windlass" / "runs"
    runs.mkdir(parents=True)
    runs.chmod(0o777)
    result = CliRunner().invoke(main, ["run", "--keep", "--", "true"])
    assert result.exit_code == 2
    assert f"{runs} belongs to user " in result.stderr
    assert " and has mode 0777." in result.stderr
    assert not clusters.instances
    assert CliRunner().invoke(main, ["run", "--", "true"]).exit_code == 0
    (cluster,) = clusters.instances
    assert not cluster.data.is_relative_to(runs)
    assert not cluster.data.parent.exists(), "the folder is deleted with the run"


class Trigger(io.BytesIO):
    """Sends a signal to this process when one of the words is written."""

    def __init__(self, *words: bytes) -> None:
        super().__init__()
        self._words = list(words)

    def write(self, data: Any) -> int:
        written = super().write(data)
        while self._words and self._words[0] in self.getvalue():
            del self._words[0]
            os.kill(os.getpid(), signal.SIGINT)
        return written


@pytest.mark.parametrize(
    ("annotations", "words", "last"),
    [
        (
            {"runs_for": "never"},
            [b"worker-1  running"],
            "job stopped after ",
        ),
        (
            {"runs_for": "never", "stops_after": "never"},
            [b"worker-1  running", b"stopping"],
            "job stopped",
        ),
        ({}, [b"made of paper"], "job stopped"),
    ],
    ids=["once", "twice", "before-there-is-anything-to-stop"],
)
def test_ctrl_c_stops_the_run(
    clusters: type[fake_cluster.LocalCluster],
    state: Path,
    annotations: dict[str, str],
    words: list[bytes],
    last: str,
) -> None:
    from windlass.runner import run as runner_run

    source = Source(documents.read(written(job(**annotations)), "file"), Path())
    plan = planner.plan(source, Target(is_embedded=True))
    stream = Trigger(*words)
    output = Output(stream, Style(width=len("worker-0")))
    options = RunOptions(reads_logs=False, is_verbose=True)
    state.mkdir()
    assert asyncio.run(runner_run.run(plan, options, state, output)) == 130
    output.finish()
    assert stream.getvalue().decode().splitlines()[-1].startswith(last)
    assert clusters.instances[0].ended_pods is False, "a temporary cluster stops its pods itself"


def test_help_imports_no_slow_modules() -> None:
    program = (
        "import sys\n"
        "from windlass.cli.main import main\n"
        "main(['run', '--help'], standalone_mode=False)\n"
        "heavy = ('aiohttp', 'prometheus_client', 'cryptography', 'sqlite3')\n"
        "print(sorted(name for name in sys.modules if name.partition('.')[0] in heavy))\n"
    )
    run = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)  # noqa: S603
    assert run.stdout.splitlines()[-1] == "[]"
