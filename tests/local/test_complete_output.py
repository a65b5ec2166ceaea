"""Output of tasks arrives completely, however much they write and however slow the reader is."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pods import commands
from pods.commands import Home, Local, framework, role

from conformance.client import Json
from conformance.waiting import wait_for

LINES = 240_000
"""With their headers, the lines take more space than the log files that a cluster keeps without readers."""
WIDTH = 200

WRITE_LINES = """
import sys
for first in range(0, {lines}, 1000):
    numbers = range(first, min(first + 1000, {lines}))
    sys.stdout.write("".join(f"{{number:0{width}}}\\n" for number in numbers))
print("END", flush=True)
"""


def script(text: str, **values: Any) -> list[str]:
    return ["python3", "-c", text.format(**values)]


def writer_job(home: Home, lines: int = LINES) -> Json:
    container = home.container(script(WRITE_LINES, lines=lines, width=WIDTH - 1))
    return framework(role(container), completedPods="Keep")


def check_lines(texts: Iterator[str], count: int = LINES) -> None:
    """Check that all lines are present, in order, and that nothing follows the last one."""
    expected = 0
    for text in texts:
        if text == "END":
            break
        assert int(text) == expected, f"expected line {expected}, found {text[:300]!r}"
        expected += 1
    assert expected == count
    assert list(texts) == []


def lines_of(output: str, task: str = "worker-0") -> Iterator[str]:
    label = f"{task} | "
    return (line.removeprefix(label) for line in output.splitlines() if line.startswith(label))


def json_lines_of(output: str, key: str = "object") -> Iterator[str]:
    found = (json.loads(line) for line in output.splitlines() if '"line"' in line)
    return (line["line"] for line in found if line[key] == "worker-0")


# windlass run


def test_run_writes_every_line(home: Home) -> None:
    done = home.run(writer_job(home)).expect(0)
    check_lines(lines_of(done.stdout))


def test_run_writes_every_line_as_json(home: Home) -> None:
    lines = LINES // 4
    done = home.run(writer_job(home, lines), options=("--output", "json")).expect(0)
    check_lines(json_lines_of(done.stdout), lines)


def test_run_writes_every_line_to_a_slow_reader(home: Home, open_folder: Path) -> None:
    """The reader begins only after the task has ended, and the run waits for it."""
    text = f"{WRITE_LINES}\nopen('{open_folder}/done', 'w').close()"
    container = home.container(script(text, lines=LINES, width=WIDTH - 1))
    file = home.written(framework(role(container)))
    process = home.started(("run", file), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    wait_for("the task to end", (open_folder / "done").exists)
    output, _ = process.communicate()
    assert process.returncode == 0
    check_lines(lines_of(output.decode()))


def test_run_writes_the_bytes_of_the_container(home: Home) -> None:
    text = "import sys; sys.stdout.buffer.write(bytes(range(11, 256)) + 'ä'.encode() * 100_000)"
    file = home.written(framework(role(home.container(["python3", "-c", text]))))
    process = home.started(("run", file), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    output, _ = process.communicate()
    assert process.returncode == 0
    label = b"worker-0 | "
    lines = [line for line in output.split(b"\n") if line.startswith(label)]
    assert (
        b"".join(line.removeprefix(label) for line in lines) == bytes(range(11, 256)) + "ä".encode() * 100_000
    )


def test_run_writes_the_output_of_every_attempt_once(home: Home) -> None:
    """The pods of all attempts have the same name."""
    attempts = 8
    run = f"echo attempt $FC_TASK_ATTEMPT_ID; [ $FC_TASK_ATTEMPT_ID -eq {attempts - 1} ]"
    done = home.run(framework(role(home.container(run), retries=attempts))).expect(0)
    assert list(lines_of(done.stdout)) == [f"attempt {number}" for number in range(attempts)]


def test_output_that_a_background_process_holds_open(anyone: Home) -> None:
    """The run ends with the container."""
    done = anyone.run(framework(role(anyone.container("setsid sleep 100000 & echo END")))).expect(0)
    assert list(lines_of(done.stdout)) == ["END"]


LONG_LINE = """
import sys
for _ in range({mebibytes}):
    sys.stdout.write("x" * 2**20)
"""


MEASURE_MEMORY = """
import os, sys
pid = os.posix_spawnp(sys.argv[2], sys.argv[2:], os.environ)
_, status, usage = os.wait4(pid, 0)
open(sys.argv[1], "w").write(str(usage.ru_maxrss))
sys.exit(os.waitstatus_to_exitcode(status))
"""
"""Runs a command and writes its peak memory in KiB to a file. A process inherits the peak of the one that starts it, so
this one has to be small: the one of the tests is not."""


@pytest.mark.parametrize("options", [(), ("--output", "json")], ids=["text", "json"])
def test_output_without_a_newline_uses_little_memory(home: Home, options: tuple[str, ...]) -> None:
    mebibytes = 400
    file = home.written(framework(role(home.container(script(LONG_LINE, mebibytes=mebibytes)))))
    peak = home.folder / "peak"
    process = home.started(
        ("run", *options, file),
        before=(sys.executable, "-c", MEASURE_MEMORY, str(peak)),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    count = 0
    while piece := process.stdout.read(2**16):
        count += piece.count(b"x")
    assert process.wait() == 0
    assert count >= mebibytes * 2**20
    assert int(peak.read_text()) < 300 * 1024, "in KiB"


STUBBORN = """
import signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: open("{folder}/asked", "w").close())
sys.stdout.write("words\\n" * 1_000_000)
sys.stdout.flush()
open("{folder}/done", "w").close()
while True:
    time.sleep(1)
"""


def test_second_ctrl_c_ends_the_run_that_nobody_reads(home: Home, open_folder: Path) -> None:
    container = home.container(script(STUBBORN, folder=open_folder))
    file = home.written(framework(role(container, terminationGracePeriodSeconds=600)))
    process = home.started(
        ("run", file), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    wait_for("the task to have written", (open_folder / "done").exists)
    traces = home.traces()
    os.killpg(process.pid, signal.SIGINT)
    wait_for("the task to be stopped", (open_folder / "asked").exists)
    os.killpg(process.pid, signal.SIGINT)
    assert process.wait(commands.SECONDS) == 130
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    traces.wait_until_gone()


# windlass logs


@pytest.fixture(scope="module")
def kept() -> Iterator[tuple[Home, Local]]:
    """A cluster with a completed job whose pods are kept."""
    with commands.home(commands.best()) as home, commands.local(home) as cluster:
        file = home.written(writer_job(home))
        home.windlass("submit", "--wait", file, *where(cluster)).expect(0)
        yield home, cluster


def where(cluster: Local) -> tuple[str, ...]:
    return ("--kubeconfig", str(cluster.data / "kubeconfig"))


@pytest.mark.parametrize("options", [(), ("--output", "json")], ids=["text", "json"])
def test_logs_show_every_line(kept: tuple[Home, Local], options: tuple[str, ...]) -> None:
    home, cluster = kept
    done = home.windlass("logs", "job", *options, *where(cluster)).expect(0)
    check_lines(json_lines_of(done.stdout, "task") if options else lines_of(done.stdout))


def test_followed_logs_show_every_line_to_a_slow_reader(home: Home, open_folder: Path) -> None:
    """The cluster keeps the log for the reader, even after the pod was deleted."""
    go, done = open_folder / "go", open_folder / "done"
    text = (
        "import os, time\nprint('START', flush=True)\n"
        f"while not os.path.exists('{go}'): time.sleep(0.05)\n{WRITE_LINES}\nopen('{done}', 'w').close()"
    )
    with commands.local(home) as cluster:
        container = home.container(script(text, lines=LINES, width=WIDTH - 1))
        home.windlass("submit", home.written(framework(role(container))), *where(cluster)).expect(0)
        home.windlass("wait", "--for", "running", "job", *where(cluster)).expect(0)
        process = home.started(
            ("logs", "-f", "job", *where(cluster)), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE
        )
        assert process.stdout is not None
        assert process.stdout.readline() == b"worker-0 | START\n"
        go.touch()
        wait_for("the task to end", done.exists)
        home.windlass("wait", "job", *where(cluster)).expect(0)
        output, _ = process.communicate()
        assert process.returncode == 0
        check_lines(lines_of(output.decode()))
