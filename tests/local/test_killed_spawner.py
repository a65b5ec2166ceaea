"""The process that starts pods is killed with SIGKILL: running pods continue, and the next pod gets a new one."""

import shutil
import time
from collections.abc import Iterator

import pytest
from pod_processes import PodProcesses, kill_spawner, spawners
from pods import daemons, levels
from pods.daemons import Daemon
from pods.levels import Level
from pods.machine import Process
from pods.outside import PORT, WORDS
from pods.specs import free_port

from conformance.waiting import wait_for

SERVE = """
import os, socket, sys
with socket.create_server((os.environ["POD_IP"], int(sys.argv[1]))) as server:
    print("listening", flush=True)
    while True:
        server.accept()[0].close()
"""
TALK = """
import socket, sys
with socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=20) as connection:
    print("connected", connection.recv(100).decode())
"""
ASK = """
import os, ssl, urllib.request
folder = "/var/run/secrets/kubernetes.io/serviceaccount"
context = ssl.create_default_context(cafile=folder + "/ca.crt")
address = os.environ["KUBERNETES_SERVICE_HOST"], os.environ["KUBERNETES_SERVICE_PORT"]
headers = {"Authorization": "Bearer " + open(folder + "/token").read()}
request = urllib.request.Request("https://%s:%s/version" % address, headers=headers)
print(urllib.request.urlopen(request, context=context, timeout=60).status)
"""


def running(level: Level, network: daemons.Network) -> Iterator[Daemon]:
    with daemons.running(level, network) as daemon:
        yield daemon
        traces = daemon.traces()
        daemon.delete_all_pods()
        daemon.stop()
        traces.wait_until_gone()


@pytest.fixture(params=("isolated", "shared", "plain"))
def cluster(request: pytest.FixtureRequest, best: Level) -> Iterator[Daemon]:
    if request.param == "plain":
        yield from running(levels.level("plain"), "shared")
        return
    if not best.has_own_network:
        pytest.skip("only the plain level is available here")
    yield from running(best, request.param)


@pytest.fixture
def level(best: Level) -> Level:
    return best


@pytest.fixture
def isolated(best: Level) -> Iterator[Daemon]:
    if not best.has_own_network:
        pytest.skip("pods can have no network of their own here")
    yield from running(best, "isolated")


def test_running_pods_are_unaffected(cluster: Daemon) -> None:
    port, place = str(free_port()), cluster.new_place()
    server = PodProcesses(cluster, "server", ["python3", "-c", SERVE, port], place=place)
    server.pod.says("listening")
    pods = [server, *(PodProcesses(cluster, f"pod{number}", place=place) for number in range(3))]
    kill_spawner(cluster)
    talk = place.start(["python3", "-c", TALK, server.before.address, port])
    assert talk.output()[0].startswith("connected")
    assert [each.is_undisturbed for each in pods] == [True] * 4
    assert all(each.pod.execute("true").code == 0 for each in pods)
    for each in pods:
        each.pod.delete()
    for each in pods:
        each.wait_until_nothing_is_left()


def test_next_spawner_is_killed_before_it_is_ready(lasting: Daemon) -> None:
    place = lasting.new_place()
    kill_spawner(lasting)
    pods = [place.start("echo hello")]
    next_spawner(lasting).kill()
    pods.append(place.start("echo hello"))
    assert [pod.output() for pod in pods] == [["hello"]] * 2
    assert "Traceback" not in lasting.log.read_text()


def next_spawner(daemon: Daemon) -> Process:
    """Kill it as soon as it exists, before it is ready."""
    end = time.monotonic() + 60
    while not (found := spawners(daemon)):
        assert time.monotonic() < end, "no spawner is started again"
    return found[0]


def test_api_server_is_reachable_after_the_network_was_lost(isolated: Daemon) -> None:
    """The network ends with its last process, and so does the server's socket in it."""
    kill_spawner(isolated)
    assert isolated.new_place().start(["python3", "-c", ASK]).output() == ["200"]


def test_internet_access_is_restored(isolated: Daemon, outside: str) -> None:
    if shutil.which("pasta") is None:
        pytest.skip("needs pasta (Debian package passt)")
    place = isolated.new_place()
    talk = ["python3", "-c", TALK, outside, str(PORT)]
    earlier = PodProcesses(isolated, place=place)
    assert WORDS in earlier.pod.execute(*talk).text, isolated.tail()
    before = pasta(isolated)
    before.kill()
    wait_for("another one", lambda: before not in (found := pastas(isolated)) and found)
    wait_for("a way out for who was there before", lambda: WORDS in earlier.pod.execute(*talk).text)
    assert place.start(talk).output() == [f"connected {WORDS}"]
    complaints = (isolated.data / "spawner.log").read_text()
    assert complaints.splitlines() == ["the uplink of the pod network has ended"]


def pastas(daemon: Daemon) -> list[Process]:
    return [each for each in daemon.processes() if each.command and each.command[0].endswith("pasta")]


def pasta(daemon: Daemon) -> Process:
    found = pastas(daemon)
    assert len(found) == 1, f"one is the way out of a network: {found}"
    return found[0]
