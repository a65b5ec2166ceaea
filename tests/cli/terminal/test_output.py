"""The lines of a run: their format, and writing to slow, closed and terminal outputs."""

import asyncio
import io
import os
import threading
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from windlass.cli.terminal import output
from windlass.cli.terminal.output import Output, Style
from windlass.runner.interrupts import Interrupts
from windlass.runner.report import (
    CompanionReadyLine,
    DetailLine,
    Lasting,
    Line,
    LogLines,
    ProgressLine,
    Source,
    Topic,
    Verdict,
)

NOW = datetime(2026, 1, 2, 3, 4, 5, 678900, UTC)
NAMES = len("worker-0")


def advance(step: int, source: Source = Source.FILE, seconds: float = 0, **more: Any) -> ProgressLine:
    at = NOW + timedelta(seconds=seconds)
    return ProgressLine(
        Topic.PROGRESS, at, "ps-0", step, more.pop("total", 100), {"loss": "0.5"}, source, **more
    )


# Format

TEXT, JSON = Style(width=NAMES), Style(is_json=True)
ON_TERMINAL = Style(width=NAMES, is_terminal=True)
COLOURED = Style(width=NAMES, colours={"ps-0": 36})
TIME = '"time":"2026-01-02T03:04:05.678900Z"'
LOG = f'"event":"log",{TIME},"object":"ps-0","container":"main"'


def log(data: bytes) -> LogLines:
    return LogLines(Topic.LOG, NOW, "ps-0", "main", data)


@pytest.mark.parametrize(
    ("said", "style", "expected"),
    [
        (Line(Topic.POD, NOW, "ps-0", "Running", "runs"), TEXT, "03:04:05.678  ps-0      runs\n"),
        (
            Line(Topic.POD, NOW, "ps-0", "R", "a\x1b[2J\nb"),
            TEXT,
            "03:04:05.678  ps-0      a\\x1b[2J\\x0ab\n",
        ),
        (
            Verdict(Topic.COMPLETED, NOW, "job", "job failed: a\x1b[2J", exit=3, output="/kept/worker-0.log"),
            TEXT,
            "job failed: a\\x1b[2J\noutput: /kept/worker-0.log\n",
        ),
        (log(b"\x1b[1mbold\n"), TEXT, "ps-0     | \x1b[1mbold\n"),
        (
            log(b"\x1b[1mbold\x1b]0;title\x07\n10%\r20%\n"),
            ON_TERMINAL,
            "ps-0     | \x1b[1mbold\x1b[0m\nps-0     | 20%\n",
        ),
        (
            Line(Topic.POD, NOW, "ps-0", "R", "a\u202eb\x9b2J"),
            TEXT,
            "03:04:05.678  ps-0      a\\u202eb\\x9b2J\n",
        ),
        (log("\x9b2J\u202e\n".encode()), JSON, f'{{{LOG},"line":"\\u009b2J\\u202e"}}\n'),
        (log(b"two\n\nlines"), TEXT, "ps-0     | two\nps-0     | \nps-0     | lines\n"),
        (
            log(b'"two"\nlines'),
            JSON,
            f'{{{LOG},"line":"\\"two\\""}}\n{{{LOG},"line":"lines","partial":true}}\n',
        ),
        (log(b"\n\xff\n"), JSON, f'{{{LOG},"line":""}}\n{{{LOG},"line":"\N{REPLACEMENT CHARACTER}"}}\n'),
        (
            log(b"\x1b[1mbold\nplain\n"),
            COLOURED,
            "\x1b[36mps-0     |\x1b[0m \x1b[1mbold\x1b[0m\n\x1b[36mps-0     |\x1b[0m plain\x1b[0m\n",
        ),
        (
            advance(20, remaining=65.0),
            TEXT,
            "03:04:05.678  ps-0      has done 20 of 100 steps, about 1:05 left, loss=0.5\n",
        ),
        (advance(20, total=0), TEXT, "03:04:05.678  ps-0      has done 20 steps, loss=0.5\n"),
        (
            advance(20),
            JSON,
            (
                f'{{"event":"progress",{TIME},"object":"ps-0","step":20,"total":100,"values":{{"loss":"0.5"}},'
                '"source":"file","remaining":null}\n'
            ),
        ),
        (
            Line(Topic.NOTE, NOW, "cluster", "Note", "said"),
            JSON,
            f'{{"event":"note",{TIME},"object":"cluster","reason":"Note","message":"said"}}\n',
        ),
        (
            CompanionReadyLine(Topic.COMPANION, NOW, "hub", "Ready", "said", "http://h/"),
            JSON,
            f'{{"event":"companion",{TIME},"object":"hub","reason":"Ready","message":"said","url":"http://h/"}}\n',
        ),
    ],
)
def test_lines_are_formatted_as_text_or_json(
    monkeypatch: pytest.MonkeyPatch, said: Lasting, style: Style, expected: str
) -> None:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    assert output.format_line(said, style).decode() == expected


@pytest.mark.parametrize(("style", "count"), [(TEXT, 0), (JSON, 1)], ids=["text", "json"])
def test_only_json_contains_details(style: Style, count: int) -> None:
    stream = io.BytesIO()
    made = Output(stream, style)
    made.report(DetailLine(Topic.FRAMEWORK, NOW, "job", "AttemptEnding", "attempt failed"))
    made.finish()
    assert stream.getvalue().count(b"attempt failed") == count


def test_bytes_of_containers_are_unchanged() -> None:
    assert output.format_line(log(b"\xff\x00\n"), TEXT) == b"ps-0     | \xff\x00\n"


class BlockedStream(io.BytesIO):
    """Blocks writes until it is released."""

    def __init__(self) -> None:
        super().__init__()
        self.was_given_something = threading.Event()
        self.may_go_on = threading.Event()

    def write(self, data: Any) -> int:
        self.was_given_something.set()
        self.may_go_on.wait()
        return super().write(data)


def test_slow_reader_delays_only_logs() -> None:
    stream = BlockedStream()
    lines = Output(stream, Style(width=4))
    line = log(b"words" * 1000)
    number = output.MAX_PENDING_BYTES // 5000 + 1

    async def write() -> bool:
        lines.attach(asyncio.get_running_loop(), lambda: None)
        lines.report(line)
        stream.was_given_something.wait()
        for _ in range(number):
            lines.report(line)
        waiting = asyncio.create_task(lines.wait_for_reader())
        await asyncio.sleep(0)
        was_held_up = not waiting.done()
        stream.may_go_on.set()
        await waiting
        return was_held_up

    assert asyncio.run(write())
    lines.finish()
    assert stream.getvalue().count(b"\n") == 1 + number


def test_run_that_ends_at_once_does_not_wait_for_its_reader() -> None:
    stream = BlockedStream()
    lines = Output(stream, Style(width=4))
    lines.report(log(b"words\n"))
    stream.was_given_something.wait()
    lines.abandon()
    lines.finish()
    assert stream.getvalue() == b""
    stream.may_go_on.set()


def test_pipe_that_does_not_block() -> None:
    """E.g. because another process that shares it changed its mode."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    data = b"words\n" * 100_000
    with open(writer, "wb") as stream, open(reader, "rb") as pipe:  # noqa: PTH123 — descriptors
        lines = Output(stream, Style(width=4))
        lines.report(log(data))
        expected = output.format_line(log(data), Style(width=4))
        assert pipe.read(len(expected)) == expected
        lines.finish()


class ClosedStream(io.BytesIO):
    def write(self, data: Any) -> int:
        raise BrokenPipeError


def test_closed_output_is_reported() -> None:
    lines = Output(ClosedStream(), Style(width=4))

    async def write() -> None:
        told = asyncio.Event()
        lines.attach(asyncio.get_running_loop(), told.set)
        lines.report(Line(Topic.NOTE, NOW, "cluster", "Note", "said"))
        await told.wait()
        await lines.wait_for_reader()

    asyncio.run(write())
    with pytest.raises(BrokenPipeError):
        lines.finish()


PROGRESS = {
    "limited-rate": (
        Style(),
        [advance(1), advance(2, seconds=1), advance(3, seconds=11), advance(100, seconds=12)],
        [1, 3, 100],
    ),
    "hidden-with-logs": (Style(), [advance(1, Source.LOG)], []),
    "shown-without-logs": (Style(shows_logs=False), [advance(1, Source.LOG)], [1]),
    "json-has-all": (Style(is_json=True), [advance(1, Source.LOG), advance(2)], [1, 2]),
}


@pytest.mark.parametrize(("style", "said", "steps"), PROGRESS.values(), ids=PROGRESS.keys())
def test_progress_lines_are_limited(style: Style, said: list[ProgressLine], steps: list[int]) -> None:
    stream = io.BytesIO()
    lines = Output(stream, style)
    for each in said:
        lines.report(each)
    lines.finish()
    assert stream.getvalue() == b"".join(
        output.format_line(each, style) for each in said if each.step in steps
    )


# Ctrl-C


@pytest.mark.parametrize(
    ("can_be_graceful", "requests", "expected"),
    [
        (False, 1, (False, True)),
        (True, 1, (True, False)),
        (True, 2, (True, True)),
    ],
)
def test_interrupt_during_a_write(can_be_graceful: bool, requests: int, expected: tuple[bool, bool]) -> None:
    interrupts = Interrupts()
    interrupts.can_be_graceful = can_be_graceful
    for _ in range(requests):
        interrupts.interrupt()
    assert (interrupts.stop.is_set(), interrupts.end.is_set()) == expected
