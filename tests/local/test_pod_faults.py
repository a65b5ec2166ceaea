"""Misbehaving pods and machines that run out of resources do not affect the cluster."""

import os
import tempfile
from collections.abc import Iterator

import pytest
from pods import daemons
from pods.daemons import Daemon
from pods.levels import Level
from pods.specs import container

from conformance.waiting import wait_for

BOMB = """
import os, time
while True:
    try:
        if os.fork():
            time.sleep(0.001)
    except OSError as error:
        print(error.strerror, flush=True)
        time.sleep(1)
"""
LIMIT = 40


def is_well(daemon: Daemon) -> None:
    """Check that the API responds and another pod runs."""
    assert daemon.is_alive, f"it ended with {daemon.code}:\n{daemon.tail()}"
    assert daemon.new_place().start("echo hello").output() == ["hello"]


def test_fork_bomb_is_contained(best: Level) -> None:
    if best.name != "root":
        pytest.skip("only root may limit the number of processes")
    with daemons.running(best, "auto", "--pod-pids-limit", str(LIMIT), is_ephemeral=True) as daemon:
        name = f"bomb-{daemon.mark}"
        env = [{"name": "CONTAINER", "value": name}]
        pod = daemon.new_place().start(container(["python3", "-c", BOMB], env=env))
        pod.says("Resource temporarily unavailable")
        assert len(daemon.all_inside(name)) <= LIMIT
        is_well(daemon)
        pod.delete(grace=1)
        pod.wait_until_gone()
        wait_for("no process", lambda: not daemon.all_inside(name))


@pytest.fixture
def daemon(best: Level) -> Iterator[Daemon]:
    with daemons.running(best, is_ephemeral=True) as daemon:
        yield daemon


LINES = 700_000
TALKATIVE = f"import sys\nfor n in range({LINES}): sys.stdout.write('%099d\\n' % n)"
MEGABYTE = 1024 * 1024


def test_end_of_a_rotated_log(daemon: Daemon) -> None:
    """The log has several files."""
    pod = daemon.new_place().start(["python3", "-c", TALKATIVE])
    wait_for("it to say all", lambda: pod.seen().is_over, 600)
    assert pod.seen().phase == "Succeeded"
    assert pod.log(tailLines="1") == f"{LINES - 1:099d}\n"
    lines = pod.log(tailLines="1000").splitlines()
    assert [int(line) for line in lines] == list(range(LINES - 1000, LINES))
    is_well(daemon)


def test_busy_log_does_not_block_others(daemon: Daemon) -> None:
    place = daemon.new_place()
    noisy = place.start("yes")
    noisy.running()
    is_well(daemon)
    noisy.delete(grace=1)
    noisy.wait_until_gone()


def test_full_disk_evicts_a_pod(best: Level) -> None:
    """The disk is a small mount in its own namespace, which a pod fills."""
    if best.name != "root":
        pytest.skip("only root can make a small disk")
    script = 'mount -t tmpfs -o size=24m,mode=700 tmpfs "$0" && exec "$@"'
    folder = tempfile.mkdtemp(prefix="windlass-small-")
    before = ("unshare", "--mount", "--propagation", "private", "sh", "-c", script, folder)
    try:
        with daemons.running(best, "auto", is_ephemeral=True, before=before, data=folder) as daemon:
            place = daemon.new_place()
            pod = place.start(["python3", "-c", TALKATIVE])
            pod.wait("to write", lambda seen: seen.running() or seen.is_over)
            wait_for(
                "the disk to be full, or the pod to end",
                lambda: is_full(daemon, folder) or pod.seen().is_over,
            )
            assert daemon.is_alive, daemon.tail()
            wait_for("the pod to be deleted", lambda: pod.delete(grace=0).code in (200, 404))
            wait_for("it to be gone", lambda: place.client.get(pod.path).code == 404)
            wait_for("room", lambda: not is_full(daemon, folder))
            is_well(daemon)
    finally:
        os.rmdir(folder)  # noqa: PTH106


def is_full(daemon: Daemon, folder: str) -> bool:
    """Return the disk as the daemon sees it."""
    disk = os.statvfs(f"/proc/{daemon.pid}/root{folder}")
    return disk.f_bavail * disk.f_frsize < MEGABYTE


def test_many_pods_at_once(daemon: Daemon) -> None:
    place = daemon.new_place()
    pods = [place.start("echo hello") for _ in range(30)]
    assert all(pod.output() == ["hello"] for pod in pods)


def test_pod_deleted_immediately_leaves_nothing(daemon: Daemon) -> None:
    """Before, during and after its start, with and without grace period."""
    place = daemon.new_place()
    for number in range(12):
        pod = place.start("trap '' TERM; while true; do sleep 1; done", name=f"brief-{number}")
        pod.delete(grace=number % 2)
    wait_for("all to be gone", lambda: not place.client.get(place.path("pods")).expect(200).names)
    is_well(daemon)
    folder = daemon.data / "pods"
    wait_for("their supervisors to be gone", lambda: not any(folder.glob("*/socket")))


def test_container_cannot_redirect_files_of_the_supervisor(daemon: Daemon) -> None:
    """Links in a container's files are not followed by others."""
    run = "rm -f /dev/termination-log; ln -s /etc/passwd /dev/termination-log; exit 1"
    pod = daemon.new_place().start(run)
    seen = pod.ended()
    assert "root:" not in (seen.terminated() or {}).get("message", "")
