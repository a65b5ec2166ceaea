"""Options of a run."""

from pathlib import Path

import msgspec

from windlass.wire.fault_injection import Injection


class ForwardOptions(msgspec.Struct, frozen=True):
    """Options for forwarding local ports to companions."""

    address: str = "127.0.0.1"
    port: int | None = None
    """Local port (default: the port of the companion). If it is taken, the next free one is used."""
    opens_browser: bool = False


class RunOptions(msgspec.Struct, frozen=True):
    nodes: int = 1
    network: str = "auto"
    fake_gpus: int = 0
    """Number of simulated GPUs that replace those of the machine."""
    timeout: float | None = None
    """Time limit in seconds until the jobs have completed, or companions without jobs are ready."""
    reads_logs: bool = True
    outputs: Path | None = None
    """Folder in which the output of tasks is kept after the run; None to keep nothing."""
    report: Path | None = None
    """File for a report about the job; with several jobs, each has its name in that of its file."""
    is_verbose: bool = False
    injections: tuple[Injection, ...] = ()
    forward: ForwardOptions = ForwardOptions()
