"""Parts of logs, and followers of logs that are written and rotated meanwhile."""

import asyncio
import contextlib
import itertools
import os
import re
import shutil
from collections.abc import AsyncGenerator, Coroutine
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from windlass.localcluster.apiserver.streams.requests import LogOptions
from windlass.localcluster.kubelet import directory_watch, log_reader
from windlass.localcluster.kubelet.directory_watch import DirectoryWatcher
from windlass.localcluster.sandbox import log_format
from windlass.localcluster.sandbox.log_format import Selection
from windlass.localcluster.sandbox.process.log_writer import LogWriter

PATIENCE_SECONDS = 60
SECOND = 10**9
BASE = log_format.nanoseconds(datetime(2026, 1, 2, 12, 0, tzinfo=UTC))
# Of one line, of some lines, and of all of them.
FILE_SIZES = (10, 120, 10**6)


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(work, PATIENCE_SECONDS))


def writer(folder: Path, max_bytes: int = 10**6, max_files: int = 10**6) -> LogWriter:
    """Each chunk comes a second after the one before; the first is there at `BASE`."""
    clock = itertools.count(BASE - SECOND, SECOND)
    return LogWriter(str(folder / "0.log"), max_bytes, max_files, clock=lambda: next(clock))


def text_now(folder: Path, wanted: Selection) -> bytes:
    async def read() -> bytes:
        with contextlib.closing(DirectoryWatcher()) as news:
            pieces = log_reader.read(
                folder, "0.log", wanted, follow=False, is_over=lambda: False, watcher=news
            )
            return b"".join([piece async for piece in pieces])

    return asyncio.run(read())


class Follower:
    def __init__(self, folder: Path, wanted: Selection, news: DirectoryWatcher) -> None:
        self.text = b""
        self._is_over = False
        self._folder, self._news = folder, news
        self._grown = asyncio.Event()
        pieces = log_reader.read(
            folder, "0.log", wanted, follow=True, is_over=lambda: self._is_over, watcher=news
        )
        self.task = asyncio.create_task(self._collect(pieces))

    async def _collect(self, pieces: AsyncGenerator[bytes, None]) -> None:
        async with contextlib.aclosing(pieces):
            async for piece in pieces:
                self.text += piece
                self._grown.set()

    async def has(self, size: int) -> None:
        while len(self.text) < size:
            self._grown.clear()
            await self._grown.wait()

    async def end(self) -> bytes:
        self._is_over = True
        self._news.notify(self._folder)
        await self.task
        return self.text


@pytest.mark.parametrize("max_bytes", FILE_SIZES)
@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (Selection(), b"one\ntwo\n\nend"),
        (Selection(tail_lines=0), b""),
        (Selection(tail_lines=1), b"end"),
        (Selection(tail_lines=2), b"\nend"),
        (Selection(tail_lines=3), b"two\n\nend"),
        (Selection(tail_lines=9), b"one\ntwo\n\nend"),
        (Selection(since=BASE + 2 * SECOND), b"\nend"),
        (Selection(since=BASE + 9 * SECOND), b""),
        (Selection(tail_lines=3, since=BASE + 3 * SECOND), b"end"),
        (
            Selection(tail_lines=3, timestamps=True),
            (
                b"2026-01-02T12:00:01.000000000Z two\n"
                b"2026-01-02T12:00:02.000000000Z \n"
                b"2026-01-02T12:00:04.000000000Z end"
            ),
        ),
    ],
)
def test_selections(tmp_path: Path, max_bytes: int, wanted: Selection, expected: bytes) -> None:
    log = writer(tmp_path, max_bytes)
    for chunk in (b"one\n", b"two\n", b"\n", b"end"):
        log.write("stdout", chunk)
    # What has no line end is written when the output ends.
    log.close()
    assert text_now(tmp_path, wanted) == expected


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (LogOptions(), Selection()),
        (LogOptions(tail_lines=3, timestamps=True), Selection(tail_lines=3, timestamps=True)),
        (LogOptions(since_seconds=5, limit_bytes=10), Selection(since=BASE - 5 * SECOND)),
        (LogOptions(since_time=datetime(2026, 1, 2, 12, tzinfo=UTC)), Selection(since=BASE)),
    ],
)
def test_selection_from_options(options: LogOptions, expected: Selection) -> None:
    assert log_reader.selection(options, datetime(2026, 1, 2, 12, tzinfo=UTC)) == expected


OUTPUT = st.lists(
    st.binary(max_size=30).map(lambda text: text.replace(b"\r", b""))
    | st.integers(2**14 - 1, 2**17).map(bytes),
    max_size=12,
).map(b"\n".join)


@settings(deadline=None, max_examples=60)
@given(OUTPUT, st.integers(1, 2**17), st.sampled_from([1, 100, 2**16, 2**20]), st.integers(0, 14))
def test_tail_of_any_output_in_any_chunks(output: bytes, size: int, max_bytes: int, count: int) -> None:
    lines = re.findall(rb"[^\n]*\n|[^\n]+", output)
    with TemporaryDirectory() as name:
        log = writer(Path(name), max_bytes)
        for start in range(0, len(output), max(size, len(output) // 50)):
            log.write("stdout", output[start : start + max(size, len(output) // 50)])
        log.close()
        assert text_now(Path(name), Selection()) == output
        last = b"".join(lines[len(lines) - count :] if count < len(lines) else lines)
        assert text_now(Path(name), Selection(tail_lines=count)) == last
        assert b"".join(log_reader.last_lines(Path(name), "0.log", count, 2**21)) == last


@settings(deadline=None, max_examples=40)
@given(
    st.lists(st.tuples(st.binary(min_size=1, max_size=300), st.integers(0, 6)), max_size=30),
    st.sampled_from([1, 200, 10**6]),
    st.sampled_from([None, 0, 1, 3]),
)
def test_follower_gets_every_line_once(
    steps: list[tuple[bytes, int]], max_bytes: int, tail: int | None
) -> None:
    """Each step is some output, and how many turns the follower has before there is more."""

    async def follow(folder: Path) -> None:
        log = writer(folder, max_bytes)
        log.write("stdout", b"zero\none\ntwo\n")
        begin = {None: b"zero\none\ntwo\n", 0: b"", 1: b"two\n", 3: b"zero\none\ntwo\n"}[tail]
        with contextlib.closing(DirectoryWatcher()) as news:
            follower = Follower(folder, Selection(tail_lines=tail), news)
            await asyncio.sleep(0)
            for chunk, turns in steps:
                log.write("stdout", chunk.replace(b"\r", b"."))
                for _ in range(turns):
                    await asyncio.sleep(0)
            log.close()
            output = b"".join(chunk for chunk, _ in steps).replace(b"\r", b".")
            assert await follower.end() == begin + output

    with TemporaryDirectory() as name:
        run(follow(Path(name)))


@pytest.mark.parametrize("kernel_tells", [True, False])
def test_follower_wakes_on_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, kernel_tells: bool
) -> None:
    """Also with one file only, which is removed as soon as it is rotated, while the follower still reads it."""
    if not kernel_tells:
        monkeypatch.setattr(directory_watch, "_new_inotify", lambda: None)

    async def follow() -> None:
        folder = tmp_path / "later"
        with contextlib.closing(DirectoryWatcher()) as news:
            follower = Follower(folder, Selection(), news)
            await asyncio.sleep(0)
            folder.mkdir()
            log = writer(folder, max_bytes=10, max_files=1)
            expected = b""
            for number in range(6):
                line = b"line %d\n" % number
                log.write("stdout", line)
                expected += line
                await follower.has(len(expected))
            assert follower.text == expected
            log.write("stdout", b"unfinished")
            log.close()
            assert await follower.end() == expected + b"unfinished"

    run(follow())


def test_two_followers_of_one_directory(tmp_path: Path) -> None:
    async def follow() -> None:
        log = writer(tmp_path)
        with contextlib.closing(DirectoryWatcher()) as news:
            first, second = (Follower(tmp_path, Selection(), news) for _ in range(2))
            log.write("stdout", b"one\n")
            await asyncio.gather(first.has(4), second.has(4))
            first.task.cancel()
            await asyncio.wait([first.task])
            log.write("stdout", b"two\n")
            await second.has(8)
            assert (first.text, await second.end()) == (b"one\n", b"one\ntwo\n")

    run(follow())


def test_follower_survives_removal_of_the_directory(tmp_path: Path) -> None:
    async def follow() -> None:
        folder = tmp_path / "pod"
        folder.mkdir()
        log = writer(folder)
        with contextlib.closing(DirectoryWatcher()) as news:
            follower = Follower(folder, Selection(), news)
            log.write("stdout", b"one\n")
            await follower.has(4)
            log.close()
            (folder / "0.log").unlink()
            folder.rmdir()
            assert await follower.end() == b"one\n"

    run(follow())


def test_missing_log_is_empty(tmp_path: Path) -> None:
    assert text_now(tmp_path / "nowhere", Selection(tail_lines=3)) == b""
    assert text_now(tmp_path, Selection()) == b""
    assert log_reader.last_lines(tmp_path / "nowhere", "0.log", 80, 2048) == []


def test_without_follow_later_lines_are_ignored(tmp_path: Path) -> None:
    async def read() -> None:
        log = writer(tmp_path, max_bytes=50)
        log.write("stdout", b"one\n")
        log.write("stdout", b"two\n")
        log.write("stdout", b"three\n")
        with contextlib.closing(DirectoryWatcher()) as news:
            text = b""
            pieces = log_reader.read(
                tmp_path, "0.log", Selection(), follow=False, is_over=lambda: False, watcher=news
            )
            async for piece in pieces:
                text += piece
                log.write("stdout", b"more\n")
        log.close()
        assert text == b"one\ntwo\nthree\n"

    run(read())


def test_slow_reader_gets_every_line(tmp_path: Path) -> None:
    """The writer keeps the files that are not read yet."""

    async def read() -> None:
        log = writer(tmp_path, max_bytes=50, max_files=2)
        log.write("stdout", b"first\n")
        with contextlib.closing(DirectoryWatcher()) as news:
            pieces = log_reader.read(
                tmp_path, "0.log", Selection(), follow=True, is_over=lambda: True, watcher=news
            )
            text = await anext(pieces)
            for number in range(200):
                log.write("stdout", b"line %d\n" % number)
            log.close()
            async for piece in pieces:
                text += piece
        assert text == b"first\n" + b"".join(b"line %d\n" % number for number in range(200))

    run(read())


def test_slow_reader_gets_the_lines_of_a_deleted_log(tmp_path: Path) -> None:
    async def read() -> None:
        folder = tmp_path / "main"
        folder.mkdir()
        log = writer(folder, max_bytes=50)
        log.write("stdout", b"first\n")
        with contextlib.closing(DirectoryWatcher()) as news:
            pieces = log_reader.read(
                folder, "0.log", Selection(), follow=True, is_over=lambda: True, watcher=news
            )
            text = await anext(pieces)
            for number in range(20):
                log.write("stdout", b"line %d\n" % number)
            log.close()
            news.prepare_removal(folder)
            shutil.rmtree(folder)
            async for piece in pieces:
                text += piece
        assert text == b"first\n" + b"".join(b"line %d\n" % number for number in range(20))

    run(read())


def test_invalid_content_is_skipped(tmp_path: Path) -> None:
    line = log_format.encoded(b"text", "stdout", BASE)
    (tmp_path / "0.log").write_bytes(bytes(10) + b"\n" + line + bytes(300_000) + b"\n" + line + line[:30])
    for tail, expected in ((None, b"text\ntext\n"), (1, b"text\n"), (9, b"text\ntext\n"), (0, b"")):
        assert text_now(tmp_path, Selection(tail_lines=tail)) == expected


def test_tail_reads_only_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = writer(tmp_path, max_bytes=2**20)
    for _ in range(50):
        log.write("stdout", b"a line of some length\n" * 3000)
    log.close()
    sizes: list[int] = []
    pread = os.pread

    def counted(descriptor: int, size: int, offset: int) -> bytes:
        data = pread(descriptor, size, offset)
        sizes.append(len(data))
        return data

    monkeypatch.setattr(os, "pread", counted)
    assert text_now(tmp_path, Selection(tail_lines=10)) == b"a line of some length\n" * 10
    assert len(log_reader.last_lines(tmp_path, "0.log", 80, 2048)) == 80
    assert 0 < sum(sizes) < 2**18


def test_reading_yields_to_other_tasks(tmp_path: Path) -> None:
    log = writer(tmp_path)
    log.write("stdout", b"x\n" * 100_000)
    log.close()

    async def read() -> None:
        turns = 0

        async def other() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        task = asyncio.create_task(other())
        with contextlib.closing(DirectoryWatcher()) as news:
            wanted = Selection(tail_lines=90_000)
            pieces = log_reader.read(
                tmp_path, "0.log", wanted, follow=False, is_over=lambda: False, watcher=news
            )
            sizes = [len(piece) async for piece in pieces]
        task.cancel()
        assert sum(sizes) == 180_000
        # While the tail was looked for, and while it was read.
        assert turns > 100

    run(read())


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc")
def test_files_are_closed(tmp_path: Path) -> None:
    def descriptors() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    async def follow() -> None:
        log = writer(tmp_path, max_bytes=10)
        before = descriptors()
        with contextlib.closing(DirectoryWatcher()) as news:
            follower = Follower(tmp_path, Selection(), news)
            for number in range(5):
                log.write("stdout", b"%d\n" % number)
                await follower.has(2 * number + 2)
            follower.task.cancel()
            await asyncio.wait([follower.task])
            other = Follower(tmp_path, Selection(tail_lines=1), news)
            await other.has(2)
            await other.end()
        assert descriptors() == before
        log.close()

    run(follow())


@pytest.mark.parametrize("max_bytes", FILE_SIZES)
@pytest.mark.parametrize(
    ("count", "size", "expected"),
    [
        (80, 2048, [b"one\n", b"two\n", b"\r\r\n", b"end"]),
        (2, 2048, [b"\r\r\n", b"end"]),
        (80, 8, [b"o\n", b"\r\r\n", b"end"]),
        (80, 0, []),
        (0, 2048, []),
    ],
)
def test_last_lines(tmp_path: Path, max_bytes: int, count: int, size: int, expected: list[bytes]) -> None:
    log = writer(tmp_path, max_bytes)
    for chunk in (b"one\n", b"two\n", b"\r\r\r\n", b"end"):
        log.write("stdout", chunk)
    log.close()
    assert log_reader.last_lines(tmp_path, "0.log", count, size) == expected


def test_last_lines_of_long_lines(tmp_path: Path) -> None:
    log = writer(tmp_path)
    log.write("stdout", b"x" * 10**6 + b"\n" + b"y" * 10**5 + b"\n")
    log.close()
    assert log_reader.last_lines(tmp_path, "0.log", 80, 2048) == [b"y" * 2047 + b"\n"]
