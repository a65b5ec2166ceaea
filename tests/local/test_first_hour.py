"""The first steps of a new user, with real pods: a kept cluster, copies, and the first example of the SDK."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pods import commands
from pods.commands import Home, Local

from conformance.waiting import wait_for

SDK_PAGE = Path(__file__).parents[2] / "docs" / "sdk.md"
RUN = ("run", "--local", "--name", "hello", "--", "python3", "-c", "print('result: accuracy=0.97')")
WRITER = """\
name: writer
command: |
  mkdir -p /output/plots && echo 1 > /output/plots/a.txt && ln -s plots/a.txt /output/link && cat /output/plots/*
roles: {worker: {}}
volumes: {out: {pvc: results, at: /output}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: results}
spec: {accessModes: [ReadWriteMany], resources: {requests: {storage: 1Gi}}}
"""
SLEEPER = "name: sleeper\ncommand: sleep 100000\nroles: {worker: {}}\n"
HOSTILE = """\
name: hostile
command: "cd FOLDER && mkdir bad && ln -s ../../etc bad/etc && mkfifo pipe && echo ready && sleep 100000"
roles: {worker: {}}
"""


@pytest.fixture(scope="module")
def home() -> Iterator[Home]:
    with commands.home(commands.best()) as made:
        yield made


@pytest.fixture(scope="module")
def local(home: Home) -> Iterator[Local]:
    with commands.local(home) as made:
        yield made


def test_run_on_the_local_cluster_replaces_the_finished_job(home: Home, local: Local) -> None:
    """The first run creates the job, the second one replaces it; the cluster keeps running, without a kubeconfig."""
    first = home.windlass(*RUN).expect(0)
    assert first.stderr.startswith(f"cluster: {local.status()['url']} of ")
    assert "worker-0 | result: accuracy=0.97" in first.lines
    second = home.windlass(*RUN).expect(0)
    assert second.lines[0][14:] == "hello     replacing the finished job"
    assert sum("attempt started" in line for line in second.lines) == 1, second.stdout
    listed = home.windlass("list").expect(0)
    assert listed.lines[1].split()[:2] == ["hello", "Succeeded"]


def test_outputs_of_a_finished_job_are_copied(home: Home, local: Local) -> None:
    place = "/output is in the claim results: windlass cp writer/worker-0:/output ./output"
    submitted = home.windlass("submit", "-", "--wait", given=WRITER.encode()).expect(0)
    assert submitted.lines[-1] == f"output: {place}"
    assert f"output      {place}" in home.windlass("status", "writer").expect(0).lines
    target = home.folder / "out"
    copied = home.windlass("cp", "writer/worker-0:/output", target).expect(0)
    assert copied.stdout == f"copied 1 file (2 B) to {target}\n"
    assert (target / "plots" / "a.txt").read_text() == "1\n"
    assert (target / "link").readlink() == Path("plots/a.txt")
    home.windlass("cp", "writer/worker-0:/output/plots/a.txt", target).expect(0)
    assert (target / "a.txt").read_text() == "1\n"
    lost = home.windlass("cp", "writer/worker-0:/tmp", home.folder / "lost").expect(1)
    assert "worker-0 is not running: its container main exited with code 0" in lost.stderr


def test_files_are_copied_to_a_running_task_and_back(home: Home, local: Local) -> None:
    home.windlass("submit", "-", given=SLEEPER.encode()).expect(0)
    home.windlass("wait", "sleeper", "--for", "running").expect(0)
    wait_for("its usage", lambda: "sleeper  worker-0  0%" in home.windlass("top", "sleeper").stdout)
    source = home.folder / "data"
    (source / "deep").mkdir(parents=True)
    (source / "deep" / "bytes").write_bytes(bytes(range(256)) * 1000)
    (source / "with space").write_text("x")
    remote = f"sleeper/worker-0:{home.folder}/copy/of data"
    up = home.windlass("cp", source, remote).expect(0)
    assert up.stdout == f"copied 2 files (250 KiB) to {remote}\n"
    back = home.windlass("cp", remote, home.folder / "back").expect(0)
    assert back.stdout == f"copied 2 files (250 KiB) to {home.folder / 'back'}\n"
    assert (home.folder / "back" / "deep" / "bytes").read_bytes() == bytes(range(256)) * 1000
    missing = home.windlass("cp", "sleeper/worker-0:/there/is/nothing", home.folder / "x").expect(1)
    assert "there is no file or directory /there/is/nothing in the task" in missing.stderr
    assert not (home.folder / "x").exists()


def test_links_and_pipes_of_a_task_are_not_copied(home: Home, local: Local) -> None:
    folder = home.folder / "hostile"
    folder.mkdir(mode=0o777)
    home.windlass("submit", "-", given=HOSTILE.replace("FOLDER", str(folder)).encode()).expect(0)
    follower = home.begin("logs", "-f", "hostile")
    follower.says("ready")
    follower.press_ctrl_c()
    follower.done()
    link = home.windlass("cp", f"hostile/worker-0:{folder}/bad", home.folder / "bad").expect(1)
    assert (
        '"./bad/etc" is a link to "../../etc", outside of the copied directory. Nothing was copied.'
        in link.stderr
    )
    pipe = home.windlass("cp", f"hostile/worker-0:{folder}/pipe", home.folder / "pipe").expect(1)
    assert '"./pipe" is a device, a pipe or a socket. Nothing was copied.' in pipe.stderr
    assert not (home.folder / "bad").exists()
    assert not (home.folder / "pipe").exists()


def test_first_example_of_the_sdk_runs_as_printed(home: Home, local: Local) -> None:
    """In a script that does not close the client, and with all warnings."""
    found = re.search(
        r"^```python\n(.*?)^```\n.*?^```text\n(.*?)^```", SDK_PAGE.read_text(), re.DOTALL | re.MULTILINE
    )
    assert found is not None
    example, expected = found.groups()
    environment = {"KUBECONFIG": local.status()["kubeconfig"], "PATH": "/usr/bin:/bin"}
    done = subprocess.run(  # noqa: S603
        (sys.executable, "-W", "default", "-c", example),
        env=environment,
        cwd=home.folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, expected, "")
