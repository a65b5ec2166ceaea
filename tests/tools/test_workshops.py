"""The build cache: paths, locking, and failed builds."""

import platform
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import pytest
from tests.tools.lifeline import Lifeline

import workshops
from workshops import Workshop, WorkshopError

TOOLS = Path(workshops.__file__).parent
NAME = "thing-1-arm64"


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A target to build, on a machine with the required tools."""
    monkeypatch.setattr(shutil, "which", lambda _: "/bin/true")
    return tmp_path / "cache" / NAME


def is_complete(kept: Path) -> bool:
    return (kept / "whole").exists()


def fill(folder: Path) -> Path:
    folder.mkdir(parents=True)
    (folder / "whole").touch()
    return folder


@pytest.mark.parametrize(
    ("environment", "root"),
    [
        ({"XDG_CACHE_HOME": "/caches"}, Path("/caches/windlass/kubernetes")),
        ({"XDG_CACHE_HOME": ""}, Path.home() / ".cache/windlass/kubernetes"),
        ({}, Path.home() / ".cache/windlass/kubernetes"),
    ],
)
def test_cache_is_outside_the_checkout(environment: dict[str, str], root: Path) -> None:
    assert workshops.cache_root(environment) == root


@pytest.mark.parametrize("system", [{"ID": "ubuntu", "PRETTY_NAME": "Ubuntu 24.04"}, {"ID": "debian"}])
def test_other_system_is_rejected(monkeypatch: pytest.MonkeyPatch, system: dict[str, str]) -> None:
    monkeypatch.setattr(platform, "freedesktop_os_release", lambda: system)
    with pytest.raises(WorkshopError, match=r"runs (Ubuntu|Linux|Darwin)"):
        workshops.release_of_machine()


def test_concurrent_builds_build_once(
    kept: Path, second_waits: threading.Event, capsys: pytest.CaptureFixture[str]
) -> None:
    built: list[Path] = []

    def build(shop: Workshop) -> Path:
        assert second_waits.wait(60)
        built.append(shop.folder)
        return fill(shop.folder / "done")

    arguments = (kept, lambda: is_complete(kept), "a thing", build)
    threads = [threading.Thread(target=workshops.ensure, args=arguments) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(built) == 1
    assert is_complete(kept)
    assert "Another process is building a thing" in capsys.readouterr().err


class TestBuild:
    def test_result_is_moved_into_place_atomically(self, kept: Path) -> None:
        def build(shop: Workshop) -> Path:
            assert not is_complete(kept)
            return fill(shop.folder / "done")

        kept.mkdir(parents=True)  # the files were deleted
        (kept.parent / f"{NAME}.work-of-one-who-was-killed").mkdir()
        workshops.ensure(kept, lambda: is_complete(kept), "a thing", build)
        assert is_complete(kept)
        left = sorted(path.name for path in kept.parent.iterdir())
        assert left == [NAME, f"{NAME}.lock", f"{NAME}.log"]

    def test_failed_build_leaves_only_its_log(self, kept: Path) -> None:
        def build(shop: Workshop) -> Path:
            script = "echo compiling; echo it is broken >&2; exit 7"
            shop.run(["/bin/sh", "-c", script], shop.folder, {})
            raise AssertionError("unreachable")

        log = kept.parent / f"{NAME}.log"
        with pytest.raises(WorkshopError) as caught:
            workshops.ensure(kept, lambda: is_complete(kept), "a thing", build)
        message = str(caught.value)
        assert "exit code 7" in message
        assert str(log) in message
        assert "    compiling\n    it is broken" in message
        assert sorted(kept.parent.iterdir()) == [kept.parent / f"{NAME}.lock", log]

    def test_signal_ends_the_running_command(self, tmp_path: Path, lifeline: Lifeline) -> None:
        script = textwrap.dedent(f"""
            import sys
            from pathlib import Path
            sys.path.insert(0, {str(TOOLS)!r})
            import programs, workshops
            folder = Path({str(tmp_path)!r})
            shop = workshops.Workshop(folder, folder / "log", 0.0)
            with programs.cleaning_up_on_sigterm():
                shop.run(["/bin/sh", "-c", {f"({lifeline.script}) & wait"!r}], folder, {{}})
        """)
        process = subprocess.Popen([sys.executable, "-c", script])  # noqa: S603
        try:
            lifeline.wait_for_start()
            process.send_signal(signal.SIGTERM)
            assert process.wait() == 128 + signal.SIGTERM
        finally:
            process.kill()
            process.wait()
        lifeline.wait_for_end()
