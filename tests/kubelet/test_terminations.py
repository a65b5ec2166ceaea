"""Deletion of pods: signals, grace period, hooks and the final status."""

import json

import pytest
from pods.place import LostEndingError, Place, again_if_lost
from pods.specs import FOREVER, STUBBORN, container, mounted, scratch

from conformance.client import Json

OBEDIENT = "trap 'exit 7' TERM; echo armed; sleep 100000 & wait"


@again_if_lost
def test_container_exits_on_sigterm(place: Place) -> None:
    with place.held(OBEDIENT) as pod:
        pod.says("armed")
        assert pod.delete().code == 200
        seen = pod.wait("to end", lambda seen: seen.terminated())
        assert (seen.exit_code(), (seen.terminated() or {})["reason"]) == (7, "Error")
        assert "Stopping container main" in pod.event("Killing")["message"]
    pod.wait_until_gone()


@again_if_lost
def test_container_is_killed_after_the_grace_period(place: Place) -> None:
    with place.held(STUBBORN, terminationGracePeriodSeconds=1) as pod:
        pod.says("armed")
        pod.delete()
        seen = pod.wait("to be killed", lambda seen: seen.terminated())
        assert (seen.exit_code(), (seen.terminated() or {})["reason"]) == (137, "Error")
    pod.wait_until_gone()


def test_grace_period_can_be_shortened(place: Place) -> None:
    pod = place.start(STUBBORN, terminationGracePeriodSeconds=100000)
    pod.says("armed")
    assert pod.delete(grace=1).code == 200
    pod.wait_until_gone()


def test_grace_period_can_be_shortened_later(place: Place) -> None:
    pod = place.start(STUBBORN, terminationGracePeriodSeconds=100000)
    pod.says("armed")
    pod.delete()
    assert pod.seen().body["metadata"]["deletionGracePeriodSeconds"] == 100000
    pod.delete(grace=1)
    pod.wait_until_gone()


def test_terminating_pod_still_runs(place: Place) -> None:
    pod = place.start(STUBBORN, terminationGracePeriodSeconds=100000)
    pod.says("armed")
    pod.running()
    pod.delete()
    pod.stays("running", lambda seen: seen.phase == "Running" and seen.running())
    assert pod.execute("true").code == 0
    pod.delete(grace=0)


def test_forced_deletion(place: Place) -> None:
    """The object is gone at once; what ran is killed by the way."""
    pod = place.start(STUBBORN, terminationGracePeriodSeconds=100000)
    pod.says("armed")
    assert pod.delete(grace=0).code == 200
    pod.wait_until_gone()


@pytest.mark.parametrize("script", ["true", "exit 3"])
def test_deletion_of_an_ended_pod(place: Place, script: str) -> None:
    pod = place.start(script)
    pod.ended()
    pod.delete()
    pod.wait_until_gone()


def test_deletion_of_a_pod_that_never_started(place: Place) -> None:
    volumes = [{"name": "data", "configMap": {"name": "none"}}]
    pod = place.start("true", volumes=volumes)
    pod.waiting("ContainerCreating")
    pod.delete()
    pod.wait_until_gone()


def test_deletion_of_a_pod_in_back_off(place: Place) -> None:
    pod = place.start("exit 1", restartPolicy="Always")
    pod.waiting("CrashLoopBackOff")
    pod.delete()
    pod.wait_until_gone()


@again_if_lost
def test_all_containers_get_sigterm(place: Place) -> None:
    script = "trap 'exit {code}' TERM; touch /data/{code}; sleep 100000 & wait"
    both = [mounted(script.format(code=code), name=f"c{code}") for code in (11, 12)]
    with place.held(*both, volumes=scratch()) as pod:
        pod.wait("to be armed", lambda seen: seen.all_run())
        pod.sh("until [ -e /data/11 ] && [ -e /data/12 ]; do sleep 0.1; done", container="c11")
        pod.delete()
        seen = pod.wait("to end", lambda seen: seen.terminated("c11") and seen.terminated("c12"))
        assert (seen.exit_code("c11"), seen.exit_code("c12")) == (11, 12)


@again_if_lost
def test_terminating_pod_restarts_no_container(place: Place) -> None:
    with place.held("trap 'exit 1' TERM; echo armed; sleep 100000 & wait", restartPolicy="Always") as pod:
        pod.says("armed")
        pod.delete()
        seen = pod.wait("to end", lambda seen: seen.terminated())
        assert (seen.exit_code(), seen.restarts()) == (1, 0)


def test_name_can_be_reused(place: Place) -> None:
    for number in range(2):
        pod = place.start(f"echo {number}", name="again")
        assert pod.output() == [str(number)]
        pod.delete()
        pod.wait_until_gone()


@again_if_lost
def test_watch_reports_the_deletion(place: Place) -> None:
    """The last thing that a watch shows of a pod is how it ended."""
    pod = place.start(OBEDIENT)
    pod.says("armed")
    version = pod.seen().body["metadata"]["resourceVersion"]
    with place.client.watch(place.path("pods"), resourceVersion=version) as watch:
        pod.delete()
        last: Json = {}
        while last.get("type") != "DELETED":
            last = watch.next()
    state = last["object"]["status"]["containerStatuses"][0]["state"]
    if "terminated" not in state and place.may_lose_endings:
        raise LostEndingError(json.dumps(state))
    assert state["terminated"]["exitCode"] == 7, json.dumps(state)


def test_eviction_deletes_the_pod(place: Place, by_release: str) -> None:
    pod = place.start(FOREVER)
    pod.running()
    body = {"apiVersion": by_release, "kind": "Eviction", "metadata": {"name": pod.name}}
    assert place.client.post(f"{pod.path}/eviction", body).code == 201
    pod.wait_until_gone()


def hook(script: str) -> Json:
    return {"exec": {"command": ["sh", "-c", script]}}


@again_if_lost
def test_pre_stop_hook_runs_before_sigterm(place: Place) -> None:
    run = "trap '[ -e /data/hooked ] && exit 5; exit 6' TERM; echo armed; sleep 100000 & wait"
    main = mounted(run, lifecycle={"preStop": hook("touch /data/hooked")})
    with place.held(main, volumes=scratch(), terminationGracePeriodSeconds=30) as pod:
        pod.says("armed")
        pod.delete()
        assert pod.wait("to end", lambda seen: seen.terminated()).exit_code() == 5


def test_slow_pre_stop_hook_is_cut_off(place: Place) -> None:
    main = container(OBEDIENT, lifecycle={"preStop": hook("sleep 100000")})
    pod = place.start(main, terminationGracePeriodSeconds=1)
    pod.says("armed")
    pod.delete()
    pod.wait_until_gone()


def test_post_start_hook(place: Place) -> None:
    run = "until [ -e /data/hooked ]; do sleep 0.1; done"
    main = mounted(run, lifecycle={"postStart": hook("touch /data/hooked")})
    assert place.start(main, volumes=scratch()).ended().phase == "Succeeded"


def test_failed_post_start_hook_kills_the_container(place: Place) -> None:
    pod = place.start(container(FOREVER, lifecycle={"postStart": hook("exit 1")}))
    assert pod.ended().phase in ("Failed", "Succeeded")
    pod.event("FailedPostStartHook")
