"""`windlass exec` and `windlass logs` with running pods: input, output and exit codes."""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
import terminals
from pods import commands, machine
from pods.commands import Command, Done, Home, Local, framework, role

from conformance.client import Json
from conformance.waiting import wait_for
from windlass.client.report.contents import Report

PATH = "/apis/frameworkcontroller.microsoft.com/v1/namespaces/default/frameworks"
TICKS = "trap 'exit 0' TERM; i=0; while true; do i=$$((i+1)); echo tick $$i; sleep 0.05; done"
PAIR = "echo begun; trap 'exit 0' TERM; sleep 100000 & wait"


class Cluster:
    """A cluster of `windlass local` and its user."""

    def __init__(self, home: Home, local: Local) -> None:
        self.home = home
        self.local = local
        self.kubeconfig = Path(local.status()["kubeconfig"])

    def windlass(self, command: str, *arguments: str, given: bytes = b"") -> Done:
        return self.home.windlass(command, *self.where, *arguments, given=given)

    def begin(self, command: str, *arguments: str) -> Command:
        return self.home.begin(command, *self.where, *arguments)

    @property
    def where(self) -> tuple[str, ...]:
        return ("--kubeconfig", str(self.kubeconfig))

    def submit(self, body: Json) -> None:
        self.local.client.post(PATH, body).expect(201)

    def wait_for_running(self, name: str, tasks: int) -> None:
        wait_for(f"{name} to run", lambda: self._summary(name).get("running") == tasks)

    def wait_for_completed(self, name: str) -> None:
        wait_for(f"{name} to complete", lambda: self._status(name).get("state") == "Completed")

    def _status(self, name: str) -> Json:
        return self.local.client.get(f"{PATH}/{name}").expect(200).body.get("status") or {}

    def _summary(self, name: str) -> Json:
        return self._status(name).get("summary") or {}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with commands.home(commands.best()) as home, commands.local(home) as local:
        made = Cluster(home, local)
        made.submit(framework(role(home.container(PAIR), tasks=2), name="pair"))
        made.wait_for_running("pair", 2)
        yield made


# Commands in a task's container


@pytest.mark.parametrize("code", [0, 1, 42, 255])
def test_exit_codes_are_returned(cluster: Cluster, code: int) -> None:
    done = cluster.windlass("exec", "pair/worker-1", "--", "sh", "-c", f"exit {code}").expect(code)
    assert (done.stdout, done.stderr) == ("", "")


def test_stdout_and_stderr_are_separate(cluster: Cluster) -> None:
    run = "echo $FC_TASK_INDEX; echo err >&2"
    done = cluster.windlass("exec", "pair/worker-1", "--", "sh", "-c", run).expect(0)
    assert (done.stdout, done.stderr) == ("1\n", "err\n")


def test_options_after_the_command_belong_to_it(cluster: Cluster) -> None:
    done = cluster.windlass("exec", "pair/worker-0", "--", "echo", "-n", "--stdin", "-t", "--").expect(0)
    assert done.stdout == "--stdin -t --"


def test_input_and_its_end_are_sent(cluster: Cluster) -> None:
    """More input than any buffer holds; the command waits for its end."""
    given = os.urandom(300_000)
    count = ("sh", "-c", "wc -c; exit 7")
    done = cluster.windlass("exec", "pair/worker-0", "-i", "--", *count, given=given).expect(7)
    assert done.stdout.strip() == str(len(given))


def test_no_input_without_the_option(cluster: Cluster) -> None:
    done = cluster.windlass("exec", "pair/worker-0", "--", "cat", given=b"unheard").expect(0)
    assert done.stdout == ""


def test_large_output_is_complete(cluster: Cluster) -> None:
    run = "head -c 20000000 /dev/zero | tr '\\0' x"
    done = cluster.windlass("exec", "pair/worker-0", "--", "sh", "-c", run).expect(0)
    assert len(done.stdout) == 20_000_000
    assert set(done.stdout) == {"x"}


REFUSED = {
    "no-such-command": ("pair/worker-0", "there-is-no-such-command", "there-is-no-such-command"),
    "no-such-task": ("pair/worker-7", "true", "pair has no task worker-7; its tasks are worker-0..1"),
    "no-such-job": ("pear/worker-0", "true", 'Did you mean "pair"?'),
}


@pytest.mark.parametrize(("task", "command", "words"), REFUSED.values(), ids=REFUSED.keys())
def test_missing_program_is_reported(cluster: Cluster, task: str, command: str, words: str) -> None:
    done = cluster.windlass("exec", task, "--", command)
    assert done.code != 0
    assert done.stdout == ""
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_task_that_is_not_running_is_reported(cluster: Cluster) -> None:
    cluster.submit(framework(role(cluster.home.container("exit 5")), name="brief", completedPods="Keep"))
    cluster.wait_for_completed("brief")
    done = cluster.windlass("exec", "brief/worker-0", "--", "true").expect(1)
    (message,) = done.stderr.splitlines()
    assert "worker-0 is not running: its container main exited with code 5" in message


def test_ctrl_c_ends_the_command(cluster: Cluster) -> None:
    mark = f"1234{time.time_ns() % 10**9}"
    command = cluster.begin("exec", "pair/worker-0", "--", "sh", "-c", f"echo armed; sleep {mark}")
    command.says("armed")
    command.press_ctrl_c()
    assert command.done().code == 130
    wait_for("the command to be gone", lambda: not _runs(f"sleep\0{mark}"))


def _runs(words: str) -> bool:
    for each in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if words in each.read_text():
                return True
        except OSError:
            continue
    return False


# On a terminal


def test_terminal_is_forwarded_and_restored(cluster: Cluster) -> None:
    """Keys, Ctrl-C and the size are forwarded, and the terminal is restored."""
    home = cluster.home
    words = home.level.command(
        *("-m", "windlass.cli.main", "exec", *cluster.where, "-it", "pair/worker-0", "--"),
        *("sh", "-c", "echo inside; exec sh"),
    )
    own = {"HOME": str(home.folder), machine.MARKER: home.mark}
    environment = {**home.level.surroundings(home.folder), **own}
    with terminals.running(words, environment, home.folder, columns=91, lines=33) as shown:
        screen = shown.terminal

        def type_in(text: str) -> None:
            os.write(screen.master, text.encode())

        screen.shows("inside")
        # Sizes are sent separately from keys, and not always first.
        until = "until [ \"$(stty size)\" = '{}' ]; do sleep 0.1; done; echo {} | tr a-z A-Z\r"
        type_in(until.format("33 91", "ready"))
        screen.shows("READY")
        screen.resize(70, 20)
        os.kill(shown.process.pid, signal.SIGWINCH)
        type_in(until.format("20 70", "as wide"))
        screen.shows("AS WIDE")
        type_in("echo asleep | tr a-z A-Z; sleep 100000\r")
        screen.shows("ASLEEP")
        type_in("\x03")
        type_in("echo still here | tr a-z A-Z\r")
        screen.shows("STILL HERE")
        type_in("exit 9\r")
        assert shown.done() == 9


# Logs


def test_logs_of_both_tasks(cluster: Cluster) -> None:
    wait_for("both to have begun", lambda: len(cluster.windlass("logs", "pair").lines) == 2)
    done = cluster.windlass("logs", "pair").expect(0)
    assert sorted(done.lines) == ["worker-0 | begun", "worker-1 | begun"]
    assert cluster.windlass("logs", "pair", "worker-1").expect(0).stdout == "begun\n"


def test_follow_continues_over_a_daemon_restart(cluster: Cluster) -> None:
    """The daemon is killed and restarted while its pods run: no line is duplicated or lost."""
    cluster.submit(framework(role(cluster.home.container(TICKS)), name="ticks"))
    cluster.wait_for_running("ticks", 1)
    following = cluster.begin("logs", "-f", "ticks", "worker-0")
    following.says("tick 20\n")
    cluster.local.kill()
    cluster.local.up()
    last = int(following.output.split()[-1])
    following.says(f"tick {last + 20}\n")
    cluster.windlass("stop", "ticks").expect(0)
    done = following.done()
    numbers = [int(line.removeprefix("tick ")) for line in done.lines]
    assert numbers == list(range(1, len(numbers) + 1))
    assert done.code == 0


def test_why_shows_the_log_of_the_failed_pod(cluster: Cluster) -> None:
    """While the pod exists."""
    container = cluster.home.container("for i in 1 2 3; do echo line $$i; done; exit 3")
    cluster.submit(framework(role(container), name="broken", completedPods="Keep"))
    cluster.wait_for_completed("broken")
    done = cluster.windlass("why", "broken", "--lines", "2").expect(0)
    assert done.lines[0].startswith("broken failed: worker-0 exited with code 3 ")
    assert "  line 2\n  line 3\n" in done.stdout
    assert "line 1" not in done.stdout


# Reports


def test_report_of_ten_retries_is_the_same_after_the_job_is_deleted(cluster: Cluster) -> None:
    script = "echo attempt $FC_FRAMEWORK_ATTEMPT_ID of $FC_TASK_INDEX; exit $FC_TASK_INDEX"
    policy = {"fancyRetryPolicy": False, "maxRetryCount": 10}
    container = cluster.home.container(script)
    cluster.submit(framework(role(container, tasks=2), name="fails", retryPolicy=policy))
    cluster.wait_for_completed("fails")
    wait_for("all records", lambda: len(report(cluster, "fails").attempts) == 11)
    before = report(cluster, "fails", "--logs")
    cluster.windlass("delete", "fails").expect(0)
    wait_for("the Framework to be deleted", lambda: report(cluster, "fails").is_deleted)
    after = report(cluster, "fails", "--logs")
    for name in ("attempts", "failures", "tasks", "environment", "roles"):
        assert getattr(after, name) == getattr(before, name)
    assert texts(after) == texts(before)
    for attempt in range(11):
        assert (attempt, "worker-1", [f"attempt {attempt} of 1"]) in texts(after)
    only_failed = texts(report(cluster, "fails"))
    assert only_failed == [each for each in texts(after) if each[1] == "worker-1"]
    assert [(each.count, each.code, each.first_task) for each in after.failures] == [(11, 1, "worker-1")]
    page = cluster.windlass("report", "fails").expect(0).stdout
    assert page.startswith("<!doctype html>")
    assert "fails failed: worker-1 exited with code 1" in page


def report(cluster: Cluster, name: str, *options: str) -> Report:
    done = cluster.windlass("report", name, "--format", "json", *options).expect(0)
    return msgspec.json.decode(done.stdout, type=Report)


def texts(found: Report) -> list[tuple[int, str, list[str]]]:
    """Return the attempts, the tasks and the lines of the logs, without the timestamps of the lines."""
    return [
        (each.job_attempt, each.task, [line.split(" ", 1)[1] for line in each.lines]) for each in found.logs
    ]
