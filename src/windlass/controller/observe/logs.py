"""Formats log records as JSON or as text, and writes snapshots."""

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

_STANDARD_FIELDS = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
"""Attributes that every log record has; all others come from `extra`."""

_CONTROL_CHARACTER_ESCAPES = {
    code: f"\\x{code:02x}" for code in (*range(0x20), *range(0x7F, 0xA0)) if chr(code) not in "\n\t"
}
"""Escapes of control characters: text from containers must not control the reader's terminal."""


class _Handler(logging.StreamHandler[TextIO]):
    """The handler that `configure` adds. The class lets a second call find and replace it."""


def configure(log_format: LogFormat, level: str, stream: TextIO) -> None:
    """Log to the stream: records of Windlass from the given level on, records of libraries from warning on."""
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
    """Formats a record as one line of ASCII JSON."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        for name, value in _fields(record).items():
            line.setdefault(name, _json_value(value))
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        if record.stack_info:
            line["stack"] = self.formatStack(record.stack_info)
        return json.dumps(line)


class TextFormatter(logging.Formatter):
    """Formats a record as text. Further lines of a message are indented, so that they do not look like records."""

    def format(self, record: logging.LogRecord) -> str:
        fields = "".join(f" {name}={_quoted_if_needed(value)}" for name, value in _fields(record).items())
        text = f"{_time(record)} {record.levelname:<7} {record.name}: {record.getMessage()}{fields}"
        if record.exc_info:
            text += "\n" + self.formatException(record.exc_info)
        if record.stack_info:
            text += "\n" + self.formatStack(record.stack_info)
        return text.translate(_CONTROL_CHARACTER_ESCAPES).replace("\n", "\n    ")


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
    """Write the line unchanged, whatever the log format: log collectors search for its marker (behaviour 49).

    It is written as UTF-8 in one call, so that no other line is interleaved. Errors, e.g. of a closed stream, are
    ignored.
    """
    if stream is None:
        return
    data = f"{line}\n".encode("utf-8", "backslashreplace")
    with contextlib.suppress(OSError, ValueError):
        stream.flush()
        stream.buffer.write(data)
        stream.buffer.flush()


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    return {name: value for name, value in vars(record).items() if name not in _STANDARD_FIELDS}


def _time(record: logging.LogRecord) -> str:
    return (
        datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    )


def _json_value(value: object) -> str | int | float | None:
    """Return the value if it is a JSON scalar; otherwise, e.g. for an infinite float, return it as a string."""
    if value is None or isinstance(value, str | int):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    return str(value)


def _quoted_if_needed(value: object) -> str:
    text = str(value)
    is_one_word = text.isprintable() and not any(character in text for character in ' "=') and text != ""
    return text if is_one_word else json.dumps(text)
