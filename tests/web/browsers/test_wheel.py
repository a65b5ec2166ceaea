"""The wheel contains the page that `make ui` builds, and `windlass ui` serves it after an installation."""

import contextlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import urllib.request
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from scripted_cluster import Place

from windlass.web.page import STATIC

pytestmark = pytest.mark.smoke
ROOT = Path(__file__).parents[3]
ADDRESS = re.compile(r"http://127\.0\.0\.1:\d+")


def pip(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", *words, "--no-deps"]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)  # noqa: S603


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    has_backend = importlib.util.find_spec("hatchling") is not None
    isolation = ["--no-build-isolation"] if has_backend else []
    built = pip("wheel", *isolation, "--wheel-dir", str(folder), str(ROOT), cwd=folder)
    if "No matching distribution found for hatchling" in built.stderr:
        pytest.skip("needs a package index: the build installs hatchling from it")
    assert built.returncode == 0, built.stderr
    (found,) = folder.iterdir()
    return found


@pytest.fixture
def installed(wheel: Path, tmp_path: Path) -> Path:
    folder = tmp_path / "installed"
    result = pip("install", "--target", str(folder), str(wheel), cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    return folder


@contextlib.contextmanager
def serving(installed: Path, place: Place) -> Iterator[tuple[str, "subprocess.Popen[str]"]]:
    """Start the installed `windlass ui`, and yield its address and its process."""
    process = subprocess.Popen(  # noqa: S603
        [sys.executable, "-m", "windlass.cli.main", "ui", *place.options, "--no-open"],
        env={**os.environ, "PYTHONPATH": str(installed)},
        cwd=installed,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdout is not None
        found = ADDRESS.match(process.stdout.readline())
        assert found is not None, process.communicate()
        try:
            yield found[0], process
        finally:
            process.terminate()


def read(url: str) -> bytes:
    with urllib.request.urlopen(url) as response:  # noqa: S310 — on 127.0.0.1
        body: bytes = response.read()
    return body


def test_wheel_contains_the_page(wheel: Path) -> None:
    built = {
        f"windlass/web/static/{each.relative_to(STATIC)}" for each in STATIC.rglob("*") if each.is_file()
    }
    assert {Path(each).suffix for each in built} >= {".html", ".js", ".css"}
    with zipfile.ZipFile(wheel) as archive:
        assert built <= set(archive.namelist())


def test_installed_command_serves_the_page(installed: Path, place: Place) -> None:
    static = installed / "windlass/web/static"
    index = f"{(static / 'index.html').read_text()}<!-- installed -->"
    (static / "index.html").write_text(index)
    assets = re.findall(r'(?:src|href)="\./(assets/[^"]*)"', index)
    assert len(assets) >= 2
    with serving(installed, place) as (address, _):
        assert read(address).decode() == index
        for asset in assets:
            assert read(f"{address}/{asset}") == (static / asset).read_bytes()


def test_command_without_the_page_says_how_to_build_it(installed: Path, place: Place) -> None:
    shutil.rmtree(installed / "windlass/web/static")
    with serving(installed, place) as (address, process):
        assert "run `make ui`" in read(address).decode()
        assert process.stderr is not None
        said = [process.stderr.readline() for _ in range(2)]
    assert "run `make ui`" in said[-1]
