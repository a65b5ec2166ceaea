"""`windlass run --keep`: the cluster is that of a daemon, as `windlass local up` starts one, and stays."""

import contextlib
import shlex
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import FrameType

from windlass.model import names
from windlass.runner.local import data_folders, process
from windlass.runner.local.process import DaemonError
from windlass.runner.local.records import Record, Wanted
from windlass.runner.run_plan import Beside, Job, Plan


def started(data: Path, plan: Plan) -> Record:
    """Raise DaemonError or KeyboardInterrupt; then nothing of it is left."""
    try:
        with _interrupts_later():
            record = process.start(Wanted(data, nodes=plan.nodes, network=plan.network))
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


def how_to_go_on(record: Record, data: Path, jobs: Sequence[Job], companions: Sequence[Beside]) -> list[str]:
    """The last lines."""
    folder = shlex.quote(str(data))
    return [
        "The cluster goes on. To look around, and to end it:",
        f"  export KUBECONFIG={shlex.quote(record.kubeconfig)}",
        *(f"  windlass why {job.name}{_place(job.namespace)}" for job in jobs),
        *(f"  windlass {each.companion} {each.job}{_place(each.namespace)}" for each in companions),
        f"  windlass local down --data-dir {folder}",
        f"  windlass local reset --data-dir {folder}    # deletes what it has stored, too",
    ]


def _place(namespace: str) -> str:
    """As an option, where it has to be said."""
    return f" --namespace {namespace}" if namespace != names.DEFAULT_NAMESPACE else ""


@contextlib.contextmanager
def _interrupts_later() -> Iterator[None]:
    """A Ctrl-C between the start of a daemon and the moment at which it can be found would leave it behind."""
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
