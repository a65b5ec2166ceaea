"""The files of an upload, which are checked before anything is sent, and the notation of shares."""

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
import unprivileged
from hypothesis import given
from hypothesis import strategies as st

from windlass.client.errors import ClientError
from windlass.client.upload import items as upload_items
from windlass.client.upload import pod_target, shares
from windlass.client.upload.shares import Claim, LocalShare, Nfs, Share

# Shares

SHARES: dict[str, Share] = {
    "/mnt/share": LocalShare("/mnt/share"),
    "//mnt/share/": LocalShare("/mnt/share"),
    "/mnt/share/../other": LocalShare("/mnt/other"),
    "nfs://nfs.example/exports": Nfs("nfs.example", "/exports"),
    "nfs://192.168.210.19/": Nfs("192.168.210.19", "/"),
    "nfs://[fd00::1]/exports/": Nfs("[fd00::1]", "/exports"),
    "pvc://my-data": Claim("my-data"),
    "pvc://my-data/a/./b/": Claim("my-data", "a/b"),
    "my-data": Claim("my-data"),
    "my-data:/models/one/": Claim("my-data", "models/one"),
}


@pytest.mark.parametrize(("written", "share"), SHARES.items(), ids=SHARES.keys())
def test_share_is_parsed(written: str, share: Share) -> None:
    assert shares.parse(written) == share
    assert shares.parse(str(share)) == share


NO_SHARES = {
    "": "expected one of",
    "./folder": "expected one of",
    "My_Claim": "expected one of",
    "ftp://host/path": "expected one of",
    "nfs://host": "expected one of",
    "nfs:///path": "expected one of",
    "pvc://": "expected one of",
    "pvc://my-data/../other": "outside of the share",
    "my-data:../other": "outside of the share",
    "nfs://host/a/../../b": "outside of the share",
}


@pytest.mark.parametrize(("written", "words"), NO_SHARES.items(), ids=NO_SHARES.keys())
def test_invalid_share_is_rejected(written: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        shares.parse(written)


PROJECTS = {
    "digits": True,
    "a" * 63: True,
    "a" * 64: False,
    "..": False,
    "a/b": False,
    "": False,
    "Digits": False,
    "-a": False,
    "digits\n": False,
}


@pytest.mark.parametrize(("name", "is_fine"), PROJECTS.items(), ids=map(repr, PROJECTS))
def test_project_name_is_validated(name: str, is_fine: bool) -> None:
    assert (shares.project_name_error(name) is None) is is_fine


# Files


def names_of(*sources: Path, place: str = "") -> list[str]:
    return [item.name for item in upload_items.gather({place: sources}).items]


def test_folder_and_file_are_gathered(tmp_path: Path) -> None:
    (tmp_path / "src" / "deep").mkdir(parents=True)
    (tmp_path / "src" / "deep" / "b").write_text("b")
    (tmp_path / "src" / "a").write_text("a")
    (tmp_path / "one").write_text("1")
    cargo = upload_items.gather({"src/digits": [tmp_path / "src", tmp_path / "one"]})
    assert [item.name for item in cargo.items] == ["src/digits/a", "src/digits/deep/b", "src/digits/one"]
    assert cargo.folders == ("src", "src/digits", "src/digits/deep")
    assert cargo.size == 3


def test_same_file_is_sent_once(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("a")
    assert names_of(tmp_path / "a", tmp_path) == ["a"]


def test_links_inside_the_folder_are_followed(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "a").write_text("a")
    (tmp_path / "file").symlink_to("deep/a")
    (tmp_path / "folder").symlink_to(tmp_path / "deep")
    assert names_of(tmp_path) == ["deep/a", "file", "folder/a"]


def leaving(top: Path) -> None:
    (top / "out").symlink_to("/etc/hostname")


def dangling(top: Path) -> None:
    (top / "nothing").symlink_to("nowhere")


def circle(top: Path) -> None:
    (top / "deep").mkdir()
    (top / "deep" / "back").symlink_to(top)


def bomb(top: Path) -> None:
    """A few folders with 2⁸ paths."""
    for depth in range(9):
        (top / str(depth)).mkdir()
        for link in ("a", "b") if depth < 8 else ():
            (top / str(depth) / link).symlink_to(top / str(depth + 1))


def listening(top: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(top / "socket"))


def rest_of_an_upload(top: Path) -> None:
    (top / ".a.windlass-part").write_text("")


REFUSED: dict[str, tuple[Callable[[Path], object], str]] = {
    "a link that leaves": (leaving, "out is a link to /etc/hostname, outside of"),
    "a link to nothing": (dangling, "nothing is a broken link to .*nowhere"),
    "a link to a parent": (circle, "back is a link to one of its parent directories"),
    "folders with too many paths": (bomb, "more than 100 paths lead to the directory"),
    "a socket": (listening, "socket: it is a socket"),
    "a pipe": (lambda top: os.mkfifo(top / "pipe"), "pipe: it is a pipe"),
    "a partial file": (rest_of_an_upload, r"a.windlass-part is a partial file"),
    "nothing": (lambda top: top.rmdir(), "does not exist"),
}


@pytest.mark.parametrize(("make", "words"), REFUSED.values(), ids=REFUSED.keys())
def test_special_files_are_rejected(make: Callable[[Path], object], words: str, tmp_path: Path) -> None:
    top = tmp_path / "t"
    top.mkdir()
    make(top)
    with pytest.raises(ClientError, match=words):
        names_of(top)


def test_two_files_with_the_same_target_are_rejected(tmp_path: Path) -> None:
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "a").write_text(folder)
    with pytest.raises(ClientError, match=r"one/a and .*two/a would both become a"):
        names_of(tmp_path / "one", tmp_path / "two")


def test_file_and_folder_with_the_same_target_are_rejected(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("")
    (tmp_path / "top" / "a").mkdir(parents=True)
    with pytest.raises(ClientError, match="conflicts with the directory a of another source"):
        names_of(tmp_path / "a", tmp_path / "top")


def test_unreadable_file_is_reported(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("")
    (tmp_path / "secret").chmod(0)
    with (
        unprivileged.as_nobody(tmp_path),
        pytest.raises(ClientError, match=r"cannot read .*secret: Permission denied"),
    ):
        names_of(tmp_path)


# Names

_NAMES = st.binary(min_size=1, max_size=255).filter(lambda name: not {0, ord("/")} & set(name))


@given(_NAMES, _NAMES)
def test_partial_files_have_unique_names(one: bytes, other: bytes) -> None:
    parts = {upload_items.part_name(os.fsdecode(name)) for name in (one, other)}
    assert len(parts) == len({one, other})
    assert all(len(os.fsencode(part)) <= 255 and "/" not in part for part in parts)
    assert upload_items.part_name("deep/er/a") == "deep/er/.a.windlass-part"


@given(_NAMES)
def test_encoded_name_is_one_word_and_can_be_decoded(name: bytes) -> None:
    word = pod_target.encoded(os.fsdecode(name))
    assert word.isascii()
    assert word.split() == [word]
    octal = word.encode().split(b"\\0")
    decoded = octal[0] + b"".join(bytes([int(each[:3], 8)]) + each[3:] for each in octal[1:])
    assert decoded == name
