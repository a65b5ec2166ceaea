"""`windlass run --keep`: run on the cluster of a daemon, as `windlass local up` starts one."""

import contextlib
import shlex
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import FrameType

from windlass.client.submit.plan import CompanionRef
from windlass.model import names
from windlass.render.manifest import Manifest
from windlass.runner.local import data_folders, process
from windlass.runner.local.process import DaemonError
from windlass.runner.local.records import DaemonOptions, Record
from windlass.runner.options import RunOptions


def start(data: Path, options: RunOptions) -> Record:
    """Start a daemon. On DaemonError or KeyboardInterrupt, nothing of it is left."""
    try:
        with _deferred_interrupts():
            record = process.start(DaemonOptions(data, nodes=options.nodes, network=options.network))
    except DaemonError:
        _remove(data)
        raise
    except KeyboardInterrupt:
        with contextlib.suppress(DaemonError):
            running = process.running(data)
            if running is not None:
                process.stop(data, running.pid)
        _remove(data)
        raise
    return record


def instructions(
    record: Record, data: Path, jobs: Sequence[Manifest], companions: Sequence[CompanionRef]
) -> list[str]:
    """Return the last lines of output: how to use the cluster, and how to end it."""
    folder = shlex.quote(str(data))
    return [
        "The cluster keeps running. To use it, and to end it:",
        f"  export KUBECONFIG={shlex.quote(record.kubeconfig)}",
        *(f"  windlass why {job.name}{_place(job.namespace)}" for job in jobs),
        *(f"  windlass {each.companion} {each.job}{_place(each.namespace)}" for each in companions),
        f"  windlass local down --data-dir {folder}",
        f"  windlass local reset --data-dir {folder}    # also deletes its data",
    ]


def _place(namespace: str) -> str:
    """Return the option, if the namespace is not the default."""
    return f" --namespace {namespace}" if namespace != names.DEFAULT_NAMESPACE else ""


@contextlib.contextmanager
def _deferred_interrupts() -> Iterator[None]:
    """Defer Ctrl-C, which would otherwise leave a daemon behind that has not written its record yet."""
    pressed = []

    def remember(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 — as signal has it
        pressed.append(number)

    old = signal.signal(signal.SIGINT, remember)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, old)
    if pressed:
        raise KeyboardInterrupt


def _remove(data: Path) -> None:
    with contextlib.suppress(OSError):
        data_folders.remove(data)
