"""The Dockerfile, without Docker: the copied files exist and can be installed.

Building the wheel takes some seconds.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from windlass import __version__
from windlass.cli.main import COMMANDS
from windlass.install import deployment

ROOT = Path(__file__).parents[2]


def instructions() -> list[tuple[str, str]]:
    """Return pairs of instruction and arguments, with continued lines joined and without comments.

    Those of the first stage, which builds the page of the dashboard, are left out.
    """
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\n\s*", "", "\n".join(lines))
    found = [(word, rest) for word, _, rest in (line.partition(" ") for line in joined.splitlines())]
    return found[[rest.endswith(" AS build") for _, rest in found].index(True) :]


def arguments(word: str) -> list[str]:
    return [rest for found, rest in instructions() if found == word]


def copied_from_the_repository() -> list[tuple[list[str], str]]:
    """Return pairs of sources and destination."""
    copies = [rest.split() for rest in arguments("COPY") if not rest.startswith("--from=")]
    return [(sources, destination) for *sources, destination in copies]


@pytest.fixture
def context(tmp_path: Path) -> Path:
    """The working folder of the image as the COPY instructions fill it."""
    folder = tmp_path / "source"
    folder.mkdir()
    for sources, destination in copied_from_the_repository():
        for source in [] if destination.startswith("/") else sources:
            found = ROOT / source
            if found.is_dir():
                shutil.copytree(found, folder / destination, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(found, folder / destination)
    return folder


def test_copied_files_exist_and_are_not_ignored() -> None:
    sources = {source for every, _ in copied_from_the_repository() for source in every}
    assert sources
    assert [source for source in sources if not (ROOT / source).exists()] == []
    ignore = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    kept = {line.removeprefix("!") for line in ignore if line.startswith("!")}
    assert kept <= sources | {"ui"}
    assert {
        source for source in sources - kept if not any(source.startswith(f"{one}/") for one in kept)
    } == set()


def test_every_stage_is_used() -> None:
    stages = {rest.split(" AS ")[1] for rest in arguments("FROM") if " AS " in rest}
    used = {
        rest.split()[0].removeprefix("--from=") for rest in arguments("COPY") if rest.startswith("--from=")
    }
    assert used == stages | {"page"}
    assert {rest.split()[0] for rest in arguments("FROM")} == {"python:3.12-slim"}


def test_user_port_and_entrypoint_match_the_deployment() -> None:
    assert arguments("USER") == [f"{deployment.USER}:{deployment.USER}"]
    assert arguments("EXPOSE") == [str(deployment.METRICS_PORT)]
    assert [json.loads(one) for one in arguments("ENTRYPOINT")] == [["windlass"]]


def test_default_command_exists() -> None:
    (command,) = (json.loads(one) for one in arguments("CMD"))
    assert command[0] in COMMANDS


def test_wheel_built_from_copied_files_is_complete(context: Path, tmp_path: Path) -> None:
    wheels = tmp_path / "wheels"
    built = pip("wheel", "--wheel-dir", str(wheels), ".", cwd=context)
    if "No matching distribution found for hatchling" in built.stderr:
        pytest.skip("needs a package index: the build installs hatchling from it")
    assert built.returncode == 0, built.stderr
    (wheel,) = wheels.iterdir()

    with zipfile.ZipFile(wheel) as archive:
        packed = set(archive.namelist())
    package = ROOT / "src"
    files = {str(file.relative_to(package)) for file in (package / "windlass").rglob("*") if file.is_file()}
    assert {file for file in files if "__pycache__" not in file} <= packed
    installed = tmp_path / "installed"
    assert pip("install", "--target", str(installed), str(wheel), cwd=tmp_path).returncode == 0
    command = [sys.executable, "-m", "windlass.cli.main", "--version"]
    environment = {**os.environ, "PYTHONPATH": str(installed)}
    result = subprocess.run(  # noqa: S603
        command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert result.stdout == f"windlass, version {__version__}\n"


def pip(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", words[0], "--no-deps", *words[1:]]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)  # noqa: S603
