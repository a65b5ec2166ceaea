"""What `windlass local` commands and their daemon know of each other: what is wanted, and what runs."""

from pathlib import Path
from urllib.parse import urlsplit

import msgspec

LOG = "daemon.log"
COMMANDS_LOCK = "commands.lock"
"""Held by a command that starts or stops the daemon: one at a time."""
_RECORD = "daemon.json"


class Wanted(msgspec.Struct, frozen=True):
    data: Path
    host: str = "127.0.0.1"
    port: int = 0
    """0: that of the last time, else any that is free."""
    nodes: int = 1
    network: str = "auto"
    has_controller: bool = True


class Record(msgspec.Struct, frozen=True):
    """Of the last daemon that was ready. It runs if it holds the lock."""

    pid: int
    url: str
    kubeconfig: str
    socket: str
    network: str
    """What came of what was wanted: isolated or shared."""
    wanted_network: str
    nodes: int
    has_controller: bool = True
    has_mounts: bool = True
    """Pods have mounts of their own."""
    notes: tuple[str, ...] = ()

    @property
    def port(self) -> int:
        return urlsplit(self.url).port or 0


class Answer(msgspec.Struct, frozen=True):
    """What a daemon says to whoever started it: one of the two."""

    record: Record | None = None
    error: str = ""


_decoder = msgspec.json.Decoder(Record)


def read(data: Path) -> Record | None:
    try:
        return _decoder.decode((data / _RECORD).read_bytes())
    except (FileNotFoundError, msgspec.DecodeError):
        return None


def write(data: Path, record: Record) -> None:
    fresh = data / f".{_RECORD}"
    fresh.write_bytes(msgspec.json.encode(record))
    fresh.replace(data / _RECORD)


def differences(record: Record, wanted: Wanted) -> list[str]:
    """In which a daemon that runs is not what was asked for, in words."""
    found = []
    if wanted.nodes != record.nodes:
        found.append(f"--nodes {record.nodes}")
    if wanted.network not in ("auto", record.network):
        found.append(f"--network {record.network}")
    if wanted.port and wanted.port != record.port:
        found.append(f"--listen {urlsplit(record.url).netloc}")
    if wanted.has_controller != record.has_controller:
        found.append("--with-controller" if record.has_controller else "--no-controller")
    return found
