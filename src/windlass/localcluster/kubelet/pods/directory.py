"""The folder of a pod below the data directory: what lies where, the files that all its containers share, its end.

What is in a pod's volumes is not known here.
"""

import contextlib
import ipaddress
import itertools
import os
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

import msgspec

from windlass.localcluster.kubelet import disk_errors
from windlass.localcluster.kubelet.containers import hosts_file, resolver_file
from windlass.localcluster.kubelet.containers.facts import Facts
from windlass.localcluster.sandbox import log_format
from windlass.model.base import Json

_OWN = 0o700


class PodFolder(msgspec.Struct, frozen=True):
    path: Path

    @property
    def socket(self) -> Path:
        return self.path / "socket"

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

    def volume(self, name: str) -> Path:
        return self.volumes / name

    def run(self, run_id: str) -> Path:
        return self.path / "containers" / run_id

    def run_ids(self) -> set[str]:
        """Of all runs of its containers, so far."""
        folder = self.path / "containers"
        return {run.name for run in folder.iterdir()} if folder.is_dir() else set()

    def termination_log(self, run_id: str) -> Path:
        return self.run(run_id) / "termination-log"

    def logs(self, container: str) -> Path:
        return self.path / "logs" / container

    def log(self, container: str, restart_count: int) -> Path:
        return self.logs(container) / log_format.file_name(restart_count)


def of(pods: Path, uid: str) -> PodFolder:
    return PodFolder(pods / uid)


def hostname(pod: Json, of_machine: str) -> str:
    """A pod on the network of its node has the node's name too."""
    return of_machine if pod["spec"].get("hostNetwork") else hosts_file.hostname(pod)


# Making


def make(folder: PodFolder) -> None:
    """Nobody else may look into it: it holds the pod's secrets."""
    with disk_errors.reported_as(disk_errors.sandbox):
        folder.path.mkdir(parents=True, exist_ok=True, mode=_OWN)
        folder.volumes.mkdir(exist_ok=True)


def make_run(folder: PodFolder, run_id: str, container: str) -> None:
    """What one run of a container needs. Whoever the container runs as may write why it ended."""
    with disk_errors.reported_as(disk_errors.container):
        folder.run(run_id).mkdir(parents=True, exist_ok=True)
        folder.logs(container).mkdir(parents=True, exist_ok=True)
        message = folder.termination_log(run_id)
        message.touch()
        message.chmod(0o666)


def drop_logs(folder: PodFolder, container: str, oldest: int) -> None:
    """Those of runs before that one. What cannot be removed goes with the pod."""
    with contextlib.suppress(OSError):
        for path in folder.logs(container).iterdir():
            number = path.name.partition(".")[0]
            if number.isdecimal() and int(number) < oldest:
                path.unlink()


def drop_runs(folder: PodFolder, known: Collection[str]) -> None:
    """What is left of runs that nobody speaks of any more."""
    with contextlib.suppress(OSError):
        for path in folder.run("").iterdir():
            if path.name not in known:
                remove(PodFolder(path))


def write_hosts(
    folder: PodFolder, pod: Json, facts: Facts, entries: Iterable[hosts_file.Entry], of_machine: str
) -> bool:
    """Whether there was anything new. `of_machine` is the text of the machine's own file."""
    return _write(folder.hosts, hosts_file.hosts_file(pod, facts, entries, of_machine))


def write_resolv_conf(folder: PodFolder, pod: Json, of_machine: str, nameservers: Sequence[str] = ()) -> None:
    """`nameservers` stand in for those on the machine's loopback, which a network of its own does not reach."""
    text = _with_reachable(of_machine, nameservers) if nameservers else of_machine
    _write(folder.resolv_conf, resolver_file.resolv_conf(pod, text))


def write_hostname(folder: PodFolder, name: str) -> None:
    _write(folder.hostname, f"{name}\n")


def _write(path: Path, text: str) -> bool:
    """In place, for running containers have this very file mounted, and would keep a file that another replaced."""
    content = text.encode()
    with disk_errors.reported_as(disk_errors.sandbox):
        path.touch(mode=0o644)
        if path.read_bytes() == content:
            return False
        with path.open("r+b") as file:
            file.write(content)
            file.truncate()
        path.chmod(0o644)
    return True


def _with_reachable(text: str, nameservers: Sequence[str]) -> str:
    lines = text.splitlines()
    kept = [line for line in lines if not _is_loopback(_nameserver(line))]
    # A resolver that is told of no server asks the one on the loopback.
    is_served = len(kept) == len(lines) and any(map(_nameserver, lines))
    return text if is_served else "\n".join((*(f"nameserver {one}" for one in nameservers), *kept))


def _nameserver(line: str) -> str:
    words = line.split()
    return words[1] if words[:1] == ["nameserver"] and len(words) > 1 else ""


def _is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False


# Removing


def remove(folder: PodFolder) -> None:
    """All of it, or an OSError that says what stayed. Calling it again goes on where it stopped.

    A folder inside is moved up before it is emptied, so that no tree is too deep, and what is mounted there cannot be
    moved and so is never emptied. Links go, what they lead to stays.
    """
    top = folder.path
    if not top.is_dir():
        return
    names = (top / f".removed-{number}" for number in itertools.count())
    waiting = _without_files(top)
    while waiting:
        emptied = waiting.pop()
        for inner in _without_files(emptied):
            place = next(name for name in names if not name.exists())
            _move(inner, place)
            waiting.append(place)
        emptied.rmdir()
    top.rmdir()


def _without_files(folder: Path) -> list[Path]:
    """Removes what is no folder, and returns the folders."""
    # Programs leave folders that not even their owner may read or change.
    folder.chmod(_OWN)
    with os.scandir(folder) as entries:
        found = [(Path(entry.path), entry.is_dir(follow_symlinks=False)) for entry in entries]
    for path, is_folder in found:
        if not is_folder:
            path.unlink()
    return [path for path, is_folder in found if is_folder]


def _move(folder: Path, place: Path) -> None:
    try:
        folder.rename(place)
    except PermissionError:
        # To move a folder is to change it, for it knows the one above it.
        folder.chmod(_OWN)
        folder.rename(place)
