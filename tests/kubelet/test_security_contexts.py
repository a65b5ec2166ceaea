"""Restrictions of a securityContext: privilege escalation, capabilities, read-only root and seccomp."""

import os

import pytest
from pods.clusters import Cluster
from pods.place import Place
from pods.specs import FOREVER, container, mounted, scratch

from conformance.client import Json

STATUS = "grep -E '^(NoNewPrivs|CapEff|CapBnd|Seccomp):' /proc/self/status"
MKNOD = 1 << 27
WRITE = """
for path in /x /etc/x-$HOSTNAME /usr/x-$HOSTNAME /data/x /dev/shm/x-$HOSTNAME; do
  touch $path 2> /dev/null && echo ${path%-$HOSTNAME} && rm $path
done
true
"""
NEW_USER_NAMESPACE = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
print(libc.unshare(0x10000000), os.strerror(ctypes.get_errno()))
"""


def status(lines: list[str]) -> dict[str, str]:
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


@pytest.fixture
def as_root(cluster: Cluster, place: Place) -> Place:
    if not cluster.is_real and os.geteuid() != 0:
        pytest.skip("processes of other users have no capabilities")
    return place


def test_no_new_privileges_without_privilege_escalation(place: Place) -> None:
    main = container(STATUS, securityContext={"allowPrivilegeEscalation": False})
    assert status(place.start(main).output())["NoNewPrivs"] == "1"


def test_privilege_escalation_is_allowed_by_default(place: Place) -> None:
    assert status(place.start(STATUS).output())["NoNewPrivs"] == "0"


@pytest.mark.parametrize(
    ("capabilities", "expected"),
    [
        ({"drop": ["ALL"]}, 0),
        ({"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]}, 1 << 10),
        ({"drop": ["NET_RAW"]}, 0xA80405FB),
        ({"add": ["SYS_PTRACE"]}, 0xA80425FB | 1 << 19),
    ],
)
def test_capabilities_are_dropped_and_added(
    cluster: Cluster, as_root: Place, capabilities: Json, expected: int
) -> None:
    pod = as_root.start(container(STATUS, securityContext={"capabilities": capabilities}))
    found = status(pod.output())
    if not cluster.is_real:
        expected &= ~MKNOD
    assert {int(found["CapEff"], 16), int(found["CapBnd"], 16)} == {expected}


def test_other_user_has_no_effective_capabilities(as_root: Place) -> None:
    context = {"runAsUser": 1234, "capabilities": {"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]}}
    found = status(as_root.start(container(STATUS, securityContext=context)).output())
    assert (int(found["CapEff"], 16), int(found["CapBnd"], 16)) == (0, 1 << 10)


def test_only_volumes_and_shared_memory_are_writable_with_a_read_only_root(place: Place) -> None:
    pod = place.start(
        {**mounted(WRITE), "securityContext": {"readOnlyRootFilesystem": True}}, volumes=scratch()
    )
    assert pod.output() == ["/data/x", "/dev/shm/x"]  # noqa: S108 — in the container


def test_read_only_root_cannot_be_remounted(as_root: Place) -> None:
    main = container(
        "mount -o remount,rw / 2> /dev/null; touch /x", securityContext={"readOnlyRootFilesystem": True}
    )
    assert as_root.start(main).ended().phase == "Failed"


@pytest.mark.parametrize(
    "context", [{"readOnlyRootFilesystem": True}, {"capabilities": {"drop": ["NET_RAW"]}}]
)
def test_kernel_settings_are_read_only_with_restrictions(place: Place, context: Json) -> None:
    script = (
        "for path in /proc/sys/kernel/core_pattern /sys/kernel; do test -w $path && echo $path; done; true"
    )
    assert place.start(container(script, securityContext=context)).output() == []


def test_restricted_container_has_no_block_devices(place: Place) -> None:
    script = (
        "find /dev -exec test -b {} ';' -print;"
        " for name in null zero full random urandom; do test -c /dev/$name || echo $name; done"
    )
    main = container(script, securityContext={"capabilities": {"drop": ["NET_RAW"]}})
    assert place.start(main).output() == []


def test_termination_message_with_a_read_only_root(place: Place) -> None:
    main = container("echo bye > /dev/termination-log", securityContext={"readOnlyRootFilesystem": True})
    assert (place.start(main).ended().terminated() or {})["message"] == "bye\n"


def test_runtime_default_profile_of_the_pod_forbids_new_namespaces(place: Place) -> None:
    pod = place.start(
        ["python3", "-c", NEW_USER_NAMESPACE], securityContext={"seccompProfile": {"type": "RuntimeDefault"}}
    )
    assert pod.output() == ["-1 Operation not permitted"]


def test_unconfined_container_has_no_filter(place: Place) -> None:
    main = container(STATUS, securityContext={"seccompProfile": {"type": "Unconfined"}})
    pod = place.start(main, securityContext={"seccompProfile": {"type": "RuntimeDefault"}})
    assert status(pod.output())["Seccomp"] == "0"


def test_exec_has_the_restrictions_of_its_container(place: Place) -> None:
    context = {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    pod = place.start(container(FOREVER, securityContext=context))
    pod.running()
    found = status(pod.sh(STATUS).stdout.decode().splitlines())
    assert (found["NoNewPrivs"], int(found["CapEff"], 16), found["Seccomp"]) == ("1", 0, "2")
