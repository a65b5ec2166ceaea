"""Levels of isolation that machines support. A machine can simulate all levels below its own.

* root: namespaces without a user namespace;
* nobody: an unprivileged user, with user namespaces;
* unnamespaced: an unprivileged user, with user namespaces disabled (inside a user namespace of the test, so that the
  setting of the machine does not change);
* plain: namespaces are not used, even if they are available, as on a system without them.
"""

import functools
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Literal

import msgspec
from pods import installations

Name = Literal["root", "nobody", "unnamespaced", "plain"]

PLAIN: Final = "WINDLASS_SANDBOX"
SYSTEM_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
NOBODY: Final = 65534
# Not `nobody`: in a user namespace, files of unmapped users seem to belong to `nobody`.
SOMEBODY: Final = 1
FORBID: Final = (
    'echo 0 > /proc/sys/user/max_user_namespaces && exec setpriv --ambient-caps=-all --inh-caps=-all "$@"'
)


# If only root may open /dev/net/tun, provide a copy in a private mount namespace.
OPEN_TUNNEL: Final = 'mount -t tmpfs tmpfs /dev/net && mknod -m 666 /dev/net/tun c 10 200 && exec "$@"'


class Level(msgspec.Struct, frozen=True):
    name: Name
    # User of the cluster; None: the user of the tests.
    user: int | None
    environment: Mapping[str, str]
    # Commands to run as the user of the tests, and as the user of the cluster.
    first: tuple[str, ...] = ()
    then: tuple[str, ...] = ()
    has_mounts: bool = True
    has_own_network: bool = True

    def command(self, *arguments: str) -> list[str]:
        """Ends with the tests' process, however that ends: asked for last, since a change of user takes it back."""
        last = ("setpriv", "--pdeathsig", "KILL")
        become = () if self.user is None else _become(self.user)
        return [*self.first, *become, *self.then, *last, *self._python(), *arguments]

    def _python(self) -> tuple[str, ...]:
        return (sys.executable if self.user is None else interpreter_for_anybody(),)

    def surroundings(self, home: Path) -> dict[str, str]:
        """The whole environment of the cluster."""
        if self.user is None:
            return {**os.environ, **self.environment}
        own = {"PATH": SYSTEM_PATH, "HOME": str(home), "LANG": "C.UTF-8"}
        return {**own, **self.environment}


def _become(user: int) -> tuple[str, ...]:
    return ("setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups")


def level(name: Name) -> Level:
    is_root = os.geteuid() == 0
    match name:
        case "root":
            return Level(name, None, {})
        case "nobody":
            return Level(name, NOBODY, {}, first=_with_tunnel()) if is_root else Level(name, None, {})
        case "unnamespaced":
            apart = ("unshare", "--user", "--map-current-user", "--keep-caps", "sh", "-c", FORBID, "sh")
            user = SOMEBODY if is_root else None
            return Level(name, user, {}, then=apart, has_mounts=False, has_own_network=False)
        case "plain":
            return Level(name, None, {PLAIN: "plain"}, has_mounts=False, has_own_network=False)


def _with_tunnel() -> tuple[str, ...]:
    tunnel = Path("/dev/net/tun")
    if not tunnel.exists() or tunnel.stat().st_mode & 0o006 == 0o006:
        return ()
    return ("unshare", "--mount", "--propagation", "private", "sh", "-c", OPEN_TUNNEL, "sh")


def why_not(name: Name) -> str:
    """Return why this machine or user cannot provide the level; empty if it can."""
    is_root = os.geteuid() == 0
    if sys.platform != "linux":
        return "" if name == "plain" else "needs Linux"
    if name == "root" and not is_root:
        return "needs root"
    if name in ("nobody", "unnamespaced"):
        if is_root and not interpreter_for_anybody():
            return "needs a Python that other users may run"
        if not _allows_user_namespaces(is_root):
            return "needs user namespaces"
    return ""


@functools.cache
def _allows_user_namespaces(is_root: bool) -> bool:
    become = _become(NOBODY) if is_root else ()
    command = [*become, "unshare", "--user", "--map-current-user", "true"]
    if shutil.which("unshare") is None or shutil.which("setpriv") is None:
        return False
    return subprocess.run(command, capture_output=True, check=False).returncode == 0  # noqa: S603


@functools.cache
def interpreter_for_anybody() -> str:
    """Return an interpreter that every user may run and that imports Windlass, or an empty string."""
    can_become_another_user = os.geteuid() == 0
    if not can_become_another_user or _is_for_anybody(sys.executable):
        return sys.executable
    copy = str(installations.copied())
    return copy if _is_for_anybody(copy) else ""


def _is_for_anybody(interpreter: str) -> bool:
    # Started by a shell: what setpriv starts itself is still found with the rights that it gives up.
    shell = (*_become(NOBODY), "sh", "-c", 'exec "$@"', "sh")
    command = [*shell, interpreter, "-c", "import aiohttp, msgspec, windlass"]
    environment = {"PATH": SYSTEM_PATH}
    done = subprocess.run(command, capture_output=True, check=False, cwd="/", env=environment)  # noqa: S603
    return done.returncode == 0
