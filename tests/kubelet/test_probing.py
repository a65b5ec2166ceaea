"""Probes: who is ready, who is restarted, and who is given time."""

import re
from typing import Any

import pytest
from pods.place import Place, Pod
from pods.specs import FOREVER, container, field, mounted, scratch, web_server

PORT = 18080
QUICK = {"periodSeconds": 1, "failureThreshold": 1}
FILE = {"exec": {"command": ["cat", "/data/good"]}, **QUICK}
NOT_BAD = {"exec": {"command": ["test", "!", "-e", "/data/bad"]}, **QUICK}
"""A liveness probe that succeeds from the first moment, however slowly the container starts."""
HTTP = {"httpGet": {"port": PORT, "path": "/good"}, **QUICK}
LISTEN = """
import os, socket, time
while not os.path.exists("/data/good"):
    time.sleep(0.1)
with socket.create_server((os.environ["POD_IP"], 18081)) as listening:
    while os.path.exists("/data/good"):
        listening.settimeout(0.1)
        try:
            listening.accept()[0].close()
        except TimeoutError:
            pass
while True:
    time.sleep(1)
"""
ADDRESS: dict[str, Any] = {"env": [field("POD_IP", "status.podIP")]}
CASES: dict[str, tuple[dict[str, Any], str]] = {
    "exec": (mounted(FOREVER, readinessProbe=FILE), "No such file"),
    "http": (web_server(PORT, readinessProbe=HTTP), "HTTP probe failed with statuscode: 404"),
    "tcp": (
        mounted(["python3", "-c", LISTEN], readinessProbe={"tcpSocket": {"port": 18081}, **QUICK}, **ADDRESS),
        "connect",
    ),
    "named-port": (
        web_server(
            PORT + 2,
            readinessProbe={"httpGet": {"port": "web", "path": "/good"}, **QUICK},
            ports=[{"containerPort": PORT + 2, "name": "web"}],
        ),
        "HTTP probe failed with statuscode: 404",
    ),
}


@pytest.mark.parametrize(("main", "words"), CASES.values(), ids=CASES)
def test_readiness_probe(place: Place, main: dict[str, Any], words: str) -> None:
    pod = place.start(main, volumes=scratch())
    assert pod.event("Unhealthy", words)["message"].startswith("Readiness probe failed: ")
    seen = pod.running()
    assert seen.phase == "Running"
    assert (seen.container()["ready"], seen.container()["started"]) == (False, True)
    assert seen.conditions["Ready"].reason == "ContainersNotReady"
    assert pod.sh("touch /data/good").code == 0
    ready = pod.ready()
    assert ready.container()["ready"] is True
    assert ready.conditions["ContainersReady"].status == "True"
    assert pod.sh("rm /data/good").code == 0
    unready = pod.wait("to be unready", lambda seen: not seen.is_ready)
    assert (unready.phase, unready.restarts()) == ("Running", 0)


def test_container_without_probe_is_ready_at_once(place: Place) -> None:
    assert place.start(FOREVER).ready().container()["ready"] is True


def restarted(pod: Pod) -> None:
    seen = pod.wait("to restart", lambda seen: seen.restarts() >= 1 and seen.last())
    assert seen.phase == "Running"
    assert seen.last()["exitCode"] == 5
    assert "Container main failed liveness probe, will be restarted" in pod.event("Killing")["message"]
    assert pod.event("Unhealthy", "Liveness probe failed")["type"] == "Warning"


ALIVE = "trap 'exit 5' TERM; rm -f /data/bad; touch /data/good; echo up; sleep 100000 & wait"


def test_failed_liveness_probe_restarts_the_container(place: Place) -> None:
    pod = place.start(mounted(ALIVE, livenessProbe=NOT_BAD), volumes=scratch(), restartPolicy="Always")
    pod.says("up")
    pod.stays("alive", lambda seen: seen.restarts() == 0)
    pod.sh("touch /data/bad")
    restarted(pod)


def test_failed_liveness_probe_ends_a_pod_that_never_restarts(place: Place) -> None:
    pod = place.start(mounted(ALIVE, livenessProbe=NOT_BAD), volumes=scratch())
    pod.says("up")
    pod.sh("touch /data/bad")
    seen = pod.ended()
    assert (seen.phase, seen.exit_code(), seen.restarts()) == ("Failed", 5, 0)


def test_pre_stop_hook_runs_before_a_liveness_kill(place: Place) -> None:
    run = "trap '[ -e /data/hooked ] && exit 5; exit 6' TERM; echo up; sleep 100000 & wait"
    hook = {"preStop": {"exec": {"command": ["touch", "/data/hooked"]}}}
    main = mounted(run, livenessProbe=NOT_BAD, lifecycle=hook)
    pod = place.start(main, volumes=scratch(), terminationGracePeriodSeconds=30)
    pod.says("up")
    pod.sh("touch /data/bad")
    seen = pod.ended()
    assert (seen.phase, seen.exit_code()) == ("Failed", 5)


def test_http_liveness_probe(place: Place) -> None:
    """A server that does not answer well is ended."""
    probe = {**QUICK, "httpGet": {"port": PORT + 4, "path": "/good"}}
    pod = place.start(web_server(PORT + 4, livenessProbe=probe), volumes=scratch())
    assert pod.ended().phase == "Failed"
    pod.event("Unhealthy", "Liveness probe failed: ")


@pytest.mark.parametrize("kind", ["readinessProbe", "livenessProbe"])
def test_failures_below_the_threshold_have_no_effect(place: Place, kind: str) -> None:
    probes: dict[str, Any] = {kind: {**FILE, "failureThreshold": 1000}}
    pod = place.start(mounted(ALIVE, **probes), volumes=scratch())
    pod.ready()
    pod.sh("rm /data/good")
    pod.event("Unhealthy")
    pod.stays("as it was", lambda seen: seen.restarts() == 0 and seen.is_ready)


def test_success_threshold(place: Place) -> None:
    probe = {**FILE, "exec": {"command": ["sh", "-c", "echo >> /data/tries; [ -e /data/good ]"]}}
    pod = place.start(mounted(ALIVE, readinessProbe={**probe, "successThreshold": 3}), volumes=scratch())
    pod.ready()
    assert int(pod.sh("wc -l < /data/tries").text) >= 3


def test_slow_probe_times_out(place: Place, by_release: str) -> None:
    slow = {"exec": {"command": ["sleep", "100000"]}, "timeoutSeconds": 1, **QUICK}
    pod = place.start(container(FOREVER, readinessProbe=slow))
    message = pod.event("Unhealthy", "Readiness probe ")["message"]
    assert re.fullmatch(by_release, message)
    assert not pod.seen().is_ready


def test_startup_probe_delays_other_probes(place: Place) -> None:
    startup = {**FILE, "failureThreshold": 1000}
    live = {"exec": {"command": ["false"]}, **QUICK}
    run = "trap 'exit 5' TERM; echo up; sleep 100000 & wait"
    main = mounted(run, startupProbe=startup, livenessProbe=live)
    pod = place.start(main, volumes=scratch(), restartPolicy="Always")
    pod.event("Unhealthy", "Startup probe failed: ")
    seen = pod.running()
    assert (seen.phase, seen.container()["started"], seen.is_ready) == ("Running", False, False)
    pod.stays("not restarted", lambda seen: seen.restarts() == 0)
    assert pod.sh("touch /data/good").code == 0
    restarted(pod)


def test_failed_startup_probe_restarts_the_container(place: Place) -> None:
    run = "trap 'exit 5' TERM; sleep 100000 & wait"
    main = mounted(run, startupProbe={**FILE, "failureThreshold": 2})
    pod = place.start(main, volumes=scratch())
    assert (pod.ended().phase, pod.seen().exit_code()) == ("Failed", 5)
    assert pod.event("Killing")["message"] == "Stopping container main"


def test_liveness_kill_leaves_other_containers_running(place: Place) -> None:
    """The container is not restarted, and the event has the cause of the kill."""
    run = "trap 'exit 5' TERM; echo up; sleep 100000 & wait"
    dead = container(run, livenessProbe={"exec": {"command": ["false"]}, **QUICK})
    pod = place.start(dead, container(FOREVER, "other"))
    # The pod is Pending until the other container has started, which may be after the kill.
    seen = pod.wait("to lose it", lambda seen: seen.terminated() and seen.phase != "Pending")
    assert (seen.phase, seen.exit_code()) == ("Running", 5)
    assert pod.event("Killing")["message"] == "Container main failed liveness probe"


def test_started_is_set_after_the_startup_probe(place: Place) -> None:
    pod = place.start(mounted(ALIVE, startupProbe={**FILE, "failureThreshold": 1000}), volumes=scratch())
    seen = pod.ready()
    assert seen.container()["started"] is True


def test_http_probe_sends_headers(place: Place) -> None:
    serve = """
import http.server, os
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        print(self.path, self.headers["X-Sign"], self.headers["User-Agent"], flush=True)
        self.send_response(204)
        self.end_headers()
http.server.HTTPServer((os.environ["POD_IP"], 18090), Handler).serve_forever()
"""
    get = {"port": 18090, "path": "/a?b=c", "httpHeaders": [{"name": "X-Sign", "value": "here"}]}
    main = container(["python3", "-c", serve], readinessProbe={"httpGet": get, **QUICK}, **ADDRESS)
    pod = place.start(main)
    pod.ready()
    assert "/a?b=c here kube-probe/" in pod.log()
