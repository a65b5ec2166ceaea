"""The first process of the namespaces that the cluster lives in. It makes them look like a machine, and then waits.

What is mounted, listens or runs in there goes when this process ends. Run by `machine.py`, by any Python, on its own:

    machine_init.py DATA HOSTNAME
"""

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path


def main(data: Path, hostname: str) -> None:
    _mount("--make-rprivate", "/")
    _mount("-t", "proc", "proc", "/proc")
    _mount_sys()
    # As on any node the folders are at their usual places, and nothing of it is seen outside.
    for name in ("lib", "log"):
        _mount("--bind", str(data / "var" / name), f"/var/{name}")
    _mount("-t", "tmpfs", "-o", "mode=755", "tmpfs", "/run")
    resolver = Path("/etc/resolv.conf")
    if resolver.is_file() and not resolver.is_symlink():
        _mount("--bind", str(data / "settings" / "resolv.conf"), str(resolver))
    _mount("--make-rshared", "/")
    Path("/proc/sys/kernel/hostname").write_text(hostname)
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1")
    (data / "ready").touch()
    _reap()


def _mount_sys() -> None:
    """The devices of this network, and the machine's control groups."""
    aside = "/run"
    _mount("--rbind", "/sys/fs/cgroup", aside)
    subprocess.run(["umount", "--recursive", "--lazy", "/sys"], check=True)
    _mount("-t", "sysfs", "sysfs", "/sys")
    _mount("--rbind", aside, "/sys/fs/cgroup")
    subprocess.run(["umount", "--recursive", "--lazy", aside], check=True)


def _mount(*arguments: str) -> None:
    subprocess.run(["mount", *arguments], check=True)


def _reap() -> None:
    """What is left by its parent becomes our child: its end has to be asked for by somebody."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    while True:
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG) != (0, 0):
                pass
        signal.sigwait({signal.SIGCHLD})


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
