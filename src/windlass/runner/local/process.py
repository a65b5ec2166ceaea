"""The daemon of `windlass local` as others see it: start one in the background, find it, end it."""

import contextlib
import os
import select
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from windlass.runner.local import data_folders, records
from windlass.runner.local.records import Answer, Record, Wanted

START_SECONDS = 60.0
STOP_SECONDS = 120.0
"""Pods have a grace period, of half a minute where they do not say otherwise."""
_SHOWN_LINES = 10


class DaemonError(Exception):
    """It did not start, or did not stop. One message."""


def running(data: Path) -> Record | None:
    """What runs there now. One that is just starting is waited for. Raises DaemonError if it does not become ready."""
    deadline = time.monotonic() + START_SECONDS
    while (pid := data_folders.holder(data / data_folders.LOCK)) is not None:
        record = records.read(data)
        if record is not None and record.pid == pid:
            return record
        if time.monotonic() >= deadline:
            raise DaemonError(f"the process {pid} uses {data}, and does not become ready. See {_log(data)}")
        time.sleep(data_folders.LOOK_AGAIN_SECONDS)
    return None


def start(wanted: Wanted) -> Record:
    """In the background; returns when it answers. Raises DaemonError."""
    _rotate(_log(wanted.data))
    ours, its = os.pipe()
    child = os.fork()
    if child == 0:
        _become(wanted, its)
    os.close(its)
    with open(ours, "rb") as pipe:  # noqa: PTH123 — a descriptor
        said = pipe.read()
    answer = msgspec.json.decode(said, type=Answer) if said else Answer()
    if answer.record is not None:
        return answer.record
    os.waitpid(child, 0)
    raise DaemonError(f"the cluster cannot start: {answer.error or _last_lines(_log(wanted.data))}")


def stop(data: Path, pid: int) -> None:
    """The daemon and its pods; returns when it is gone. Raises DaemonError."""
    with _process(pid) as process:
        try:
            os.kill(pid, signal.SIGUSR1)
        except ProcessLookupError:
            pass
        except PermissionError as error:
            raise DaemonError(f"the process {pid} cannot be told to stop: it is somebody else's") from error
        deadline = time.monotonic() + STOP_SECONDS
        while data_folders.holder(data / data_folders.LOCK) == pid or _lives(process):
            if time.monotonic() >= deadline:
                raise DaemonError(
                    f"the process {pid} has not ended within {STOP_SECONDS:g} s. See {_log(data)}; "
                    f"`kill -9 {pid}` ends it, and another `windlass local down` its pods"
                )
            time.sleep(data_folders.LOOK_AGAIN_SECONDS)


@contextlib.contextmanager
def _process(pid: int) -> Iterator[int | None]:
    """A descriptor of it, where the system has such; whoever has the same number later is another one."""
    descriptor = None
    if hasattr(os, "pidfd_open"):
        with contextlib.suppress(OSError):
            descriptor = os.pidfd_open(pid)
    try:
        yield descriptor
    finally:
        if descriptor is not None:
            os.close(descriptor)


def _lives(process: int | None) -> bool:
    """A process has given up its lock some time before it has ended."""
    if process is None:
        return False
    polled = select.poll()
    polled.register(process, select.POLLIN)
    return not polled.poll(0)


def has_pods(data: Path) -> bool:
    """Some that run: where a pod has ended, its supervisor has removed its socket."""
    return any(data.glob("pods/*/socket"))


def answer(descriptor: int, said: Answer) -> None:
    """To whoever started this process."""
    os.write(descriptor, msgspec.json.encode(said))
    os.close(descriptor)


def command(wanted: Wanted, descriptor: int) -> list[str]:
    """What the background runs: the same command in the foreground, which says on the descriptor when it is ready."""
    return [
        *(sys.executable, "-P", "-m", "windlass.cli.main", "local", "up", "--foreground"),
        *("--ready-descriptor", str(descriptor), "--data-dir", str(wanted.data)),
        *("--listen", _address(wanted), "--nodes", str(wanted.nodes), "--network", wanted.network),
        "--with-controller" if wanted.has_controller else "--no-controller",
    ]


def _address(wanted: Wanted) -> str:
    return f"[{wanted.host}]:{wanted.port}" if ":" in wanted.host else f"{wanted.host}:{wanted.port}"


def _become(wanted: Wanted, its: int) -> None:
    """The child's life between fork and exec: away from the terminal, and its words into the log."""
    try:
        os.setsid()
        nothing = os.open(os.devnull, os.O_RDONLY)
        log = os.open(_log(wanted.data), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        for source, target in ((nothing, 0), (log, 1), (log, 2)):
            os.dup2(source, target)
        os.chdir(wanted.data)
        os.set_inheritable(its, True)
        arguments = command(wanted, its)
        os.execv(arguments[0], arguments)  # noqa: S606
    finally:
        os._exit(1)


def _rotate(log: Path) -> None:
    if log.exists():
        log.replace(log.with_suffix(".log.1"))


def _last_lines(log: Path) -> str:
    try:
        lines = log.read_text("utf-8", "replace").splitlines()
    except OSError:
        lines = []
    shown = "\n".join(lines[-_SHOWN_LINES:])
    return f"it died without a word (see {log})" + (f":\n{shown}" if shown else "")


def _log(data: Path) -> Path:
    return data / records.LOG
