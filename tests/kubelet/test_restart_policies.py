"""Restart policies and back-off."""

import pytest
from pods.place import Place
from pods.specs import FOREVER, container, mounted, scratch

ONCE_FAILED = "if [ -e /data/failed ]; then exit 0; fi; touch /data/failed; exit 9"


@pytest.mark.parametrize(
    ("policy", "script", "phase"),
    [
        ("Never", "exit 0", "Succeeded"),
        ("Never", "exit 4", "Failed"),
        ("OnFailure", "exit 0", "Succeeded"),
    ],
)
def test_pods_that_are_not_restarted(place: Place, policy: str, script: str, phase: str) -> None:
    seen = place.start(script, restartPolicy=policy).ended()
    assert (seen.phase, seen.restarts()) == (phase, 0)


def test_failed_container_is_restarted(place: Place) -> None:
    seen = place.start(mounted(ONCE_FAILED), volumes=scratch(), restartPolicy="OnFailure").ended()
    assert (seen.phase, seen.restarts(), seen.exit_code()) == ("Succeeded", 1, 0)
    assert (seen.last()["exitCode"], seen.last()["reason"]) == (9, "Error")
    assert seen.last()["containerID"] != (seen.terminated() or {})["containerID"]


@pytest.mark.parametrize(
    ("policy", "script", "code", "reason"),
    [
        ("Always", "exit 0", 0, "Completed"),
        ("Always", "exit 6", 6, "Error"),
        ("OnFailure", "exit 6", 6, "Error"),
    ],
)
def test_crash_loop_back_off(place: Place, policy: str, script: str, code: int, reason: str) -> None:
    pod = place.start(script, restartPolicy=policy)
    seen = pod.waiting("CrashLoopBackOff")
    assert seen.phase == "Running"
    assert seen.restarts() >= 1
    assert (seen.last()["exitCode"], seen.last()["reason"]) == (code, reason)
    assert seen.container()["ready"] is False
    assert seen.container()["started"] is False
    whole = f"restarting failed container=main pod={pod.name}_{place.namespace}({seen.uid})"
    message = (seen.waiting() or {})["message"]
    assert message.startswith("back-off ")
    assert message.endswith(f"s {whole}")
    assert "Back-off restarting failed container" in pod.event("BackOff")["message"]


def test_back_off_starts_at_ten_seconds_and_doubles(place: Place) -> None:
    pod = place.start("exit 1", restartPolicy="Always")
    seen = pod.wait("to wait", lambda seen: seen.waits_for() == "CrashLoopBackOff")
    # On a busy machine the first back-off may be over before the test reads it.
    expected = {1: "10s", 2: "20s", 3: "40s"}[seen.restarts()]
    assert (seen.waiting() or {})["message"].startswith(f"back-off {expected} ")


def test_container_restarts_after_its_back_off(place: Place) -> None:
    pod = place.start("exit 1", restartPolicy="Always")
    assert pod.wait("to restart twice", lambda seen: seen.restarts() >= 2).phase == "Running"


def test_other_container_keeps_running(place: Place) -> None:
    pod = place.start(container("exit 1", "bad"), container(FOREVER, "good"), restartPolicy="Always")
    before = pod.wait("to run", lambda seen: seen.running("good"))
    after = pod.wait("to restart", lambda seen: seen.restarts("bad") >= 1)
    assert after.restarts("good") == 0
    assert after.container("good")["containerID"] == before.container("good")["containerID"]


def test_restart_discards_files_of_the_earlier_run(place: Place) -> None:
    """Each run of a container begins with the files of its image; a volume stays."""
    script = "[ -e /there-was ] && exit 3; touch /there-was; [ -e /data/x ] && exit 0; touch /data/x; exit 1"
    seen = place.start(mounted(script), volumes=scratch(), restartPolicy="OnFailure").ended()
    assert (seen.phase, seen.restarts()) == ("Succeeded", 1)
