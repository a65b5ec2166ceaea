"""The next daemon adopts the pods of a killed one."""

from pathlib import Path
from typing import Any

import pytest
from pods.daemons import Daemon
from pods.place import Place, Pod
from pods.specs import container

from conformance.waiting import wait_for


class Ticking:
    """A container that writes lines until its test ends it; its exit code is 7."""

    def __init__(self, daemon: Daemon, folder: Path, **spec: Any) -> None:
        self.daemon = daemon
        self.go = folder / "go"
        self.name = f"ticking-{daemon.mark}"
        self.place: Place = daemon.new_place()
        run = (
            f"n=0; until [ -e {self.go} ]; do n=$((n + 1)); echo tick $n; sleep 0.1; done; echo gone; exit 7"
        )
        env = [{"name": "CONTAINER", "value": self.name}]
        self.pod = self.place.start(container(run, env=env), **spec)
        self.pod.says("tick 3")

    def let_go(self) -> None:
        self.go.touch()

    def again(self) -> Pod:
        """Return the same pod as the next daemon shows it."""
        self.daemon.start()
        self.place.client = self.daemon.client
        self.pod = Pod(self.place, self.pod.name)
        return self.pod


@pytest.fixture
def ticking(lasting: Daemon, open_folder: Path) -> Ticking:
    return Ticking(lasting, open_folder)


def test_adopted_container_keeps_running(ticking: Ticking) -> None:
    before = ticking.pod.running()
    ticking.daemon.kill()
    pod = ticking.again()
    after = pod.running()
    assert after.container() == before.container()
    assert after.status["startTime"] == before.status["startTime"]
    assert after.address == before.address


def test_log_of_adopted_container_continues(ticking: Ticking) -> None:
    ticking.daemon.kill()
    pod = ticking.again()
    last = int(pod.log(tailLines="1").split()[1])
    lines = pod.says(f"tick {last + 5}\n").splitlines()
    numbers = [int(line.split()[1]) for line in lines]
    assert numbers == list(range(1, len(numbers) + 1))


def test_exit_code_of_adopted_container_is_reported(ticking: Ticking) -> None:
    ticking.daemon.kill()
    pod = ticking.again()
    pod.running()
    ticking.let_go()
    seen = pod.ended()
    assert (seen.phase, seen.exit_code(), seen.restarts()) == ("Failed", 7, 0)
    assert pod.log(tailLines="1") == "gone\n"


def test_adopted_pod_supports_exec_and_deletion(ticking: Ticking) -> None:
    ticking.daemon.kill()
    pod = ticking.again()
    assert pod.sh("exit 4").code == 4
    pod.delete()
    pod.wait_until_gone()
    wait_for("no process", lambda: not ticking.daemon.all_inside(ticking.name))


def test_end_without_daemon_is_reported(ticking: Ticking) -> None:
    before = ticking.pod.running()
    ticking.daemon.kill()
    ticking.let_go()
    wait_for("it to end", lambda: not ticking.daemon.all_inside(ticking.name))
    pod = ticking.again()
    seen = pod.ended()
    assert (seen.phase, seen.exit_code(), seen.restarts()) == ("Failed", 7, 0)
    assert seen.container()["containerID"] == before.container()["containerID"]
    assert pod.log(tailLines="1") == "gone\n"


def test_container_that_ended_without_daemon_is_restarted(lasting: Daemon, open_folder: Path) -> None:
    ticking = Ticking(lasting, open_folder, restartPolicy="OnFailure")
    lasting.kill()
    ticking.let_go()
    wait_for("it to end", lambda: not lasting.all_inside(ticking.name))
    pod = ticking.again()
    seen = pod.wait("to restart", lambda seen: seen.restarts() >= 1 and seen.last())
    assert seen.last()["exitCode"] == 7


def test_interrupted_deletion_continues(lasting: Daemon, open_folder: Path) -> None:
    """The daemon was killed before the deletion was complete."""
    ticking = Ticking(lasting, open_folder, terminationGracePeriodSeconds=2)
    ticking.pod.delete()
    lasting.kill()
    ticking.again().wait_until_gone()
    wait_for("no process", lambda: not lasting.all_inside(ticking.name))


def test_graceful_stop_keeps_pods_running(ticking: Ticking) -> None:
    """A stopped daemon is expected to come back."""
    before = ticking.pod.running()
    ticking.daemon.stop()
    assert ticking.daemon.all_inside(ticking.name)
    assert ticking.again().running().container() == before.container()


def test_pod_is_adopted_twice(ticking: Ticking) -> None:
    before = ticking.pod.running()
    for _ in range(2):
        ticking.daemon.kill()
        ticking.again()
    assert ticking.pod.running().container() == before.container()
    ticking.let_go()
    assert ticking.pod.ended().exit_code() == 7


def test_back_off_survives_a_restart(lasting: Daemon) -> None:
    """A new daemon does not at once restart containers that have failed repeatedly."""
    place = lasting.new_place()
    pod = place.start("exit 1", restartPolicy="Always")
    before = pod.waiting("CrashLoopBackOff")
    lasting.kill()
    lasting.start()
    place.client = lasting.client
    after = Pod(place, pod.name).waiting("CrashLoopBackOff")
    assert before.restarts() <= after.restarts() <= before.restarts() + 1
