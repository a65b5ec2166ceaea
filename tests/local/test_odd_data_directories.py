"""Data directories with unusual paths, low limits, or folders that cannot be deleted."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from pod_processes import PodProcesses
from pods import daemons
from pods.daemons import Daemon
from pods.levels import Level

from conformance.waiting import wait_for

PATHS = {
    "long": b"/".join([b"n" * 90] * 3),
    "spaces-and-signs": "a b\n'ü\"$(x)%s\\".encode(),
}


@pytest.fixture
def folder() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="windlass-odd-"))
    yield folder
    shutil.rmtree(folder)


@pytest.mark.parametrize("path", PATHS.values(), ids=PATHS)
def test_unusual_path_works(best: Level, folder: Path, path: bytes) -> None:
    """A pod runs, logs, accepts exec, and is adopted."""
    data = folder / os.fsdecode(path)
    # If the path is too long for a socket, the socket is in a temporary folder, where a kill leaves it.
    before = ("env", f"TMPDIR={folder}")
    with daemons.running(best, before=before, data=str(data)) as daemon:
        kept = PodProcesses(daemon, run="trap 'exit 0' TERM; echo hello; sleep 100000 & wait")
        assert kept.pod.says("hello") == "hello\n"
        assert kept.pod.sh("exit 4").code == 4
        assert (data / "pods" / kept.before.uid).is_dir()
        daemon.kill()
        daemon.start()
        kept.again().running()
        assert kept.is_undisturbed
        assert kept.pod.sh("exit 5").code == 5
        kept.pod.delete()
        kept.wait_until_nothing_is_left()
        traces = daemon.traces()
        daemon.stop()
        traces.wait_until_gone()


@pytest.fixture
def level(best: Level) -> Level:
    return best


def test_folder_that_cannot_be_deleted_is_retried(lasting: Daemon) -> None:
    """It is reported once and retried by the next daemon; nothing waits for it."""
    if os.geteuid() != 0:
        pytest.skip("only root can make such a folder")
    kept = PodProcesses(lasting)
    pods = lasting.data / "pods"
    held = pods / kept.before.uid / "volumes" / "held"
    held.mkdir()
    do("mount", "-t", "tmpfs", "tmpfs", str(held))
    try:
        kept.pod.delete()
        kept.pod.wait_until_gone()
        wait_for("a warning", lambda: complaints(lasting, kept))
        is_well(lasting)
        assert len(complaints(lasting, kept)) == 1, complaints(lasting, kept)
        lasting.kill()
        lasting.start()
        is_well(lasting)
        assert len(complaints(lasting, kept)) == 2, complaints(lasting, kept)
    finally:
        still = [each for each in pods.rglob("*") if each.is_mount()]
        for each in still:
            do("umount", str(each))
    assert still, "what is mounted in it was left alone"
    lasting.kill()
    lasting.start()
    wait_for("its folder to be gone", lambda: not (pods / kept.before.uid).exists())


def complaints(daemon: Daemon, kept: PodProcesses) -> list[str]:
    names = (kept.before.uid, f"{kept.place.namespace}/{kept.pod.name}")
    lines = daemon.log.read_text().splitlines()
    return [line for line in lines if "WARNING" in line and any(name in line for name in names)]


def is_well(daemon: Daemon) -> None:
    assert daemon.new_place().start("echo hello").output() == ["hello"]
    assert "Traceback" not in daemon.log.read_text()


def do(*command: str) -> None:
    subprocess.run(command, check=True)  # noqa: S603


def test_low_limit_of_open_files_is_raised(best: Level) -> None:
    """A process may raise its soft limit itself."""
    before = ("sh", "-c", 'ulimit -Sn 64 && exec "$@"', "sh")
    with daemons.running(best, is_ephemeral=True, before=before) as daemon:
        place = daemon.new_place()
        pods = [place.start(["sleep", "100000"]) for _ in range(80)]
        for pod in pods:
            pod.running()
        assert pods[-1].execute("true").code == 0
        assert "Too many open files" not in daemon.log.read_text()
