"""Local images: the files of a folder at the same paths in the containers of that image only."""

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from pods import commands
from pods.commands import Home, Local, framework, role
from pods.levels import Level
from pods.place import Place
from pods.specs import container

from conformance.client import Json

NAME = "tensorflow/tensorflow:1.4"
HAS_FILES = "test -x /get_ips.sh && test -f /benchmarks/scripts/run.py"


@pytest.fixture(scope="module")
def able() -> Level:
    best = commands.best()
    if not best.has_mounts:
        pytest.skip("files appear only where pods have mounts of their own")
    return best


@pytest.fixture
def home(able: Level) -> Iterator[Home]:
    with commands.home(able) as made:
        yield made


@pytest.fixture(scope="module")
def local(able: Level) -> Iterator[Local]:
    with commands.home(able) as home, commands.local(home) as made:
        yield made


@pytest.fixture
def folder() -> Iterator[Path]:
    """Create an image folder with a Python package."""
    with tempfile.TemporaryDirectory(prefix="windlass-image-") as parent:
        Path(parent).chmod(0o755)
        made = Path(parent) / "tensorflow"
        scripts = made / "benchmarks" / "scripts"
        scripts.mkdir(parents=True)
        (scripts / "run.py").write_text("print('training')\n")
        (made / "get_ips.sh").write_text("#!/bin/sh\necho 10.0.0.1\n")
        (made / "get_ips.sh").chmod(0o755)
        yield made


def has_files(place: Place, image: str) -> bool:
    """Return whether a container of that image has the files."""
    return place.start(container(HAS_FILES, image=image)).ended().phase == "Succeeded"


def test_container_sees_the_files_of_its_image(local: Local, folder: Path) -> None:
    place = local.new_place()
    assert not has_files(place, NAME)
    local.home.windlass("local", "image", "add", NAME, folder).expect(0)
    run = "/get_ips.sh; python3 /benchmarks/scripts/run.py"
    # Names are normalized as by Docker.
    for image in (NAME, f"docker.io/{NAME}"):
        assert place.start(container(run, image=image)).output() == ["10.0.0.1", "training"]
    for other in ("tensorflow/tensorflow:1.5", "tensorflow/tensorflow", "busybox"):
        assert not has_files(place, other)
    neighbour = container(f"! {{ {HAS_FILES}; }}", "other", image="busybox")
    assert place.start(container(HAS_FILES, image=NAME), neighbour).ended().phase == "Succeeded"
    assert not Path("/get_ips.sh").exists()
    local.home.windlass("local", "image", "remove", f"docker.io/{NAME}").expect(0)
    assert not has_files(place, NAME)


def test_missing_folder_fails_the_pod(local: Local, folder: Path) -> None:
    local.home.windlass("local", "image", "add", NAME, folder).expect(0)
    folder.rename(folder.with_name("elsewhere"))
    pod = local.new_place().start(container("/get_ips.sh", image=NAME))
    waiting = pod.waiting("CreateContainerError").waiting() or {}
    message = (
        f'the directory of local image "{NAME}" does not exist: {folder}. Restore it, or choose another one'
    )
    assert waiting["message"].startswith(message)


def test_list_and_remove(home: Home, folder: Path) -> None:
    def listed() -> dict[str, str]:
        done = home.windlass("local", "image", "list", "--output", "json").expect(0)
        found: dict[str, str] = json.loads(done.stdout)
        return found

    assert listed() == {}
    home.windlass("local", "image", "add", NAME, folder).expect(0)
    home.windlass("local", "image", "add", "other", folder.parent).expect(0)
    assert listed() == {NAME: str(folder), "other": str(folder.parent)}
    assert home.windlass("local", "image", "list").lines == [
        f"other                      {folder.parent}",
        f"{NAME}  {folder}",
    ]
    home.windlass("local", "image", "add", f"docker.io/{NAME}", folder.parent).expect(0)
    assert listed() == {f"docker.io/{NAME}": str(folder.parent), "other": str(folder.parent)}
    home.windlass("local", "image", "remove", "library/other").expect(0)
    assert listed() == {f"docker.io/{NAME}": str(folder.parent)}
    assert folder.is_dir()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["add", "x", "/no/such/folder"], 'cannot add image "x": /no/such/folder does not exist'),
        (["add", "x", "/etc/passwd"], 'cannot add image "x": /etc/passwd is not a directory'),
        (["add", "NOT A NAME", "/"], "NOT A NAME"),
        (["remove", "x"], "no local image"),
    ],
    ids=["nowhere", "file", "name", "unknown"],
)
def test_invalid_images_are_rejected(home: Home, arguments: list[str], words: str) -> None:
    done = home.windlass("local", "image", *arguments).expect(1)
    assert done.stdout == ""
    (message,) = done.stderr.splitlines()
    assert words in message


# On the cluster of a single run


def job(home: Home, run: str = HAS_FILES) -> Json:
    return framework(role(home.container(run, image=NAME)))


def test_image_option_of_a_run(home: Home, folder: Path) -> None:
    home.run(job(home), options=("--image", f"{NAME}={folder}")).expect(0)


def test_images_of_the_machine_apply_to_runs(home: Home, folder: Path) -> None:
    home.windlass("local", "image", "add", NAME, folder).expect(0)
    home.run(job(home)).expect(0)
    other = folder.with_name("other")
    other.mkdir()
    (other / "mine").touch()
    home.run(
        job(home, f"test -e /mine && ! {{ {HAS_FILES}; }}"), options=("--image", f"{NAME}={other}")
    ).expect(0)


@pytest.mark.parametrize(
    ("binding", "words"),
    [
        ("x", "expected NAME=DIR"),
        ("x=/no/such/folder", 'cannot add image "x": /no/such/folder does not exist'),
    ],
)
def test_invalid_binding_is_rejected(home: Home, binding: str, words: str) -> None:
    done = home.run(job(home), options=("--image", binding)).expect(2)
    assert done.stdout == ""
    assert words in done.stderr.splitlines()[-1]
    assert not home.runs
