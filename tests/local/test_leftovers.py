"""The helper that searches for leftovers finds them."""

import os
import subprocess
import sys
import uuid
from pathlib import Path

import pytest
from pods import levels, machine

from conformance.waiting import wait_for

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="it reads /proc")


def test_process_is_found_while_it_runs(tmp_path: Path) -> None:
    mark = uuid.uuid4().hex
    environment = {**os.environ, machine.MARKER: mark}
    with subprocess.Popen(["sleep", "100000"], env=environment) as process:  # noqa: S607
        try:
            found = wait_for("the process", lambda: machine.marked(mark))
            assert [each.pid for each in found] == [process.pid]
            traces = machine.traces(mark, tmp_path)
            assert set(traces.left()) == {"processes"}
            line = machine.lineage(found[0], [*found, *machine.marked(mark)])
            assert [each.pid for each in line] == [process.pid]
        finally:
            process.kill()
    assert traces.left() == {}
    assert not found[0].is_alive


def test_namespaces_and_mounts_are_found(tmp_path: Path) -> None:
    if levels.why_not("root"):
        pytest.skip("needs root")
    mark = uuid.uuid4().hex
    held = tmp_path / "held"
    held.touch()
    environment = {**os.environ, machine.MARKER: mark}
    with subprocess.Popen(["unshare", "--net", "sleep", "100000"], env=environment) as process:  # noqa: S607
        try:
            own = Path("/proc/self/ns/net").readlink()
            wait_for("its network", lambda: Path(f"/proc/{process.pid}/ns/net").readlink() != own)
            traces = machine.traces(mark, tmp_path)
            subprocess.run(["mount", "--bind", f"/proc/{process.pid}/ns/net", str(held)], check=True)  # noqa: S603, S607
        finally:
            process.kill()
    try:
        assert set(traces.left()) == {"mounts"}
    finally:
        subprocess.run(["umount", str(held)], check=True)  # noqa: S603, S607
    assert traces.left() == {}


def test_kill_all_ends_all_processes_at_once() -> None:
    mark = uuid.uuid4().hex
    environment = {**os.environ, machine.MARKER: mark}
    loop = "while true; do sleep 0.01; done"
    with subprocess.Popen(["sh", "-c", loop], env=environment):  # noqa: S603, S607
        wait_for("two processes", lambda: len(machine.marked(mark)) == 2)
        machine.kill_all(machine.marked(mark))
    wait_for("none", lambda: not machine.marked(mark))
