"""Restrictions of containers at every isolation level."""

import pytest
from pods.levels import SYSTEM_PATH
from spawner_harness import Pod, Spawner

from windlass.localcluster.sandbox.messages import Mount, Security

pytestmark = pytest.mark.pods

STATUS = "grep -E '^(NoNewPrivs|CapEff|Seccomp):' /proc/self/status"
NET_BIND_SERVICE = 1 << 10


def status(pod: Pod, script: str = STATUS, **other: object) -> list[str]:
    run_id = pod.start(script, **other)
    assert pod.ended(run_id).exit_code == 0, pod.log(run_id)
    return [line.partition(":")[2].strip() for _, line in pod.log(run_id)]


def test_capabilities_no_new_privileges_and_filter_apply_at_every_level(pod: Pod) -> None:
    security = Security(no_new_privileges=True, has_seccomp_filter=True, capabilities=0)
    assert status(pod, security=security) == ["0" * 16, "1", "2"]


def test_filter_applies_without_other_restrictions(pod: Pod) -> None:
    """A process without privileges can only install a filter with no_new_privs."""
    assert status(pod, security=Security(has_seccomp_filter=True))[2] == "2"


def test_dropped_capabilities_cannot_be_gained(pod: Pod) -> None:
    """A process that cannot change its bounding set gets no_new_privs instead."""
    script = "grep -E '^(CapBnd|NoNewPrivs):' /proc/self/status"
    bounding, no_new_privileges = status(pod, script, security=Security(capabilities=NET_BIND_SERVICE))
    assert int(bounding, 16) & ~NET_BIND_SERVICE == 0 or no_new_privileges == "1"


def test_threads_and_processes_start_under_the_filter(pod: Pod) -> None:
    script = (
        'python3 -c \'import subprocess, threading; thread = threading.Thread(target=print, args=("a: thread",));'
        ' thread.start(); thread.join(); subprocess.run(["echo", "a: process"])\''
    )
    security = Security(no_new_privileges=True, has_seccomp_filter=True, capabilities=0)
    environment = {b"PATH": SYSTEM_PATH.encode(), b"PYTHONUNBUFFERED": b"1"}
    assert status(pod, script, security=security, environment=environment) == ["thread", "process"]


def test_read_only_root_leaves_volumes_writable(spawner: Spawner, pod: Pod) -> None:
    if not spawner.ready.has_namespaces:
        pytest.skip("needs mounts")
    assert spawner.ready.security.read_only_root
    volume = pod.folder / "volume"
    volume.mkdir()
    volume.chmod(0o777)
    script = (
        "for path in /x /tmp/windlass-x /new/x /dev/shm/windlass-x /new/volume/x; do"
        ' touch $path 2> /dev/null && echo "a: $path" && rm $path; done; true'
    )
    mounts = (Mount(str(volume), "/new/volume"),)
    written = status(pod, script, mounts=mounts, security=Security(read_only_root=True, capabilities=0))
    assert written == ["/dev/shm/windlass-x", "/new/volume/x"]  # noqa: S108 — in the container


def test_unprivileged_levels_cannot_add_capabilities(spawner: Spawner) -> None:
    is_root = spawner.folder.stat().st_uid == 0
    assert bool(spawner.ready.security.capabilities) is is_root
