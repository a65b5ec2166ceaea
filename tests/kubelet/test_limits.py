"""Bounds of a pod: the time that it may be active, and the memory that it may have."""

import pytest
from pods.place import Place, again_if_lost
from pods.specs import FOREVER, container

HOARD = "hoard = [bytes([1]) * 2**20 for _ in range(1000)]"
HUNGRY = ["sh", "-c", f"sleep 5; python3 -c '{HOARD}'; code=$?; sleep 5; exit $code"]
"""A container runtime hears of it from the kernel: some not right after the start, some only after an end."""
SMALL = {"limits": {"memory": "64Mi"}}


def test_active_deadline_fails_the_pod(place: Place) -> None:
    pod = place.start(FOREVER, activeDeadlineSeconds=1)
    seen = pod.ended()
    assert (seen.phase, seen.status["reason"]) == ("Failed", "DeadlineExceeded")
    assert seen.status["message"] == "Pod was active on the node longer than the specified deadline"
    pod.event("DeadlineExceeded")


@pytest.mark.parametrize("policy", ["Always", "OnFailure"])
def test_active_deadline_applies_to_every_restart_policy(place: Place, policy: str) -> None:
    pod = place.start(FOREVER, activeDeadlineSeconds=1, restartPolicy=policy)
    seen = pod.ended()
    assert (seen.phase, seen.status["reason"], seen.restarts()) == ("Failed", "DeadlineExceeded", 0)


def test_active_deadline_includes_init_containers(place: Place) -> None:
    seen = place.start("true", initContainers=[container(FOREVER, "first")], activeDeadlineSeconds=1).ended()
    assert (seen.phase, seen.status["reason"]) == ("Failed", "DeadlineExceeded")


@again_if_lost
def test_active_deadline_can_be_set_later(place: Place) -> None:
    """Its containers get SIGTERM and the grace period."""
    pod = place.start(
        "trap 'exit 7' TERM; echo armed; sleep 100000 & wait", terminationGracePeriodSeconds=100
    )
    pod.says("armed")
    pod.patch({"spec": {"activeDeadlineSeconds": 1}})
    assert pod.ended().status["reason"] == "DeadlineExceeded"
    assert pod.wait("to end", lambda seen: seen.terminated()).exit_code() == 7


def test_pod_that_ends_before_its_deadline_succeeds(place: Place) -> None:
    seen = place.start("true", activeDeadlineSeconds=100000).ended()
    assert (seen.phase, seen.status.get("reason")) == ("Succeeded", None)


def test_memory_limit_kills_the_container(place: Place) -> None:
    seen = place.start(container(HUNGRY, resources=SMALL)).ended()
    terminated = seen.terminated() or {}
    assert (seen.phase, terminated["exitCode"], terminated["reason"]) == ("Failed", 137, "OOMKilled")


def test_oom_killed_container_is_restarted(place: Place) -> None:
    pod = place.start(container(HUNGRY, resources=SMALL), restartPolicy="OnFailure")
    seen = pod.waiting("CrashLoopBackOff")
    assert (seen.last()["exitCode"], seen.last()["reason"]) == (137, "OOMKilled")


def test_memory_limit_of_another_container_is_separate(place: Place) -> None:
    hungry = container(HUNGRY, "hungry", resources=SMALL)
    pod = place.start(hungry, container(FOREVER, "modest", resources=SMALL))
    seen = pod.wait("to lose one", lambda seen: seen.terminated("hungry"))
    assert (seen.terminated("hungry") or {})["reason"] == "OOMKilled"
    pod.stays("running", lambda seen: seen.running("modest"))


def test_memory_below_the_limit(place: Place) -> None:
    limits = {"limits": {"memory": "512Mi"}}
    run = ["python3", "-c", "hoard = [b'x' * 2**20 for _ in range(50)]; print(len(hoard))"]
    assert place.start(container(run, resources=limits)).output() == ["50"]
