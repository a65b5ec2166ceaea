"""The restrictions of a container, and the fields that a machine cannot apply."""

import msgspec
import pytest

from windlass.localcluster.kubelet.containers import security
from windlass.localcluster.kubelet.host import Host
from windlass.localcluster.sandbox.messages import Security
from windlass.model.base import Json

ALL = (1 << 41) - 1
DEFAULT = 0xA00425FB
NET_RAW, SYS_ADMIN, MKNOD = 1 << 13, 1 << 21, 1 << 27
EVERYTHING = Security(no_new_privileges=True, read_only_root=True, has_seccomp_filter=True, capabilities=ALL)
ROOT = Host(uid=0, gid=0, groups=(), environment={}, security=EVERYTHING)
# Linux without mounts for pods, as a user.
PLAIN_SECURITY = msgspec.structs.replace(EVERYTHING, read_only_root=False, capabilities=0)
PLAIN = Host(uid=1000, gid=100, groups=(), environment={}, security=PLAIN_SECURITY)
MAC = Host(uid=501, gid=20, groups=(), environment={})

RUNTIME_DEFAULT: Json = {"seccompProfile": {"type": "RuntimeDefault"}}
HARDENED: Json = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "readOnlyRootFilesystem": True,
    **RUNTIME_DEFAULT,
}


def with_context(context: Json) -> Json:
    return {"name": "main", "securityContext": context}


@pytest.mark.parametrize(
    ("context", "host", "expected"),
    [
        ({}, ROOT, Security()),
        ({"allowPrivilegeEscalation": True, "readOnlyRootFilesystem": False}, ROOT, Security()),
        ({"allowPrivilegeEscalation": False}, ROOT, Security(no_new_privileges=True, capabilities=DEFAULT)),
        ({"readOnlyRootFilesystem": True}, ROOT, Security(read_only_root=True, capabilities=DEFAULT)),
        (
            {"readOnlyRootFilesystem": True, "privileged": True, **RUNTIME_DEFAULT},
            ROOT,
            Security(read_only_root=True),
        ),
        (RUNTIME_DEFAULT, ROOT, Security(has_seccomp_filter=True, capabilities=DEFAULT)),
        ({"seccompProfile": {"type": "Unconfined"}}, ROOT, Security()),
        (HARDENED, ROOT, msgspec.structs.replace(EVERYTHING, capabilities=0)),
        (HARDENED, PLAIN, PLAIN_SECURITY),
        (HARDENED, MAC, Security()),
    ],
)
def test_restrictions_from_security_context(context: Json, host: Host, expected: Security) -> None:
    assert security.restrictions({"spec": {}}, with_context(context), host) == expected


@pytest.mark.parametrize(
    ("capabilities", "expected"),
    [
        ({"drop": ["ALL"]}, 0),
        ({"drop": ["all"], "add": ["CAP_NET_RAW"]}, NET_RAW),
        ({"drop": ["NET_RAW"]}, DEFAULT & ~NET_RAW),
        ({"add": ["SYS_ADMIN"]}, DEFAULT | SYS_ADMIN),
        ({"add": ["ALL"]}, ALL),
        ({"add": ["ALL"], "drop": ["NET_RAW"]}, ALL & ~NET_RAW),
        ({"add": ["ALL"], "drop": ["ALL"]}, 0),
        ({"add": ["NET_RAW"], "drop": ["NET_RAW"]}, DEFAULT & ~NET_RAW),
        ({"add": ["FLY"], "drop": ["ALL"]}, 0),
    ],
)
def test_capabilities_are_dropped_and_added_as_by_containerd(capabilities: Json, expected: int) -> None:
    container = with_context({"capabilities": capabilities})
    assert security.restrictions({"spec": {}}, container, ROOT).capabilities == expected


def test_mknod_is_not_a_default_capability() -> None:
    """With it, root could create and open the devices of disks in a volume."""
    assert not DEFAULT & MKNOD
    added = with_context({"capabilities": {"add": ["MKNOD"]}})
    assert security.restrictions({"spec": {}}, added, ROOT).capabilities == DEFAULT | MKNOD


def test_profile_of_the_container_takes_precedence() -> None:
    pod = {"spec": {"securityContext": RUNTIME_DEFAULT}}
    assert security.restrictions(pod, {"name": "main"}, ROOT).has_seccomp_filter
    unconfined = with_context({"seccompProfile": {"type": "Unconfined"}})
    assert not security.restrictions(pod, unconfined, ROOT).has_seccomp_filter


@pytest.mark.parametrize(
    ("context", "host", "expected"),
    [
        (HARDENED, ROOT, []),
        ({"privileged": True}, ROOT, []),
        ({}, MAC, []),
        (HARDENED, PLAIN, ["readOnlyRootFilesystem"]),
        (
            HARDENED,
            MAC,
            [
                "allowPrivilegeEscalation",
                "readOnlyRootFilesystem",
                "seccompProfile (RuntimeDefault)",
                "capabilities.drop (ALL)",
            ],
        ),
        ({"privileged": True}, PLAIN, ["privileged"]),
        ({"capabilities": {"add": ["NET_ADMIN", "BPF"]}}, PLAIN, ["capabilities.add (NET_ADMIN, BPF)"]),
        (
            {"capabilities": {"add": ["CHOWN", "FLY"], "drop": ["SWIM", "KILL"]}},
            ROOT,
            ["capabilities.add (FLY)", "capabilities.drop (SWIM)"],
        ),
        (
            {"seccompProfile": {"type": "Localhost", "localhostProfile": "x"}},
            ROOT,
            ["seccompProfile (Localhost)"],
        ),
        ({"appArmorProfile": {"type": "RuntimeDefault"}}, ROOT, ["appArmorProfile"]),
        ({"seLinuxOptions": {"level": "s0"}}, ROOT, ["seLinuxOptions"]),
    ],
)
def test_unapplied_fields_are_named(context: Json, host: Host, expected: list[str]) -> None:
    assert security.unapplied_fields({"spec": {}}, with_context(context), host) == expected


def test_unapplied_fields_of_the_pod_are_named() -> None:
    pod = {"spec": {"securityContext": {"sysctls": [{"name": "a", "value": "1"}], **RUNTIME_DEFAULT}}}
    found = security.unapplied_fields(pod, {"name": "main"}, MAC)
    assert found == ["seccompProfile (RuntimeDefault)", "sysctls"]
