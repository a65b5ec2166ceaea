"""Init containers and sidecars."""

from typing import Any

import pytest
from pods import specs
from pods.place import Place
from pods.specs import FOREVER, container, mounted, scratch

from conformance.client import Json


def test_init_containers_run_in_order(place: Place) -> None:
    pod = place.start(
        mounted("cat /data/log"),
        initContainers=[mounted(f"echo {name} >> /data/log", name=name) for name in ("one", "two", "three")],
        volumes=scratch(),
    )
    assert pod.output() == ["one", "two", "three"]
    seen = pod.seen()
    assert [each["name"] for each in seen.status["initContainerStatuses"]] == ["one", "two", "three"]
    for name in ("one", "two", "three"):
        assert (seen.terminated(name) or {})["reason"] == "Completed"
        assert seen.container(name)["ready"] is True


def test_next_init_container_waits(place: Place) -> None:
    inits = [container(FOREVER, "one"), container("true", "two")]
    seen = place.start("true", initContainers=inits).wait("to begin", lambda seen: seen.running("one"))
    assert seen.waits_for("two") == "PodInitializing"
    message = "containers with incomplete status: [one two]"
    assert seen.conditions["Initialized"].message == message


def test_failed_init_container_fails_the_pod(place: Place) -> None:
    inits = [container("exit 8", "one"), container("true", "two")]
    seen = place.start("true", initContainers=inits).ended()
    assert (seen.phase, seen.exit_code("one")) == ("Failed", 8)
    assert seen.waits_for() == "PodInitializing"
    assert (seen.conditions["Initialized"].status, seen.conditions["Ready"].status) == ("False", "False")
    assert seen.terminated("two") is None


@pytest.mark.parametrize("policy", ["Always", "OnFailure"])
def test_failing_init_container_is_retried(place: Place, policy: str) -> None:
    pod = place.start("true", initContainers=[container("exit 8", "one")], restartPolicy=policy)
    seen = pod.waiting("CrashLoopBackOff", "one")
    assert seen.phase == "Pending"
    assert seen.last("one")["exitCode"] == 8
    assert seen.waits_for() == "PodInitializing"
    assert "container=one pod=" in (seen.waiting("one") or {})["message"]


def test_init_container_succeeds_after_a_retry(place: Place) -> None:
    script = "if [ -e /data/failed ]; then exit 0; fi; touch /data/failed; exit 9"
    first = mounted(script, name="first")
    seen = place.start("true", initContainers=[first], volumes=scratch(), restartPolicy="OnFailure").ended()
    assert (seen.phase, seen.restarts("first"), seen.restarts()) == ("Succeeded", 1, 0)


def test_init_container_has_a_log(place: Place) -> None:
    pod = place.start("echo main", initContainers=[container("echo early", "first")])
    assert pod.output() == ["main"]
    assert pod.log(container="first") == "early\n"


@pytest.fixture
def sidecars(place: Place) -> Place:
    """A server that does not know them drops what makes them."""
    body = specs.pod("probe", initContainers=[sidecar("true")], volumes=scratch())
    kept = place.client.post(place.path("pods"), body, dryRun="All").expect(201).body
    assert kept["spec"]["initContainers"][0].get("restartPolicy") == "Always"
    return place


def sidecar(script: str, **fields: Any) -> Json:
    return mounted(script, name="side", **{"restartPolicy": "Always", **fields})


def test_sidecar_runs_in_parallel_and_ends_last(sidecars: Place) -> None:
    side = sidecar("touch /data/up; trap 'exit 0' TERM; sleep 100000 & wait")
    pod = sidecars.start(
        mounted("until [ -e /data/up ]; do sleep 0.1; done; echo seen"),
        initContainers=[side],
        volumes=scratch(),
    )
    assert pod.output() == ["seen"]
    ended = pod.wait("to lose its sidecar", lambda seen: seen.terminated("side"))
    assert (ended.phase, ended.exit_code("side")) == ("Succeeded", 0)


def test_ended_sidecar_is_restarted(sidecars: Place) -> None:
    pod = sidecars.start(FOREVER, initContainers=[sidecar("exit 3")], volumes=scratch())
    seen = pod.wait("to restart it", lambda seen: seen.restarts("side") >= 1 and seen.running())
    assert seen.phase == "Running"


def test_containers_wait_for_startup_probe_of_a_sidecar(sidecars: Place) -> None:
    probe = {"exec": {"command": ["test", "-e", "/data/up"]}, "periodSeconds": 1, "failureThreshold": 1000}
    pod = sidecars.start("true", initContainers=[sidecar(FOREVER, startupProbe=probe)], volumes=scratch())
    pod.wait("to begin", lambda seen: seen.running("side"))
    pod.stays("initializing", lambda seen: seen.waits_for() == "PodInitializing")
    assert pod.sh("touch /data/up", container="side").code == 0
    assert pod.ended().phase == "Succeeded"
