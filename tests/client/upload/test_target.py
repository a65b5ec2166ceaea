"""Uploads to every target: a folder, and the scripts of a loader pod in each common shell.

The shells run locally with a standard input that stays open, as on old clusters. Uploads through real pods are tested
in tests/local.
"""

import asyncio
import contextlib
import errno
import hashlib
import os
import shutil
import subprocess
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, cast

import pytest
import unprivileged

from windlass.client.connection import Connection
from windlass.client.errors import ClientError, RejectedError
from windlass.client.exec import Streams
from windlass.client.upload import items as upload_items
from windlass.client.upload import local_target, pod_target, transfer
from windlass.client.upload.items import UploadItems, part_name
from windlass.client.upload.local_target import LocalTarget
from windlass.client.upload.pod_target import PodTarget
from windlass.client.upload.shares import Claim
from windlass.client.upload.target import UploadTarget
from windlass.client.upload.transfer import ProgressCallbacks, Uploaded

MIB = 1 << 20


class ShellTarget(PodTarget):
    """A pod target whose commands run on this machine. Their input stays open until they have ended."""

    def __init__(self, root: Path, shell: str, tools: str) -> None:
        super().__init__(cast("Connection", None), "none", Claim("my-data"), 60)
        self._root = self._mount_path = str(root)
        self._shell = shell
        self._tools = tools

    async def _in_pod(self, command: Sequence[str], streams: Streams) -> int:
        process = await asyncio.create_subprocess_exec(
            self._shell,
            *command[1:],
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={"PATH": self._tools},
        )
        assert process.stdin and process.stdout and process.stderr and streams.stdin  # noqa: PT018
        speaking = asyncio.create_task(self._speak(process.stdin, streams.stdin))
        try:
            out, err = await asyncio.gather(process.stdout.read(), process.stderr.read())
            streams.stdout(out)
            streams.stderr(err)
            return await process.wait()
        finally:
            speaking.cancel()
            await asyncio.gather(speaking, return_exceptions=True)
            process.stdin.close()
            await process.wait()

    async def _speak(self, pipe: asyncio.StreamWriter, stdin: AsyncIterator[bytes]) -> None:
        async for piece in stdin:
            pipe.write(piece)
            await pipe.drain()


def folder_target(root: Path, _: Path) -> UploadTarget:
    return LocalTarget(root)


def shell_target(name: str) -> Callable[[Path, Path], UploadTarget]:
    def made(root: Path, tools: Path) -> UploadTarget:
        shell = shutil.which(name) or ""
        if name != "busybox":
            return ShellTarget(root, shell, os.environ["PATH"])
        tools.mkdir()
        subprocess.run([shell, "--install", "-s", tools], check=True)  # noqa: S603
        return ShellTarget(root, str(tools / "sh"), str(tools))

    return made


SHELLS = ("dash", "bash", "busybox")
PLACES = {"folder": folder_target, **{name: shell_target(name) for name in SHELLS if shutil.which(name)}}


@pytest.mark.parametrize("shell", SHELLS)
def test_required_shells_are_installed(shell: str) -> None:
    """A missing shell is reported once, not for each test of this file."""
    if shutil.which(shell) is None:
        pytest.skip(f"needs {shell} (Debian package {shell})")
    assert shell in PLACES


class Scene:
    def __init__(self, top: Path, make: Callable[[Path, Path], UploadTarget]) -> None:
        self.here = top / "here"
        self.there = top / "there"
        self.here.mkdir()
        self.there.mkdir()
        self.place = make(self.there, top / "tools")

    def file(self, name: str, content: bytes) -> Path:
        path = self.here / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        return path

    def part(self, name: str) -> Path:
        return self.there / part_name(name)

    @property
    def cargo(self) -> UploadItems:
        return upload_items.gather({"": [self.here]})

    def upload(self, **callbacks: Any) -> Uploaded:
        return asyncio.run(transfer.upload(self.place, self.cargo, ProgressCallbacks(**callbacks)))

    def check_all_files(self) -> None:
        assert files_of(self.there) == files_of(self.here)


def files_of(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.fixture(params=PLACES)
def scene(request: pytest.FixtureRequest, tmp_path: Path) -> Scene:
    return Scene(tmp_path, PLACES[request.param])


def test_all_files_are_sent_once(scene: Scene) -> None:
    scene.file("empty", b"")
    scene.file("small", b"hello")
    scene.file("deep/er/large", os.urandom(3 * MIB + 17))
    scene.file("deep/-rf *\n\\0101'\"$(id)", b"odd")
    (scene.here / "a folder with nothing").mkdir()
    (scene.here / "small").chmod(0o750)
    moved: dict[str, int] = {}
    done = scene.upload(on_sent=lambda name, size: moved.update({name: moved.get(name, 0) + size}))
    assert done == Uploaded(4, 4, 0, 0, 3 * MIB + 17 + 8, 3 * MIB + 17 + 8)
    assert moved == {"small": 5, "deep/er/large": 3 * MIB + 17, "deep/-rf *\n\\0101'\"$(id)": 3}
    scene.check_all_files()
    assert (scene.there / "a folder with nothing").is_dir()
    assert (scene.there / "small").stat().st_mode & 0o777 == 0o750
    assert scene.upload() == Uploaded(4, 0, 4, 0, 0, done.size)


def test_small_files_are_sent_in_batches(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transfer, "MAX_BATCH_FILES", 50)
    for at in range(105):
        scene.file(f"{at % 7}/{at}", str(at).encode())
    assert scene.upload().sent == 105
    scene.check_all_files()


PARTS: dict[str, tuple[Callable[[bytes], bytes], int, int]] = {
    "start of the file": (lambda whole: whole[:MIB], 1, 2 * MIB),
    "complete partial file": (lambda whole: whole, 1, 0),
    "another file's": (lambda _: bytes(MIB), 0, 3 * MIB),
    "longer than the file": (lambda whole: whole + b"x", 0, 3 * MIB),
    "empty partial file": (lambda _: b"", 0, 3 * MIB),
}


@pytest.mark.parametrize(("part", "resumed", "sent"), PARTS.values(), ids=PARTS.keys())
def test_interrupted_upload_is_resumed(
    scene: Scene, part: Callable[[bytes], bytes], resumed: int, sent: int
) -> None:
    whole = os.urandom(3 * MIB)
    scene.file("large", whole)
    scene.part("large").write_bytes(part(whole))
    done = scene.upload()
    assert (done.resumed, done.bytes) == (resumed, sent)
    scene.check_all_files()


def test_interrupted_small_file_is_sent_again(scene: Scene) -> None:
    scene.file("small", b"hello")
    scene.part("small").write_bytes(b"he")
    assert scene.upload() == Uploaded(1, 0, 0, 1, 3, 5)
    scene.check_all_files()


def test_file_with_the_same_size_and_other_content_is_replaced(scene: Scene) -> None:
    scene.file("small", b"hello")
    (scene.there / "small").write_bytes(b"HELLO")
    (scene.there / "other").write_bytes(b"stays")
    assert scene.upload().sent == 1
    assert (scene.there / "small").read_bytes() == b"hello"
    assert (scene.there / "other").read_bytes() == b"stays"


CHANGES: dict[str, Callable[[Path], object]] = {
    "overwritten": lambda path: path.write_bytes(os.urandom(3 * MIB)),
    "longer": lambda path: path.write_bytes(os.urandom(4 * MIB)),
    "shorter": lambda path: path.write_bytes(os.urandom(MIB + 5)),
    "replaced": lambda path: (
        path.with_suffix(".new").write_bytes(os.urandom(3 * MIB)),
        path.with_suffix(".new").replace(path),
    ),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_file_that_changes_once_is_sent_again(scene: Scene, change: Callable[[Path], object]) -> None:
    path = scene.file("large", os.urandom(3 * MIB))
    changed: list[str] = []

    def moved(name: str, _: int) -> None:
        if not changed:
            changed.append(name)
            change(path)

    scene.upload(on_sent=moved)
    assert changed == ["large"]
    scene.check_all_files()


def test_file_that_keeps_changing_is_rejected(scene: Scene) -> None:
    path = scene.file("large", os.urandom(3 * MIB))

    def moved(*_: object) -> None:
        path.write_bytes(os.urandom(3 * MIB))

    with pytest.raises(ClientError, match="large: the checksums differed twice"):
        scene.upload(on_sent=moved)
    assert not (scene.there / "large").exists()


def test_file_deleted_during_the_upload_is_reported(scene: Scene) -> None:
    path = scene.file("large", os.urandom(3 * MIB))
    with pytest.raises(ClientError, match=r"cannot read .*large: No such file"):
        scene.upload(on_sent=lambda *_: path.unlink(missing_ok=True))
    assert not (scene.there / "large").exists()


def test_damaged_file_is_sent_again(tmp_path: Path) -> None:
    scene = Scene(tmp_path, folder_target)
    whole = os.urandom(3 * MIB)
    scene.file("large", whole)
    damaged: list[str] = []

    def moved(name: str, _: int) -> None:
        """Change the partial file after the last byte and before its checksum."""
        part = scene.part("large")
        if not damaged and part.exists() and part.stat().st_size == 2 * MIB:
            damaged.append(name)
            with part.open("r+b") as file:
                file.write(b"damage")

    done = scene.upload(on_sent=moved)
    assert damaged == ["large"]
    assert done.bytes == 6 * MIB
    scene.check_all_files()


def test_concurrent_uploads_of_a_file_do_not_mix(tmp_path: Path) -> None:
    """The second upload starts when the first has sent a part."""
    scene = Scene(tmp_path, folder_target)
    scene.file("large", os.urandom(3 * MIB))
    other = scene.here.parent / "other"
    other.mkdir()
    (other / "large").write_bytes(os.urandom(3 * MIB))
    refused: list[str] = []

    def moved(*_: object) -> None:
        sending = transfer.upload(
            LocalTarget(scene.there), upload_items.gather({"": [other]}), ProgressCallbacks()
        )
        with ThreadPoolExecutor() as pool, pytest.raises(RejectedError) as caught:
            pool.submit(asyncio.run, sending).result()
        refused.append(str(caught.value))

    scene.upload(on_sent=moved)
    assert "another upload is writing .large.windlass-part" in refused[0]
    scene.check_all_files()


@pytest.mark.parametrize("size", [5, 2 * MIB], ids=["small", "large"])
def test_link_at_the_partial_file_is_not_followed(scene: Scene, size: int) -> None:
    """Other users of a share could create it."""
    other = scene.there.parent / "other"
    other.write_text("of this user")
    scene.file("a", os.urandom(size))
    scene.part("a").symlink_to(other)
    with contextlib.suppress(RejectedError):  # small files in a pod replace the link
        scene.upload()
    assert other.read_text() == "of this user"


@pytest.mark.parametrize("size", [5, 2 * MIB], ids=["small", "large"])
@pytest.mark.parametrize("name", ["deep", "deep/er"])
def test_link_at_a_folder_is_not_followed(scene: Scene, name: str, size: int) -> None:
    """Other users of a share could create it."""
    other = scene.there.parent / "other"
    other.mkdir()
    scene.file("deep/er/a", os.urandom(size))
    (scene.there / name).parent.mkdir(exist_ok=True)
    (scene.there / name).symlink_to(other)
    with pytest.raises(RejectedError, match=f"{name} must be a directory, but it is a link"):
        scene.upload()
    assert list(other.iterdir()) == []


@pytest.mark.parametrize("size", [5, 2 * MIB], ids=["small", "large"])
def test_folder_replaced_by_a_link_after_the_check_is_not_followed(
    scene: Scene, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = scene.there.parent / "other"
    other.mkdir()
    scene.file("deep/a", os.urandom(size))
    free_space = scene.place.free_space

    async def create_link() -> int | None:
        (scene.there / "deep").symlink_to(other)
        return await free_space()

    monkeypatch.setattr(scene.place, "free_space", create_link)
    with pytest.raises(RejectedError):
        scene.upload()
    assert list(other.iterdir()) == []


def test_link_to_a_file_with_the_same_content_is_replaced(scene: Scene) -> None:
    scene.file("a", b"hello")
    other = scene.there.parent / "other"
    other.write_bytes(b"hello")
    (scene.there / "a").symlink_to(other)
    scene.upload()
    assert not (scene.there / "a").is_symlink()
    scene.check_all_files()


@pytest.mark.parametrize("size", [5, 2 * MIB], ids=["small", "large"])
@pytest.mark.parametrize("is_hard_link", [True, False])
def test_partial_file_of_another_user_is_not_continued(scene: Scene, size: int, is_hard_link: bool) -> None:
    """Its owner could change the file after the upload."""
    whole = os.urandom(size)
    scene.file("a", whole)
    part = scene.part("a")
    part.write_bytes(whole[: size // 2])
    if is_hard_link:
        (scene.there.parent / "other").hardlink_to(part)
    elif os.geteuid() == 0:
        os.chown(part, 1234, 1234)
    else:
        pytest.skip("needs root")
    with part.open("r+b") as file:
        with contextlib.suppress(RejectedError):  # in a pod, the file is replaced
            scene.upload()
        file.write(b"evil")
    assert not (scene.there / "a").exists() or (scene.there / "a").read_bytes() == whole


def pipe_instead_of_the_file(there: Path) -> None:
    (there / "deep").mkdir()
    os.mkfifo(there / "deep/file")


TAKEN: dict[str, tuple[str, Callable[[Path], object]]] = {
    "a folder has the file's name": (
        "deep/file is a directory",
        lambda there: (there / "deep/file").mkdir(parents=True),
    ),
    "a pipe has the file's name": (
        "deep/file is not a regular file",
        pipe_instead_of_the_file,
    ),
    "a file has the folder's name": (
        "deep must be a directory",
        lambda there: (there / "deep").write_text(""),
    ),
}


@pytest.mark.parametrize(("words", "take"), TAKEN.values(), ids=TAKEN.keys())
def test_conflicting_paths_are_reported(scene: Scene, words: str, take: Callable[[Path], object]) -> None:
    scene.file("deep/file", b"hello")
    scene.file("another", b"is not sent either")
    take(scene.there)
    before = sorted(scene.there.rglob("*"))
    with pytest.raises(RejectedError, match=words):
        scene.upload()
    assert sorted(scene.there.rglob("*")) == before


def test_unwritable_folder_is_reported(scene: Scene, tmp_path: Path) -> None:
    scene.file("deep/file", b"hello")
    (scene.there / "deep").mkdir(mode=0o555)
    with unprivileged.as_nobody(tmp_path), pytest.raises(RejectedError, match="deep is not writable"):
        scene.upload()


def test_missing_space_is_reported_before_the_upload(scene: Scene) -> None:
    """The local file is sparse: it is larger than any disk and takes no space."""
    with scene.file("large", b"").open("r+b") as file:
        file.truncate(1 << 42)
    room = asyncio.run(scene.place.free_space())
    assert room is not None
    with pytest.raises(RejectedError, match=r"4096.0 GiB needed, .* free"):
        scene.upload()
    assert list(scene.there.iterdir()) == []


def test_unknown_space_of_a_deleted_folder_is_reported(tmp_path: Path) -> None:
    with pytest.raises(RejectedError, match="cannot read the target: No such file or directory"):
        asyncio.run(LocalTarget(tmp_path / "deleted").free_space())


def test_disk_that_becomes_full_is_reported(
    scene: Scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    scene.file("large", os.urandom(3 * MIB))
    if isinstance(scene.place, ShellTarget):
        program = tmp_path / "full" / "cat"
        program.parent.mkdir()
        program.write_text("#!/bin/sh\nexec dd of=/dev/full\n")
        program.chmod(0o700)
        monkeypatch.setattr(pod_target, "_APPEND", pod_target._APPEND.replace("| cat >>", f"| {program} >>"))
    monkeypatch.setattr(local_target, "_write", fail)
    with pytest.raises(RejectedError, match=r"no space left\. Partial files are kept"):
        scene.upload()
    assert not (scene.there / "large").exists()
