"""Start, find and stop the daemon of `windlass local`."""

import contextlib
import os
import select
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from windlass.runner import interrupts
from windlass.runner.local import data_folders, records
from windlass.runner.local.records import Answer, DaemonOptions, Record

START_SECONDS = 60.0
STOP_SECONDS = 120.0
"""Time limit, longer than the default grace period of pods (30 s)."""
_MAX_SHOWN_LINES = 10


class DaemonError(data_folders.LocalClusterError):
    """The daemon did not start or did not stop."""


def running(data: Path) -> Record | None:
    """Wait until the running daemon is ready and return its record; None if no daemon runs. Raises DaemonError."""
    deadline = time.monotonic() + START_SECONDS
    while (pid := data_folders.holder(data / data_folders.LOCK)) is not None:
        record = records.read(data)
        if record is not None and record.pid == pid:
            return record
        if time.monotonic() >= deadline:
            raise DaemonError(f"process {pid} uses {data} but does not become ready. See {_log(data)}")
        time.sleep(data_folders.POLL_SECONDS)
    return None


def start(options: DaemonOptions) -> Record:
    """Start a daemon in the background and return when it is ready. Raises DaemonError."""
    _rotate(_log(options.data))
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        _exec_daemon(options, write_end)
    os.close(write_end)
    with open(read_end, "rb") as pipe:  # noqa: PTH123 — a descriptor
        message = pipe.read()
    answer = msgspec.json.decode(message, type=Answer) if message else Answer()
    if answer.record is not None:
        return answer.record
    os.waitpid(child, 0)
    raise DaemonError(f"the cluster cannot start: {answer.error or _last_lines(_log(options.data))}")


def start_or_clean_up(options: DaemonOptions) -> Record:
    """Start a daemon. On a DaemonError or KeyboardInterrupt, stop it and remove its data directory."""
    try:
        # A signal must not interrupt the start: a daemon that has not written its record would be left running.
        with interrupts.deferred() as signals:
            started = start(options)
        if signals:
            raise KeyboardInterrupt
        return started
    except (DaemonError, KeyboardInterrupt):
        with contextlib.suppress(DaemonError):
            if (record := running(options.data)) is not None:
                stop(options.data, record.pid)
        with contextlib.suppress(OSError):
            data_folders.remove(options.data)
        raise


def stop(data: Path, pid: int) -> None:
    """Stop the daemon and its pods, and return when it has ended. Raises DaemonError."""
    with _pidfd(pid) as pidfd:
        try:
            os.kill(pid, signal.SIGUSR1)
        except ProcessLookupError:
            pass
        except PermissionError as error:
            raise DaemonError(f"cannot stop process {pid}: it belongs to another user") from error
        deadline = time.monotonic() + STOP_SECONDS
        while data_folders.holder(data / data_folders.LOCK) == pid or _is_alive(pidfd):
            if time.monotonic() >= deadline:
                raise DaemonError(
                    f"process {pid} did not end within {STOP_SECONDS:g} s. See {_log(data)}. "
                    f"End it with `kill -9 {pid}`, and its pods with another `windlass local down`"
                )
            time.sleep(data_folders.POLL_SECONDS)


@contextlib.contextmanager
def _pidfd(pid: int) -> Iterator[int | None]:
    """Yield a pidfd, which stays valid when the process ID is reused. Yield None if it cannot be opened."""
    descriptor = None
    if hasattr(os, "pidfd_open"):
        with contextlib.suppress(OSError):
            descriptor = os.pidfd_open(pid)
    try:
        yield descriptor
    finally:
        if descriptor is not None:
            os.close(descriptor)


def _is_alive(pidfd: int | None) -> bool:
    """Return whether the process still runs, even if it has released its lock. False without a pidfd."""
    if pidfd is None:
        return False
    poller = select.poll()
    poller.register(pidfd, select.POLLIN)
    return not poller.poll(0)


def has_pods(data: Path) -> bool:
    """Return whether pods run: the supervisor of a pod removes its socket when the pod ends."""
    return any(data.glob("pods/*/socket"))


def send_answer(descriptor: int, answer: Answer) -> None:
    """Send the answer to the process that started this one."""
    os.write(descriptor, msgspec.json.encode(answer))
    os.close(descriptor)


def command(options: DaemonOptions, descriptor: int) -> list[str]:
    """Return the command of the daemon: `local up` in the foreground, which sends its answer to the descriptor."""
    return [
        *(sys.executable, "-P", "-m", "windlass.cli.main", "local", "up", "--foreground"),
        *("--ready-descriptor", str(descriptor), "--data-dir", str(options.data)),
        *("--listen", _address(options), "--nodes", str(options.nodes), "--network", options.network),
        *("--fake-gpus", str(options.fake_gpus)),
        "--with-controller" if options.has_controller else "--no-controller",
    ]


def _address(options: DaemonOptions) -> str:
    return f"[{options.host}]:{options.port}" if ":" in options.host else f"{options.host}:{options.port}"


def _exec_daemon(options: DaemonOptions, write_end: int) -> None:
    """Detach the forked child from the terminal, redirect its output to the log, and execute the daemon."""
    try:
        os.setsid()
        devnull = os.open(os.devnull, os.O_RDONLY)
        log = os.open(_log(options.data), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        for source, target in ((devnull, 0), (log, 1), (log, 2)):
            os.dup2(source, target)
        os.chdir(options.data)
        os.set_inheritable(write_end, True)
        arguments = command(options, write_end)
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
    shown = "\n".join(lines[-_MAX_SHOWN_LINES:])
    return f"the daemon ended without an error message (see {log})" + (f":\n{shown}" if shown else "")


def _log(data: Path) -> Path:
    return data / records.LOG
