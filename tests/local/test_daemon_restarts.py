"""A daemon starts on a data directory that was changed or damaged."""

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


def test_running_pod_survives_without_its_volume_sources(lasting: Daemon) -> None:
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


def test_unreadable_pod_state_restarts_the_pod(lasting: Daemon) -> None:
    """The pod starts again, and the earlier processes are ended."""
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
def test_cgroups_of_a_killed_supervisor_are_removed(lasting: Daemon) -> None:
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


def test_pods_are_restarted_when_the_cluster_becomes_ephemeral(best: Level) -> None:
    """Pods started before would not end with the daemon, so they are started again."""
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
