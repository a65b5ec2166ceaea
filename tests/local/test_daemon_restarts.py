"""A daemon starts over a data directory in which something is not as the last one left it."""

import contextlib
from pathlib import Path

import pytest
from pod_processes import PodProcesses
from pods import daemons
from pods.daemons import Daemon
from pods.levels import Level
from pods.specs import config_map

from conformance.waiting import wait_for


@pytest.fixture
def level(best: Level) -> Level:
    return best


def test_what_a_running_pod_was_made_from_is_gone(lasting: Daemon) -> None:
    place = lasting.new_place()
    place.create(config_map("words", hello="world"))
    volumes = [{"name": "data", "configMap": {"name": "words"}}]
    kept = PodProcesses(lasting, place=place, volumes=volumes)
    place.client.delete(place.path("configmaps", "words")).expect(200)
    lasting.kill()
    lasting.start()
    kept.again()
    assert place.start("echo hello").output() == ["hello"]
    assert kept.is_undisturbed
    assert kept.pod.execute("true").code == 0


def test_what_was_written_of_a_pod_cannot_be_read(lasting: Daemon) -> None:
    """It begins anew, and what ran before does not run beside it."""
    kept = PodProcesses(lasting, run=["sleep", "100000"], restartPolicy="Always")
    lasting.kill()
    state = lasting.data / "pods" / kept.before.uid / "state.json"
    assert state.exists()
    state.write_text("{broken")
    lasting.start()
    wait_for("another process", lambda: set(kept.processes) - {kept.process})
    wait_for("one process", lambda: len(kept.processes) == 1)
    assert kept.again().running()
    assert not kept.process.is_alive


@pytest.mark.parametrize("level", ["root"], indirect=True)
def test_control_groups_of_a_supervisor_that_was_killed(lasting: Daemon) -> None:
    kept = PodProcesses(lasting)
    groups = [Path(each) for each in lasting.traces().control_groups]
    if not groups:
        pytest.skip("needs control groups that root may create")
    lasting.kill()
    kept.supervisor.kill()
    wait_for("no process", lambda: not kept.processes)
    lasting.start()
    wait_for("no control group", lambda: not [each for each in groups if each.exists()])
    assert kept.again().ended().phase == "Failed"


def test_pods_of_a_cluster_that_is_ephemeral_from_now_on(best: Level) -> None:
    """What was started before would not end with it: it is started anew."""
    with contextlib.ExitStack() as stack:
        lasting = stack.enter_context(daemons.running(best))
        kept = PodProcesses(lasting, restartPolicy="Always")
        lasting.kill()
        passing = stack.enter_context(daemons.running(best, is_ephemeral=True, data=str(lasting.data)))
        wait_for("the first one to be gone", lambda: not kept.process.is_alive)
        kept.again(passing).running()
        assert kept.processes
        traces = passing.traces()
        passing.kill()
        traces.wait_until_gone()
        wait_for("no process", lambda: not kept.processes)
