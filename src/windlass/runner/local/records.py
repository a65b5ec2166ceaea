"""Options of the daemon of `windlass local`, its record file, and its answer to the command that started it."""

from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from windlass.localcluster import private_files

LOG = "daemon.log"
COMMANDS_LOCK = "commands.lock"
"""Lock file for commands that start or stop the daemon."""
_RECORD = "daemon.json"
_COMPATIBLE_HOSTS = ("127.0.0.1", "localhost")
"""Hosts that match any running daemon: the default, which may not have been requested, and a name."""


class DaemonOptions(msgspec.Struct, frozen=True):
    data: Path
    host: str = "127.0.0.1"
    port: int = 0
    """Port of the API server. 0: the port of the last daemon, or any free port if there was no daemon or its port is
    taken."""
    nodes: int = 1
    network: str = "auto"
    has_controller: bool = True
    fake_gpus: int = 0
    """Number of simulated GPUs that replace those of the machine."""


class Record(msgspec.Struct, frozen=True):
    """The last daemon that was ready. It is running if it holds the lock."""

    pid: int
    url: str
    kubeconfig: str
    socket: str
    network: str
    """Actual network mode: isolated or shared."""
    wanted_network: str
    nodes: int
    has_controller: bool = True
    has_mounts: bool = True
    """Whether pods have their own mounts, so that any mountPath is possible."""
    notes: tuple[str, ...] = ()
    fake_gpus: int = 0
    idle_gpus: tuple[str, ...] = ()
    """Names of the GPUs that no process used when the daemon started."""

    @property
    def port(self) -> int:
        return urlsplit(self.url).port or 0


class Answer(msgspec.Struct, frozen=True):
    """Message of a daemon to the process that started it: a record or an error."""

    record: Record | None = None
    error: str = ""


_decoder = msgspec.json.Decoder(Record)


def read(data: Path) -> Record | None:
    try:
        return _decoder.decode((data / _RECORD).read_bytes())
    except (FileNotFoundError, msgspec.DecodeError):
        return None


def write(data: Path, record: Record) -> None:
    private_files.write(data / _RECORD, msgspec.json.encode(record))


def differences(record: Record, options: DaemonOptions) -> list[str]:
    """Return the options of the running daemon that differ from the requested ones."""
    found = []
    if options.nodes != record.nodes:
        found.append(f"--nodes {record.nodes}")
    if options.network not in ("auto", record.network):
        found.append(f"--network {record.network}")
    if options.fake_gpus != record.fake_gpus:
        found.append(f"--fake-gpus {record.fake_gpus}")
    address = urlsplit(record.url)
    is_other_host = options.host not in (*_COMPATIBLE_HOSTS, address.hostname)
    if is_other_host or options.port not in (0, record.port):
        found.append(f"--listen {address.netloc}")
    if options.has_controller != record.has_controller:
        found.append("--with-controller" if record.has_controller else "--no-controller")
    return found
