"""Options of a run."""

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
    timeout: float | None = None
    """Time limit in seconds until the jobs have completed, or companions without jobs are ready."""
    reads_logs: bool = True
    injections: tuple[Injection, ...] = ()
    forward: ForwardOptions = ForwardOptions()
