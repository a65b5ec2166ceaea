"""The next daemon adopts the pods of a killed one.

The tests share one daemon that was killed and started again, because a start takes most of the time of such a test.
"""

import functools
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pods.daemons import Daemon
from pods.place import Place, Pod
from pods.seen import Seen
from pods.specs import container

from conformance.waiting import wait_for


class Ticking:
    """A container that writes lines until its test ends it; its exit code is 7."""

    def __init__(self, place: Place, mark: str, folder: Path, **spec: Any) -> None:
        self.go = folder / mark
        run = (
            f"n=0; until [ -e {self.go} ]; do n=$((n + 1)); echo tick $n; sleep 0.1; done; echo gone; exit 7"
        )
        self.mark = mark
        self.pod = place.start(container(run, env=[{"name": "CONTAINER", "value": mark}]), **spec)
        self.pod.says("tick 3")
        self.before: Seen = self.pod.running()

    def end(self) -> None:
        self.go.touch()


class Restart:
    """A daemon that is killed and started again while its pods continue, end, fail and are deleted."""

    def __init__(self, daemon: Daemon, folder: Path) -> None:
        self.daemon = daemon
        self.place = daemon.new_place()
        self._folder = folder
        self.kept = self._ticking("kept")
        self.ended_later = self._ticking("ended-later")
        self.deleted_later = self._ticking("deleted-later")
        self.ended = self._ticking("ended")
        self.restarted = self._ticking("restarted", restartPolicy="OnFailure")
        self.deleted = self._ticking("deleted", terminationGracePeriodSeconds=2)
        failing = self.place.start("exit 1", restartPolicy="Always")
        self.failing_before = failing.waiting("CrashLoopBackOff")
        self.deleted.pod.delete()
        daemon.kill()
        for ticking in (self.ended, self.restarted):
            ticking.end()
            wait_for("it to end", functools.partial(self.has_no_processes, ticking))
        self.start_again()
        self.failing_after = Pod(self.place, failing.name).waiting("CrashLoopBackOff")

    def _ticking(self, name: str, **spec: Any) -> Ticking:
        return Ticking(self.place, f"{name}-{self.daemon.mark}", self._folder, **spec)

    def start_again(self) -> None:
        self.daemon.start()
        self.place.client = self.daemon.client

    def again(self, ticking: Ticking) -> Pod:
        """Return the same pod as the latest daemon shows it."""
        return Pod(self.place, ticking.pod.name)

    def has_no_processes(self, ticking: Ticking) -> bool:
        return not self.daemon.all_inside(ticking.mark)


@pytest.fixture(scope="module")
def restart(shared_lasting: Daemon) -> Iterator[Restart]:
    folder = Path(tempfile.mkdtemp(prefix="windlass-shared-"))
    folder.chmod(0o777)
    yield Restart(shared_lasting, folder)
    shutil.rmtree(folder, ignore_errors=True)


def test_adopted_container_keeps_running(restart: Restart) -> None:
    before, after = restart.kept.before, restart.again(restart.kept).running()
    assert after.container() == before.container()
    assert after.status["startTime"] == before.status["startTime"]
    assert after.address == before.address


def test_log_of_adopted_container_continues(restart: Restart) -> None:
    pod = restart.again(restart.kept)
    last = int(pod.log(tailLines="1").split()[1])
    lines = pod.says(f"tick {last + 5}\n").splitlines()
    numbers = [int(line.split()[1]) for line in lines]
    assert numbers == list(range(1, len(numbers) + 1))


def test_exit_code_of_adopted_container_is_reported(restart: Restart) -> None:
    pod = restart.again(restart.ended_later)
    pod.running()
    restart.ended_later.end()
    seen = pod.ended()
    assert (seen.phase, seen.exit_code(), seen.restarts()) == ("Failed", 7, 0)
    assert pod.log(tailLines="1") == "gone\n"


def test_adopted_pod_supports_exec_and_deletion(restart: Restart) -> None:
    pod = restart.again(restart.deleted_later)
    assert pod.sh("exit 4").code == 4
    pod.delete()
    pod.wait_until_gone()
    wait_for("no process", lambda: restart.has_no_processes(restart.deleted_later))


def test_end_without_daemon_is_reported(restart: Restart) -> None:
    pod = restart.again(restart.ended)
    seen = pod.ended()
    assert (seen.phase, seen.exit_code(), seen.restarts()) == ("Failed", 7, 0)
    assert seen.container()["containerID"] == restart.ended.before.container()["containerID"]
    assert pod.log(tailLines="1") == "gone\n"


def test_container_that_ended_without_daemon_is_restarted(restart: Restart) -> None:
    pod = restart.again(restart.restarted)
    seen = pod.wait("to restart", lambda seen: seen.restarts() >= 1 and seen.last())
    assert seen.last()["exitCode"] == 7


def test_interrupted_deletion_continues(restart: Restart) -> None:
    """The daemon was killed before the deletion was complete."""
    restart.again(restart.deleted).wait_until_gone()
    wait_for("no process", lambda: restart.has_no_processes(restart.deleted))


def test_back_off_survives_a_restart(restart: Restart) -> None:
    """A new daemon does not at once restart containers that have failed repeatedly."""
    before, after = restart.failing_before.restarts(), restart.failing_after.restarts()
    assert before <= after <= before + 1


def test_pod_is_adopted_again_after_a_graceful_stop(restart: Restart) -> None:
    """A stopped daemon is expected to be started again, so its pods keep running."""
    restart.daemon.stop()
    assert not restart.has_no_processes(restart.kept)
    restart.start_again()
    assert restart.again(restart.kept).running().container() == restart.kept.before.container()
