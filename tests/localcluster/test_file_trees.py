"""Reading and deleting trees of files, of any depth."""

import errno
import os
from pathlib import Path
from typing import Any

import pytest
from deep_folders import make_deep_folder
from unprivileged import as_nobody

from windlass.localcluster import file_trees

DEPTH = 1500
"""More than the recursion limit of Python."""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    folder = tmp_path / "tree"
    folder.mkdir()
    return folder


def test_remove_deletes_everything_but_link_targets(tree: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    (outside / "kept").mkdir(parents=True)
    (tree / "link").symlink_to(outside)
    (tree / "data" / "a" / "b").mkdir(parents=True)
    (tree / "data" / "a" / "link").symlink_to(outside / "kept")
    (tree / "data" / "a" / "b" / "file").write_text("x")
    os.mkfifo(tree / "data" / "pipe")
    # From an interrupted removal.
    (tree / ".removed-0").mkdir()
    (tree / ".removed-0" / "file").write_text("x")
    for closed in ("a/b", "a", ""):
        (tree / "data" / closed).chmod(0o000)
    with as_nobody(tmp_path):
        file_trees.remove(tree)
        file_trees.remove(tree)
    assert {path.name for path in tmp_path.rglob("*")} == {"outside", "kept"}


def test_remove_rejects_a_link_to_a_directory(tree: Path, tmp_path: Path) -> None:
    (tree / "file").touch()
    (tmp_path / "link").symlink_to(tree)
    with pytest.raises(NotADirectoryError):
        file_trees.remove(tmp_path / "link")
    assert (tree / "file").exists()


def test_remove_does_not_follow_a_link_that_replaces_a_directory(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program replaces it after `remove` has found a directory."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "file").touch()
    (tree / "data").mkdir()
    rename = os.rename

    def rename_and_replace(name: str, new_name: str, **descriptors: Any) -> None:
        rename(name, new_name, **descriptors)
        (tree / new_name).rmdir()
        (tree / new_name).symlink_to(tmp_path / "outside")

    monkeypatch.setattr(os, "rename", rename_and_replace)
    with pytest.raises(NotADirectoryError):
        file_trees.remove(tree)
    assert (tmp_path / "outside" / "file").exists()


@pytest.mark.parametrize("mounted", ["data", "volumes/data"])
def test_remove_does_not_empty_a_mounted_directory(
    tree: Path, mounted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel does not rename a mount point (EBUSY)."""
    (tree / mounted).mkdir(parents=True)
    (tree / mounted / "file").write_text("x")
    rename = os.rename

    def rename_unless_mounted(name: str, new_name: str, **descriptors: Any) -> None:
        if name == "data":
            raise OSError(errno.EBUSY, os.strerror(errno.EBUSY), name)
        rename(name, new_name, **descriptors)

    monkeypatch.setattr(os, "rename", rename_unless_mounted)
    with pytest.raises(OSError, match="busy"):
        file_trees.remove(tree)
    assert [path.read_text() for path in tree.rglob("file")] == ["x"]


def open_descriptors() -> set[str]:
    return {path.name for path in Path("/proc/self/fd").iterdir()}


@pytest.mark.parametrize("name", ["d", 200 * "d"], ids=["short names", "path too long"])
def test_trees_of_any_depth_are_read_and_deleted(tree: Path, name: str) -> None:
    before = open_descriptors()
    make_deep_folder(tree, DEPTH, name)
    make_deep_folder(tree / "other", 2)
    assert len([*file_trees.statuses(tree)]) == DEPTH + 1 + 1 + 2 + 1
    file_trees.remove(tree)
    assert not tree.exists()
    assert open_descriptors() == before


def test_statuses_are_those_of_links_and_not_of_their_targets(tree: Path, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "file").touch()
    (tree / "link").symlink_to(tmp_path / "outside")
    assert [*file_trees.statuses(tree)] == [(tree / "link").lstat()]
    assert [*file_trees.statuses(tree / "link")] == []
    assert [*file_trees.statuses(tree / "missing")] == []


def test_directory_moved_while_it_is_read_ends_the_reading(tree: Path, tmp_path: Path) -> None:
    """Its new parent is not in the tree."""
    (tmp_path / "outside" / "secret").mkdir(parents=True)
    (tree / "secret" / "moved" / "inner").mkdir(parents=True)
    found = file_trees.statuses(tree)
    for _ in range(3):
        last = next(found)
    assert os.path.samestat(last, (tree / "secret" / "moved" / "inner").stat())
    (tree / "secret" / "moved").rename(tmp_path / "outside" / "moved")
    assert [*found] == []
