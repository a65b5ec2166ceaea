"""Reports as an HTML page that needs no network and runs no scripts but its own.

The page has a Content-Security-Policy with the hash of its script. The template escapes all values, and the script
adds text only as text. Log lines are compressed chunks, which the script decompresses when they are shown.
"""

import base64
import gzip
import hashlib
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import jinja2
import msgspec
from markupsafe import Markup

from windlass.client.report import tables
from windlass.client.report.contents import Log, Report
from windlass.client.views import JobState
from windlass.model import untrusted_text
from windlass.wire.yaml import dump as yaml_dump

MAX_ROWS = 200
"""Maximum number of rows of the tables that are readable without JavaScript."""
CHUNK_CHARACTERS = 512 * 1024
_FILES = Path(__file__).parent / "files"
_LOGS = "<!--logs-->"
_MARKS = {
    JobState.SUCCEEDED: "✓",
    JobState.FAILED: "✗",
    JobState.RUNNING: "▶",
    JobState.RETRYING: "↻",
    JobState.STOPPED: "■",
    JobState.DELETED: "■",
}


class PageWriter:
    def __init__(self, write: Callable[[bytes], object]) -> None:
        self._write = write
        self._tail = ""
        self._logs: list[dict[str, Any]] = []
        """The logs with the numbers of their lines, and the number of their first line in the sequence of all lines."""
        self._lines = 0
        self._chunk: list[str] = []
        self._chunk_size = 0

    def begin(self, report: Report) -> None:
        head, self._tail = _render(report).split(_LOGS)
        self._write(head.encode("utf-8", "replace"))

    def begin_log(self, log: Log) -> None:
        self._logs.append(msgspec.to_builtins(log) | {"first": self._lines, "lines": 0})

    def add_line(self, stamp: str, text: str) -> None:
        line = (
            f"{_time_of_day(stamp)} {untrusted_text.visible(text)}" if stamp else untrusted_text.visible(text)
        )
        self._chunk.append(line)
        self._chunk_size += len(line)
        self._lines += 1
        if self._chunk_size >= CHUNK_CHARACTERS:
            self._end_chunk()

    def end_log(self, note: str) -> None:
        self._logs[-1] |= {"lines": self._lines - self._logs[-1]["first"], "note": note}

    def end(self) -> None:
        self._end_chunk()
        self._write(f'<script type="application/json" id="log-index">{_json(self._logs)}</script>\n'.encode())
        self._write(self._tail.encode("utf-8", "replace"))

    def _end_chunk(self) -> None:
        if not self._chunk:
            return
        first, count = self._lines - len(self._chunk), len(self._chunk)
        packed = gzip.compress("\n".join(self._chunk).encode("utf-8", "replace"), compresslevel=6, mtime=0)
        head = f'<script type="text/plain" class="chunk" data-first="{first}" data-lines="{count}">'
        self._write(head.encode() + base64.b64encode(packed) + b"</script>\n")
        self._chunk, self._chunk_size = [], 0


def _render(report: Report) -> str:
    style, script = ((_FILES / name).read_text("utf-8") for name in ("report.css", "report.js"))
    environment = jinja2.Environment(autoescape=True, finalize=_shown)
    return environment.from_string((_FILES / "report.html").read_text("utf-8")).render(
        report=report,
        failure=report.explanation.failure,
        mark=_MARKS.get(report.explanation.state, "○"),
        tables=tables,
        max_rows=MAX_ROWS,
        spec=(yaml_dump.dump(report.framework).decode()),
        style=Markup(style),  # noqa: S704 — a file of this package, as the script
        script=Markup(script),  # noqa: S704
        style_hash=_hash(style),
        script_hash=_hash(script),
        data=Markup(_json(msgspec.to_builtins(report))),  # noqa: S704 — escaped by _json
    )


def _shown(value: Any) -> Any:
    """Return the value of an expression of the template, without invisible characters. Jinja then escapes HTML."""
    if isinstance(value, Markup) or not isinstance(value, str):
        return value
    return "\n".join(map(untrusted_text.visible, value.split("\n")))


def _json(value: Any) -> str:
    """Return JSON that is safe in a script element, and whose texts have no invisible characters."""
    return msgspec.json.encode(_visible(value)).decode("utf-8", "replace").replace("<", r"\u003c")


def _visible(value: Any) -> Any:
    match value:
        case str():
            return _shown(value)
        case dict():
            return {key: _visible(each) for key, each in value.items()}
        case list() | tuple():
            return [_visible(each) for each in value]
    return value


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _time_of_day(stamp: str) -> str:
    """Return the time of a log line in UTC with milliseconds."""
    if not stamp.endswith("Z"):
        stamp = datetime.fromisoformat(stamp).astimezone(UTC).isoformat().replace("+00:00", "Z")
    return stamp[11:19] + (stamp[19:-1] or ".")[:4].ljust(4, "0")
