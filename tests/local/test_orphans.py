"""No process is left behind when any process is killed with SIGKILL."""

import signal
from pathlib import Path

import pytest
from pods.daemons import Daemon
from pods.machine import Process
from pods.place import Place, Pod
from pods.specs import FOREVER, container, scratch

from conformance.waiting import wait_for


def started(daemon: Daemon, name: str, policy: str = "Never") -> tuple[Place, Pod]:
    place = daemon.new_place()
    env = [{"name": "CONTAINER", "value": name}]
    volumes = scratch(medium="Memory") if daemon.level.has_mounts else []
    pod = place.start(container(FOREVER, env=env), restartPolicy=policy, volumes=volumes)
    pod.running()
    return place, pod


# A cluster that ends with its daemon


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM], ids=lambda n: n.name)
def test_killed_cluster_leaves_nothing(passing: Daemon, number: signal.Signals) -> None:
    started(passing, "one")
    _, pod = started(passing, "two")
    pod.sh("setsid sleep 100000 > /dev/null 2>&1 &")
    traces = passing.traces()
    assert traces.left(), "there is something to be left"
    if number == signal.SIGKILL:
        passing.kill()
    else:
        passing.stop(number)
    traces.wait_until_gone()


def test_cluster_killed_while_pods_start_leaves_nothing(passing: Daemon) -> None:
    place = passing.new_place()
    pods = [place.start(FOREVER) for _ in range(8)]
    pods[0].running()
    traces = passing.traces()
    passing.kill()
    traces.wait_until_gone()


def test_cluster_killed_while_pods_end_leaves_nothing(passing: Daemon) -> None:
    place = passing.new_place()
    pods = [place.start("trap '' TERM; echo armed; while true; do sleep 1; done") for _ in range(4)]
    for pod in pods:
        pod.says("armed")
        pod.delete(grace=100)
    traces = passing.traces()
    passing.kill()
    traces.wait_until_gone()


@pytest.mark.parametrize("which", ["spawner", "supervisor", "init"])
def test_nothing_is_left_when_another_process_dies_first(passing: Daemon, which: str) -> None:
    started(passing, f"one-{passing.mark}")
    traces = passing.traces()
    victim(passing, f"one-{passing.mark}", which).kill()
    passing.kill()
    traces.wait_until_gone()


def test_nothing_is_left_when_all_die_at_once(passing: Daemon) -> None:
    """Except empty cgroups, which the next cluster removes."""
    started(passing, "one")
    traces = passing.traces()
    passing.kill_everything()
    traces.but_control_groups().wait_until_gone()
    passing.start()
    passing.stop()
    traces.wait_until_gone()


# A cluster whose pods continue


def victim(daemon: Daemon, name: str, which: str) -> Process:
    """Return the processes above a command: the spawner, the supervisor of the pod, the init of the container."""
    line = daemon.ancestors(daemon.inside(name))
    assert len(line) >= 2, f"too short a line of ancestors: {line}"
    return {"spawner": line[0], "supervisor": line[1], "init": line[-1]}[which]


@pytest.mark.parametrize("which", ["spawner", "supervisor", "init"])
def test_pod_whose_helper_process_is_killed_fails(lasting: Daemon, which: str) -> None:
    """Or it continues without the process, and still ends when it is deleted. Other pods can still be created."""
    name = f"one-{lasting.mark}"
    place, pod = started(lasting, name)
    groups = lasting.traces().control_groups
    keeper = victim(lasting, name, which)
    keeper.kill()
    wait_for("its death", lambda: not keeper.is_alive)
    if which != "spawner":
        seen = pod.ended()
        assert seen.phase == "Failed"
        assert (seen.terminated() or {})["exitCode"] != 0
        wait_for("no process", lambda: not lasting.all_inside(name))
    assert place.start("echo hello").output() == ["hello"]
    pod.delete()
    pod.wait_until_gone()
    wait_for("no process", lambda: not lasting.all_inside(name))
    wait_for("no control group", lambda: not any(Path(group).exists() for group in groups))


@pytest.mark.parametrize("which", ["supervisor", "init"])
def test_pod_whose_helper_process_is_killed_is_restarted(lasting: Daemon, which: str) -> None:
    name = f"one-{lasting.mark}"
    _, pod = started(lasting, name, "Always")
    before = lasting.inside(name)
    victim(lasting, name, which).kill()
    seen = pod.wait("to run again", lambda seen: seen.restarts() >= 1 and seen.running())
    assert seen.last()["exitCode"] != 0
    wait_for("the first one to be gone", lambda: not before.is_alive)
    assert pod.execute("true").code == 0


@pytest.mark.parametrize("policy", ["Never", "Always"])
def test_pods_are_restarted_after_everything_was_killed(lasting: Daemon, policy: str) -> None:
    """Like a power failure with an intact disk."""
    name = f"one-{lasting.mark}"
    place, pod = started(lasting, name, policy)
    lasting.kill_everything()
    lasting.start()
    place.client = lasting.client
    again = Pod(place, pod.name)
    if policy == "Never":
        seen = again.ended()
        assert (seen.phase, seen.restarts()) == ("Failed", 0)
        assert (seen.terminated() or {})["exitCode"] != 0
    else:
        seen = again.wait("to run again", lambda seen: seen.restarts() >= 1 and seen.running())
        assert again.execute("true").code == 0
    assert place.start("echo hello").output() == ["hello"]


def test_supervisor_killed_without_daemon_is_detected(lasting: Daemon) -> None:
    """First the daemon is killed, then the supervisor: the next daemon reports the failure."""
    name = f"one-{lasting.mark}"
    place, pod = started(lasting, name)
    keeper = victim(lasting, name, "supervisor")
    lasting.kill()
    keeper.kill()
    wait_for("no process", lambda: not lasting.all_inside(name))
    lasting.start()
    place.client = lasting.client
    seen = Pod(place, pod.name).ended()
    assert seen.phase == "Failed"


def test_no_pod_folder_is_left(lasting: Daemon) -> None:
    _, pod = started(lasting, "one")
    uid = pod.seen().uid
    folder = Path(lasting.data, "pods", uid)
    assert folder.is_dir()
    pod.delete()
    pod.wait_until_gone()
    wait_for("its folder to be gone", lambda: not folder.exists())
