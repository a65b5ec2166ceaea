"""Files that change all at once: what a container sees of them, before, between and after."""

import errno
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from windlass.localcluster.kubelet.volumes import atomic_writer
from windlass.localcluster.kubelet.volumes.files import Files, VolumeFile

NOW = datetime(2024, 5, 6, 7, 8, 9, tzinfo=UTC)
FIRST: Files = {"a": VolumeFile(b"1", 0o644), "deep/er/b": VolumeFile(b"\xff", 0o400)}


def _files(folder: Path) -> dict[str, tuple[bytes, int]]:
    """As a container sees them, links followed."""
    shown = (path for path in folder.iterdir() if not path.name.startswith(".."))
    found = (path for each in shown for path in _below(each))
    return {str(path.relative_to(folder)): (path.read_bytes(), path.stat().st_mode & 0o777) for path in found}


def _below(path: Path) -> list[Path]:
    return [path] if path.is_file() else [inner for each in path.iterdir() for inner in _below(each)]


def _expected(files: Files) -> dict[str, tuple[bytes, int]]:
    return {path: (file.content, file.mode) for path, file in files.items()}


@pytest.mark.parametrize(
    "second",
    [
        {"a": VolumeFile(b"2", 0o644), "deep/er/b": VolumeFile(b"\xff", 0o400)},
        {"a": VolumeFile(b"1", 0o600), "deep/er/b": VolumeFile(b"\xff", 0o400)},
        {"a": VolumeFile(b"1", 0o644)},
        {"c": VolumeFile(b"", 0o644), "deep/other": VolumeFile(b"3", 0o755)},
        {"deep": VolumeFile(b"a file now", 0o644), "a/b": VolumeFile(b"a folder now", 0o644)},
        {},
    ],
)
def test_changed_files_are_written(tmp_path: Path, second: Files) -> None:
    folder = tmp_path / "v"
    for files in (FIRST, second, FIRST):
        assert atomic_writer.update(folder, files, NOW)
        assert _files(folder) == _expected(files)
        assert not atomic_writer.update(folder, files, NOW.replace(year=2025))
        # One folder of files, and the link to it.
        assert len([path for path in folder.iterdir() if path.name.startswith("..")]) == 2


def test_directory_layout_equals_that_of_the_kubelet(tmp_path: Path) -> None:
    atomic_writer.update(tmp_path, FIRST, NOW)
    current = str((tmp_path / "..data").readlink())
    assert current.startswith("..2024_05_06_07_08_09.")
    links = {path.name: str(path.readlink()) for path in tmp_path.iterdir() if path.is_symlink()}
    assert links == {"..data": current, "a": "..data/a", "deep": "..data/deep"}


def test_open_file_keeps_its_content(tmp_path: Path) -> None:
    atomic_writer.update(tmp_path, FIRST, NOW)
    with (tmp_path / "a").open("rb") as file:
        atomic_writer.update(tmp_path, {"a": VolumeFile(b"2", 0o644)}, NOW)
        assert file.read() == b"1"


def test_group_members_may_read_files(tmp_path: Path) -> None:
    group = os.getgid()
    atomic_writer.update(tmp_path, {"key": VolumeFile(b"1", 0o400)}, NOW, group)
    found = (tmp_path / "key").stat()
    assert (found.st_mode & 0o777, found.st_gid) == (0o440, group)


@pytest.mark.parametrize("refused", ["open", "symlink_to", "replace"])
def test_incomplete_write_is_not_visible(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: str
) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    atomic_writer.update(tmp_path, FIRST, NOW)
    second: Files = {"a": VolumeFile(b"2", 0o644), "new": VolumeFile(b"3", 0o644)}
    with monkeypatch.context() as patched:
        patched.setattr(Path, refused, full)
        with pytest.raises(OSError, match="No space left"):
            atomic_writer.update(tmp_path, second, NOW)
    assert (tmp_path / "a").read_bytes() == b"1"
    assert not (tmp_path / "new").exists()
    folders = [path.name for path in tmp_path.iterdir() if path.is_dir() and not path.is_symlink()]
    assert folders == [str((tmp_path / "..data").readlink())]
    assert atomic_writer.update(tmp_path, second, NOW)
    assert _files(tmp_path) == _expected(second)


def test_leftovers_of_a_killed_daemon_are_replaced(tmp_path: Path) -> None:
    atomic_writer.update(tmp_path, FIRST, NOW)
    name = str((tmp_path / "..data").readlink())
    (tmp_path / "..data").unlink()
    (tmp_path / name / "a").write_bytes(b"cut")
    (tmp_path / "..data_tmp").symlink_to("nowhere")
    assert atomic_writer.update(tmp_path, FIRST, NOW)
    assert _files(tmp_path) == _expected(FIRST)
