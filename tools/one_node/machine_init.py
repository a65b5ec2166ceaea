"""The first process of the cluster's namespaces. It mounts what a machine has, and then waits.

All mounts, sockets and processes inside end with this process. `machine.py` runs it with any Python:

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
    # As on any node the folders are at their usual paths, and invisible outside.
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
    """Mount the network devices of this namespace and the machine's cgroups."""
    aside = "/run"
    _mount("--rbind", "/sys/fs/cgroup", aside)
    subprocess.run(["umount", "--recursive", "--lazy", "/sys"], check=True)
    _mount("-t", "sysfs", "sysfs", "/sys")
    _mount("--rbind", aside, "/sys/fs/cgroup")
    subprocess.run(["umount", "--recursive", "--lazy", aside], check=True)


def _mount(*arguments: str) -> None:
    subprocess.run(["mount", *arguments], check=True)


def _reap() -> None:
    """Reap the orphaned processes, which become our children."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    while True:
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG) != (0, 0):
                pass
        signal.sigwait({signal.SIGCHLD})


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
