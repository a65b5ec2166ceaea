"""Write the report about a job as HTML, JSON or Markdown, while its logs are read."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import PurePath
from typing import Protocol

import msgspec

from windlass.client import history
from windlass.client.connection import Connection
from windlass.client.report import contents, logs, markdown
from windlass.client.report.contents import Log, Report
from windlass.client.report.page import PageWriter

Write = Callable[[bytes], object]
_BUFFER_BYTES = 64 * 1024


class Format(StrEnum):
    HTML = "html"
    JSON = "json"
    MARKDOWN = "markdown"


_SUFFIXES = {".json": Format.JSON, ".md": Format.MARKDOWN}


def format_of(path: PurePath) -> Format:
    """Return the format for a file: JSON or Markdown by its suffix, or else HTML."""
    return _SUFFIXES.get(path.suffix.lower(), Format.HTML)


class Writer(Protocol):
    """Writes a report whose logs follow one after the other."""

    def begin(self, report: Report) -> None: ...

    def begin_log(self, log: Log) -> None: ...

    def add_line(self, time: str, text: str) -> None: ...

    def end_log(self, note: str) -> None: ...

    def end(self) -> None: ...


async def write(
    connection: Connection,
    name: str,
    write_bytes: Write,
    report_format: Format = Format.HTML,
    *,
    has_all_logs: bool = False,
    notes: Sequence[str] = (),
) -> None:
    """Write the report about a job that exists or was deleted. Raises ObjectNotFoundError, the errors of
    `Connection.send`, and those of `write_bytes`.

    `has_all_logs`: with the logs of all attempts of tasks, not only of failed ones.
    """
    job = await history.find(connection, name)
    report = await contents.read(connection, job, datetime.now(UTC), notes)
    if report_format is Format.MARKDOWN:
        write_bytes(markdown.render(report).encode("utf-8", "replace"))
        return
    writer: Writer = PageWriter(write_bytes) if report_format is Format.HTML else JsonWriter(write_bytes)
    writer.begin(report)
    async for opened in logs.read(connection, job, report, of_all_attempts=has_all_logs):
        writer.begin_log(opened.log)
        async for batch in opened.lines():
            for line in batch:
                writer.add_line(line.time, line.text)
        writer.end_log("; ".join(opened.notes))
    writer.end()


class JsonWriter:
    """Writes the JSON of a Report. Its logs are its last field."""

    def __init__(self, write_bytes: Write) -> None:
        self._write_bytes = write_bytes
        self._buffer = bytearray()
        self._encode = msgspec.json.Encoder().encode
        self._log_separator = self._line_separator = b""

    def begin(self, report: Report) -> None:
        self._write(self._encode(report).removesuffix(b"]}"))

    def begin_log(self, log: Log) -> None:
        self._write(self._log_separator + self._encode(log).removesuffix(b'],"note":""}'))
        self._log_separator, self._line_separator = b",", b""

    def add_line(self, time: str, text: str) -> None:
        self._write(self._line_separator + self._encode(f"{time} {text}" if time else text))
        self._line_separator = b","

    def end_log(self, note: str) -> None:
        self._write(b'],"note":' + self._encode(note) + b"}")

    def end(self) -> None:
        self._write_bytes(bytes(self._buffer) + b"]}\n")

    def _write(self, data: bytes) -> None:
        self._buffer += data
        if len(self._buffer) >= _BUFFER_BYTES:
            self._write_bytes(bytes(self._buffer))
            self._buffer.clear()
