"""`windlass run` with running pods: exit codes, signals, and no leftovers."""

import contextlib
import shlex
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from pods import commands, levels, machine
from pods.commands import Command, Home, framework, role
from pods.daemons import Network
from pods.levels import Name
from pods.specs import STUBBORN, config_map, host_path, mount

from conformance.client import Access, Client, Json
from conformance.waiting import wait_for
from windlass.client.report.contents import Report
from windlass.client.views import JobState

HELLO = Path(__file__).parents[2] / "examples" / "hello" / "framework.yaml"


# Exit codes


class End(msgspec.Struct, frozen=True):
    run: str | list[str]
    exit: int
    code: int
    phrase: str
    framework: dict[str, Any] = {}


ENDS = {
    "success": End("true", 0, 0, "Succeeded"),
    "code": End("exit 3", 3, 3, "ContainerUnrecognizedFailed"),
    "signal": End("kill -9 $$$$; sleep 100000", 137, 137, "ContainerSigKillReceived"),
    "no-such-command": End(["there-is-no-such-command"], 125, -1201, "ContainerCommandCannotRun"),
    "deadline": End(
        "sleep 100000", 125, -250, "ActiveDeadlineExceeded", framework={"activeDeadlineSeconds": 1}
    ),
}


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS.keys())
def test_exit_code_follows_the_job(home: Home, end: End) -> None:
    job = framework(role(home.container(end.run)), **end.framework)
    done = home.run(job, options=("--output", "json")).expect(end.exit)
    assert all({"event", "time", "object"} <= line.keys() for line in done.json_lines)
    last = done.json_lines[-1]
    assert (last["event"], last["object"]) == ("completed", "job")
    assert (last["exit"], last["code"], last["phrase"]) == (end.exit, end.code, end.phrase)
    assert done.stderr == ""
    assert not home.runs
    assert not machine.marked(home.mark)


def written(*documents: Json) -> str:
    return yaml.safe_dump_all(documents)


JOB = framework(role({"name": "main", "image": "x"}))
BAD_FILES = {
    "misspelt-field": (
        written({**JOB, "spec": {**JOB["spec"], "taskRoels": []}}),
        'Did you mean "taskRoles"?',
    ),
    "twice": (written(JOB, JOB), 'found "job", which is also the name of the job in line'),
    "no-framework": (written(config_map("words", a="b")), "the file has no job and no Framework"),
    "empty": ("", "the file has no job and no Framework"),
    "misspelt-field-of-a-job": (
        "name: a\ncommand: b\nrols: {w: {}}\nroles: {w: {}}",
        'Did you mean "roles"?',
    ),
    "not-yaml": ("a: [", "invalid YAML"),
    "no-object": ("just words", 'found the string "just words", expected a job file, or an object'),
}


@pytest.mark.parametrize(("text", "words"), BAD_FILES.values(), ids=BAD_FILES.keys())
def test_invalid_file_is_reported(home: Home, text: str, words: str) -> None:
    file = home.file(text)
    done = home.windlass("run", file).expect(2)
    assert done.stdout == ""
    (message,) = done.stderr.splitlines()
    assert message.startswith(f"{file}:")
    assert words in message
    assert not home.state.exists(), "nothing was started"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["no-such-file.yaml"], "no-such-file.yaml: cannot be read: No such file or directory"),
        (["--nodes", "0", "-"], "Error: Invalid value for '--nodes'"),
        ([], "Error: Missing argument 'FILE'"),
    ],
)
def test_usage_error(home: Home, arguments: list[str], words: str) -> None:
    done = home.windlass("run", *arguments).expect(2)
    assert done.stdout == ""
    assert words in done.stderr.splitlines()[-1]
    assert not home.state.exists(), "nothing was started"


def test_object_rejected_by_the_cluster_is_reported(home: Home) -> None:
    done = home.run(config_map("Bad_Name"), JOB, options=("--output", "json")).expect(2)
    (last,) = [line for line in done.json_lines if line["event"] != "note"]
    assert (last["event"], last["exit"]) == ("error", 2)
    assert 'rejected ConfigMap Bad_Name: ConfigMap "Bad_Name" is invalid' in last["message"]
    assert not home.runs


def test_timeout_ends_the_run(home: Home) -> None:
    """However long its pods would take to end."""
    job = framework(role(home.container(STUBBORN), terminationGracePeriodSeconds=600))
    done = home.run(job, options=("--timeout", "2", "--output", "json")).expect(124)
    last = done.json_lines[-1]
    assert (last["event"], last["message"]) == ("error", "job timed out: not completed after 2 s")
    assert not home.runs
    assert not machine.marked(home.mark)


def test_unavailable_network_is_reported() -> None:
    """Nothing is left except its message."""
    with commands.home(levels.level("plain")) as home:
        done = home.run(JOB, options=("--network", "isolated")).expect(124)
        (message,) = done.lines
        assert "the cluster cannot start: " in message
        assert "cannot isolate the network of pods" in message
        assert not home.runs


# Signals


def polite(home: Home, folder: Path) -> Json:
    """A pod that records its signals in a folder of the machine, and prints something until then."""
    run = f"trap 'echo asked >> {folder}/told; exit 0' TERM; while true; do echo tick; sleep 0.1; done"
    container = home.container(run, volumeMounts=[mount(str(folder))])
    return framework(role(container, terminationGracePeriodSeconds=600, volumes=host_path(str(folder))))


def check_that_it_stops(home: Home, folder: Path, ask: Callable[[Command], None]) -> None:
    # The tests themselves may run under nohup.
    command = home.begin_run(polite(home, folder), before=("env", "--default-signal=HUP"))
    command.says("worker-0 | tick")
    traces = home.traces()
    ask(command)
    done = command.done().expect(130)
    assert (folder / "told").read_text() == "asked\n"
    assert "stopped" in done.verdict
    assert not home.runs
    traces.wait_until_gone()


def test_ctrl_c_ends_the_pods(anyone: Home, open_folder: Path) -> None:
    check_that_it_stops(anyone, open_folder, Command.press_ctrl_c)


def test_sigterm_ends_the_pods(home: Home, open_folder: Path) -> None:
    check_that_it_stops(home, open_folder, lambda command: command.process.send_signal(signal.SIGTERM))


def test_sighup_ends_the_pods(home: Home, open_folder: Path) -> None:
    """As when the terminal is closed: the shell and the kernel each send the signal."""

    def hang_up(command: Command) -> None:
        for _ in range(2):
            command.process.send_signal(signal.SIGHUP)

    check_that_it_stops(home, open_folder, hang_up)


def test_run_under_nohup_continues(home: Home, open_folder: Path) -> None:
    run = f"echo tick; until [ -e {open_folder}/gate ]; do sleep 0.1; done"
    container = home.container(run, volumeMounts=[mount(str(open_folder))])
    job = framework(role(container, volumes=host_path(str(open_folder))))
    command = home.begin_run(job, before=("env", "--ignore-signal=HUP"))
    command.says("worker-0 | tick")
    command.process.send_signal(signal.SIGHUP)
    (open_folder / "gate").touch()
    command.done().expect(0)


def test_closed_output_ends_the_run(home: Home, open_folder: Path) -> None:
    """As with `| head -1`."""
    file = home.written(polite(home, open_folder))
    process = home.started(("run", file), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert b"job       submitted" in b"".join(iter(process.stdout.readline, b"worker-0 | tick\n"))
    traces = home.traces()
    process.stdout.close()
    assert process.wait(commands.SECONDS) == 141
    assert (open_folder / "told").read_text() == "asked\n"
    traces.wait_until_gone()


def stubborn(home: Home) -> Command:
    """Start two pods that take ten minutes to end, with detached processes."""
    container = home.container(f"setsid sleep 100000 & {STUBBORN}")
    command = home.begin_run(framework(role(container, tasks=2, terminationGracePeriodSeconds=600)))
    for number in range(2):
        command.says(f"worker-{number} | armed")
    return command


def test_second_ctrl_c_kills_the_pods(home: Home) -> None:
    command = stubborn(home)
    traces = home.traces()
    command.press_ctrl_c()
    command.says("stopping")
    assert command.process.poll() is None
    command.press_ctrl_c()
    done = command.done().expect(130)
    assert done.verdict == "job stopped"
    assert not home.runs
    traces.wait_until_gone()


def test_report_has_all_attempts_of_a_failed_job(home: Home, tmp_path: Path) -> None:
    script = "echo attempt $FC_FRAMEWORK_ATTEMPT_ID; exit 3"
    policy = {"fancyRetryPolicy": False, "maxRetryCount": 2}
    path = tmp_path / "report.json"
    job = framework(role(home.container(script)), retryPolicy=policy)
    done = home.run(job, options=("--report", path, "--output", "json")).expect(3)
    assert [line["message"] for line in done.json_lines if line.get("reason") == "Report"] == [
        f"report: {path}"
    ]
    found = msgspec.json.decode(path.read_bytes(), type=Report)
    assert [(each.attempt, each.state, each.is_retried) for each in found.attempts] == [
        (0, JobState.FAILED, True),
        (1, JobState.FAILED, True),
        (2, JobState.FAILED, False),
    ]
    assert [each.lines[0].split(" ", 1)[1] for each in found.logs] == [f"attempt {at}" for at in range(3)]
    assert found.notes == ()


def test_report_is_written_when_the_run_is_interrupted(home: Home, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    container = home.container(STUBBORN)
    job = framework(role(container, terminationGracePeriodSeconds=600))
    command = home.begin_run(job, options=("--report", path))
    command.says("worker-0 | armed")
    for words in ("stopping", f"report: {path}"):
        command.press_ctrl_c()
        command.says(words)
    done = command.done().expect(130)
    assert done.verdict == "job stopped"
    text = path.read_text()
    assert text.startswith("<!doctype html>")
    assert text.rstrip().endswith("</html>")
    assert '<p class="note">job stopped</p>' in text
    assert not home.runs


def test_sigkill_ends_the_pods(anyone: Home) -> None:
    """The next run deletes its stored data."""
    command = stubborn(anyone)
    traces = anyone.traces()
    assert traces.left().keys() >= {"processes"}
    command.kill()
    traces.wait_until_gone()
    (left,) = anyone.runs
    assert (anyone.state / "runs" / left / "pods").is_dir()
    anyone.run(framework(role(anyone.container("true")))).expect(0)
    assert not anyone.runs


def test_running_cluster_of_another_run_is_kept(home: Home) -> None:
    """A run that removes leftovers ignores it."""
    command = stubborn(home)
    (first,) = home.runs
    home.run(framework(role(home.container("true")))).expect(0)
    assert home.runs == [first]
    assert command.process.poll() is None
    command.kill()


# Input and output


class Kind(msgspec.Struct, frozen=True):
    level: Name
    network: Network
    address: str
    """Prefix of all pod addresses."""

    def __str__(self) -> str:
        return f"{self.level}-{self.network}"


KINDS = (
    Kind("root", "isolated", "10."),
    Kind("root", "shared", "127."),
    Kind("nobody", "auto", ""),
    Kind("plain", "auto", "127."),
)


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_hello_example(kind: Kind) -> None:
    if reason := levels.why_not(kind.level):
        pytest.skip(reason)
    with commands.home(levels.level(kind.level)) as home:
        command = home.begin("run", "--network", kind.network, "-", given=HELLO.read_bytes())
        command.says("worker-0 | step 1: the average is 15")
        traces = home.traces()
        done = command.done().expect(0)
        for worker in ("worker-0", "worker-1"):
            assert any(line.startswith(f"{worker} | step 5: the average is 15") for line in done.lines)
            assert f"{worker}  running at {kind.address}" in done.stdout
            assert f"{worker}  succeeded" in done.stdout
        assert "hello succeeded" in done.verdict
        assert not home.runs
        traces.wait_until_gone()


def test_failed_task_is_retried(home: Home, open_folder: Path) -> None:
    once = open_folder / "once"
    done = home.run(
        framework(role(home.container(f"[ -e {once} ] || {{ touch {once}; exit 5; }}"), retries=2))
    )
    done.expect(0)
    words = "job       retrying worker-0 (retry 1 of 2): it exited with code 5"
    assert [line for line in done.lines if words in line], done.stdout


def test_other_objects_of_the_file_are_created(home: Home) -> None:
    if not home.level.has_mounts:
        pytest.skip("a ConfigMap is a volume only where pods have mounts of their own")
    container = home.container('test "$(cat /words/greeting)" = hello', volumeMounts=[mount("/words")])
    volumes = [{"name": "data", "configMap": {"name": "words"}}]
    home.run(config_map("words", greeting="hello"), framework(role(container, volumes=volumes))).expect(0)


def test_nodes_option(home: Home) -> None:
    wanted = {f"role{number}": f"windlass-{number}" for number in range(3)}
    roles = [
        role(home.container("true"), name, nodeSelector={"kubernetes.io/hostname": node})
        for name, node in wanted.items()
    ]
    done = home.run(framework(*roles), options=("--nodes", "3", "--output", "json")).expect(0)
    scheduled = {
        line["object"]: line["message"]
        for line in done.json_lines
        if line["event"] == "pod" and line["reason"] == "Scheduled"
    }
    assert scheduled == {f"{name}-0": f"scheduled to {node}" for name, node in wanted.items()}


def test_output_without_logs(home: Home, open_folder: Path) -> None:
    run = f"echo my words; touch {open_folder}/said; until [ -e {open_folder}/go ]; do sleep 0.1; done"
    command = home.begin_run(framework(role(home.container(run))), options=("--no-logs",))
    wait_for("the container to say something", (open_folder / "said").exists)
    command.says("worker-0  running at")
    (open_folder / "go").touch()
    assert "my words" not in command.done().expect(0).stdout


# Job files and commands

TRAIN = """
import os, pathlib
print("in", os.getcwd(), "as", os.environ["FC_TASKROLE_NAME"])
print("windlass progress 1/2 loss=0.5")
file = os.environ.get("WINDLASS_PROGRESS")
if file:
    pathlib.Path(file).write_text("2/2 accuracy=0.9\\n")
"""


def check_progress(home: Home, told: list[Json], name: str) -> None:
    found = [line for line in told if line["event"] == "progress" and line["object"] == name]
    first, *rest = found
    assert (first["source"], first["step"], first["total"], first["values"]) == ("log", 1, 2, {"loss": "0.5"})
    # Without mounts a pod cannot have the file and gets no variable for it.
    of_files = [(line["source"], line["step"], line["values"]) for line in rest]
    assert of_files == ([("file", 2, {"accuracy": "0.9"})] if home.level.has_mounts else [])


def test_job_file_runs(anyone: Home) -> None:
    folder = anyone.folder / "digits"
    folder.mkdir()
    (folder / "train.py").write_text(TRAIN)
    job = {
        "name": "digits",
        "code": "digits",
        "command": "python3 train.py",
        "roles": {"worker": {"tasks": 2}},
    }
    done = anyone.run(job, options=("--output", "json")).expect(0)
    said = {(line["object"], line["line"]) for line in done.json_lines if line["event"] == "log"}
    assert {(f"worker-{number}", f"in {folder} as worker") for number in range(2)} <= said
    for number in range(2):
        check_progress(anyone, done.json_lines, f"worker-{number}")
    assert done.json_lines[-1]["object"] == "digits"


def test_command_runs(home: Home) -> None:
    (home.folder / "train.py").write_text(TRAIN)
    done = home.windlass("run", "--workers", "2", "--output", "json", "--", "python3", "train.py").expect(0)
    said = {
        line["object"]: line["line"]
        for line in done.json_lines
        if line["event"] == "log" and " as " in line["line"]
    }
    assert said == {f"worker-{number}": f"in {home.folder} as worker" for number in range(2)}
    assert done.json_lines[-1]["object"] == "train"


def test_several_jobs_run_on_one_cluster(home: Home) -> None:
    """Each waits for the other."""
    meet = "mkdir -p {0}; touch {0}/$FC_FRAMEWORK_NAME; until [ -e {0}/{1} ]; do sleep 0.1; done; exit {2}"
    folder = home.folder / "meeting"
    volumes = host_path(str(home.folder))
    jobs = [
        framework(
            role(
                home.container(meet.format(folder, other, code), volumeMounts=[mount(str(home.folder))]),
                volumes=volumes,
            ),
            name=name,
        )
        for name, other, code in (("one", "other", 0), ("other", "one", 7))
    ]
    done = home.run(*jobs, options=("--output", "json")).expect(7)
    exits = [(line["object"], line["exit"]) for line in done.json_lines if "exit" in line]
    assert exits == [("one", 0), ("other", 7), ("jobs", 7)]


# Kept clusters


def test_kept_cluster_continues(home: Home, open_folder: Path) -> None:
    """A client finds it by the printed text, and no later run deletes it."""
    done = home.run(framework(role(home.container("echo my words"))), options=("--keep",)).expect(0)
    assert "worker-0 | my words" in done.lines
    _, export, why, down, reset = done.stderr.splitlines()
    assert why.split() == ["windlass", "why", "job"]
    data = shlex.split(down)[-1]
    try:
        home.run(framework(role(home.container("true")))).expect(0)
        assert home.runs == [Path(data).name]
        _, _, kubeconfig = shlex.split(export)[1].partition("=")
        with contextlib.closing(Client(Access.of_kubeconfig(Path(kubeconfig)))) as client:
            found = client.get(f"/apis/{commands.GROUP}/namespaces/default/frameworks/job").body
        assert found["status"]["state"] == "Completed"
    finally:
        assert home.windlass(*shlex.split(down)[1:]).code == 0
    home.windlass(*shlex.split(reset, comments=True)[1:], "--yes").expect(0)
    assert home.runs == []
    assert not machine.marked(home.mark)


def test_kept_cluster_that_cannot_start() -> None:
    with commands.home(levels.level("plain")) as home:
        done = home.run(JOB, options=("--keep", "--network", "isolated")).expect(124)
        assert "the cluster cannot start: " in done.stderr
        assert "cannot isolate the network of pods" in done.stderr
        assert home.runs == []
