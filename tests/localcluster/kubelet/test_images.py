"""Local images: which names are the same, what may be added, and that several processes may edit them."""

import threading
from pathlib import Path

import pytest

from windlass.localcluster.kubelet import images
from windlass.localcluster.kubelet.containers.errors import SetupError
from windlass.localcluster.kubelet.images import Images

DIGEST = "sha256:" + "0" * 64


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "rootfs"
    made.mkdir()
    return made


@pytest.fixture
def kept(tmp_path: Path) -> Images:
    return Images(tmp_path / "data" / "images.json")


@pytest.mark.parametrize(
    ("name", "whole"),
    [
        ("ubuntu", "docker.io/library/ubuntu:latest"),
        ("ubuntu:22.04", "docker.io/library/ubuntu:22.04"),
        ("tensorflow/tensorflow", "docker.io/tensorflow/tensorflow:latest"),
        ("docker.io/ubuntu", "docker.io/library/ubuntu:latest"),
        ("docker.io/library/ubuntu:latest", "docker.io/library/ubuntu:latest"),
        ("index.docker.io/a/b", "docker.io/a/b:latest"),
        ("localhost/a", "localhost/a:latest"),
        ("localhost:5000/a", "localhost:5000/a:latest"),
        ("registry:5000/a/b:1", "registry:5000/a/b:1"),
        ("ghcr.io/a/b.c_d__e--f:V1.0", "ghcr.io/a/b.c_d__e--f:V1.0"),
        (f"a@{DIGEST}", f"docker.io/library/a@{DIGEST}"),
        (f"a:1@{DIGEST}", f"docker.io/library/a:1@{DIGEST}"),
    ],
)
def test_names_are_completed_like_in_docker(name: str, whole: str) -> None:
    assert images.normalised(name) == whole
    assert images.normalised(whole) == whole


@pytest.mark.parametrize("name", ["", "Ubuntu", "a b", "a:", "/a", "a/", "a::b", "a@sha256:12", "-a"])
def test_invalid_name_is_rejected(kept: Images, folder: Path, name: str) -> None:
    with pytest.raises(ValueError, match="is not a valid image name"):
        kept.add(name, folder)
    assert kept.folder_of(name) == ""


def test_images_are_added_replaced_and_removed(kept: Images, folder: Path, tmp_path: Path) -> None:
    assert kept.all() == {}
    kept.add("tf/bench:1", folder)
    kept.add("ubuntu", tmp_path)
    assert kept.all() == {"tf/bench:1": str(folder), "ubuntu": str(tmp_path)}
    assert kept.folder_of("docker.io/tf/bench:1") == str(folder)
    assert kept.folder_of("tf/bench") == ""
    assert kept.folder_of("ubuntu:latest") == str(tmp_path)

    kept.add("docker.io/library/ubuntu", folder)
    assert kept.all() == {"docker.io/library/ubuntu": str(folder), "tf/bench:1": str(folder)}
    kept.remove("ubuntu:latest")
    assert kept.all() == {"tf/bench:1": str(folder)}
    with pytest.raises(ValueError, match='no local image "ubuntu"\\. Known images: tf/bench:1'):
        kept.remove("ubuntu")


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ("relative/folder", "must be an absolute path"),
        ("{here}/absent", "does not exist"),
        ("{here}/file", "is not a directory"),
    ],
)
def test_invalid_directory_is_rejected(kept: Images, tmp_path: Path, given: str, problem: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ValueError, match=problem):
        kept.add("a", given.format(here=tmp_path))
    assert kept.all() == {}


def test_missing_directory_is_a_create_error(kept: Images, folder: Path) -> None:
    kept.add("a", folder)
    folder.rmdir()
    with pytest.raises(SetupError, match='the directory of local image "a:latest" does not exist') as refusal:
        kept.folder_of("a:latest")
    assert refusal.value.reason == "CreateContainerError"


@pytest.mark.parametrize("content", ["{", "[]", '{"a": 1}', '{"A B": "/"}'])
def test_unreadable_file_is_reported(kept: Images, tmp_path: Path, content: str) -> None:
    file = tmp_path / "data" / "images.json"
    file.parent.mkdir()
    file.write_text(content)
    with pytest.raises(ValueError, match=r"cannot read local images from .*images\.json"):
        kept.all()
    with pytest.raises(SetupError, match="cannot read local images") as refusal:
        kept.folder_of("a")
    assert refusal.value.reason == "CreateContainerError"


def test_changes_by_other_processes_are_kept(tmp_path: Path, folder: Path) -> None:
    """Each of several writers adds names of its own, at the same time."""
    file = tmp_path / "data" / "images.json"
    reader = Images(file)
    reader.add("first", folder)

    def add_some(writer: int) -> None:
        own = Images(file)
        for number in range(10):
            own.add(f"w{writer}-{number}", folder)

    threads = [threading.Thread(target=add_some, args=(writer,)) for writer in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    expected = {"first", *(f"w{writer}-{number}" for writer in range(4) for number in range(10))}
    assert set(reader.all()) == expected
    assert [entry.name for entry in file.parent.iterdir()] == ["images.json"]
