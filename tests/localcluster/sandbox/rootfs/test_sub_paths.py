"""Parts of volumes: found, made, and never outside."""

import os
from pathlib import Path

import pytest

from windlass.localcluster.sandbox.rootfs import sub_paths


@pytest.fixture
def volume(tmp_path: Path) -> Path:
    inner = tmp_path / "volume"
    (inner / "here").mkdir(parents=True)
    inner.chmod(0o777)
    (inner / "file").write_text("")
    (inner / "within").symlink_to("here")
    (inner / "without").symlink_to("../outside")
    (inner / "absolute").symlink_to("/")
    (inner / "dangling").symlink_to("to/come")
    (inner / "round").symlink_to("round")
    (inner / "absolute-within").symlink_to(inner / "here")
    (inner / "absolute-up").symlink_to(inner / "../outside")
    (tmp_path / "outside").mkdir()
    return inner


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("here", "here"),
        ("file", "file"),
        ("within", "here"),
        ("absolute-within", "here"),
        ("new/and/deep", "new/and/deep"),
        ("within/new", "here/new"),
        ("dangling", "to/come"),
    ],
)
def test_sub_path_inside_of_the_volume(volume: Path, path: str, found: str) -> None:
    descriptor = sub_paths.open_path(str(volume), path)
    try:
        assert os.path.samestat(os.fstat(descriptor), (volume / found).stat())
    finally:
        os.close(descriptor)
    if path.startswith(("new", "dangling")):
        assert (volume / path).stat().st_mode & 0o777 == 0o777


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("without", "without is outside of the volume"),
        ("without/new", "is outside of the volume"),
        ("absolute/etc", "is outside of the volume: /"),
        ("absolute-up", "is outside of the volume"),
        ("file/below", "Not a directory"),
        ("round", "round"),
    ],
)
def test_sub_path_outside_of_the_volume_is_rejected(volume: Path, path: str, message: str) -> None:
    with pytest.raises(sub_paths.SubPathError, match=message):
        sub_paths.open_path(str(volume), path)
    assert [*(volume.parent / "outside").iterdir()] == []


def test_sub_path_that_becomes_a_link_is_rejected(volume: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another container replaces the directory after the check for links."""
    read_link = os.readlink

    def replace_after_check(name: str, *, dir_fd: int) -> str:
        try:
            return read_link(name, dir_fd=dir_fd)
        finally:
            (volume / "here").rename(volume / "moved")
            (volume / "here").symlink_to("../outside")

    monkeypatch.setattr(os, "readlink", replace_after_check)
    with pytest.raises(sub_paths.SubPathError, match="symbolic links"):
        sub_paths.prepare(str(volume), "here")


def test_open_sub_paths_leave_no_descriptors_behind(volume: Path) -> None:
    before = len([*Path("/proc/self/fd").iterdir()])
    for path in ("within/new", "here/deep", "without", "round", "file/below", "none/../x"):
        try:
            sub_paths.prepare(str(volume), path)
        except sub_paths.SubPathError:
            continue
    assert len([*Path("/proc/self/fd").iterdir()]) == before
