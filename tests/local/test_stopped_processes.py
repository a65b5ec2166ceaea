"""Somebody stops a process with SIGSTOP, which it cannot refuse: nobody waits for it for ever."""

import signal

import pytest
from pod_keepers import Kept, spawners
from pods.daemons import Daemon
from pods.levels import Level
from pods.specs import container

from conformance.waiting import wait_for


@pytest.fixture
def level(best: Level) -> Level:
    return best


@pytest.mark.parametrize("grace", [None, 0], ids=["asked", "forced"])
def test_a_pod_whose_supervisor_is_stopped_is_deleted(lasting: Daemon, grace: int | None) -> None:
    kept = Kept(lasting, terminationGracePeriodSeconds=1)
    kept.supervisor.kill(signal.SIGSTOP)
    kept.pod.delete(grace)
    assert kept.place.start("echo hello").output() == ["hello"], "the cluster does not wait for one pod"
    kept.wait_until_nothing_is_left()


@pytest.mark.parametrize("grace", [1, 0], ids=["asked", "forced"])
def test_a_pod_whose_init_is_stopped_is_deleted(lasting: Daemon, grace: int) -> None:
    kept = Kept(lasting)
    kept.init.kill(signal.SIGSTOP)
    kept.pod.delete(grace)
    kept.wait_until_nothing_is_left()
    wait_for("no init", lambda: not kept.init.is_alive)


def test_a_stopped_supervisor_does_not_keep_a_daemon_from_starting(lasting: Daemon) -> None:
    place = lasting.new_place()
    stopped, other = (Kept(lasting, name, place=place) for name in ("stopped", "other"))
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
    """It starts pods, and nothing else; those that wait for it are started when it goes on."""
    kept = Kept(lasting)
    (spawner,) = spawners(lasting)
    spawner.kill(signal.SIGSTOP)
    waiting = kept.place.start(container("echo hello"))
    kept.pod.delete()
    kept.wait_until_nothing_is_left()
    spawner.kill(signal.SIGCONT)
    assert waiting.output() == ["hello"]
