"""Perform the probes of a container when they are due.

`schedule` interprets the results, a listener reacts to them. Where possible, messages are those of the kubelet and of
Go's standard library, since people search for them.
"""

import asyncio
import logging
import os
import time
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Protocol

from windlass.k8s import times
from windlass.localcluster.kubelet.containers import expansion
from windlass.localcluster.kubelet.containers.errors import SetupError
from windlass.localcluster.kubelet.lifecycle import specs
from windlass.localcluster.kubelet.probes import http, schedule
from windlass.localcluster.kubelet.probes.schedule import Kill, Outcome, ProbeKind, Probes
from windlass.model.base import Json

logger = logging.getLogger(__name__)

MAX_OUTPUT = 10 * 1024
# Additional time to kill a command after its timeout.
SECONDS_TO_KILL = 5.0
# Arbitrary start time of a run: only times relative to it matter.
_RUN_START = datetime(2000, 1, 1, tzinfo=UTC)

Result = tuple[Outcome, str]


class ProbeTarget(Protocol):
    """A run of a container, and the network of its pod. A cancelled call ends its command or connection."""

    async def exec(self, argv: Sequence[str], timeout: float) -> tuple[int, bytes]:
        """Run a command, and return its exit code and the first 10 KiB of its output.

        Raises TimeoutError after killing the command, another OSError if it could not be run.
        """

    async def connect(self, host: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Open a connection. Raises OSError, if possible with an error number."""


async def perform(spec: Json, container: Json, pod: Json, target: ProbeTarget) -> Result:
    """Perform one probe or hook within its timeout. Return the outcome, and the output or the error message."""
    seconds = float(spec.get("timeoutSeconds") or 1)
    if "exec" in spec:
        return await _execute(spec["exec"], container, target, seconds)
    if "grpc" in spec:
        return Outcome.ERROR, "gRPC probes are not supported on this cluster: use exec, httpGet or tcpSocket"
    action = spec.get("httpGet") or spec.get("tcpSocket")
    if action is None:
        return Outcome.ERROR, f"missing probe handler for {specs.full_name(pod)}:{container['name']}"
    try:
        port = _port(action["port"], container)
    except ValueError as error:
        return Outcome.ERROR, str(error)
    host = action.get("host") or specs.status(pod).get("podIP") or "127.0.0.1"
    if "tcpSocket" in spec:
        return await _connect(host, port, target, seconds)
    return await _get(http.new_request(action, host, port), target, seconds)


async def _execute(action: Json, container: Json, target: ProbeTarget, seconds: float) -> Result:
    # As in the kubelet, a variable with `valueFrom` is expanded to an empty string in a probe's command.
    literals = {variable["name"]: variable.get("value") or "" for variable in container.get("env") or ()}
    try:
        argv = [expansion.expand(word, literals) for word in action.get("command") or ()]
    except SetupError as error:
        return Outcome.ERROR, str(error)
    try:
        async with asyncio.timeout(seconds + SECONDS_TO_KILL):
            code, output = await target.exec(argv, seconds)
    except TimeoutError:
        limit = times.format_duration(timedelta(seconds=seconds))
        return Outcome.FAILURE, f'command timed out: "{" ".join(argv)}" timed out after {limit}'
    except OSError as error:
        return Outcome.ERROR, _message(error)
    text = output[:MAX_OUTPUT].decode(errors="replace")
    return (Outcome.SUCCESS if code == 0 else Outcome.FAILURE), text


async def _connect(host: str, port: int, target: ProbeTarget, seconds: float) -> Result:
    try:
        async with asyncio.timeout(seconds):
            _, writer = await target.connect(host, port)
    except OSError as error:
        return Outcome.FAILURE, _dial_error(error, host, port)
    writer.close()
    return Outcome.SUCCESS, ""


async def _get(request: http.Request, target: ProbeTarget, seconds: float) -> Result:
    writer: asyncio.StreamWriter | None = None
    code: int | None = None
    try:
        async with asyncio.timeout(seconds):
            reader, writer = await target.connect(request.host, request.port)
            code = await http.exchange(request, reader, writer)
            await http.discard_body(reader)
    except (http.NoResponseError, OSError) as error:
        # After the status code, errors do not matter.
        if code is None:
            return Outcome.FAILURE, request.error_message(
                _problem(error, request, is_connected=writer is not None)
            )
    finally:
        if writer is not None:
            writer.close()
    return schedule.http_result(code or 0)


def _problem(error: http.NoResponseError | OSError, request: http.Request, *, is_connected: bool) -> str:
    if isinstance(error, http.NoResponseError):
        return str(error)
    if not is_connected:
        return _dial_error(error, request.host, request.port)
    if isinstance(error, TimeoutError):
        return "context deadline exceeded (Client.Timeout exceeded while awaiting headers)"
    return f"read tcp {http.address(request.host, request.port)}: read: {_message(error)}"


def _port(value: int | str, container: Json) -> int:
    port = value
    if isinstance(value, str):
        ports = container.get("ports") or ()
        named = [each["containerPort"] for each in ports if each.get("name") == value]
        if not named:
            raise ValueError(f'port "{value}" not found')
        port = named[0]
    if not 0 < int(port) < 65536:
        raise ValueError(f"invalid port number: {port}")
    return int(port)


def _dial_error(error: OSError, host: str, port: int) -> str:
    address = http.address(host, port)
    if isinstance(error, TimeoutError):
        return f"dial tcp {address}: i/o timeout"
    return f"dial tcp {address}: connect: {_message(error)}"


def _message(error: OSError) -> str:
    return os.strerror(error.errno).lower() if error.errno else str(error)


class Listener(Protocol):
    """The receiver of probe results of a run."""

    def on_change(self, has_started: bool, is_ready: bool) -> None:
        """Called at the beginning and whenever one of the values changes."""

    def on_unhealthy(self, message: str) -> None:
        """A probe failed or could not be performed. `message` is the message of the event `Unhealthy`."""

    def on_kill(self, kill: Kill) -> None:
        """The container must be killed. This is the last call for a run."""


class Prober:
    """Performs the probes of one run, one at a time, until the container must be killed or no probe is left.

    Times are relative to the start of the run, so that changes of the clock have no effect. `age` is the age of an
    adopted run.
    """

    def __init__(
        self,
        container: Json,
        pod: Callable[[], Json],
        target: ProbeTarget,
        listener: Listener,
        *,
        age: timedelta = timedelta(),
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._container = container
        self._pod = pod
        self._target = target
        self._listener = listener
        self._monotonic = monotonic
        self._sleep = sleep
        self._started_at = monotonic() - max(age, timedelta()).total_seconds()
        self._state = schedule.begin(container, _RUN_START)

    async def run(self) -> None:
        self._report()
        while (probe := self._next()) is not None:
            wait = (probe.due_at - self._now()).total_seconds()
            if wait > 0:
                await self._sleep(wait)
            # Meanwhile the pod may have begun to terminate.
            if probe is self._next():
                await self._perform(probe.kind)
        kill = schedule.decide_kill(self._pod(), self._container["name"], self._state)
        if kill is not None and not self._is_terminating:
            self._listener.on_kill(kill)

    async def _perform(self, kind: ProbeKind) -> None:
        outcome, output = await self._result(kind)
        if self._is_terminating and kind is not ProbeKind.READINESS:
            return
        message = schedule.event_message(kind, outcome, output)
        if message is not None:
            self._listener.on_unhealthy(message)
        before, self._state = self._state, self._state.with_result(kind, outcome, self._now())
        if _health(before) != _health(self._state):
            self._report()

    async def _result(self, kind: ProbeKind) -> Result:
        try:
            spec = self._container[schedule.SPEC_FIELDS[kind]]
            return await perform(spec, self._container, self._pod(), self._target)
        except Exception as error:
            logger.exception("container %s: cannot perform a probe", self._container["name"])
            return Outcome.ERROR, str(error)

    def _next(self) -> schedule.Probe | None:
        return self._state.next_due(is_pod_terminating=self._is_terminating)

    @property
    def _is_terminating(self) -> bool:
        return bool(self._pod()["metadata"].get("deletionTimestamp"))

    def _now(self) -> datetime:
        return _RUN_START + timedelta(seconds=self._monotonic() - self._started_at)

    def _report(self) -> None:
        self._listener.on_change(*_health(self._state))


def _health(state: Probes) -> tuple[bool, bool]:
    return state.has_started, state.is_ready
