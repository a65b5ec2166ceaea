"""Parts of volumes: found, made, and never outside."""

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
    (tmp_path / "outside").mkdir()
    return inner


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("here", "here"),
        ("file", "file"),
        ("within", "here"),
        ("new/and/deep", "new/and/deep"),
        ("within/new", "here/new"),
        ("dangling", "to/come"),
    ],
)
def test_sub_path_inside_of_the_volume(volume: Path, path: str, found: str) -> None:
    assert sub_paths.resolve(volume, path) == (volume / found).resolve()
    assert (volume / path).exists()
    if not path.startswith(("here", "file", "within")):
        assert (volume / path).stat().st_mode & 0o777 == 0o777


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("without", "without is outside of the volume"),
        ("without/new", "is outside of the volume"),
        ("absolute/etc", "is outside of the volume: /etc"),
        ("file/below", "Not a directory|file exists"),
        ("round", "round"),
    ],
)
def test_sub_path_outside_of_the_volume_is_rejected(volume: Path, path: str, message: str) -> None:
    with pytest.raises(sub_paths.SubPathError, match=message):
        sub_paths.resolve(volume, path)
    assert [*(volume.parent / "outside").iterdir()] == []
