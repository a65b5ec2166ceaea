"""Which data of an ended pod are kept, and for how long."""

import pytest
from pod_processes import PodProcesses
from pods.daemons import Daemon
from pods.levels import Level
from pods.place import Pod

from conformance.waiting import wait_for

FINALIZER = "windlass.dev/test"


@pytest.fixture
def level(best: Level) -> Level:
    return best


def test_status_of_an_ended_pod_with_finalizer_is_final(lasting: Daemon) -> None:
    place = lasting.new_place()
    run = "trap 'exit 7' TERM; echo armed; sleep 100000 & wait"
    kept = PodProcesses(lasting, run=run, place=place, metadata={"finalizers": [FINALIZER]})
    folder = lasting.data / "pods" / kept.before.uid
    kept.pod.says("armed")
    kept.pod.delete()
    seen = kept.pod.wait("to end", lambda seen: seen.terminated())
    is_kept(kept.pod, seen.terminated() or {})
    kept.pod.patch({"metadata": {"labels": {"colour": "blue"}}})
    # The patch has been processed by then.
    assert place.start("echo hello").output() == ["hello"]
    is_kept(kept.pod, seen.terminated() or {})
    lasting.kill()
    lasting.start()
    is_kept(kept.again(), seen.terminated() or {})
    assert not kept.processes
    kept.pod.patch({"metadata": {"finalizers": None}})
    kept.pod.wait_until_gone()
    wait_for("its folder to be gone", lambda: not folder.exists())


def is_kept(pod: Pod, end: dict[str, object]) -> None:
    assert end["exitCode"] == 7
    assert pod.seen().terminated() == end
    assert pod.log() == "armed\n"


def test_logs_of_the_last_two_runs_are_kept(lasting: Daemon) -> None:
    """Only two can be requested. Each further run would wait twice as long."""
    pod = lasting.new_place().start("echo $RANDOM; sleep 1", restartPolicy="Always")
    seen = pod.wait("to restart", lambda seen: seen.restarts() >= 2 and seen.running())
    folder = lasting.data / "pods" / seen.uid
    logs = {each.name for each in (folder / "logs" / "main").iterdir()}
    assert {name.partition(".")[0] for name in logs} == {"1", "2"}
    runs = [seen.container()["containerID"], seen.last()["containerID"]]
    assert {each.name for each in (folder / "containers").iterdir()} == {
        each.rpartition("//")[2] for each in runs
    }
    assert pod.log(previous="true")
