"""What the controller writes to its standard error: log lines, for machines (JSON) or for people, and snapshots.

Only how a line looks and how it gets out. Who says what, and when, is none of its business.
"""

import contextlib
import json
import logging
import math
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, TextIO

from windlass.decide.types import Reason
from windlass.model.framework import Framework
from windlass.model.settings import LogFormat

logger = logging.getLogger(__name__)

_OF_EVERY_RECORD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
"""What a record has by itself; everything else came with `extra`."""

_CONTROL_CHARACTERS = {
    code: f"\\x{code:02x}" for code in (*range(0x20), *range(0x7F, 0xA0)) if chr(code) not in "\n\t"
}
"""Part of what is logged comes from other people's containers: it must not drive the reader's terminal."""


class _Handler(logging.StreamHandler[TextIO]):
    """Told apart from the handlers of others, so that a second `configure` replaces it."""


def configure(log_format: LogFormat, level: str, stream: TextIO) -> None:
    """What Windlass says from that level on goes to the stream, and what libraries say from warning on."""
    root = logging.getLogger()
    for handler in tuple(root.handlers):
        if isinstance(handler, _Handler):
            root.removeHandler(handler)
    handler = _Handler(stream)
    handler.setFormatter(JsonFormatter() if log_format is LogFormat.JSON else TextFormatter())
    root.addHandler(handler)
    root.setLevel(logging.WARNING)
    logging.getLogger("windlass").setLevel(level.upper())


class JsonFormatter(logging.Formatter):
    """One JSON object per line, in ASCII: whatever is inside, it stays one line to every reader."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        for name, value in _fields(record).items():
            line.setdefault(name, _plain(value))
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        if record.stack_info:
            line["stack"] = self.formatStack(record.stack_info)
        return json.dumps(line)


class TextFormatter(logging.Formatter):
    """One line for a person. Further lines of a message are indented: they cannot pass for lines of ours."""

    def format(self, record: logging.LogRecord) -> str:
        fields = "".join(f" {name}={_quoted(value)}" for name, value in _fields(record).items())
        text = f"{_time(record)} {record.levelname:<7} {record.name}: {record.getMessage()}{fields}"
        if record.exc_info:
            text += "\n" + self.formatException(record.exc_info)
        if record.stack_info:
            text += "\n" + self.formatStack(record.stack_info)
        return text.translate(_CONTROL_CHARACTERS).replace("\n", "\n    ")


def log_reasons(framework: Framework, reasons: Sequence[Reason]) -> None:
    for reason in reasons:
        level = logging.WARNING if reason.is_warning else logging.INFO
        logger.log(level, "%s", reason.message, extra=reason_fields(framework, reason))


def reason_fields(framework: Framework, reason: Reason) -> dict[str, str | int]:
    fields: dict[str, str | int] = {
        "namespace": framework.namespace,
        "framework": framework.name,
        "reason": reason.kind.value,
    }
    if reason.role:
        fields["role"] = reason.role
    if reason.index >= 0:
        fields["index"] = reason.index
    return fields


def write_snapshot(line: str, stream: TextIO | None) -> None:
    """The line as it is, whatever the format of the log (statement 49): collectors find it by its mark.

    It goes out as UTF-8 in one write, so that no other line comes to stand inside it. A standard error that is closed,
    or that never was, is no reason to stop.
    """
    if stream is None:
        return
    data = f"{line}\n".encode("utf-8", "backslashreplace")
    with contextlib.suppress(OSError, ValueError):
        stream.flush()
        stream.buffer.write(data)
        stream.buffer.flush()


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    return {name: value for name, value in vars(record).items() if name not in _OF_EVERY_RECORD}


def _time(record: logging.LogRecord) -> str:
    return (
        datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    )


def _plain(value: object) -> str | int | float | None:
    """JSON has no word for a float that is no number."""
    if value is None or isinstance(value, str | int):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    return str(value)


def _quoted(value: object) -> str:
    text = str(value)
    is_one_word = text.isprintable() and not any(mark in text for mark in ' "=') and text != ""
    return text if is_one_word else json.dumps(text)
