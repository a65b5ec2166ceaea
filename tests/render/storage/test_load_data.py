"""The load-data Job: its fields, and its scripts in a real shell."""

import base64
import hashlib
import io
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from windlass.localcluster.kubelet.containers import expansion
from windlass.model.base import Json
from windlass.model.job import Command, Job, LoadData, Role, Volume
from windlass.render.storage import load_data
from windlass.render.storage.load_data import Folder, LocalFolder

SECONDS = 60
VARIABLES = {"to": "x", "c": "x", "b": "x"}
"""Characters that must not be interpreted."""


def job(*entries: LoadData, **fields: Any) -> Job:
    volumes = {"data": Volume(at="/data", pvc="claim", read_only=True)}
    return Job(
        name="digits",
        image="i:1",
        load_data=entries,
        **{"volumes": volumes, "roles": {"worker": Role()}, **fields},
    )


def steps(made: Job, folders: dict[str, Folder] | None = None) -> list[Json]:
    *_, last = load_data.objects(made, folders or {})
    found: list[Json] = last["spec"]["template"]["spec"]["initContainers"]
    return found


# Fields


def test_job_without_load_data_has_no_objects() -> None:
    assert list(load_data.objects(job(), {})) == []


def test_job_has_init_container_for_each_entry() -> None:
    made = job(
        LoadData(to="/data/a", url="http://h/a.tgz", image="curl:1"),
        LoadData(to="/data/b", folder="b"),
        LoadData(to="/data/c", command="make data"),
        env={"A": "1"},
        secrets={"TOKEN": "t"},
        namespace="team",
        labels={"who": "me"},
    )
    config_map, found = load_data.objects(made, {"b": b"packed"})
    assert config_map["metadata"] == {
        "name": "digits-load-data-1",
        "namespace": "team",
        "labels": {"who": "me", "windlass.dev/job": "digits"},
    }
    assert base64.b64decode(config_map["binaryData"]["folder.tar.gz"]) == b"packed"
    assert (found["kind"], found["metadata"]["name"]) == ("Job", "digits-load-data")
    spec = found["spec"]["template"]["spec"]
    assert found["spec"]["template"]["metadata"]["labels"]["windlass.dev/job"] == "digits"
    assert spec["restartPolicy"] == "Never"
    first, second, third = spec["initContainers"]
    assert [step["image"] for step in (first, second, third)] == ["curl:1", "i:1", "i:1"]
    assert first["volumeMounts"] == [{"name": "data", "mountPath": "/data"}], "it may be written to"
    assert second["volumeMounts"][1]["mountPath"] == "/windlass/folders/1"
    assert spec["volumes"][1] == {"name": "windlass-folder-1", "configMap": {"name": "digits-load-data-1"}}
    assert "env" not in first
    assert {variable["name"] for variable in third["env"]} >= {"A", "TOKEN"}
    assert third["command"][-2:] == ["make", "data"]


def test_marker_depends_on_source_and_contents() -> None:
    def mark(made: LoadData, folders: dict[str, Folder] | None = None) -> str:
        return str(steps(job(LoadData(to="/data", command="x"), made), folders)[1]["command"][5])

    first = mark(LoadData(to="/data/a", folder="a"), {"a": b"1"})
    assert first == mark(LoadData(to="/data/a", folder="b"), {"b": b"1"})
    assert first != mark(LoadData(to="/data/a", folder="a"), {"a": b"2"})
    assert mark(LoadData(to="/d", folder="a"), {"a": LocalFolder("/a", "1")}) != mark(
        LoadData(to="/d", folder="a"), {"a": LocalFolder("/a", "2")}
    )


# Scripts


def run(
    entry: LoadData,
    folders: dict[str, Folder] | None = None,
    path: str | None = None,
    shell: tuple[str, str | None] = ("/bin/sh", None),
) -> subprocess.CompletedProcess[str]:
    """Run the command like a container: Kubernetes expands variables first."""
    (step,) = steps(job(entry), folders)
    words = [shell[0], *(expansion.expand(word, VARIABLES) for word in step["command"][1:])]
    path = path or shell[1]
    variables = {**os.environ, **({} if path is None else {"PATH": path})}
    return subprocess.run(  # noqa: S603 — our own scripts
        words, env=variables, capture_output=True, text=True, timeout=SECONDS, check=False
    )


def names_in(folder: Path) -> list[str]:
    """Return the names of files without marker files."""
    found = (str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir())
    return sorted(name for name in found if not name.startswith(load_data.MARKER_PREFIX))


def packed(
    members: dict[str, bytes],
    links: dict[str, str] | None = None,
    mode: str = "w:gz",
    file_mode: int = 0o644,
) -> bytes:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode=mode) as archive:  # type: ignore[call-overload]
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(content), file_mode
            archive.addfile(member, io.BytesIO(content))
        for name, target in (links or {}).items():
            member = tarfile.TarInfo(name)
            member.type, member.linkname = tarfile.SYMTYPE, target
            archive.addfile(member)
    return data.getvalue()


def special(name: str, kind: bytes, target: str = "") -> bytes:
    """Return an archive with one member that is not a file, a folder or a symbolic link."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:gz") as archive:
        archive.addfile(tarfile.TarInfo("file"))
        member = tarfile.TarInfo(name)
        member.type, member.linkname = kind, target
        archive.addfile(member)
    return data.getvalue()


def zipped(members: dict[str, bytes]) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return data.getvalue()


FILES = {"a/train.csv": b"1,2\n", "a/.hidden": b"", "-odd name": b"x"}
WANTED = ["-odd name", "a/.hidden", "a/train.csv"]
GOOD: dict[str, tuple[str, bytes, list[str]]] = {
    "a file": ("train.csv", b"1,2\n", ["train.csv"]),
    "a file with an odd name": ("a%20$(b)%23.csv", b"1", ["a $(b)#.csv"]),
    "a tar file": ("all.tar", packed(FILES, mode="w"), WANTED),
    "a compressed one": ("all.tar.gz", packed(FILES), WANTED),
    "a tgz": ("ALL.TGZ", packed(FILES), WANTED),
    "a zip": ("all.zip", zipped(FILES), WANTED),
    "a hard link within": ("h.tgz", special("link", tarfile.LNKTYPE, "file"), ["file", "link"]),
    "a link within": (
        "l.tgz",
        packed(FILES, {"b/c": "../a/train.csv"}),
        ["-odd name", "a/.hidden", "a/train.csv", "b/c"],
    ),
}


@pytest.mark.parametrize(("name", "content", "expected"), GOOD.values(), ids=GOOD.keys())
def test_download_places_files(
    web: Path, to: Path, address: str, name: str, content: bytes, expected: list[str]
) -> None:
    (web / name.replace("%20", " ").replace("%23", "#")).write_bytes(content)
    entry = LoadData(to=str(to), url=f"{address}/{name}", sha256=hashlib.sha256(content).hexdigest().upper())
    done = run(entry)
    assert (done.returncode, done.stderr) == (0, "")
    assert names_in(to) == expected
    for path in web.iterdir():
        path.unlink()
    again = run(entry)
    assert again.returncode == 0, "what is there is not asked for again"
    assert "already" in again.stdout


def test_archive_is_merged_into_existing_folder(web: Path, to: Path, address: str) -> None:
    (web / "all.tgz").write_bytes(packed(FILES))
    (to / "a").mkdir(parents=True)
    (to / "a" / "old").write_text("stays")
    (to / "a" / "train.csv").write_text("goes")
    assert run(LoadData(to=str(to), url=f"{address}/all.tgz")).returncode == 0
    assert (to / "a" / "old").read_text() == "stays"
    assert (to / "a" / "train.csv").read_bytes() == FILES["a/train.csv"]


BAD: dict[str, tuple[str, bytes | None, str, str]] = {
    # name, content, sha256, words
    "a missing file": ("a.csv", None, "", "cannot download"),
    "another file": (
        "a.csv",
        b"x",
        "0" * 64,
        f"found sha256 {hashlib.sha256(b'x').hexdigest()}, expected 000",
    ),
    "no archive": ("a.tgz", b"no archive", "", "not an archive or is damaged"),
    "no zip": ("a.zip", b"no zip", "", "damaged"),
    "a path outside": (
        "a.tar",
        packed({"ok": b"", "../../x": b""}, mode="w"),
        "",
        "contains a path outside",
    ),
    "one with an absolute path": ("a.tgz", packed({"/opt/windlass-x": b""}), "", "contains a path outside"),
    "a link outside": ("a.tgz", packed({}, {"l": "../../x"}), "", "contains a path outside"),
    "one with an absolute link": ("a.tgz", packed({}, {"l": "/etc"}), "", "contains a path outside"),
    "a pipe": ("a.tgz", special("pipe", tarfile.FIFOTYPE), "", "contains a device, a pipe or a socket"),
    "a name with a line break": ("a.tgz", packed({"a\nb": b""}), "", "name with a control character"),
    "a marker file": (
        "a.tgz",
        packed({f"a/{load_data.MARKER_PREFIX}0123": b""}),
        "",
        f"begins with {load_data.MARKER_PREFIX}",
    ),
    "a link out of the folder and back": (
        "a.tgz",
        packed({"file": b""}, {"l": "../all/file"}),
        "",
        "contains a path outside",
    ),
    "a zip with a path outside": ("a.zip", zipped({"ok": b"", "../x": b""}), "", "contains a path outside"),
}


@pytest.mark.parametrize(("name", "content", "sha256", "words"), BAD.values(), ids=BAD.keys())
def test_rejected_download_leaves_no_files(
    web: Path, to: Path, address: str, name: str, content: bytes | None, sha256: str, words: str
) -> None:
    if content is not None:
        (web / name).write_bytes(content)
    done = run(LoadData(to=str(to), url=f"{address}/{name}", sha256=sha256))
    assert done.returncode != 0
    assert words in done.stderr
    assert list(to.iterdir()) == []
    assert not (to.parent / "x").exists()


@pytest.fixture(params=["sh", "busybox"])
def shell(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, str | None]:
    """Return a shell and the PATH of its programs."""
    if request.param == "sh":
        return "/bin/sh", None
    program = shutil.which("busybox")
    if program is None:
        pytest.skip("needs busybox")
    folder = tmp_path / "busybox"
    folder.mkdir()
    subprocess.run([program, "--install", "-s", folder], check=True)  # noqa: S603
    return str(folder / "sh"), str(folder)


def test_line_break_in_a_name_does_not_hide_a_link(
    web: Path, to: Path, address: str, shell: tuple[str, str | None]
) -> None:
    """The name of the link contains the path of a harmless file in the second line."""
    victim = to.parent / "victim"
    entry = LoadData(to=str(to), url=f"{address}/a.tgz")
    marker = steps(job(entry))[0]["command"][5]
    members = {"good": b"x", f"good\n{marker}.part/all/file": b""}
    (web / "a.tgz").write_bytes(packed(members, {f"good\n{marker}.part/all/good": str(victim)}))
    done = run(entry, shell=shell)
    assert done.returncode != 0
    assert list(to.iterdir()) == []


@pytest.mark.parametrize("name", ["a", "a/train.csv"])
def test_archive_is_not_written_through_a_link(
    web: Path, to: Path, address: str, shell: tuple[str, str | None], name: str
) -> None:
    (web / "all.tgz").write_bytes(packed(FILES))
    victim = to.parent / "victim"
    (victim if name == "a" else victim.parent).mkdir(parents=True)
    (to / name).parent.mkdir(parents=True)
    (to / name).symlink_to(victim)
    done = run(LoadData(to=str(to), url=f"{address}/all.tgz"), shell=shell)
    assert done.returncode != 0
    assert f"would write through these links in {to}: {name}" in done.stderr
    assert not victim.exists() or list(victim.iterdir()) == []


def test_file_is_not_written_through_a_link(web: Path, to: Path, address: str) -> None:
    (web / "train.csv").write_text("1")
    victim = to.parent / "victim"
    victim.mkdir(parents=True)
    to.mkdir()
    (to / "train.csv").symlink_to(victim)
    assert "is a link. Remove it" in run(LoadData(to=str(to), url=f"{address}/train.csv")).stderr
    assert list(victim.iterdir()) == []


def test_marker_is_not_written_through_a_link(to: Path) -> None:
    entry = LoadData(to=str(to), command="true")
    to.mkdir(parents=True)
    (to / steps(job(entry))[0]["command"][5]).symlink_to(to.parent / "victim")
    assert "is a link. Remove it" in run(entry).stderr
    assert not (to.parent / "victim").exists()


def test_link_of_an_older_archive_is_replaced(
    web: Path, to: Path, address: str, shell: tuple[str, str | None]
) -> None:
    for number, target in enumerate(("train.csv", ".hidden")):
        (web / f"{number}.tgz").write_bytes(packed(FILES, {"a/link": target, "top": "a"}))
        done = run(LoadData(to=str(to), url=f"{address}/{number}.tgz"), shell=shell)
        assert (done.returncode, done.stderr) == (0, "")
        assert ((to / "a/link").readlink(), (to / "top").readlink()) == (Path(target), Path("a"))
    assert names_in(to) == sorted([*WANTED, "a/link"])


def test_set_id_bits_of_an_archive_are_removed(
    web: Path, to: Path, address: str, shell: tuple[str, str | None]
) -> None:
    (web / "a.tgz").write_bytes(packed(FILES, file_mode=0o6755))
    assert run(LoadData(to=str(to), url=f"{address}/a.tgz"), shell=shell).returncode == 0
    assert {(to / name).stat().st_mode & 0o7777 for name in WANTED} == {0o755}


def test_archive_larger_than_the_volume_is_not_unpacked(
    web: Path, to: Path, address: str, tmp_path: Path
) -> None:
    """A few bytes can contain terabytes."""
    program = tmp_path / "bin" / "df"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho Filesystem; echo volume 1000 900 100 90% /volume\n")
    program.chmod(0o700)
    (web / "bomb.tgz").write_bytes(packed({"zeros": bytes(1 << 20)}))
    done = run(LoadData(to=str(to), url=f"{address}/bomb.tgz"), path=f"{program.parent}:{os.environ['PATH']}")
    assert done.returncode != 0
    assert "needs more space than the volume has (100 KiB)" in done.stderr
    assert list(to.iterdir()) == []


TOOLS = ("sh", "mkdir", "rm", "cp", "mv", "find", "readlink", "grep", "cat")


@pytest.fixture
def tools(tmp_path: Path) -> Callable[..., str]:
    """Return a function that creates a PATH with only these programs, like a small image."""

    def made(*also: str) -> str:
        folder = tmp_path / "bin"
        folder.mkdir()
        for name in (*TOOLS, *also):
            # python3 may be a script that needs other programs.
            found = str(Path(sys.executable).resolve()) if name == "python3" else shutil.which(name)
            if found is None:
                pytest.skip(f"needs {name}")
            (folder / name).symlink_to(found)
        return str(folder)

    return made


IMAGES: dict[str, tuple[str, ...]] = {
    "with Python alone": ("python3",),
    "with curl": ("curl", "tar", "gzip", "sha256sum"),
    "with wget": ("wget", "tar", "gzip", "sha256sum"),
}


@pytest.mark.parametrize("also", IMAGES.values(), ids=IMAGES.keys())
def test_download_works_with_few_programs(
    web: Path, to: Path, address: str, tools: Callable[..., str], also: tuple[str, ...]
) -> None:
    content = packed(FILES)
    (web / "all.tgz").write_bytes(content)
    sha256 = hashlib.sha256(content).hexdigest()
    done = run(LoadData(to=str(to), url=f"{address}/all.tgz", sha256=sha256), path=tools(*also))
    assert (done.returncode, done.stderr) == (0, "")
    assert names_in(to) == WANTED


CLIMBING: dict[str, tuple[str, bytes, tuple[str, ...]]] = {
    "a path, with Python alone": ("a.tgz", packed({"../x": b""}), ("python3",)),
    "a link, with Python alone": ("a.tgz", packed({}, {"l": "../../x"}), ("python3",)),
    "a zip, with unzip": ("a.zip", zipped({"../x": b""}), ("curl", "unzip")),
}


@pytest.mark.parametrize(("name", "content", "also"), CLIMBING.values(), ids=CLIMBING.keys())
def test_paths_outside_are_rejected_with_few_programs(
    web: Path,
    to: Path,
    address: str,
    tools: Callable[..., str],
    name: str,
    content: bytes,
    also: tuple[str, ...],
) -> None:
    (web / name).write_bytes(content)
    done = run(LoadData(to=str(to), url=f"{address}/{name}"), path=tools(*also))
    assert done.returncode != 0
    assert "contains a path outside" in done.stderr
    assert list(to.iterdir()) == []


def test_image_without_download_program_is_reported(to: Path, tools: Callable[..., str]) -> None:
    done = run(LoadData(to=str(to), url="http://127.0.0.1:1/a"), path=tools())
    assert done.returncode != 0
    assert "neither curl nor wget nor python3" in done.stderr


def test_command_runs_once_in_target_folder(to: Path) -> None:
    entry = LoadData(to=str(to), command=("/bin/sh", "-c", "pwd >> out"))
    assert [run(entry).returncode, run(entry).returncode] == [0, 0]
    assert (to / "out").read_text() == f"{to}\n"


COMMANDS: dict[str, Command] = {"a text": "false", "a shell's": "echo because >&2; exit 3"}


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS.keys())
def test_failed_command_is_run_again(to: Path, command: Command) -> None:
    assert run(LoadData(to=str(to), command=command)).returncode != 0
    assert list(to.iterdir()) == []


def test_folder_is_copied(to: Path, tmp_path: Path) -> None:
    (tmp_path / "here" / "a").mkdir(parents=True)
    (tmp_path / "here" / "a" / "b").write_text("1")
    assert run(LoadData(to=str(to), folder="f"), {"f": LocalFolder(str(tmp_path / "here"))}).returncode == 0
    assert names_in(to) == ["a/b"]
    missing = run(LoadData(to=str(to), folder="f"), {"f": LocalFolder("/not/there")})
    assert missing.returncode != 0
    assert "/not/there does not exist on this machine" in missing.stderr
