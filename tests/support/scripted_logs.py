"""Logs that a test writes line by line, served like those of a kubelet. Connections can be cut."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncGenerator
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import msgspec

from windlass.k8s import api_errors
from windlass.localcluster.apiserver.streams.handlers import PodRuntime, Process
from windlass.localcluster.apiserver.streams.requests import LogOptions
from windlass.localcluster.sandbox import log_format

BEGAN = datetime(2026, 1, 1, tzinfo=UTC)
LOST = b"unable to retrieve container logs for containerd://0123"
"""The body, with status 200, that a kubelet returns for a deleted log."""


class Asked(NamedTuple):
    pod: str
    container: str
    options: LogOptions


class Written:
    """The output of one run of a container."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []
        self.is_over = False
        self.is_lost = False


class ScriptedLogs:
    """The logs, used on the loop of the server. A pod is named by namespace and name: `default/digits-ps-0`.

    In other namespaces another runtime provides the logs.
    """

    def __init__(self, otherwise: PodRuntime) -> None:
        self.scripted: set[str] = set()
        self._otherwise = otherwise
        self.asked: list[Asked] = []
        self._current: dict[tuple[str, str], Written] = defaultdict(Written)
        self._previous: dict[tuple[str, str], Written] = {}
        self._changed = asyncio.Event()
        self._cuts = 0
        self._ends = 0
        self._may_answer = asyncio.Event()
        self._may_answer.set()
        self.unknown_for = 0
        """Number of requests that a restarted node answers with 404, because it does not know its pods yet."""

    def hold(self) -> None:
        """Hold all requests until they are released."""
        self._may_answer.clear()

    def release(self) -> None:
        self._may_answer.set()

    def write(self, pod: str, text: str | bytes, *, at: float = 0.0, container: str = "main") -> None:
        """Write a line at a number of seconds after `BEGAN`, without a line end if the text has none."""
        data = text.encode() if isinstance(text, str) else text
        moment = log_format.nanoseconds(BEGAN + timedelta(seconds=at))
        tag = log_format.encoded(data[:-1], "stdout", moment) if data.endswith(b"\n") else b""
        self._current[pod, container].lines.append(tag or log_format.encoded_end(data, "stdout", moment))
        self._wake()

    def end(self, pod: str, container: str = "main") -> None:
        """End the log."""
        self._current[pod, container].is_over = True
        self._wake()

    def lose(self, pod: str, container: str = "main") -> None:
        """Remove the container from the node."""
        self._current[pod, container].is_lost = True
        self._wake()

    def rotate(self, pod: str, container: str = "main") -> None:
        """Delete the lines written so far, and break all open connections."""
        self._current[pod, container].lines.clear()
        self.cut()

    def restart(self, pod: str, container: str = "main") -> None:
        self.end(pod, container)
        self._previous[pod, container] = self._current.pop((pod, container))
        self._wake()

    def forget(self, pod: str, container: str = "main") -> None:
        """Forget the pod: a new pod of the same name follows."""
        self.end(pod, container)
        self._current.pop((pod, container), None)

    def cut(self) -> None:
        """Break all open connections in the middle of a line."""
        self._cuts += 1
        self._wake()

    def close(self) -> None:
        """Close all open connections as if the log had ended."""
        self._ends += 1
        self._wake()

    def _wake(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def logs(
        self, namespace: str, pod: str, container: str, options: LogOptions
    ) -> AsyncGenerator[bytes, None]:
        if namespace not in self.scripted:
            return await self._otherwise.logs(namespace, pod, container, options)
        self.asked.append(Asked(pod, container, options))
        await self._may_answer.wait()
        if self.unknown_for:
            self.unknown_for -= 1
            raise api_errors.not_found("", "pods", pod)
        key = (f"{namespace}/{pod}", container)
        if options.previous and key not in self._previous:
            raise api_errors.bad_request(f'previous terminated container "{container}" not found')
        written = self._previous[key] if options.previous else self._current[key]
        return self._read(written, options)

    async def _read(self, written: Written, options: LogOptions) -> AsyncGenerator[bytes, None]:
        since = log_format.since(datetime.now(UTC), options.since_seconds, options.since_time)
        selection = log_format.Selection(since=since, timestamps=options.timestamps)
        cuts, ends = self._cuts, self._ends
        at = 0 if options.tail_lines is None else max(len(written.lines) - options.tail_lines, 0)
        while True:
            changed = self._changed
            if written.is_lost:
                yield LOST
                return
            while at < len(written.lines):
                text, _ = log_format.selected_text(written.lines[at], selection)
                at += 1
                if text:
                    yield text
            if not options.follow or written.is_over or self._ends > ends:
                return
            if self._cuts > cuts:
                yield b"2026-01-01T00:00:59.000000000Z half a li" if options.timestamps else b"half a li"
                raise ConnectionResetError
            await changed.wait()

    async def exec(self, *_: Any, **__: Any) -> Process:
        raise OSError("nothing runs here")

    async def attach(self, *_: Any, **__: Any) -> Process:
        raise NotImplementedError

    async def open_port(self, *_: Any) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        raise NotImplementedError


class Restart(msgspec.Struct, frozen=True):
    """A restarted container, as a kubelet reports it."""

    count: int
    code: int = 1

    def status(self, container: str = "main") -> Any:
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        ended = {"exitCode": self.code, "reason": "Error", "startedAt": now, "finishedAt": now}
        return {
            "name": container,
            "image": "windlass/test:1",
            "imageID": "",
            "ready": True,
            "restartCount": self.count,
            "state": {"running": {"startedAt": now}},
            "lastState": {"terminated": ended},
        }
