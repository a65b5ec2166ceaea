"""The code archive of a job: included files, and rejected ones."""

import io
import os
import tarfile
from pathlib import Path

import pytest
import unprivileged

from windlass.client.errors import ClientError, InvalidJobError
from windlass.client.submit import code_archive


def put(folder: Path, *files: str, text: str = "print()") -> None:
    for file in files:
        path = folder / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def unpacked(data: bytes) -> dict[str, tarfile.TarInfo]:
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        return {info.name: info for info in archive.getmembers()}


def files_of(folder: Path) -> set[str]:
    return {name for name, info in unpacked(code_archive.pack(folder).data).items() if not info.isdir()}


IGNORED: dict[str, tuple[dict[str, str], set[str]]] = {
    "always excluded files": ({}, {"train.py", "lib/a.py", "data/b.bin", "out/c.log"}),
    "gitignore": ({".gitignore": "*.bin\n/out/"}, {".gitignore", "train.py", "lib/a.py"}),
    "windlassignore has precedence over gitignore": (
        {".gitignore": "*.py", ".windlassignore": "data/\n!data/b.bin\n*.log"},
        {".gitignore", "train.py", "lib/a.py"},
    ),
    "a pattern can be negated": (
        {".gitignore": "*.py\n!train.py"},
        {".gitignore", "train.py", "data/b.bin", "out/c.log"},
    ),
    "always excluded files cannot be included": (
        {".windlassignore": "!*.pyc\n*.bin\n*.log"},
        {"train.py", "lib/a.py"},
    ),
}


@pytest.mark.parametrize("case", IGNORED)
def test_ignored_files_are_excluded(case: str, tmp_path: Path) -> None:
    rules, expected = IGNORED[case]
    put(tmp_path, "train.py", "lib/a.py", "data/b.bin", "out/c.log")
    put(
        tmp_path,
        ".git/config",
        "__pycache__/train.cpython-311.pyc",
        "lib/old.pyc",
        ".venv/bin/python",
        "venv/pyvenv.cfg",
        "node_modules/x.js",
        "lib/.ipynb_checkpoints/n.ipynb",
        ".windlass-kept/x",
    )
    for name, text in rules.items():
        put(tmp_path, name, text=text)
    assert files_of(tmp_path) == expected


def test_virtual_environments_are_excluded_whatever_their_names(tmp_path: Path) -> None:
    put(
        tmp_path,
        "train.py",
        "torch-env/pyvenv.cfg",
        "torch-env/lib/x.py",
        "conda/conda-meta/history",
        "lib/env/a.py",
    )
    assert files_of(tmp_path) == {"train.py", "lib/env/a.py"}


def test_archive_is_reproducible(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    for folder, files in ((one, ("b.py", "a/x.sh")), (other, ("a/x.sh", "b.py"))):
        put(folder, *files)
        (folder / "a/x.sh").chmod(0o755)
        (folder / "b.py").chmod(0o640)
        (folder / "a").chmod(0o755)
        os.utime(folder / "b.py", (len(files), hash(folder) % 1000))
    packed = code_archive.pack(one)
    assert packed == code_archive.pack(other)
    members = unpacked(packed.data)
    assert members["a/x.sh"].mode == 0o755
    assert members["b.py"].mode == 0o640
    assert {(info.uid, info.gid, info.mtime, info.uname) for info in members.values()} == {(0, 0, 0, "")}
    assert str(packed) == f"2 files, {len(packed.data)} B compressed"


def test_single_file_is_packed(tmp_path: Path) -> None:
    put(tmp_path, "train.py", "other.py")
    packed = code_archive.pack(tmp_path / "train.py")
    assert set(unpacked(packed.data)) == {"train.py"}
    assert str(packed).startswith("1 file, ")


def test_links_inside_the_folder_are_kept(tmp_path: Path) -> None:
    folder = tmp_path / "src"
    put(folder, "data/a.txt", "lib/b.py")
    (folder / "lib/near").symlink_to("../data/a.txt")
    (folder / "lib/absolute").symlink_to(folder / "data")
    (folder / "lib/round").symlink_to("../../src/data/a.txt")
    members = unpacked(code_archive.pack(folder).data)
    assert members["lib/near"].linkname == "../data/a.txt"
    assert members["lib/absolute"].linkname == "../data"
    assert members["lib/round"].linkname == "../data/a.txt"


def leaving_link(folder: Path) -> None:
    put(folder, "a.py")
    (folder / "secrets").symlink_to("/etc")


def looping_link(folder: Path) -> None:
    (folder / "a").symlink_to("b")
    (folder / "b").symlink_to("a")


def large_file(folder: Path) -> None:
    put(folder, "a.py")
    (folder / "weights.bin").write_bytes(os.urandom(code_archive.MAX_BYTES + 1))


def sparse_file(folder: Path) -> None:
    with (folder / "zeros").open("wb") as file:
        file.truncate(200 << 20)


def nothing(folder: Path) -> None:
    put(folder, ".windlassignore", "a.log", text="*")


def many_files(folder: Path) -> None:
    for at in range(30):
        put(folder, f"{at}.py")


REFUSED = {
    "a link that leaves": (leaving_link, ClientError, ("secrets is a link to /etc", "copy")),
    "too large": (
        large_file,
        ClientError,
        ("10 MiB", "weights.bin (10 MiB)", "`windlass upload ./data pvc://my-data`", "docker push"),
    ),
    "too large when unpacked": (sparse_file, ClientError, ("larger than 100 MiB.", "zeros (200 MiB)")),
    "nothing in it": (nothing, InvalidJobError, ("has no files", ".windlassignore")),
    "too many": (many_files, ClientError, ("more than 20 files", ".windlassignore")),
}


@pytest.mark.parametrize("case", REFUSED)
def test_invalid_code_is_rejected(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make, kind, words = REFUSED[case]
    monkeypatch.setattr(code_archive, "MAX_FILES", 20)
    make(tmp_path)
    with pytest.raises(kind) as refusal:
        code_archive.pack(tmp_path)
    assert all(word in str(refusal.value) for word in words), str(refusal.value)


def test_unreadable_file_is_reported(tmp_path: Path) -> None:
    put(tmp_path, "a.py", "b.py")
    (tmp_path / "b.py").chmod(0)
    with (
        unprivileged.as_nobody(tmp_path),
        pytest.raises(ClientError, match=r"cannot read .*b\.py: Permission denied"),
    ):
        code_archive.pack(tmp_path)


def test_loop_of_links_is_packed(tmp_path: Path) -> None:
    looping_link(tmp_path)
    put(tmp_path, "c.py")
    assert "c.py" in files_of(tmp_path)


def test_device_is_not_packed() -> None:
    with pytest.raises(InvalidJobError, match="code: /dev/null is a device"):
        code_archive.pack(Path("/dev/null"))


def test_pipe_is_not_packed(tmp_path: Path) -> None:
    """Opening it would block."""
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InvalidJobError, match="pipe is a device, a pipe or a socket"):
        code_archive.pack(tmp_path / "pipe")
