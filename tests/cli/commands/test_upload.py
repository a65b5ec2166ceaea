"""`windlass upload` to a local share. Uploads through pods are tested in tests/local."""

import hashlib
import json
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from windlass.cli.main import main

MIB = 1 << 20


@pytest.fixture
def share(tmp_path: Path) -> Path:
    made = tmp_path / "share"
    made.mkdir()
    return made


@pytest.fixture
def project(tmp_path: Path) -> Path:
    made = tmp_path / "project"
    (made / "data").mkdir(parents=True)
    (made / "train.py").write_text("print(1)\n")
    (made / "data" / "large").write_bytes(os.urandom(6 * MIB))
    return made


def upload(*words: object, **variables: str) -> Result:
    """Run the command. No cluster is available, and none is needed."""
    environment = {"KUBECONFIG": "/nowhere", **variables}
    return CliRunner().invoke(main, ["upload", *map(str, words)], env=environment)


def files_of(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_project_is_uploaded(share: Path, project: Path) -> None:
    words = ("digits", "--code", project / "train.py", "--data", project / "data", "--share", share)
    done = upload(*words)
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout == f"uploaded 2 files (6 MiB) to {share}: 2 sent, 6 MiB transferred\n"
    assert files_of(share) == {"src/digits/train.py", "data/digits/large"}
    again = upload(*words)
    assert again.stdout == f"uploaded 2 files (6 MiB) to {share}: 2 unchanged, 0 B transferred\n"


def test_json_summary_with_the_share_of_the_environment(share: Path, project: Path) -> None:
    done = upload("digits", "--code", project / "train.py", "-o", "json", WINDLASS_SHARE=str(share))
    assert json.loads(done.stdout) == {
        "files": 1,
        "sent": 1,
        "skipped": 0,
        "resumed": 0,
        "bytes": 9,
        "size": 9,
    }


def test_several_sources_are_uploaded(share: Path, project: Path) -> None:
    (project / "more.py").write_text("")
    words = ("--code", project / "train.py", "--code", project / "more.py")
    assert upload("digits", *words, "--share", share).exit_code == 0
    assert files_of(share) == {"src/digits/train.py", "src/digits/more.py"}


def test_path_is_uploaded_to_a_share(share: Path, project: Path) -> None:
    assert upload(project, share).exit_code == 0
    assert files_of(share) == {"train.py", "data/large"}


REFUSED = {
    "no share": (("digits", "--code", "train.py"), 2, "--share is missing, and WINDLASS_SHARE is not set"),
    "no files": (("digits",), 2, "expected --code or --data"),
    "a project outside of the share": (
        ("..", "--code", "train.py", "--share", "SHARE"),
        2,
        "PROJECT: found '..'",
    ),
    "two shares": (("train.py", "SHARE", "--share", "SHARE"), 2, "expected one of them"),
    "a share as an argument with --code": (("digits", "SHARE", "--code", "train.py"), 2, "with --share"),
    "no such share": (
        ("digits", "--code", "train.py", "--share", "SHARE/nowhere"),
        1,
        "nowhere does not exist. Mount the share there",
    ),
    "a share that is a file": (
        ("digits", "--code", "train.py", "--share", "SHARE/../project/train.py"),
        1,
        "train.py must be a directory",
    ),
    "no such file": (("digits", "--data", "nowhere", "--share", "SHARE"), 2, "nowhere does not exist"),
    "two sources for one target": (
        ("digits", "--code", "train.py", "--code", "other/train.py", "--share", "SHARE"),
        2,
        "would both become src/digits/train.py",
    ),
    "an invalid share": (("digits", "--code", "train.py", "--share", "s3://bucket"), 2, "nfs://SERVER/PATH"),
    "no time": (("digits", "--code", "train.py", "--timeout", "0s"), 2, "more than 0"),
}


@pytest.mark.parametrize(("words", "code", "said"), REFUSED.values(), ids=REFUSED.keys())
def test_invalid_arguments_are_rejected(
    share: Path,
    project: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
    code: int,
    said: str,
) -> None:
    (project / "other").mkdir()
    (project / "other" / "train.py").write_text("print(2)\n")
    monkeypatch.chdir(project)
    done = upload(*(word.replace("SHARE", str(share)) for word in words))
    assert done.exit_code == code
    assert said in done.stderr
    assert list(share.iterdir()) == []


# Interrupted uploads

KILLED = """
import asyncio, os, signal, sys
from pathlib import Path
from windlass.client.upload import items, transfer
from windlass.client.upload.shares import LocalShare

share, data, most = sys.argv[1:]
gone = 0

def moved(name, size):
    global gone
    gone += size
    if gone >= int(most):
        os.kill(os.getpid(), signal.SIGKILL)

cargo = items.gather(transfer.project_sources("digits", [], [Path(data)]))
asyncio.run(transfer.to_folder(LocalShare(share), cargo, transfer.ProgressCallbacks(on_sent=moved)))
"""


def test_killed_upload_is_resumed(share: Path, project: Path) -> None:
    large = project / "data" / "large"
    killed = subprocess.run(  # noqa: S603
        [sys.executable, "-c", KILLED, share, project / "data", str(4 * MIB)], check=False
    )
    assert killed.returncode == -signal.SIGKILL
    assert files_of(share) == {"data/digits/.large.windlass-part"}
    done = upload("digits", "--data", project / "data", "--share", share, "-o", "json")
    told = json.loads(done.stdout)
    assert (told["resumed"], told["bytes"]) == (1, 2 * MIB)
    assert files_of(share) == {"data/digits/large"}
    arrived = (share / "data" / "digits" / "large").read_bytes()
    assert hashlib.sha256(arrived).digest() == hashlib.sha256(large.read_bytes()).digest()


def test_full_share_is_reported(share: Path, project: Path) -> None:
    """Partial files are kept for the next upload."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (3 * MIB, 3 * MIB))

    words = ("upload", "digits", "--data", project / "data", "--share", share)
    failed = subprocess.run(  # noqa: S603
        [sys.executable, "-m", "windlass.cli.main", *words],
        preexec_fn=limit,
        capture_output=True,
        text=True,
        check=False,
    )
    assert failed.returncode == 1
    assert "cannot write data/digits/large: File too large" in failed.stderr
    assert "to resume the upload" in failed.stderr
    assert files_of(share) == {"data/digits/.large.windlass-part"}
    told = json.loads(upload(*words[1:], "-o", "json").stdout)
    assert (told["resumed"], told["bytes"]) == (1, 3 * MIB)
