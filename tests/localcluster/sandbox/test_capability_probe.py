"""The isolation that this machine allows, and the reason if it allows none."""

import errno
import os
import pathlib
import re
import subprocess
import sys

import msgspec
import pytest

from windlass.localcluster.sandbox import capability_probe, kernel, messages
from windlass.localcluster.sandbox.capability_probe import Capabilities

pytestmark = pytest.mark.pods

NOBODY = 65534

# The user is changed here and not before Python starts, since only its owner may be able to read it.
PROGRAM = """
import ctypes, os, sys
import msgspec
from windlass.localcluster.sandbox import capability_probe, kernel

change, user = sys.argv[1], int(sys.argv[2])
if user != os.getuid():
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)
    # Otherwise /proc/self would still be root's.
    PR_SET_DUMPABLE = 4
    ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)
if change:
    uid, gid = os.getuid(), os.getgid()
    kernel.unshare(kernel.CLONE_NEWUSER | kernel.CLONE_NEWNS)
    kernel.map_own_user(uid, gid)
    exec(change)
    # Without rights in the new namespace, as if it were the machine's own.
    kernel.drop_capabilities()
print(msgspec.json.encode(capability_probe.probe()).decode())
"""
SWITCH_OFF = "open('/proc/sys/user/max_user_namespaces', 'w').write('0')"
HIDE_SOME_OF_PROC = "kernel.mount('tmpfs', '/proc/fs', 'tmpfs')"


def found_by_a_user(change: str = "") -> Capabilities:
    """In surroundings of its own, which were changed before."""
    user = os.getuid() or NOBODY
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-c", PROGRAM, change, str(user)], stdout=subprocess.PIPE, check=True, timeout=60
    )
    return msgspec.json.decode(done.stdout, type=Capabilities)


@pytest.fixture
def _users_have_namespaces() -> None:
    found = found_by_a_user()
    if not found.can_isolate:
        pytest.skip(found.reason)


def refuse(flags: int) -> None:
    raise PermissionError(errno.EPERM, f"unshare({flags}): Operation not permitted")


def refuse_as_if_there_were_too_many(flags: int) -> None:
    if not flags & kernel.CLONE_NEWUSER:
        refuse(flags)
    raise OSError(errno.ENOSPC, f"unshare({flags}): No space left on device")


def allow_with_users_only(flags: int) -> None:
    if not flags & kernel.CLONE_NEWUSER:
        refuse(flags)
    kernel.unshare(flags)


def allow_in_words_only(flags: int) -> None:
    """As where a profile of AppArmor takes all rights in the namespace away."""
    if not flags & kernel.CLONE_NEWUSER:
        refuse(flags)


@pytest.mark.parametrize(
    ("unshare", "reason"),
    [
        (refuse, r"unshare\(1006764032\): Operation not permitted"),
        (refuse_as_if_there_were_too_many, r"unshare\(1006764032\): No space left on device"),
        (allow_in_words_only, r"writing '.+' to /proc/self/\w+: (Operation not permitted|Permission denied)"),
    ],
)
def test_error_is_the_reason(
    unshare: capability_probe.Unshare, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(capability_probe, "_FORBIDDING_SETTINGS", {})
    found = capability_probe.probe(unshare)
    assert found == Capabilities(reason=found.reason)
    assert re.fullmatch(reason, found.reason)


@pytest.mark.usefixtures("_users_have_namespaces")
def test_ordinary_user_can_isolate() -> None:
    assert found_by_a_user() == Capabilities(can_isolate=True, needs_user_namespace=True)


@pytest.mark.usefixtures("_users_have_namespaces")
def test_disabled_user_namespaces_are_named_in_the_reason() -> None:
    found = found_by_a_user(SWITCH_OFF)
    assert not found.can_isolate
    assert "user.max_user_namespaces is 0" in found.reason


@pytest.mark.usefixtures("_users_have_namespaces")
def test_masked_proc_does_not_prevent_isolation() -> None:
    found = found_by_a_user(HIDE_SOME_OF_PROC)
    assert found == Capabilities(can_isolate=True, needs_user_namespace=True)


@pytest.mark.skipif(os.getuid() != 0, reason="not root")
def test_root_needs_no_user_namespace() -> None:
    assert capability_probe.probe() == Capabilities(can_isolate=True)
    found = capability_probe.probe(allow_with_users_only)
    assert (found.can_isolate, found.needs_user_namespace) == (True, True)


def test_probe_leaves_nothing_behind() -> None:
    before = traces()
    capability_probe.probe()
    assert traces() == before


@pytest.mark.skipif(sys.platform != "linux", reason="needs Linux")
def test_security_probe_reports_restrictions_and_leaves_nothing_behind() -> None:
    before = traces()
    found = capability_probe.probe_security(has_namespaces=False)
    assert (found.no_new_privileges, found.read_only_root) == (True, False)
    assert found.capabilities == (kernel.bounding_set() if os.geteuid() == 0 else 0)
    assert traces() == before


def traces() -> tuple[str, str, list[str], list[str], str]:
    own = pathlib.Path("/proc/self")
    return (
        os.uname().nodename,
        (own / "mounts").read_text(encoding="utf-8"),
        sorted(path.name for path in (own / "fd").iterdir()),
        sorted(path.name for path in pathlib.Path("/dev").iterdir()),
        (own / f"task/{os.getpid()}/children").read_text(encoding="ascii"),
    )


def test_other_systems_cannot_isolate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    assert capability_probe.probe() == Capabilities(reason="darwin has no namespaces")
    assert capability_probe.probe_security(has_namespaces=False) == messages.Security()
    with pytest.raises(OSError, match=r"unshare\(131072\): Function not implemented") as caught:
        kernel.unshare(kernel.CLONE_NEWNS)
    assert caught.value.errno == errno.ENOSYS
