"""Processes stopped with SIGSTOP block nothing forever."""

import signal

import pytest
from pod_processes import PodProcesses, spawners
from pods.daemons import Daemon
from pods.levels import Level

from conformance.waiting import wait_for


@pytest.fixture
def level(best: Level) -> Level:
    return best


def test_pods_with_stopped_helper_processes_are_deleted(lasting: Daemon) -> None:
    """With and without force, all at once, because each waits for a timeout."""
    place = lasting.new_place()
    ways = [(which, grace) for which in ("init", "supervisor") for grace in (0, 1)]
    pods = {way: PodProcesses(lasting, f"{way[0]}-{way[1]}", place=place) for way in ways}
    for (which, grace), kept in pods.items():
        (kept.init if which == "init" else kept.supervisor).kill(signal.SIGSTOP)
        kept.pod.delete(grace)
    assert place.start("echo hello").output() == ["hello"], "the cluster does not wait for them"
    for kept in pods.values():
        kept.wait_until_nothing_is_left()


def test_stopped_supervisor_does_not_block_a_new_daemon(lasting: Daemon) -> None:
    place = lasting.new_place()
    stopped, other = (PodProcesses(lasting, name, place=place) for name in ("stopped", "other"))
    stopped.supervisor.kill(signal.SIGSTOP)
    lasting.kill()
    lasting.start()
    other.again().running()
    assert other.is_undisturbed
    seen = stopped.again().ended()
    assert (seen.phase, seen.exit_code()) == ("Failed", 137)
    wait_for("nothing of it to run", lambda: not stopped.processes and not stopped.supervisor.is_alive)
    assert place.start("echo hello").output() == ["hello"]


def test_pods_end_while_the_spawner_is_stopped(lasting: Daemon) -> None:
    """It only starts pods; waiting pods start when it continues."""
    kept = PodProcesses(lasting)
    (spawner,) = spawners(lasting)
    spawner.kill(signal.SIGSTOP)
    waiting = kept.place.start("echo hello")
    kept.pod.delete()
    kept.wait_until_nothing_is_left()
    spawner.kill(signal.SIGCONT)
    assert waiting.output() == ["hello"]
