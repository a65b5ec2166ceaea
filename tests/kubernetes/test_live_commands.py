"""The commands for clusters, run as processes with a kubeconfig, on real pods."""

import hashlib
import json
import re
import shutil
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from live import command_line, jobs
from live.command_line import Console
from live.place import Place
from operated.place import state_of, summary_of, tasks_of

import examples
from conformance.client import Json

ROLE: Final = {"worker": {"tasks": 2}}


@pytest.fixture
def running(console: Console) -> Console:
    """A job of two workers that run until they are ended."""
    console("submit", console.write_job("job"))
    console("wait", "job", "--for", "running")
    return console


# Submission and deletion


def test_code_reaches_the_tasks_and_is_deleted_with_the_job(console: Console, place: Place) -> None:
    file = console.write_job("hello", runtime="tensorflow", command="python3 main.py", code="./src")
    listing = "import pathlib\nprint(*sorted(str(path) for path in pathlib.Path().rglob('*.*')))\n"
    console.write(
        {"src/main.py": listing, "src/parts/words.py": "", "src/notes.txt": "", "src/data/a.bin": ""}
    )
    console.write({"src/.windlassignore": "notes.txt\ndata/\n"})
    said = console("submit", file).lines
    assert said[0].startswith("hello: code: 2 files, ")
    assert said[-1] == f"hello submitted to namespace {place.name}"
    console("wait", "hello")
    first = place.framework("hello")
    assert first["metadata"]["generation"] == 2, (
        "it was not created first, and started when its code was there"
    )
    assert _owner_of_code(place, "hello") == first["metadata"]["uid"]
    assert _logs(console, "hello") == {f"worker-{index}": ["main.py parts/words.py"] for index in range(2)}

    console.write({"src/main.py": "print('another program')\n"})
    assert "--rerun" in console.message("submit", file)
    console("submit", file, "--rerun", "--wait")
    second = place.framework("hello")
    assert second["metadata"]["uid"] != first["metadata"]["uid"]
    assert _owner_of_code(place, "hello") == second["metadata"]["uid"]
    assert _logs(console, "hello") == {f"worker-{index}": ["another program"] for index in range(2)}

    assert console("delete", "hello").text == "hello deleted\n"
    assert place.client.get(place.framework_path("hello")).code == 404
    assert not place.pods()
    # Objects deleted in the background follow later.
    place.wait_until_empty()
    place.wait_for("no Service to be left", lambda: not _services(place))


def _owner_of_code(place: Place, job: str) -> str:
    config_map = place.client.get(place.path("configmaps", f"{job}-code")).expect(200).body
    [owner] = config_map["metadata"]["ownerReferences"]
    return str(owner["uid"])


def _services(place: Place) -> list[Json]:
    items: list[Json] = place.client.get(place.path("services")).expect(200).body["items"]
    return items


def test_running_job_is_not_replaced(running: Console, place: Place) -> None:
    uid = place.framework("job")["metadata"]["uid"]
    for more in ((), ("--rerun",)):
        assert " and is Running. Wait for its end" in running.message("submit", "job.yaml", *more)
    assert place.framework("job")["metadata"]["uid"] == uid
    assert place.framework("job")["status"]["state"] == "AttemptRunning"
    # A running job is deleted with its pods.
    running("delete", "job")
    assert not place.pods()


@pytest.mark.smoke
def test_file_with_several_objects_is_submitted(console: Console, place: Place) -> None:
    """A ConfigMap, a job that reads it, and a Framework."""
    settings = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "settings"},
        "data": {"RATE": "0.1"},
    }
    job = {
        "name": "one",
        "image": jobs.IMAGE,
        "command": ["sh", "-c", "echo rate $RATE"],
        "envFrom": [{"configMapRef": {"name": "settings"}}],
        "roles": {"worker": {"tasks": 1}},
    }
    framework = jobs.framework("two", jobs.role(script="echo two"), completedPods="Keep")
    console.write({"all.yaml": yaml.safe_dump_all([settings, job, framework])})
    shown = list(yaml.safe_load_all(console("submit", "all.yaml", "--dry-run").text))
    assert [each["kind"] for each in shown] == ["ConfigMap", "Framework", "Framework"]
    assert not place.client.get(place.framework_path()).expect(200).body["items"]
    console("submit", "all.yaml", "--wait")
    assert console("logs", "one", "worker-0").text == "rate 0.1\n"
    assert console("logs", "two").text == "worker-0 | two\n"


# Outcome


def test_why_explains_a_failed_job(running: Console, place: Place) -> None:
    running.end("job/worker-1", 3)
    verdict = running("wait", "job", code=3).lines[-1]
    assert re.fullmatch(r"job failed: worker-1 exited with code 3( (within|after) [\w ]+)?", verdict)
    node = tasks_of(place.framework("job"))[1]["attemptStatus"]["podNodeName"]
    last = ["worker-1 begins", "the end of worker-1"]

    check_failure(running, node, last)
    assert running("list").lines[1].split()[:2] == ["job", "Failed"]
    assert "windlass why job" in running("status", "job").text
    described = running("describe", "job").text
    assert "TaskFailed" in described
    assert "python3 main.py" in described
    events = [json.loads(line) for line in running("events", "job", "-o", "json").lines]
    assert {"AttemptStarted", "TaskFailed", "FrameworkCompleted"} <= {
        event["reason"] for event in events if event["object"] == "job"
    }
    assert {"Scheduled", "Started"} <= {event["reason"] for event in events if event["object"] == "worker-1"}

    for pod in place.pods():
        place.client.delete(place.path("pods", pod)).expect(200)
    place.wait_for("no pod to be left", lambda: not place.pods())
    check_failure(running, node, last)
    assert "`windlass why job`" in running.message("logs", "job")


def check_failure(console: Console, node: str, last: list[str]) -> None:
    text = console("why", "job").lines
    assert text[0].startswith("job failed: worker-1 exited with code 3")
    assert [line.strip() for line in text if line.strip() in last] == last
    failure = json.loads(console("why", "job", "-o", "json").text)["failure"]
    assert {name: failure[name] for name in ("task", "code", "node", "lines")} == {
        "task": "worker-1",
        "code": 3,
        "node": node,
        "lines": last,
    }


# Logs


def test_logs_of_running_tasks_are_ordered_by_time(running: Console, place: Place) -> None:
    with (
        running.started("logs", "job", "-f") as all_of_them,
        running.started("logs", "-f", "job", "worker-1") as one,
    ):
        assert all_of_them.stdout is not None
        assert one.stdout is not None
        begun = {all_of_them.stdout.readline(), all_of_them.stdout.readline()}
        assert begun == {"worker-0 | worker-0 begins\n", "worker-1 | worker-1 begins\n"}
        for index in (1, 0):
            running.end(f"job/worker-{index}")
            assert all_of_them.stdout.readline() == f"worker-{index} | the end of worker-{index}\n"
        assert all_of_them.communicate(timeout=command_line.SECONDS)[0] == ""
        assert one.communicate(timeout=command_line.SECONDS)[0] == "worker-1 begins\nthe end of worker-1\n"
        assert (all_of_them.returncode, one.returncode) == (0, 0)
    whole = {
        f"worker-{index}": [f"worker-{index} begins", f"the end of worker-{index}"] for index in range(2)
    }
    assert _logs(running, "job") == whole
    assert _logs(running, "job", "--tail", "1") == {task: lines[-1:] for task, lines in whole.items()}
    assert _logs(running, "job", "--since", "1h") == whole
    place.wait_for("all of it to be old", lambda: not _logs(running, "job", "--since", "1s"))
    # Ordered by time.
    assert running("logs", "job").lines[-2:] == [
        "worker-1 | the end of worker-1",
        "worker-0 | the end of worker-0",
    ]


def test_previous_logs(console: Console, place: Place) -> None:
    script = "test -e /kept/once && echo again && exec sleep 1000; touch /kept/once; echo at first; exit 1"
    file = console.write_job(
        "restarted",
        command=["sh", "-c", script],
        roles={"worker": {"tasks": 1}},
        volumes={"kept": {"emptyDir": {}, "at": "/kept"}},
        pod={"spec": {"restartPolicy": "OnFailure", "terminationGracePeriodSeconds": 1}},
    )
    console("submit", file)
    place.wait_for(
        "another run", lambda: console("logs", "restarted", "--tail", "1").text == "worker-0 | again\n"
    )
    # A kubelet with a slow runtime returns an error text instead of the log.
    place.wait_for(
        "the words of the run before",
        lambda: console("logs", "restarted", "worker-0", "--previous").text == "at first\n",
    )
    assert console("logs", "restarted", "worker-0").text == "again\n"


def test_long_log_lines_are_unchanged(console: Console) -> None:
    """Also for several tasks, whose lines are ordered by time."""
    program = "print('x' * 100_000); print('short'); print('y' * 50_000, end='')"
    console("submit", "--wait", console.write_job("wide", command=["python3", "-c", program]))
    written = ["x" * 100_000, "short", "y" * 50_000]
    assert _logs(console, "wide") == {"worker-0": written, "worker-1": written}


def _logs(console: Console, job: str, *options: str) -> dict[str, list[str]]:
    """Return the lines by task."""
    found: dict[str, list[str]] = {}
    for line in console("logs", job, *options).lines:
        task, _, text = line.partition(" | ")
        found.setdefault(task, []).append(text)
    return found


# In the containers


def test_exec_runs_commands_in_a_task(running: Console) -> None:
    said = running("exec", "job/worker-0", "--", "sh", "-c", "echo out; echo error >&2; exit 7", code=7)
    assert (said.out, said.errors) == (b"out\n", "error\n")
    assert running("exec", "job/worker-1", "--", "hostname").text == "worker-1\n"
    # Nothing is lost or added in either direction.
    size = 10_000_000
    flood = "import sys; sys.stdout.buffer.write(bytes(range(250)) * 40000)"
    assert running("exec", "job/worker-0", "--", "python3", "-c", flood).out == bytes(range(250)) * 40000
    # It counts bytes: before 1.30 a cluster cannot signal the end of input.
    count = f"import hashlib, sys; print(hashlib.sha256(sys.stdin.buffer.read({size})).hexdigest())"
    given = bytes(reversed(range(250))) * 40000
    echoed = running("exec", "-i", "job/worker-0", "--", "python3", "-c", count, given=given).text
    assert echoed == f"{hashlib.sha256(given).hexdigest()}\n"
    assert "nosuch" in running.message("exec", "job/worker-0", "--", "nosuch")
    assert "its tasks are worker-0..1" in running.message("exec", "job/worker-7", "--", "true")


def test_env_shows_the_peers_of_a_task(console: Console, place: Place) -> None:
    console("submit", console.write_job("job", runtime="tensorflow", roles={"ps": {"tasks": 1}, **ROLE}))
    console("wait", "job", "--for", "running")
    told = json.loads(console("env", "job/worker-1", "--shell", "json").text)
    seen = dict(
        line.partition("=")[::2] for line in console("exec", "job/worker-1", "--", "env").lines if "=" in line
    )
    assert json.loads(told["TF_CONFIG"])["task"] == {"type": "worker", "index": 1}
    by_the_job = {name: value for name, value in told.items() if not name.startswith("FB_")}
    assert {name: seen.get(name) for name in by_the_job} == by_the_job
    # The names are those of the cluster.
    host = json.loads(told["TF_CONFIG"])["cluster"]["ps"][0].partition(":")[0]
    found = console(
        "exec", "job/worker-1", "--", "python3", "-c", f"import socket; print(socket.gethostbyname('{host}'))"
    )
    assert found.text.strip() == tasks_of(place.framework("job"), "ps")[0]["attemptStatus"]["podIP"]
    assert told["FB_PS_IPS"] == found.text.strip()

    # A shell completes them.
    where = ("-n", place.name)
    offered = {
        ("status", *where, "jo"): ["job"],
        ("logs", *where, "job", "w"): ["worker-0", "worker-1"],
        ("exec", *where, "job/p"): ["job/ps-0"],
    }
    place.wait_for(
        "a cluster that answers in time",
        lambda: {words: console.completed(*words) for words in offered} == offered,
    )


# While it runs


def test_scaled_job_ends_when_all_tasks_are_done(console: Console, place: Place) -> None:
    console("submit", console.write_job("job", runtime="tensorflow", roles={"ps": {"tasks": 1}, **ROLE}))
    console("wait", "job", "--for", "running")
    said = console("scale", "job", "worker=3").text
    assert "changed its minSucceededTaskCount from 2 to 3" in said
    assert console("wait", "job", "--for", "running").lines[-1] == "job: Running (4 running of 4)"
    for index in (0, 1):
        console.end(f"job/worker-{index}")
    found = place.wait("job", lambda body: summary_of(body).get("succeeded") == 2, "two that are done")
    assert state_of(found) == "AttemptRunning", "it has ended early"
    console.end("job/worker-2")
    console("wait", "job")
    assert [task["state"] for task in tasks_of(place.framework("job"))] == ["Completed"] * 3
    assert "has completed" in console.message("scale", "job", "worker=4")


def test_job_is_suspended_resumed_and_stopped(console: Console, place: Place) -> None:
    console("submit", console.write_job("job"))
    console("wait", "job", "--for", "running")
    before = {pod["metadata"]["uid"] for pod in place.pods().values()}
    console("suspend", "job")
    console("resume", "job")
    console("wait", "job", "--for", "running")
    pods = place.pods()
    assert len(pods) == 2
    assert not before & {pod["metadata"]["uid"] for pod in pods.values()}, (
        "it is the attempt that was suspended"
    )

    console("suspend", "job")
    place.wait_for("the pods to go", lambda: not place.pods())
    place.wait_for("it to be suspended", lambda: console("list").lines[1].split()[1] == "Suspended")
    assert "is not running after 1 s" in console.message(
        "wait", "job", "--for", "running", "--timeout", "1s", code=124
    )
    console("resume", "job")
    console("wait", "job", "--for", "running")
    console("stop", "job")
    last_line = console("wait", "job", code=125).lines[-1]
    assert last_line.startswith("job stopped after ")
    assert not place.pods()


# The example


WRITER: Final = """
import pathlib, time
def wait_for(file):
    while not pathlib.Path(file).exists():
        time.sleep(0.1)
print("it begins", flush=True)
for part in range(2):
    wait_for(f"/tmp/start-{part}")
    for number in range(100_000):
        print(f"part {part} line {number} ", "x" * 160)
    print(f"part {part} is written", flush=True)
    pathlib.Path(f"/tmp/written-{part}").touch()
wait_for("/tmp/end")
print("the end", flush=True)
"""
"""Writes twice 18 MB, more than a log file of the kubelet may have."""


def test_lines_that_the_kubelet_skips_for_a_slow_reader_are_reported(
    console: Console, place: Place, tmp_path: Path
) -> None:
    """A reader that is slower than two rotations of the log gets the rest of the oldest file and the newest file."""
    console.write({"src/writer.py": WRITER})
    worker: dict[str, Any] = {
        "code": "./src",
        "command": "python3 writer.py",
        "roles": {"worker": {"tasks": 1}},
    }
    console("submit", console.write_job("writer", **worker))
    console("wait", "writer", "--for", "running")

    def is_written(part: int) -> bool:
        return f"written-{part}" in console("exec", "writer/worker-0", "--", "ls", "/tmp").text.split()  # noqa: S108

    def is_rotated(part: int) -> bool:
        """Whether the newest file does not have the first line of the part, nor earlier ones."""
        path = f"{place.path('pods', 'writer-worker-0')}/log"
        first = place.client.get(path, headers={"Accept": "*/*"}, limitBytes="40").raw.decode()
        return not first or (first.startswith(f"part {part} ") and " line 0 " not in first)

    with (
        (tmp_path / "errors").open("wb") as errors,
        console.started("logs", "-f", "writer", "worker-0", errors=errors) as slow,
    ):
        assert slow.stdout is not None
        assert slow.stdout.readline() == "it begins\n"
        for part in range(2):
            console("exec", "writer/worker-0", "--", "sh", "-c", f"touch /tmp/start-{part}")
            place.wait_for(f"part {part}", partial(is_written, part))
            place.wait_for("a rotation", partial(is_rotated, part))
        console("exec", "writer/worker-0", "--", "sh", "-c", "touch /tmp/end")
        console("wait", "writer")
        lines = slow.stdout.read().splitlines()
    assert lines[-1] == "the end"
    assert len(lines) < 200_000, "the kubelet has skipped lines"
    assert "lines of worker-0 may be missing: the log was rotated" in (tmp_path / "errors").read_text()


def test_mpi_job_computes_pi(console: Console, openmpi: str) -> None:
    """mpirun of the launcher starts ranks in the pods of the workers by ssh, with the key of the submission."""
    shutil.copytree(examples.EXAMPLES / "pi-mpi", console.folder, dirs_exist_ok=True)
    job = yaml.safe_load((console.folder / "job.yaml").read_text())
    console.write({"job.yaml": yaml.safe_dump({**job, "image": openmpi})})
    console("submit", "job.yaml")
    assert console("wait", "pi-mpi").lines[-1].startswith("pi-mpi succeeded in ")
    output = console("logs", "pi-mpi", "launcher-0").text
    hosts = dict(re.findall(r"rank (\d) of 2 on (\S+):", output))
    assert {rank: host.split(".")[0] for rank, host in hosts.items()} == {"0": "worker-0", "1": "worker-1"}
    assert "pi is 3.14159265" in output
    console("delete", "pi-mpi")


def test_quickstart_example_trains(console: Console, tensorflow: str) -> None:
    """Real training with fewer steps than in the file."""
    shutil.copytree(examples.EXAMPLES / "digits-ps", console.folder, dirs_exist_ok=True)
    job = yaml.safe_load((console.folder / "job.yaml").read_text())
    job |= {"image": tensorflow, "command": job["command"].replace("2000", "300")}
    assert "--steps 300" in job["command"]
    console.write({"job.yaml": yaml.safe_dump(job)})
    console("submit", "job.yaml")
    assert console("wait", "digits").lines[-1].startswith("digits succeeded in ")
    [result] = [line for line in console("logs", "digits", "worker-0").lines if line.startswith("result:")]
    assert float(result.partition("accuracy=")[2].split()[0]) > 0.9
    console("delete", "digits")
