"""The format and output of log lines and snapshots."""

import io
import json
import logging
import os
import sys
import threading
from collections.abc import Iterator
from typing import Any

import builders
import pytest

from windlass.controller.observe import logs
from windlass.decide.types import Reason, ReasonKind
from windlass.model.settings import LogFormat, LogLevel

JOB = builders.framework("job", namespace="team")


def record(message: str = "said", level: int = logging.INFO, **extra: Any) -> logging.LogRecord:
    made = logging.getLogger("windlass.test").makeRecord(
        "windlass.test", level, "file.py", 1, message, (), None, extra=extra
    )
    made.created = builders.NOW.timestamp() + 0.25
    return made


def failed() -> logging.LogRecord:
    made = record("it failed", logging.ERROR)
    try:
        raise ValueError("two\nlines")
    except ValueError:
        made.exc_info = sys.exc_info()
    return made


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (record(), {"message": "said", "level": "info"}),
        (record("50 %"), {"message": "50 %"}),
        (record("one\ntwo\u2028three\x85four"), {"message": "one\ntwo\u2028three\x85four"}),
        (record("lone \udc80"), {"message": "lone \udc80"}),
        (record(framework="job", index=3), {"framework": "job", "index": 3}),
        (record(a=True, b=None, c=0.5), {"a": True, "b": None, "c": 0.5}),
        (record(a=float("nan"), b=float("inf"), c=b"x"), {"a": "nan", "b": "inf", "c": "b'x'"}),
        (record(reason=ReasonKind.TASK_FAILED), {"reason": "TaskFailed"}),
        (record(level=logging.WARNING), {"level": "warning"}),
        # What a line has by itself cannot be overwritten.
        (record(time="x", logger="x"), {"time": "2026-01-01T00:00:00.250Z", "logger": "windlass.test"}),
    ],
)
def test_json_line_has_the_given_fields(given: logging.LogRecord, expected: dict[str, Any]) -> None:
    line = logs.JsonFormatter().format(given)
    assert len(line.splitlines()) == 1
    found = json.loads(line)
    assert {name: found[name] for name in expected} == expected


def test_json_line_starts_with_time_level_logger_and_message() -> None:
    assert logs.JsonFormatter().format(record(framework="job")) == (
        '{"time": "2026-01-01T00:00:00.250Z", "level": "info", "logger": "windlass.test", '
        '"message": "said", "framework": "job"}'
    )


def test_exception_is_one_field() -> None:
    line = logs.JsonFormatter().format(failed())
    assert len(line.splitlines()) == 1
    exception = json.loads(line)["exception"]
    assert exception.startswith("Traceback (most recent call last):\n")
    assert exception.endswith("ValueError: two\nlines")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (record(), "2026-01-01T00:00:00.250Z INFO    windlass.test: said"),
        (
            record(level=logging.WARNING, framework="job", index=3),
            "2026-01-01T00:00:00.250Z WARNING windlass.test: said framework=job index=3",
        ),
        (
            record(a="two words", b=""),
            '2026-01-01T00:00:00.250Z INFO    windlass.test: said a="two words" b=""',
        ),
        # Text from others cannot imitate a log line of the controller or control the terminal.
        (
            record("said\n2026-01-01 INFO forged \x1b[31mred\x9b"),
            "2026-01-01T00:00:00.250Z INFO    windlass.test: said\n    2026-01-01 INFO forged \\x1b[31mred\\x9b",
        ),
    ],
)
def test_text_line_has_message_and_fields(given: logging.LogRecord, expected: str) -> None:
    assert logs.TextFormatter().format(given) == expected


def test_text_line_is_followed_by_the_traceback() -> None:
    first, second, *_, last = logs.TextFormatter().format(failed()).splitlines()
    assert first.endswith("windlass.test: it failed")
    assert second == "    Traceback (most recent call last):"
    assert last == "    lines"


@pytest.fixture
def untouched_logging() -> Iterator[None]:
    """Restore the global logging configuration after the test."""
    root, ours = logging.getLogger(), logging.getLogger("windlass")
    before = root.level, tuple(root.handlers), ours.level
    yield
    root.setLevel(before[0])
    root.handlers[:] = before[1]
    ours.setLevel(before[2])


@pytest.mark.usefixtures("untouched_logging")
def test_configure_sets_levels_and_replaces_its_handler() -> None:
    first, second = io.StringIO(), io.StringIO()
    logs.configure(LogFormat.TEXT, LogLevel.DEBUG, first)
    logs.configure(LogFormat.JSON, LogLevel.INFO, second)
    logging.getLogger("windlass.controller").debug("too quiet")
    logging.getLogger("windlass.controller").info("heard")
    logging.getLogger("aiohttp.access").info("chatter")
    logging.getLogger("aiohttp").warning("trouble")
    assert first.getvalue() == ""
    assert [json.loads(line)["message"] for line in second.getvalue().splitlines()] == ["heard", "trouble"]


@pytest.mark.usefixtures("untouched_logging")
@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        (
            Reason(ReasonKind.ATTEMPT_STARTED, "Started attempt 0"),
            {"level": "info", "message": "Started attempt 0", "reason": "AttemptStarted"},
        ),
        (
            Reason(ReasonKind.TASK_FAILED, "100 % lost", "worker", 3, is_warning=True),
            {
                "level": "warning",
                "message": "100 % lost",
                "reason": "TaskFailed",
                "role": "worker",
                "index": 3,
            },
        ),
    ],
)
def test_reason_becomes_a_log_line(reason: Reason, expected: dict[str, Any]) -> None:
    stream = io.StringIO()
    logs.configure(LogFormat.JSON, LogLevel.INFO, stream)
    logs.log_reasons(JOB, [reason])
    found = json.loads(stream.getvalue())
    assert found == expected | {
        "time": found["time"],
        "logger": "windlass.controller.observe.logs",
        "namespace": "team",
        "framework": "job",
    }


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_snapshot_is_written_unchanged(encoding: str) -> None:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding=encoding, errors="backslashreplace")
    stream.write("before it\n")
    logs.write_snapshot('it: OnTaskRetry: ObjectSnapshot: {"é": "\udc80"}', stream)
    assert raw.getvalue().decode() == 'before it\nit: OnTaskRetry: ObjectSnapshot: {"é": "\\udc80"}\n'


def test_missing_stderr_is_ignored() -> None:
    logs.write_snapshot("line", None)
    closed = io.TextIOWrapper(io.BytesIO())
    closed.close()
    logs.write_snapshot("line", closed)
    reading, writing = os.pipe()
    os.close(reading)
    broken = os.fdopen(writing, "w")
    logs.write_snapshot("line", broken)
    with pytest.raises(BrokenPipeError):
        broken.close()


def test_lines_of_many_threads_are_not_interleaved() -> None:
    reading, writing = os.pipe()
    stream = os.fdopen(writing, "w")
    handler = logging.StreamHandler(stream)
    handler.setFormatter(logs.JsonFormatter())

    def write(number: int) -> None:
        for _ in range(10):
            logs.write_snapshot(str(number) * 200_000, stream)
            handler.emit(record(str(number) * 20_000))

    def write_all() -> None:
        with stream:
            writers = [threading.Thread(target=write, args=(number,)) for number in range(4)]
            for writer in writers:
                writer.start()
            for writer in writers:
                writer.join()

    everything = threading.Thread(target=write_all)
    everything.start()
    with os.fdopen(reading) as lines:
        found = [line.rstrip("\n") for line in lines]
    everything.join()
    snapshots = sorted(line for line in found if not line.startswith("{"))
    assert snapshots == sorted(str(number) * 200_000 for number in range(4) for _ in range(10))
    messages = sorted(json.loads(line)["message"] for line in found if line.startswith("{"))
    assert messages == sorted(str(number) * 20_000 for number in range(4) for _ in range(10))
