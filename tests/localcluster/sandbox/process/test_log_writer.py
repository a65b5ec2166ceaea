"""Log files of limited size that survive a full disk."""

import contextlib
import errno
import fcntl
import itertools
import os
import resource
from collections.abc import Iterator
from pathlib import Path

import pytest

from windlass.localcluster.sandbox import log_format
from windlass.localcluster.sandbox.process import log_writer
from windlass.localcluster.sandbox.process.log_writer import LogWriter

TIME = b"2026-01-02T12:00:00.000000000Z"
AT = 1_767_355_200 * 10**9


def writer(folder: Path, max_bytes: int = 10**6, max_files: int = 5, age_seconds: int = 0) -> LogWriter:
    """Return a writer whose clock stands still after its first use."""
    clock = itertools.chain([AT - age_seconds * 10**9], itertools.repeat(AT))
    return LogWriter(str(folder / "0.log"), max_bytes, max_files, clock=lambda: next(clock))


def names(folder: Path) -> list[str]:
    return [*log_format.rotated_names((each.name for each in folder.iterdir()), "0.log"), "0.log"]


def text(folder: Path) -> bytes:
    lines = b"".join((folder / name).read_bytes() for name in names(folder))
    return log_format.selected_text(lines, log_format.Selection())[0]


def test_lines_of_both_streams(tmp_path: Path) -> None:
    log = writer(tmp_path)
    assert (tmp_path / "0.log").read_bytes() == b""
    log.write("stdout", b"one\ntw")
    log.write("stderr", b"fault\r\n")
    log.write("stdout", b"o\nlast")
    log.write("stderr", b"unfinished")
    log.end("stderr")
    log.close()
    assert (tmp_path / "0.log").read_bytes().splitlines() == [
        TIME + b" stdout F one",
        TIME + b" stderr F fault",
        TIME + b" stdout F two",
        TIME + b" stderr P unfinished",
        TIME + b" stdout P last",
    ]


def test_incomplete_line_is_kept_back(tmp_path: Path) -> None:
    log = writer(tmp_path)
    log.write("stdout", b"x" * log_format.MAX_PART_BYTES)
    assert text(tmp_path) == b""
    log.write("stdout", b"y")
    assert text(tmp_path) == b"x" * log_format.MAX_PART_BYTES
    log.write("stdout", b"\n")
    assert text(tmp_path) == b"x" * log_format.MAX_PART_BYTES + b"y\n"
    log.close()


def test_log_files_are_limited_in_size_and_number(tmp_path: Path) -> None:
    line = b"x" * 59 + b"\n"
    log = writer(tmp_path, max_bytes=1000, max_files=3, age_seconds=60)
    for _ in range(200):
        log.write("stdout", line)
        assert len(names(tmp_path)) <= 3
        assert all((tmp_path / name).stat().st_size <= 1000 + 100 for name in names(tmp_path))
    log.close()
    # The clock stood still, and yet the files come in order.
    assert len(names(tmp_path)) == 3
    assert text(tmp_path) in line * 200


def test_more_files_are_kept_in_the_first_minute(tmp_path: Path) -> None:
    """A reader that follows the container from its start needs them."""
    log = writer(tmp_path, max_bytes=100, max_files=3, age_seconds=59)
    for _ in range(log_writer.MAX_FIRST_FILES * 4):
        log.write("stdout", b"x" * 59 + b"\n")
    log.close()
    assert len(names(tmp_path)) == log_writer.MAX_FIRST_FILES


def test_files_that_a_reader_has_locked_are_kept(tmp_path: Path) -> None:
    log = writer(tmp_path, max_bytes=100, max_files=3, age_seconds=60)
    log.write("stdout", b"first\n")
    with (tmp_path / "0.log").open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_SH)
        for _ in range(20):
            log.write("stdout", b"x" * 59 + b"\n")
        assert text(tmp_path) == b"first\n" + (b"x" * 59 + b"\n") * 20
    log.write("stdout", b"y" * 59 + b"\n")
    log.write("stdout", b"z" * 59 + b"\n")
    log.close()
    assert len(names(tmp_path)) == 3


def test_rotation_keeps_all_lines_in_order(tmp_path: Path) -> None:
    output = b"".join(b"line %d\n" % number for number in range(200))
    backwards = itertools.count(AT, -3600 * 10**9)
    log = LogWriter(str(tmp_path / "0.log"), 500, 100, clock=lambda: next(backwards))
    for start in range(0, len(output), 7):
        log.write("stdout", output[start : start + 7])
    log.close()
    assert len(names(tmp_path)) > 10
    assert text(tmp_path) == output


def test_incomplete_line_of_an_earlier_write_is_ended(tmp_path: Path) -> None:
    (tmp_path / "0.log").write_bytes(TIME + b" stdout F whole\n" + TIME + b" stdo")
    log = writer(tmp_path)
    log.write("stdout", b"next\n")
    log.close()
    assert text(tmp_path) == b"whole\nnext\n"


def notice(lost: int, number: int) -> bytes:
    reason = os.strerror(number)
    return f"windlass: {lost} bytes of output are missing: cannot write the log: {reason}\n".encode()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_full_disk_loses_output_and_reports_it(tmp_path: Path) -> None:
    log = writer(tmp_path)
    log.write("stdout", b"before\n")
    log.close()
    (tmp_path / "0.log").rename(tmp_path / "kept")
    (tmp_path / "0.log").symlink_to("/dev/full")
    log = writer(tmp_path)
    log.write("stdout", b"lost\nlost, t")
    log.write("stderr", b"lost\n")
    log.write("stdout", b"oo\n")
    (tmp_path / "0.log").unlink()
    (tmp_path / "kept").rename(tmp_path / "0.log")
    log.write("stdout", b"after\n")
    log.write("stdout", b"all is well\n")
    log.close()
    expected = notice(len(b"lost\nlost, too\nlost\n"), errno.ENOSPC)
    assert text(tmp_path) == b"before\n" + expected + b"after\nall is well\n"


@contextlib.contextmanager
def files_no_longer_than(size: int) -> Iterator[None]:
    """Write only a part of longer data, like a disk that fills up."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize(
    ("room", "kept", "lost"),
    [
        (0, b"", 12),
        (20, b"", 12),
        (log_format.HEADER_BYTES + 4, b"one\n", 8),
        (log_format.HEADER_BYTES + 10, b"one\n", 8),
        (log_format.HEADER_BYTES * 2 + 6, b"one\ntw\n", 8),
        (log_format.HEADER_BYTES * 2 + 8, b"one\ntwo\n", 4),
        (log_format.HEADER_BYTES * 3 + 11, b"one\ntwo\nsix\n", 4),
    ],
)
def test_disk_full_within_a_line(tmp_path: Path, room: int, kept: bytes, lost: int) -> None:
    log = writer(tmp_path)
    with files_no_longer_than(room):
        log.write("stdout", b"one\ntwo\nsix\n")
        log.write("stdout", b"unfinished, ")
    log.write("stdout", b"and yet whole\n")
    log.close()
    assert text(tmp_path) == kept + notice(lost, errno.EFBIG) + b"unfinished, and yet whole\n"


def test_loss_at_the_end_is_reported_when_possible(tmp_path: Path) -> None:
    log = writer(tmp_path)
    with files_no_longer_than(0):
        log.write("stdout", b"one\n")
    log.close()
    assert text(tmp_path) == notice(4, errno.EFBIG)


def test_unopenable_log_does_not_raise(tmp_path: Path) -> None:
    folder = tmp_path / "later"
    log = writer(folder)
    log.write("stdout", b"one\n")
    folder.mkdir()
    log.write("stdout", b"two\n")
    log.close()
    assert text(folder) == notice(4, errno.ENOENT) + b"two\n"


def test_state_of_a_progress_bar_is_stored_beside_the_log(tmp_path: Path) -> None:
    """The log contains only complete lines, unchanged."""
    log = writer(tmp_path)
    states = []
    for piece in (b"plain", b" line\n", b"\r 10%", b"\r 20%", b"\r100%\ndone\n", b"50%\r", b"last"):
        log.write("stderr", piece)
        file = tmp_path / log_format.unfinished_name("0.log")
        states.append(file.read_bytes().partition(b"\n")[0] if file.exists() else None)
    log.close()
    assert states == [None, None, b"10%", b"20%", b"", b"50%", b"last"]
    assert text(tmp_path) == b"plain line\n\r 10%\r 20%\r100%\ndone\n50%\rlast"
    assert file.read_bytes() == b"\n"
