"""The logs of a job: read or followed, searched, and downloaded. Lines are passed on while they are read."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator

import msgspec
from aiohttp import web

from windlass.client import history, lifecycle, tasks
from windlass.client.history import JobHistory
from windlass.client.logs import earlier, reader, search
from windlass.client.logs.container_log import LogOptions
from windlass.client.logs.lines import Line
from windlass.client.logs.search import SearchResult
from windlass.client.tasks import TaskSelector
from windlass.k8s.patterns import PatternError
from windlass.web import calls, problems
from windlass.web.calls import Call
from windlass.web.schema import LogGap, LogLine

NDJSON = "application/x-ndjson"
TEXT = "text/plain; charset=utf-8"
MAX_TAIL = 100_000
NOTE_SECONDS = 1.0
"""How long a message about a gap may wait for the next line."""
PAUSES_PER_PING = 10
_encoder = msgspec.json.Encoder()


class _Request(msgspec.Struct, frozen=True):
    """What a request selects."""

    job: JobHistory
    selector: TaskSelector
    attempt: int | None
    """None: the current one."""
    task_attempt: int | None

    @classmethod
    async def of(cls, call: Call) -> "_Request":
        attempt = call.query("attempt")
        try:
            selector = tasks.parse_selectors(call.query("task"))
        except ValueError as error:
            raise problems.invalid(f"task: {error}") from error
        if attempt not in ("", "all") and not attempt.isdecimal():
            raise problems.invalid(f"attempt: found {attempt[:50]!r}, expected a number or all")
        number = None if not attempt else earlier.ALL_ATTEMPTS if attempt == "all" else int(attempt[:9])
        task_attempt = call.number("taskAttempt", 0, 0, 10**9) if call.query("taskAttempt") else None
        job = await history.find(call.connection, call.name)
        tasks.require_tasks(job.framework, selector)
        return cls(job, selector, number, task_attempt)

    async def read(
        self, call: Call, options: LogOptions, notes: list[str]
    ) -> AsyncGenerator[list[Line], None]:
        async with contextlib.aclosing(self._read(call, options, notes)) as batches:
            async for batch in batches:
                call.require_session()
                await call.may_read_logs()
                selected = [each for each in batch if self.task_attempt in (None, each.attempt)]
                if selected:
                    yield selected

    def _read(self, call: Call, options: LogOptions, notes: list[str]) -> AsyncGenerator[list[Line], None]:
        framework = self.job.framework
        is_over = self.job.is_deleted or lifecycle.is_completed(framework)
        if options.follow and self.attempt is None and self.task_attempt is None and not is_over:
            return reader.read_batches(call.connection, framework, self.selector, options, notes.append)
        status = framework.status
        current = status.attempt_status.id if status is not None else 0
        number = current if self.attempt is None else self.attempt
        return earlier.read_batches(call.connection, self.job, number, self.selector, options, notes.append)


async def read_logs(call: Call) -> web.StreamResponse:
    request = await _Request.of(call)
    tail = call.number("tail", 500, 0, MAX_TAIL)
    options = LogOptions(follow=call.flag("follow"), tail=tail, has_timestamps=True)
    notes: list[str] = []
    pauses = 0
    async with (
        contextlib.aclosing(request.read(call, options, notes)) as batches,
        calls.pieces(call, NDJSON, _gap_line) as response,
    ):
        async for batch in _with_pauses(batches):
            gaps = [LogGap(gap=each) for each in notes]
            notes.clear()
            lines = [
                LogLine(
                    task=line.label or line.task,
                    attempt=line.attempt,
                    time=line.time,
                    text=line.text,
                    more=not line.is_ended,
                )
                for line in batch
            ]
            if gaps or lines:
                await response.write(_encoder.encode_lines([*gaps, *lines]))
                pauses = 0
            elif (pauses := pauses + 1) % PAUSES_PER_PING == 0:
                await response.write(b"\n")
                call.require_session()
                await call.may_read_logs()
    return response


async def _with_pauses(batches: AsyncIterator[list[Line]]) -> AsyncIterator[list[Line]]:
    """Yield the batches, an empty one after each pause, and an empty one at the end."""
    while True:
        following = asyncio.ensure_future(anext(batches, None))
        try:
            while not (await asyncio.wait({following}, timeout=NOTE_SECONDS))[0]:
                yield []
            batch = following.result()
        finally:
            following.cancel()
        yield batch or []
        if batch is None:
            return


async def search_logs(call: Call) -> SearchResult:
    text = call.query("q")
    request = await _Request.of(call)
    options = LogOptions(has_timestamps=True)
    try:
        async with (
            contextlib.aclosing(request.read(call, options, [])) as batches,
            _searching(call),
        ):
            return await search.search(batches, text, is_regex=call.flag("regex"))
    except PatternError as error:
        raise problems.invalid(f"q: {error}") from error


@contextlib.asynccontextmanager
async def _searching(call: Call) -> AsyncGenerator[None, None]:
    with call.viewer.stream():
        async with call.viewer.searches:
            yield


async def download_logs(call: Call) -> web.StreamResponse:
    request = await _Request.of(call)
    name = "-".join((call.name, *filter(None, [call.query("task").replace(",", "-")])))[:100]
    headers = {"Content-Disposition": f'attachment; filename="{name}.log"'}
    notes: list[str] = []
    async with (
        contextlib.aclosing(request.read(call, LogOptions(has_timestamps=True), notes)) as batches,
        calls.pieces(call, TEXT, _note_line, headers) as response,
    ):
        is_single = request.selector.selects_one_task
        async for batch in batches:
            parts = (
                line.data + (b"\n" if line.is_ended else b"")
                if is_single
                else b"%s %s | %s\n" % (line.time.encode(), line.label.encode(), line.data)
                for line in batch
            )
            await response.write(b"".join(parts))
        for note in notes:
            await response.write(_note_line(note))
    return response


def _gap_line(message: str) -> bytes:
    return _encoder.encode_lines([LogGap(gap=message)])


def _note_line(message: str) -> bytes:
    return f"[{message}]\n".encode()
