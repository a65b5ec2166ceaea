"""The directory of a pod: its layout, and the files that all containers share.

The package `volumes` writes the content of the volumes in it.
"""

import contextlib
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

import msgspec

from windlass.localcluster import file_trees
from windlass.localcluster.kubelet.containers import errors, network_files
from windlass.localcluster.kubelet.containers.errors import SetupError
from windlass.localcluster.kubelet.containers.facts import PodFacts
from windlass.localcluster.sandbox import log_format
from windlass.model.base import Json

_OWNER_ONLY = 0o700


class PodDirectory(msgspec.Struct, frozen=True):
    """The directory of a pod, named after the pod's UID."""

    path: Path

    @property
    def uid(self) -> str:
        return self.path.name

    @property
    def volumes(self) -> Path:
        return self.path / "volumes"

    @property
    def hosts(self) -> Path:
        return self.path / "hosts"

    @property
    def resolv_conf(self) -> Path:
        return self.path / "resolv.conf"

    @property
    def hostname(self) -> Path:
        return self.path / "hostname"

    @property
    def shared_memory(self) -> Path:
        return self.path / "shm"

    def volume(self, name: str) -> Path:
        return self.volumes / name

    def run(self, run_id: str) -> Path:
        return self.path / "containers" / run_id

    def run_ids(self) -> set[str]:
        """Return the ids of the runs that have a directory."""
        folder = self.path / "containers"
        return {run.name for run in folder.iterdir()} if folder.is_dir() else set()

    def termination_log(self, run_id: str) -> Path:
        return self.run(run_id) / "termination-log"

    @property
    def all_logs(self) -> Path:
        return self.path / "logs"

    def logs(self, container: str) -> Path:
        return self.all_logs / container

    def log(self, container: str, restart_count: int) -> Path:
        return self.logs(container) / log_format.file_name(restart_count)


def hostname(pod: Json, node_hostname: str) -> str:
    """Return the hostname of a pod. A pod on the host network has the hostname of the machine."""
    return node_hostname if pod["spec"].get("hostNetwork") else network_files.hostname(pod)


# Creation


def make(folder: PodDirectory) -> None:
    """Create the directory. Other users cannot read it, since it contains the pod's secrets."""
    with errors.disk_errors_as(errors.failed_sandbox):
        folder.path.mkdir(parents=True, exist_ok=True, mode=_OWNER_ONLY)
        folder.volumes.mkdir(exist_ok=True)
        folder.shared_memory.mkdir(exist_ok=True)


def make_run(folder: PodDirectory, run_id: str, container: str) -> None:
    """Create the directories of one run. Any user may write the termination message."""
    with errors.disk_errors_as(lambda problem: SetupError(problem, errors.CREATE_ERROR)):
        folder.run(run_id).mkdir(parents=True, exist_ok=True)
        folder.logs(container).mkdir(parents=True, exist_ok=True)
        message = folder.termination_log(run_id)
        message.touch()
        message.chmod(0o666)


def remove_old_logs(folder: PodDirectory, container: str, oldest: int) -> None:
    """Delete the logs with a restart count below `oldest`. After an error, the rest is kept."""
    with contextlib.suppress(OSError):
        for path in folder.logs(container).iterdir():
            number = path.name.partition(".")[0]
            if number.isdecimal() and int(number) < oldest:
                path.unlink()


def remove_runs_except(folder: PodDirectory, run_ids: Collection[str]) -> None:
    with contextlib.suppress(OSError):
        for path in folder.run("").iterdir():
            if path.name not in run_ids:
                file_trees.remove(path)


def write_hosts(
    folder: PodDirectory, pod: Json, facts: PodFacts, entries: Iterable[network_files.Entry], node_hosts: str
) -> bool:
    """Write /etc/hosts, and return whether it has changed. `node_hosts` is the content of the machine's file."""
    return _write(folder.hosts, network_files.hosts_file(pod, facts, entries, node_hosts))


def write_resolv_conf(
    folder: PodDirectory, pod: Json, node_resolv_conf: str, nameservers: Sequence[str] = ()
) -> None:
    """Write /etc/resolv.conf.

    `nameservers` replace those on the machine's loopback, which isolated pods cannot reach.
    """
    text = (
        network_files.with_reachable_nameservers(node_resolv_conf, nameservers)
        if nameservers
        else node_resolv_conf
    )
    _write(folder.resolv_conf, network_files.resolv_conf(pod, text))


def write_hostname(folder: PodDirectory, name: str) -> None:
    _write(folder.hostname, f"{name}\n")


def _write(path: Path, text: str) -> bool:
    """Write a file in place, and return whether it has changed.

    Running containers have mounted the file, and would keep the old one if it were replaced.
    """
    content = text.encode()
    with errors.disk_errors_as(errors.failed_sandbox):
        path.touch(mode=0o644)
        if path.read_bytes() == content:
            return False
        with path.open("r+b") as file:
            file.write(content)
            file.truncate()
        path.chmod(0o644)
    return True
